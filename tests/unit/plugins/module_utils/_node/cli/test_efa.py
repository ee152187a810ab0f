# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import efa as efa_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli

from tests.unit.fakes.fake_training_host import TrainingHost, bare_node, good_node


def show(host, **options):
    defaults = {"instance_type": None, "expected_devices": None, "wait": 0, "json": False, "minimum": []}
    defaults["runtime_version"] = "0.1.0"
    return efa_cli.show(argparse.Namespace(**{**defaults, **options}), host)


@pytest.mark.parametrize(
    ("host", "options", "code"),
    [
        (good_node(), {}, 0),
        (good_node(16), {}, 1),
        (good_node(16), {"expected_devices": 16}, 0),
        (TrainingHost(), {}, 2),
        (TrainingHost(), {"instance_type": "g6.xlarge"}, 2),
        (bare_node(), {"instance_type": "g6.xlarge"}, 0),
        (good_node(), {"minimum": [("nccl", "2.28.9")]}, 0),
        (good_node(), {"minimum": [("nccl", "2.29")]}, 1),
    ],
)
def test_exit_code_follows_from_verdicts(host, options, code, capsys):
    assert show(host, **options) == code
    assert "efa.devices: " in capsys.readouterr().out


def test_report_as_json(capsys):
    assert show(good_node(), json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["versions"]) == ("mlcluster.report/1", {"mlcluster.aws": "0.1.0"})
    assert {result["id"] for result in document["results"]} >= {"efa.installer", "efa.devices", "efa.provider"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["efa", "--wait", "601"], "601 is not a number from 0 to 600"),
        (["efa", "--wait", "soon"], "invalid number value: 'soon'"),
        (["efa", "--expected-devices", "-1"], "-1 is not a number from 0 to 1000"),
        (["efa", "--minimum", "cudnn=9"], "minima has 'cudnn': use some of driver, cuda, installer"),
        (["efa", "--minimum", "nccl"], "the minimum of nccl is ''"),
        (["accelerators", "--timeout", "0"], "0 is not a number from 1 to 600"),
    ],
)
def test_invalid_value_is_usage_error(arguments, sentence, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments, log_dir=str(tmp_path))
    assert (ended.value.code, sentence in capsys.readouterr().err) == (3, True)


def test_verb_is_registered(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(efa_cli, "show", lambda args: seen.append((args.wait, args.instance_type)) or 2)
    assert cli.main(["efa", "--wait", "9", "--instance-type", "p5.48xlarge"], log_dir=str(tmp_path)) == 2
    assert seen == [(9, "p5.48xlarge")]
