# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action that looks at a node once and gives each role its answer."""

from __future__ import annotations

import json
import sys
import types

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.action import node_plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import NO_SLURM
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Package, Plan, not_concerned
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal

DIFFERENT = Plan("nvidia_gds", packages=(Package("fio"),))
BAD = "FAIL gds.mode (/data): none"


def answer(plan=None, problems=(), failed=None, **facts):
    reported = {"results": [], "lines": [*problems], "problems": [*problems], "info": ["CUDA 13.0"], "details": []}
    return {"plan": (plan or Plan("nvidia_gds")).to_dict(), "failed": failed, "facts": facts, **reported}


class Node:
    """One host between the tasks of a run: its variables, requests, answers and printed lines."""

    def __init__(self, monkeypatch):
        self.variables = {"inventory_hostname": "node1", "ansible_facts": {}, "ansible_run_tags": ["all"]}
        self.answers = {"nvidia_gds": answer()}
        self.system = {"distribution": "Debian", "distribution_major_version": "12", "pkg_mgr": "apt"}
        self.python = [3, 11]
        self.transport = "ssh"
        self.asked, self.printed = [], []
        monkeypatch.setattr(node_plan.display, "display", self.printed.append)
        monkeypatch.setattr(node_plan._runtime, "run_archive", "packed for {}".format)

    def task(self, check_mode=False, **args):
        action = node_plan.ActionModule.__new__(node_plan.ActionModule)
        task = {"args": args, "check_mode": check_mode, "diff": False, "async_val": 0, "action": "x", "environment": []}
        action._task = types.SimpleNamespace(**task)
        shell = types.SimpleNamespace(tmpdir=None)
        action._connection = types.SimpleNamespace(_shell=shell, become=None, transport=self.transport)
        action._supports_check_mode, action._supports_async = True, False
        action._templar = Templar(loader=DataLoader(), variables=self.variables)
        action._execute_module = self.execute
        result = action.run(task_vars=self.variables)
        self.variables["ansible_facts"].update(result.get("ansible_facts", {}))
        return result

    def execute(self, module_name, module_args, task_vars):
        self.asked.append(module_args["roles"])
        found = {role: self.answers.get(role, answer(Plan(role))) for role in module_args["roles"]}
        return json.loads(json.dumps({"roles": found, "system": self.system, "python": self.python}))


@pytest.fixture
def node(monkeypatch):
    return Node(monkeypatch)


def test_role_uses_answer_of_one_look(node):
    assert node.task(roles=["nvidia_gds"])["queried"]
    result = node.task(role="nvidia_gds")
    assert (len(node.asked), result["queried"]) == (1, False)
    assert (result["changed"], result["plan"]["empty"]) == (False, True)
    assert node.printed == ["node1: CUDA 13.0"]


def test_module_gets_the_runtime_of_this_run(node, monkeypatch):
    given = []
    monkeypatch.setattr(
        node, "execute", lambda **request: given.append(request["module_args"]) or Node.execute(node, **request)
    )
    node.task(roles=["nvidia_gds"])
    assert [args["runtime"] for args in given] == [f"packed for {node_plan.run_id()}"]


def test_runtime_that_cannot_be_built_is_reported(node, monkeypatch):
    def build(folder):
        raise node_plan._runtime.RuntimeBuildError("the node runtime cannot be kept in /cache")

    monkeypatch.setattr(node_plan._runtime, "run_archive", build)
    with pytest.raises(AnsibleActionFail, match="cannot be kept in /cache"):
        node.task(roles=["nvidia_gds"])


def test_single_role_looks_and_sets_missing_facts(node):
    node.variables["ansible_facts"]["distribution"] = "Mine"
    node.answers["nvidia_gds"] = answer(mlcluster_gds={"mounts": {}})
    node.task(role="nvidia_gds")
    facts = node.variables["ansible_facts"]
    assert (facts["distribution"], facts["pkg_mgr"], facts["mlcluster_gds"]) == ("Mine", "apt", {"mounts": {}})
    assert node.asked == [{"nvidia_gds": dict(node.asked[0]["nvidia_gds"])}]


@pytest.mark.parametrize("change", ["option", "run", "host", "check", "look_again"])
def test_answer_to_other_request_is_not_used(node, monkeypatch, change):
    node.task(roles=["nvidia_gds"])
    if change == "option":
        node.variables["nvidia_gds_mode"] = "nvfs"
    if change == "run":
        monkeypatch.setattr(node_plan, "run_id", lambda: "another")
    if change == "host":
        # As with run_once.
        node.variables["inventory_hostname"] = "node2"
    node.task(role="nvidia_gds", look_again=change == "look_again", check_mode=change == "check")
    assert len(node.asked) == 2


OTHER = f"{node_plan.FACT_PREFIX}efa_nccl"
OWN = f"{node_plan.FACT_PREFIX}nvidia_gds"


def other_answers(node):
    node.variables["ansible_facts"][OTHER] = {"sum": "1", "answer": "{}"}


def left(node):
    return {
        name
        for name, kept in node.variables["ansible_facts"].items()
        if name.startswith(node_plan.FACT_PREFIX) and kept
    }


def test_answer_is_used_once(node):
    """Another task may change the node before the role runs again."""
    node.task(roles=["nvidia_gds"])
    other_answers(node)
    assert [node.task(role="nvidia_gds")["queried"] for _again in range(3)] == [False, True, True]
    assert left(node) == {OTHER}


def test_removed_role_is_looked_at_again(node):
    node.task(roles=["nvidia_gds"])
    other_answers(node)
    with pytest.raises(
        AnsibleActionFail, match=r"nccl_remove_confirmed is not true: set it to confirm\. This run takes "
    ):
        node.task(role="efa_nccl", removal="takes limits away")
    assert left(node) == {OWN, OTHER}
    node.variables["efa_nccl_remove_confirmed"] = "yes"
    assert node.task(role="efa_nccl", removal="takes limits away")["queried"] is False
    assert (left(node), len(node.asked)) == (set(), 1)
    assert node.task(role="nvidia_gds")["queried"]


def test_failed_role_is_looked_at_again(node, monkeypatch, tmp_path):
    """Ansible sets no facts for a failed task, and a rescue block may have repaired the node."""
    monkeypatch.setattr(node_plan, "run_id", lambda: str(tmp_path))
    node.variables["nvidia_gds_required"] = True
    node.answers["nvidia_gds"] = answer(problems=[BAD])
    node.task(roles=["nvidia_gds"])
    before = dict(node.variables["ansible_facts"])
    assert node.task(role="nvidia_gds")["failed"]
    node.variables["ansible_facts"] = before
    node.answers["nvidia_gds"] = answer()
    assert (node.task(role="nvidia_gds")["queried"], len(node.asked)) == (True, 2)


def test_change_drops_answers_of_other_roles(node):
    other_answers(node)
    node.task(role="nvidia_gds")
    assert left(node) == {OTHER}
    node.task(role="nvidia_gds", look_again=True)
    assert left(node) == set()


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("check_mode", [True, False])
def test_planned_action_drops_answers_too(node, check_mode, is_kept):
    """The action may not finish."""
    node.answers["nvidia_gds"] = answer(DIFFERENT)
    if is_kept:
        node.task(roles=["nvidia_gds"], check_mode=check_mode)
    other_answers(node)
    node.task(role="nvidia_gds", check_mode=check_mode)
    assert left(node) == ({OTHER} if check_mode else set())
    assert len(node.asked) == 1


def test_part_of_role_uses_variables_of_role(node):
    node.variables["slurm_jobs_node_packages"] = ["fio=3"]
    assert node.task(groups=["compute"])["options"]["slurm_jobs_tools"] == {"node_packages": ["fio=3"]}
    assert node.task(role="slurm_jobs_tools")["queried"] is False
    node.variables["ansible_run_tags"] = ["slurm_jobs_install"]
    assert list(node.task(groups=["compute"])["options"]) == ["slurm_jobs_tools"]


def test_options_are_checked_before_look(node):
    node.variables["nvidia_gds_cuda_version"] = "13"
    with pytest.raises(AnsibleActionFail, match="nvidia_gds_cuda_version is '13'"):
        node.task(role="nvidia_gds")
    node.task(roles=["nvidia_gds"])
    assert node.asked == []


def test_unsupported_system_is_not_looked_at(node):
    node.variables["ansible_facts"]["python"] = {"version": {"major": 3, "minor": 8}}
    with pytest.raises(AnsibleActionFail, match=r"node1 has Python 3\.8"):
        node.task(role="nvidia_gds", validate=True)
    assert node.asked == []


def test_python_of_node_is_checked_too(node):
    node.python = [3, 8]
    with pytest.raises(AnsibleActionFail, match=r"node1 has Python 3\.8"):
        node.task(role="nvidia_gds")


def test_validate_does_not_contact_node(node):
    node.task(role="nvidia_gds", validate=True)
    assert node.asked == []


@pytest.mark.parametrize(("required", "fails"), [(True, True), ("no", False), (None, False)])
def test_problems_fail_only_required_role(node, required, fails):
    if required is not None:
        node.variables["nvidia_gds_required"] = required
    node.answers["nvidia_gds"] = answer(problems=[BAD])
    result = node.task(role="nvidia_gds")
    assert (result.get("failed", False), result["msg"]) == (
        fails,
        f"node1: {BAD}" if fails else f"node1: CUDA 13.0\nnode1: {BAD}",
    )


def test_node_before_change_fails_only_with_verification(node):
    node.variables["nvidia_gds_required"] = True
    node.answers["nvidia_gds"] = answer(DIFFERENT, [BAD])
    assert "failed" not in node.task(role="nvidia_gds")
    assert node.task(role="nvidia_gds", verify=True)["msg"] == f"node1: {BAD}; the run left differences: packages"
    assert "failed" not in node.task(role="nvidia_gds", verify=True, required=False)


@pytest.mark.parametrize(
    ("tags", "fails"),
    [
        (["all"], True),
        (["nvidia_gds_verify", "nvidia_gds_install"], True),
        (["nvidia_gds_install"], False),
        (["build"], False),
    ],
)
def test_tags_without_verification_do_not_judge(node, tags, fails):
    node.variables.update(nvidia_gds_required=True, ansible_run_tags=tags)
    node.answers["nvidia_gds"] = answer(problems=[BAD])
    assert node.task(role="nvidia_gds").get("failed", False) is fails


def test_failure_returns_short_result(node):
    node.variables["nvidia_gds_required"] = True
    node.answers["nvidia_gds"] = answer(problems=[BAD])
    assert set(node.task(role="nvidia_gds")) == {"failed", "msg", "queried", "changed", "problems"}


def test_not_concerned_node_shows_reason_and_continues(node):
    node.answers["nvidia_gds"] = answer(not_concerned("nvidia_gds", "no NVIDIA driver is loaded"))
    assert "failed" not in node.task(role="nvidia_gds")
    assert "node1: no NVIDIA driver is loaded: nothing is done" in node.printed


def test_failed_module_ends_task_with_its_error(node):
    node.execute = lambda **args: {"failed": True, "msg": "no such file"}
    with pytest.raises(AnsibleActionFail, match="node1: the look at the node failed: no such file"):
        node.task(role="nvidia_gds")


def test_role_without_plan_is_named(node):
    with pytest.raises(AnsibleActionFail, match="there is no role nothing that plans"):
        node.task(role="nothing")


@pytest.mark.parametrize(
    ("tags", "skipped", "is_asked"),
    [
        (["all"], [], True),
        (["nvidia_gds_verify"], [], True),
        (["boot"], [], True),
        (["efa_nccl"], [], False),
        (["all"], ["nvidia_gds"], False),
    ],
)
def test_first_look_covers_roles_with_tasks_in_run(node, tags, skipped, is_asked):
    node.variables.update(ansible_run_tags=tags, ansible_skip_tags=skipped)
    node.task(roles=["nvidia_gds", "not_of_ours"])
    assert len(node.asked) == int(is_asked)


def test_look_stops_at_role_that_may_change_its_result(node):
    node.task(roles=["not_of_ours", "nvidia_gds"])
    assert node.asked == []


@pytest.mark.parametrize(
    ("groups", "roles"), [(["gpu", "efa"], ["efa_nccl", "nvidia_gds"]), (["gpu"], ["nvidia_gds"]), ([], [])]
)
def test_first_look_covers_roles_of_node_groups(node, groups, roles):
    node.task(groups=groups)
    assert [list(asked) for asked in node.asked] == ([roles] if roles else [])


def test_local_look_needs_no_other_process(node, monkeypatch):
    looks = []
    found = {"nvidia_gds": json.loads(json.dumps(answer()))}
    monkeypatch.setattr(node_plan, "look_all", lambda host, asked, read_only: looks.append(read_only) or found)
    node.transport = "local"
    node.variables["ansible_python_interpreter"] = sys.executable
    assert node.task(role="nvidia_gds")["plan"]["empty"]
    node.task(role="nvidia_gds", check_mode=True)
    assert (looks, node.asked) == ([False, True], [])


def kept(node, monkeypatch, tmp_path):
    monkeypatch.setattr(journal, "path", lambda: tmp_path / "journal")
    return lambda: journal.read(tmp_path / "journal")


def test_results_are_kept_for_end_of_run(node, monkeypatch, tmp_path):
    read = kept(node, monkeypatch, tmp_path)
    node.task(roles=["nvidia_gds"])
    node.answers["nvidia_gds"] = answer(DIFFERENT)
    node.task(role="nvidia_gds", look_again=True)
    node.answers["nvidia_gds"] = answer()
    node.task(role="nvidia_gds", look_again=True, verify=True)
    flags = [(entry.begun, entry.final, entry.differs) for entry in read()]
    assert flags == [(False, False, False), (True, False, True), (True, True, False)]
    assert {(entry.host, entry.role, entry.required) for entry in read()[1:]} == {("node1", "nvidia_gds", False)}


def test_failures_are_kept_too(node, monkeypatch, tmp_path):
    read = kept(node, monkeypatch, tmp_path)
    node.variables["nvidia_gds_cuda_version"] = "13"
    with pytest.raises(AnsibleActionFail):
        node.task(role="nvidia_gds")
    del node.variables["nvidia_gds_cuda_version"]
    node.answers["nvidia_gds"] = answer(problems=[BAD])
    node.task(role="nvidia_gds", required=True)
    first, second = read()
    assert first.final and first.failure.startswith("nvidia_gds_cuda_version is '13'")
    assert (second.final, second.problems, second.failure) == (True, [BAD], BAD)


def test_tags_without_verification_are_kept_as_such(node, monkeypatch, tmp_path):
    read = kept(node, monkeypatch, tmp_path)
    node.variables["ansible_run_tags"] = ["nvidia_gds_install"]
    node.task(role="nvidia_gds")
    assert [(entry.final, entry.verified) for entry in read()] == [(False, False)]


@pytest.mark.parametrize(("required", "fails"), [(True, True), (False, False)])
def test_hardware_missing_against_inventory_is_problem(node, monkeypatch, tmp_path, required, fails):
    read = kept(node, monkeypatch, tmp_path)
    node.answers["nvidia_gds"] = answer(not_concerned("nvidia_gds", "no driver"))
    node.variables["ec2_instance_type"] = "g5.48xlarge"
    result = node.task(role="nvidia_gds", required=required)
    assert bool(result.get("failed")) is fails
    assert [found["id"] for found in read()[-1].results] == ["inventory.gpus"]
    assert "a g5.48xlarge with 8 GPUs" in result["msg"] and len(read()[-1].problems) == 1


@pytest.mark.parametrize(("head", "fails"), [(["h1"], True), ([], False)])
def test_missing_slurm_on_node_of_cluster_is_problem(node, monkeypatch, tmp_path, head, fails):
    read = kept(node, monkeypatch, tmp_path)
    node.answers["enroot_pyxis"] = answer(not_concerned("enroot_pyxis", NO_SLURM))
    node.variables.update(group_names=["compute"], groups={"compute": ["node1"], "head": head})
    assert bool(node.task(role="enroot_pyxis").get("failed")) is fails
    assert [found["id"] for found in read()[-1].results] == ["inventory.slurm"] * fails


IDLE_GROUPS = ["efa", "gpu", "head"]


@pytest.fixture
def site(node, monkeypatch, tmp_path):
    """The look of site.yml for a head node with a GPU, where every role has nothing to do; ``node.read`` reads what
    was kept for the verdict."""
    monkeypatch.setattr(node_plan, "run_id", lambda: str(tmp_path))
    node.read = kept(node, monkeypatch, tmp_path)
    found = dict.fromkeys(["efa_nccl", "fsx_lustre", "enroot_pyxis", "slurm_jobs"])
    node.answers.update({role: answer(not_concerned(role, f"no {role} here")) for role in found})
    node.look = lambda **more: node.task(groups=IDLE_GROUPS, report_idle=True, **more)
    return node


def test_idle_roles_are_reported_by_the_look(site):
    result = site.look()
    assert result["idle"] == ["efa_nccl", "nvidia_gds", "fsx_lustre", "enroot_pyxis", "slurm_jobs"]
    assert site.printed[:2] == ["node1: efa_nccl: no efa_nccl here: nothing is done", "node1: nvidia_gds: CUDA 13.0"]
    assert result["msg"].splitlines() == site.printed
    final = {entry.role: entry.final for entry in site.read() if entry.begun}
    assert final == dict.fromkeys(result["idle"], True)
    assert left(site) == set()


def test_look_reports_nothing_unless_asked(site):
    result = site.task(groups=IDLE_GROUPS)
    assert "idle" not in result and site.printed == [] and not any(entry.begun for entry in site.read())


@pytest.mark.parametrize("check_mode", [False, True])
def test_roles_after_a_change_are_not_idle(site, check_mode):
    site.answers["nvidia_gds"] = answer(DIFFERENT)
    result = site.look(check_mode=check_mode)
    later = ["fsx_lustre", "enroot_pyxis", "slurm_jobs"]
    assert result["idle"] == ["efa_nccl", *(later if check_mode else [])]
    assert OWN in left(site) and len(left(site)) == (1 if check_mode else 4)


@pytest.mark.parametrize("required", [True, False])
def test_role_with_a_problem_reports_it_itself(site, required):
    site.variables["nvidia_gds_required"] = required
    site.answers["nvidia_gds"] = answer(problems=[BAD])
    assert site.look()["idle"] == ["efa_nccl", "fsx_lustre", "enroot_pyxis", "slurm_jobs"]
    assert not any(BAD in line for line in site.printed)
    assert site.task(role="nvidia_gds").get("failed", False) is required
    assert len(site.asked) == 1


def test_look_that_failed_is_not_idle(site):
    site.answers["nvidia_gds"] = answer(failed="the look did not end within 60 s")
    assert "nvidia_gds" not in site.look()["idle"]


def test_missing_hardware_is_not_idle(site):
    site.answers["nvidia_gds"] = answer(not_concerned("nvidia_gds", "no driver"))
    site.variables["ec2_instance_type"] = "g5.48xlarge"
    assert "nvidia_gds" not in site.look()["idle"]


def test_invalid_options_are_not_idle(site):
    site.variables["nvidia_gds_mode"] = "fast"
    assert "nvidia_gds" not in site.look()["idle"]


def test_unsupported_system_has_no_idle_role(site, monkeypatch):
    found = {role: json.loads(json.dumps(kept_answer)) for role, kept_answer in site.answers.items()}
    monkeypatch.setattr(node_plan, "look_all", lambda host, asked, read_only: found)
    monkeypatch.setattr(
        node_plan, "system_facts", lambda host: {"distribution": "Amazon", "distribution_major_version": "2"}
    )
    site.transport = "local"
    site.variables["ansible_python_interpreter"] = sys.executable
    assert site.look()["idle"] == []


def test_idle_role_without_verification_prints_nothing(site):
    site.variables["ansible_run_tags"] = ["nvidia_gds_install"]
    assert (site.look()["idle"], site.printed) == (["nvidia_gds"], [])
    assert [(entry.final, entry.verified) for entry in site.read() if entry.begun] == [(False, False)]
