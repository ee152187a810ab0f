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
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import names

from tests.unit.checkout import CHECKOUT


class HostVars(dict):
    """Ansible's, of which only the names of variables are taken."""

    def raw_get(self, host):
        return self[host]


@pytest.fixture
def look(monkeypatch):
    """look(hosts, options, extra, **command_line) gives the result of the task; extra are names given by -e."""

    def run(hosts, options=None, extra=(), **command_line):
        monkeypatch.setattr(run_names, "load_extra_vars", lambda loader: dict.fromkeys(extra))
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
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(options) == {"own_variables", "wanted_groups", "has_tags", "roles", "variables", "prefix"}
    assert options["roles"]["default"] == list(names.ROLES)


def test_run_without_misspelled_name_is_silent(look):
    result = look({"n1": {"nvme_raid0_layout": "raid0"}}, tags=("all",), skip_tags=("nvme_raid0",))
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


@pytest.mark.parametrize("tag", ["always", "untagged", "never"])
def test_tags_that_select_no_role_are_rejected(look, tag):
    with pytest.raises(AnsibleActionFail, match=f"--tags {tag}: no role would run"):
        look({"n1": {}}, tags=(tag,))
    assert look({"n1": {}}, args=("/tmp/mine.yml",), tags=(tag,))["warnings"] == []


def test_tags_of_a_role_are_known_where_it_is_applied(look):
    assert look({"n1": {}}, {"roles": ["cluster"]}, tags=("cluster_verify",))["warnings"] == []
    with pytest.raises(AnsibleActionFail, match="--tags cluster: no task has that tag"):
        look({"n1": {}}, {"roles": ["mlcluster.aws.efa_nccl"]}, tags=("cluster",))


def test_role_of_another_collection_may_have_any_tag(look):
    options = {"roles": ["mlcluster.aws.efa_nccl", "other.ns.role"]}
    assert look({"n1": {}}, options, tags=("their_own",))["warnings"] == []
    (warning,) = look({"n1": {}}, options, tags=("efa_nccll",))["warnings"]
    assert "did you mean efa_nccl?" in warning
    assert look({"n1": {}}, {"roles": []}, tags=("x",))["warnings"] == []


def test_misspelt_variable_of_command_line_is_rejected(look):
    options = {"prefix": "upgrade_nodes", "variables": ["upgrade_nodes_method"], "own_variables": ["efa_nccl_mine"]}
    extra = ["upgrade_nodes_metod", "efa_nccl_hlod", "efa_nccl_mine", "efa_nccl_hold"]
    with pytest.raises(AnsibleActionFail) as caught:
        look({"n1": {}}, options, extra, tags=("all",))
    first, second = str(caught.value).split("; -e ")
    assert first.startswith("-e efa_nccl_hlod: nothing reads that variable; did you mean efa_nccl_hold?")
    assert second.startswith("upgrade_nodes_metod: nothing reads that variable; did you mean upgrade_nodes_method?")
    result = look({"n1": dict.fromkeys(extra)}, options, extra, args=("/tmp/mine.yml",), tags=("all",))
    assert len(result["warnings"]) == 2 and all(text.startswith("-e ") for text in result["warnings"])


def test_variables_of_the_cluster_are_known_where_it_is_made(look):
    with pytest.raises(AnsibleActionFail, match="did you mean cluster_region"):
        look({"n1": {}}, {"roles": ["cluster"]}, ["cluster_regoin", "cluster_owner"], tags=("all",))
    assert look({"n1": {}}, {}, ["cluster_regoin"], tags=("all",))["warnings"] == []
