# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When the looks of roles alone show that a node is still configured."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import domains, look

from hooks.mlcluster_boot import unchanged
from hooks.mlcluster_boot.node import Role

ROOT = Path(__file__).resolve().parents[4]
ROLES = [Role("nvme_raid0", True), Role("mlcluster.aws.nvidia_gds", False)]
OPTIONS = {"nvme_raid0": {"layout": "raid0"}, "nvidia_gds": {"mode": "nvfs"}, "other": {}}
KEY = unchanged.request_key("5" * 64, ROLES, {"a": 1})
VARIABLES = {"ec2_instance_type": "p5.48xlarge", "configure_node_kind": "compute"}
GOOD = {"failed": None, "problems": [], "plan": {"empty": True, "refusals": [], "concerned": True, "reason": ""}}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node with a record; what each role answers may be changed, and what was asked is kept."""
    path = tmp_path / "configured.json"
    unchanged.remember(path, KEY, ROLES, OPTIONS)
    answers, asked = {"nvme_raid0": GOOD, "nvidia_gds": GOOD}, []
    monkeypatch.setattr(look, "look_all", lambda host, options: asked.append(options) or answers)
    return path, answers, asked


def test_unchanged_node_needs_no_play(node):
    path, _answers, asked = node
    found = unchanged.look(path, KEY, ROLES, VARIABLES)
    assert [(entry["role"], entry["required"], entry["state"], entry["changed"]) for entry in found] == [
        ("nvme_raid0", True, "configured", 0),
        ("mlcluster.aws.nvidia_gds", False, "configured", 0),
    ]
    assert asked == [{name: OPTIONS[name] for name in ("nvme_raid0", "nvidia_gds")}]


@pytest.mark.parametrize(
    "answer",
    [
        {**GOOD, "failed": "the look gave no answer"},
        {**GOOD, "problems": ["FAIL gds.mode"]},
        {**GOOD, "plan": {**GOOD["plan"], "empty": False}},
        {**GOOD, "plan": {**GOOD["plan"], "refusals": ["no driver"]}},
        # All GPUs of the type are gone since the last run.
        {**GOOD, "plan": {**GOOD["plan"], "concerned": False, "reason": "no driver"}},
    ],
)
def test_doubt_starts_play(node, answer):
    path, answers, _asked = node
    answers["nvidia_gds"] = answer
    assert unchanged.look(path, KEY, ROLES, VARIABLES) is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        json.dumps({"schema": "mlcluster.configured/2", "key": KEY, "options": OPTIONS}),
        json.dumps({"schema": unchanged.SCHEMA, "key": "other", "options": OPTIONS}),
        json.dumps({"schema": unchanged.SCHEMA, "key": KEY, "options": {"nvme_raid0": {}}}),
        json.dumps({"schema": unchanged.SCHEMA, "key": KEY, "options": []}),
    ],
)
def test_record_of_other_request_asks_no_role(node, text):
    path, _answers, asked = node
    if text is None:
        unchanged.forget(path)
    else:
        path.write_text(text, encoding="utf-8")
    assert unchanged.look(path, KEY, ROLES, VARIABLES) is None
    assert asked == []


def test_roles_without_such_look_leave_no_record(tmp_path):
    path = tmp_path / "configured.json"
    unchanged.remember(path, KEY, [*ROLES, Role("my.own.role", True)], OPTIONS)
    assert not path.exists()
    unchanged.forget(path)


def test_record_is_for_root_alone(node):
    path, *_rest = node
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_any_changed_input_is_another_request():
    others = [
        unchanged.request_key("6" * 64, ROLES, {"a": 1}),
        unchanged.request_key("5" * 64, ROLES[:1], {"a": 1}),
        unchanged.request_key("5" * 64, [ROLES[0], Role("nvidia_gds", True)], {"a": 1}),
        unchanged.request_key("5" * 64, ROLES, {"a": 2}),
    ]
    assert KEY not in others
    assert unchanged.request_key("5" * 64, [ROLES[0], Role("nvidia_gds", False)], {"a": 1}) == KEY


def test_role_that_lost_its_look_starts_play(node, monkeypatch):
    path, _answers, asked = node
    known = {name: domain for name, domain in domains.DOMAINS.items() if name != "nvidia_gds"}
    monkeypatch.setattr(domains, "DOMAINS", known)
    assert unchanged.look(path, KEY, ROLES, VARIABLES) is None
    assert asked == []


def test_run_without_record_loads_no_room():
    code = "import sys, hooks.mlcluster_boot.main\nprint(*(name for name in sys.modules if '._node.node.' in name))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / '.collections'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""
