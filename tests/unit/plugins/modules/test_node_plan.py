# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module that looks at a node for several roles."""

from __future__ import annotations

import json
import sys

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import look
from ansible_collections.mlcluster.aws.plugins.modules import node_plan


@pytest.fixture
def run(capsys):
    def call(**options):
        with patch_module_args(options), pytest.raises(SystemExit):
            node_plan.main()
        return json.loads(capsys.readouterr().out)

    return call


@pytest.mark.parametrize("is_check", [True, False])
def test_roles_and_system_are_answered_together(run, monkeypatch, is_check):
    monkeypatch.setattr(look, "look_all", lambda host, roles, read_only: {"asked": roles, "read_only": read_only})
    answer = run(roles={"nvidia_gds": {"mode": "nvfs"}}, _ansible_check_mode=is_check)
    assert answer["roles"] == {"asked": {"nvidia_gds": {"mode": "nvfs"}}, "read_only": is_check}
    assert (answer["changed"], answer["python"]) == (False, list(sys.version_info[:2]))
    assert set(answer["system"]) >= {"distribution", "pkg_mgr", "kernel"}


def test_older_python_skips_looks(run, monkeypatch):
    monkeypatch.setattr(node_plan, "OLDEST_PYTHON", (99, 0))
    answer = run(roles={"nvidia_gds": {}})
    assert (answer["roles"], answer["system"]) == ({}, {})
    assert answer["python"] == list(sys.version_info[:2])


def test_module_without_action_is_rejected(run):
    answer = run(role="nvidia_gds")
    assert answer["failed"]
    assert "let the action plugin node_plan call the module" in answer["msg"]
