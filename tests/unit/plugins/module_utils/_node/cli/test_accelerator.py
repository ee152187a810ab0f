# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import GPU_CHECKS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import accelerator as accelerator_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli

from tests.unit.fakes.fake_training_host import TrainingHost, eight_gpus, good_node


def show(host, **options):
    defaults = {"instance_type": None, "timeout": 60, "mig": False, "checklist": None, "json": False}
    return accelerator_cli.show(argparse.Namespace(**{**defaults, "runtime_version": "0.1.0", **options}), host)


def broken():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus(7)
    return host


@pytest.mark.parametrize(
    ("host", "options", "code"),
    [
        (good_node(), {}, 0),
        (broken(), {}, 1),
        (TrainingHost(), {}, 2),
        (good_node(), {"checklist": "compute"}, 1),
        (good_node(), {"mig": True}, 1),
    ],
)
def test_exit_code_follows_from_verdicts(host, options, code, capsys):
    assert show(host, **options) == code
    out = capsys.readouterr().out
    assert "gpu.count: " in out
    assert ("checklist.enroot: " in out) == ("checklist" in options)


def test_report_as_json(capsys):
    assert show(good_node(), json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], len(document["results"])) == ("mlcluster.report/1", len(GPU_CHECKS))


def test_verb_is_registered(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(accelerator_cli, "show", lambda args: seen.append((args.checklist, args.timeout)) or 1)
    assert cli.main(["accelerators", "--checklist", "head", "--timeout", "9"], log_dir=str(tmp_path)) == 1
    assert seen == [("head", 9)]
