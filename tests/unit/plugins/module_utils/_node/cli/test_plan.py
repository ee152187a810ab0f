# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb plan: what would change, from the options that roles have left."""

from __future__ import annotations

import argparse
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main, plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import (
    Package,
    Plan,
    not_concerned,
    refused,
)

ROLE = "nvidia_gds"
PLANS = {
    "empty": Plan(ROLE),
    "elsewhere": not_concerned(ROLE, "no NVIDIA driver is loaded on this node"),
    "differs": Plan(ROLE, packages=(Package("libcufile-13-0"),)),
    "refused": refused(ROLE, ["the driver is too old"]),
}


class Machine(Host):
    def __init__(self, **options):
        self.options = options

    def listdir(self, path):
        return [f"{role}.json" for role in self.options]

    def read_text(self, path):
        options = self.options.get(path.rpartition("/")[2][: -len(".json")])
        return None if options is None else json.dumps({"schema": "mlcluster.role/1", "options": options})


@pytest.fixture
def call(monkeypatch):
    def run(found, host=None, **args):
        asked = []

        def look_all(host, roles, read_only):
            asked.append((roles, read_only))
            return {role: {"plan": json.loads(json.dumps(PLANS[found].to_dict()))} for role in roles}

        monkeypatch.setattr(plan, "look_all", look_all)
        given = argparse.Namespace(**{"role": [], "json": False, **args})
        return plan.plan_verb(given, host or Machine(nvidia_gds={"mode": "nvfs"})), asked

    return run


@pytest.mark.parametrize(
    ("found", "code", "line"),
    [
        ("empty", 0, "nvidia_gds: nothing to do"),
        ("elsewhere", 0, "nvidia_gds: nothing to do: no NVIDIA driver is loaded on this node"),
        ("differs", 1, "nvidia_gds: would change packages"),
        ("refused", 2, "nvidia_gds: refused: the driver is too old"),
    ],
)
def test_exit_code_shows_differences(call, capsys, found, code, line):
    assert call(found)[0] == code
    assert capsys.readouterr().out == f"{line}\n"


def test_look_is_read_only_with_role_options(call):
    assert call("empty")[1] == [({"nvidia_gds": {"mode": "nvfs"}}, True)]


def test_plans_as_json(call, capsys):
    assert call("differs", json=True)[0] == 1
    assert json.loads(capsys.readouterr().out)["nvidia_gds"]["differences"] == ["packages"]


@pytest.mark.parametrize(
    ("host", "role", "words"),
    [
        (Machine(), [], "no role has left its options in /etc/mlcluster/roles/ROLE.json: apply one first"),
        (Machine(other={}), [], "/etc/mlcluster/roles/other.json: unknown role other: rename or remove the file"),
        (Machine(nvidia_gsd={}), [], "unknown role nvidia_gsd; the nearest is nvidia_gds: rename or remove"),
        (Machine(), [ROLE], "looked for /etc/mlcluster/roles/nvidia_gds.json and did not find it"),
        (
            Machine(nvidia_gds={"mode": "new"}),
            [],
            "value of nvidia_gds_mode must be one of: compat, nvfs, p2pdma, got: new",
        ),
        (Machine(nvidia_gds={"newer": 1}), [], "unknown option nvidia_gds_newer: run the role"),
        (Machine(nvidia_gds={"moed": "nvfs"}), [], "unknown option nvidia_gds_moed; the nearest is nvidia_gds_mode"),
        (Machine(nvidia_gds={"packages": [[1]]}), [], "nvidia_gds_packages is '[[1]]', a list; use a list of strings"),
        (
            Machine(nvidia_gds={"probe_timeout": True}),
            [],
            "nvidia_gds_probe_timeout is 'True', a boolean; use an integer",
        ),
        (Machine(nvidia_gds={"cuda_version": "13"}), [], "nvidia_gds_cuda_version is '13'"),
    ],
)
def test_failed_look_is_undeterminable(call, caplog, host, role, words):
    code, asked = call("empty", host, role=role)
    assert (code, asked) == (2, [])
    assert words in caplog.text


def test_unknown_role_is_usage_error(tmp_path):
    with pytest.raises(SystemExit) as ended:
        main.main(["plan", "--role", "nothing"], log_dir=str(tmp_path))
    assert ended.value.code == 3
