# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation of the module, whose work its action does: the file holds nothing else."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.action import node_facts as action
from ansible_collections.mlcluster.aws.plugins.modules import node_facts as module

OPTIONS = yaml.safe_load(module.DOCUMENTATION)["options"]


@pytest.fixture
def spec(monkeypatch):
    """The argument spec that the action gives to Ansible."""
    taken = {}

    def validate(self, argument_spec):
        taken.update(argument_spec)
        return None, {"gather_subset": ["min"]}

    monkeypatch.setattr(action.ActionBase, "run", lambda self, tmp, task_vars: {})
    monkeypatch.setattr(action.ActionModule, "validate_argument_spec", validate)
    monkeypatch.setattr(action, "is_here", lambda connection, task, task_vars: True)
    monkeypatch.setattr(action, "gather", lambda subset: {"ansible_facts": {}})
    made = action.ActionModule.__new__(action.ActionModule)
    made._task, made._connection = types.SimpleNamespace(args={}), None
    made.run(None, {})
    return taken


def test_documented_options_match_action(spec):
    given = {
        name: {key: value for key, value in entry.items() if key != "description"} for name, entry in OPTIONS.items()
    }
    assert given == spec != {}


def test_module_without_action_does_nothing():
    body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
    assert all(isinstance(node, (ast.ImportFrom, ast.Assign)) for node in body)


def test_documented_modules_exist():
    assert module.DOCUMENTATION.count(action.SETUP) >= 1
    assert [entry["module"] for entry in yaml.safe_load(module.DOCUMENTATION)["seealso"]] == [action.SETUP]
