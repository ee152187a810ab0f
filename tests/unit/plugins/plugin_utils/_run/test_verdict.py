# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of nodes by roles at the end of a run."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import node_role as jobs_node_role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import role as jobs_role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import verdict
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.journal import Entry
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.names import ROLES

PASS = result.passed("efa.devices", 4).to_dict()
FAIL = result.failed("efa.devices", "gone").to_dict()
UNKNOWN = result.undeterminable("efa.devices", "tool_missing").to_dict()
NOTHING = result.not_applicable("efa.devices", "it is an image").to_dict()
LACKS = result.failed("inventory.gpus", "no driver").to_dict()


def entry(host="n1", role="efa_nccl", **fields):
    return Entry(host, role, **{"final": True, **fields})


@pytest.mark.parametrize(
    ("entries", "state", "counts"),
    [
        ([entry(results=[PASS])], "proved", False),
        ([entry()], "not proved", False),
        ([entry(differs=True, final=False), entry()], "not proved", False),
        ([entry(role="slurm_jobs")], "proved", False),
        ([entry(final=False, differs=True), entry(results=[PASS])], "changed", False),
        ([entry(concerned=False, reason="no device")], "not applicable", False),
        ([entry(results=[NOTHING])], "not applicable", False),
        ([entry(results=[FAIL], problems=["gone"], failure="gone")], "failed", True),
        ([entry(results=[FAIL], problems=["gone"], required=False)], "failed", False),
        ([entry(results=[LACKS], problems=["no driver"], required=False, concerned=False)], "failed", True),
        ([entry(results=[UNKNOWN], problems=["no tool"])], "not proved", True),
        ([entry(results=[UNKNOWN, FAIL], problems=["no tool", "gone"])], "failed", True),
        ([entry(problems=["wrong option"], failure="wrong option")], "failed", True),
        ([entry(final=False, differs=True)], "not proved", True),
        ([entry(final=False, differs=True, verified=False)], "not proved", False),
        ([entry(final=False, differs=True, check=True, reason="would change files")], "not proved", False),
        ([entry(results=[PASS]), entry(final=False, begun=False)], "proved", False),
        ([entry(results=[PASS]), entry(final=False, differs=True)], "not proved", True),
        ([entry(results=[FAIL], problems=["gone"]), entry(results=[PASS])], "proved", False),
        ([entry(results=[PASS, FAIL])], "failed", True),
        ([entry(results=[PASS, UNKNOWN])], "not proved", True),
    ],
)
def test_cell_is_last_judgement(entries, state, counts):
    found = verdict.cell(entries)
    assert (found.state, found.counts) == (state, counts)
    assert bool(found.texts) == (state not in ("proved", "changed"))


def test_roles_without_verdicts_are_the_known_ones():
    made = {key for key, domain in DOMAINS.items() if domain.verify not in (jobs_role.verify, jobs_node_role.verify)}
    assert set(DOMAINS) - made == set(verdict.WITHOUT_VERDICTS)


@pytest.mark.parametrize(("begun", "state"), [(True, "failed"), (False, "not proved")])
def test_ended_run_counts_for_node(begun, state):
    found = verdict.cell([entry(final=False, begun=begun)], ended=True)
    assert (found.state, found.counts) == (state, True)


@pytest.mark.parametrize("last", ["nvme_raid0", "efa_nccl"])
def test_end_of_run_is_assigned_to_last_role(last):
    first = "efa_nccl" if last == "nvme_raid0" else "nvme_raid0"
    entries = [
        *(entry(role=role, begun=False, final=False) for role in ("nvme_raid0", "efa_nccl")),
        *(entry(role=role, results=[PASS]) for role in (first, last)),
    ]
    table = verdict.table(entries, ["n1"], {"n1"})
    assert {role: found.state for role, found in table["n1"].items()} == {first: "proved", last: "not proved"}


def test_ended_node_of_proved_roles_is_not_good():
    table = verdict.table([entry(results=[PASS])], ["n1", "n2", "n3"], {"n1", "n3"})
    assert list(table) == ["n1", "n3"] and table["n3"] == {}
    assert table["n1"]["efa_nccl"].state == "not proved"
    assert verdict.sentence(table) == (
        "2 of 2 nodes failed or not proved: n1 (efa_nccl not proved), n3 (not reached); the table above has the reasons"
    )


def test_proved_nodes_are_one_line():
    entries = [entry(f"n{number}", results=[PASS]) for number in range(76)]
    table = verdict.table(entries, [])
    assert verdict.lines(table) == ["verdict: 76 nodes: all proved (efa_nccl)"]
    assert verdict.sentence(table) == ""


def test_proved_nodes_are_counted_by_their_roles():
    entries = [entry(f"n{number}", results=[PASS]) for number in range(3)]
    entries += [entry("n0", "nvme_raid0", results=[PASS])]
    assert verdict.lines(verdict.table(entries, [])) == [
        "verdict: 1 node: all proved (nvme_raid0, efa_nccl)",
        "verdict: 2 nodes: all proved (efa_nccl)",
    ]


def test_other_nodes_follow_with_reasons_once():
    entries = [entry(f"n{number}", role, results=[PASS]) for number in range(4) for role in ("nvme_raid0", "efa_nccl")]
    entries += [entry(f"x{number}", concerned=False, reason="no device") for number in range(5)]
    entries += [entry("bad", "nvme_raid0", failure="lost"), entry("bad", final=False, begun=False)]
    table = verdict.table(entries, [], {"bad"})
    assert verdict.lines(table) == [
        "verdict: 4 nodes: all proved (nvme_raid0, efa_nccl)",
        "verdict             nvme_raid0  efa_nccl",
        "bad                 failed      not proved",
        "5 nodes (x0 to x4)  -           not applicable",
        "  bad: nvme_raid0 failed: lost",
        "  bad: efa_nccl not proved: the run ended on this node before; its message is above",
        "  x0, x1, x2 and 2 more: efa_nccl not applicable: no device",
    ]


def test_unreached_node_precedes_not_applicable():
    entries = [entry("n1", concerned=False, reason="no device"), entry("n2", failure="lost")]
    output = verdict.lines(verdict.table(entries, ["n3"], {"n2", "n3"}))
    assert [line.split()[0] for line in output] == ["verdict", "n2", "n3", "n1", "n2:", "n3:", "n1:"]


def test_same_reason_of_two_roles_is_one_line():
    entries = [entry("n1", role, final=False, begun=False) for role in ("efa_nccl", "nvidia_gds")]
    last = verdict.lines(verdict.table(entries, [], {"n1"}))[-1]
    assert last.startswith("  n1: efa_nccl, nvidia_gds not proved: the run ended")


def test_failure_of_optional_role_is_marked():
    output = verdict.lines(verdict.table([entry(problems=["slow"], required=False)], []))
    assert output[-1] == "  n1: efa_nccl failed (not required): slow"


@pytest.mark.parametrize("required", [True, False])
def test_missing_hardware_in_check_mode_is_not_called_optional(required):
    lacks = result.failed("inventory.disks", "8 disks, and none was found").to_dict()
    output = verdict.lines(verdict.table([entry(results=[lacks], required=required, check=True)], []))
    assert "failed (check mode): FAIL inventory.disks" in output[-1]
    (run,) = verdict.lines(verdict.table([entry(results=[lacks], required=required)], []))[-1:]
    assert "efa_nccl failed: FAIL inventory.disks" in run


def test_optional_role_in_check_mode_is_called_optional():
    output = verdict.lines(verdict.table([entry(problems=["slow"], required=False, check=True)], []))
    assert output[-1] == "  n1: efa_nccl failed (not required): slow"


def test_each_role_has_own_id_in_report():
    table = verdict.table([entry(role=role, results=[PASS]) for role in ROLES], [])
    found = result.loads(verdict.reports(table, "2026-01-31T12:00:00Z", {}))
    assert {one.id for one in found.results} - {"efa.devices"} == {
        "run.nvme_raid0",
        "run.efa_nccl",
        "run.nvidia_gds",
        "run.enroot_pyxis",
        "run.fsx_lustre",
        "run.slurm_jobs",
    }


def test_empty_table_has_no_lines():
    assert verdict.lines({}) == [] and verdict.sentence({}) == ""


def test_report_has_verdicts_and_role_results():
    entries = [entry(results=[PASS]), entry(role="nvidia_gds", concerned=False, reason="no driver")]
    entries += [entry("n2", failure="lost")]
    table = verdict.table(entries, ["n1", "n2", "n3"], {"n2", "n3"})
    text = verdict.reports(table, "2026-01-31T12:00:00Z", {"ansible-core": "2.19.0"})
    found = {report.host: report for report in map(result.loads, text.splitlines())}
    assert [(one.id, one.status, one.scope.node) for one in found["n1"].results] == [
        ("efa.devices", "pass", "n1"),
        ("run.efa_nccl", "pass", "n1"),
        ("run.nvidia_gds", "not_applicable", "n1"),
    ]
    assert [(one.id, one.status) for one in found["n2"].results] == [("run.efa_nccl", "fail")]
    assert [(one.id, one.status) for one in found["n3"].results] == [("run.node", "undeterminable")]
    assert all(json.loads(line)["schema"] == "mlcluster.report/1" for line in text.splitlines())
