# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action run_names, as a task calls it; the output of whole runs is in tests/integration/refusals."""

from __future__ import annotations

import types

import pytest
import yaml
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible_collections.mlcluster.aws.plugins.action import run_names
from ansible_collections.mlcluster.aws.plugins.modules import run_names as documented

from tests.unit.checkout import CHECKOUT


class HostVars(dict):
    """Ansible's, of which only the names of variables are taken."""

    def raw_get(self, host):
        return self[host]


@pytest.fixture
def look(monkeypatch):
    """look(hosts, options, **command_line) gives the result of the task."""

    def run(hosts, options=None, **command_line):
        monkeypatch.setattr(context, "CLIARGS", {"args": ("site.yml",), **command_line})
        monkeypatch.chdir(CHECKOUT)
        task = types.SimpleNamespace(args=options or {}, check_mode=False, async_val=0, action="run_names")
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        action = run_names.ActionModule(task, connection, None, None, None, None)
        groups = {"all": [host for host in hosts if host != "localhost"], "head": []}
        return action.run(
            task_vars={"hostvars": HostVars(hosts), "ansible_play_hosts_all": list(hosts), "groups": groups}
        )

    return run


def test_every_option_is_documented():
    assert set(yaml.safe_load(documented.DOCUMENTATION)["options"]) == {"own_variables", "wanted_groups", "has_tags"}


def test_run_without_misspelled_name_is_silent(look):
    result = look({"n1": {"nvme_raid0_layout": "raid0"}}, tags=("all",), skip_tags=("boot",))
    assert (result["changed"], result["warnings"]) == (False, [])


@pytest.mark.parametrize("playbook", ["site.yml", "playbooks/site.yml", "mlcluster.aws.site"])
def test_unknown_tag_of_own_playbook_is_rejected(look, playbook):
    with pytest.raises(AnsibleActionFail, match="--skip-tags nope: no task has that tag"):
        look({"n1": {}}, args=(playbook,), tags=("all",), skip_tags=("nope",))


@pytest.mark.parametrize("tags", [("all",), ("all", "nope"), ("untagged",)])
def test_playbook_without_tags_runs(look, tags):
    assert look({"n1": {}}, {"has_tags": False}, tags=tags, skip_tags=("boot",))["warnings"] == []


@pytest.mark.parametrize("tag", ["nope", "nvme_raid0", "always"])
def test_any_tag_of_playbook_without_tags_is_rejected(look, tag):
    with pytest.raises(AnsibleActionFail, match=f"--tags {tag}: this playbook has no tags, so nothing would run"):
        look({"n1": {}}, {"has_tags": False}, tags=(tag,))
    assert look({"n1": {}}, {"has_tags": False}, args=("/tmp/mine.yml",), tags=(tag,))["warnings"] == []


@pytest.mark.parametrize(
    "playbooks",
    [("/tmp/mine.yml",), ("other.ns.site",), ("site.yml", "/tmp/mine.yml"), ("molecule/default/converge.yml",), ()],
)
def test_tag_of_foreign_playbook_is_ignored(look, playbooks):
    assert look({"n1": {}}, args=playbooks, tags=("nope",))["warnings"] == []
    (warning,) = look({"n1": {}}, args=playbooks, tags=("efa_nccll",))["warnings"]
    assert "did you mean efa_nccl?" in warning


def test_variables_and_groups_are_reported_except_for_localhost(look):
    hosts = {"n1": {"efa_nccl_hlod": True, "efa_nccl_mine": 1}, "localhost": {"efa_nccl_hlod": True}}
    result = look(hosts, {"own_variables": ["*_mine"], "wanted_groups": ["heads"]})
    assert result["unknown"] == result["warnings"]
    first, second = result["warnings"]
    assert "no group heads, but one called head" in first
    assert second.startswith("no role reads the variable efa_nccl_hlod (of n1); did you mean efa_nccl_hold?")
