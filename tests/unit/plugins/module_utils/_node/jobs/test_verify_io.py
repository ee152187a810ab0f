# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fio, IOR, mdtest and the reports of nodes. Their outputs are invented in the shape of the documentation."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify_io as io
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

# 2026-11-28T03:00:00Z.
STARTED = 1795834800


def job(results, *nodes, started=STARTED):
    return Job({}, nodes, str(results), started)


def fio(error=0, **read):
    return json.dumps({"jobs": [{"error": error, "read": {"bw_bytes": 5, "iops": 7.5, **read}, "write": {}}]})


@pytest.mark.parametrize(
    ("text", "mode", "figure"),
    [
        (fio(), "read", 5.0),
        ("note: x\n" + fio(), "randread", 7.5),
        (fio(), "write", "it printed no result"),
        (fio(error=28), "read", "it ended with error 28"),
        (fio(error=0.5), "read", "it ended with error 0.5"),
        (fio(error=float("inf")), "read", "it ended with error inf"),
        (fio(bw_bytes=0), "read", "it moved nothing"),
        (None, "read", "it printed no result"),
        ("{", "read", "it printed no result"),
    ],
)
def test_figures_of_fio(text, mode, figure):
    assert io.fio_figure(text, mode) == figure


def test_slow_node_stands_out_from_median():
    nodes = {"a": 100.0, "b": 98.0, "c": 60.0, "d": 102.0}
    (found,) = io.judge_fio({"/data read": nodes}, 20)
    assert (found.status, found.scope.node, found.severity) == ("fail", "c", "isolate")
    assert (found.found, found.expected, found.unit) == (60, 79, "B/s")
    (found,) = io.judge_fio({"/data read": {**nodes, "c": 81.0}}, 20)
    assert (found.status, found.found, found.expected) == ("pass", {"a": 100, "b": 98, "c": 81, "d": 102}, 79)


@pytest.mark.parametrize(("figure", "status"), [(80.0, "pass"), (79.9, "fail")])
def test_node_at_least_figure_passes(figure, status):
    (found,) = io.judge_fio({"/data randread": {"a": 100.0, "b": 100.0, "c": figure}}, 20)
    assert (found.status, found.expected, found.unit) == (status, 80, "1/s")


@pytest.mark.parametrize(("tolerance", "status"), [(0, "fail"), (99.5, "pass")])
def test_tolerance_may_be_any_percentage(tolerance, status):
    (found,) = io.judge_fio({"/data read": {"a": 100.0, "b": 100.0, "c": 99.0}}, tolerance)
    assert (found.id, found.status) == ("io.fio.read", status)


def test_two_nodes_have_no_median():
    (found,) = io.judge_fio({"/data write": {"a": 100.4, "b": 1.0}}, 20)
    assert (found.id, found.status, found.reason) == ("io.fio.write", "undeterminable", "no_median")
    assert (found.found, found.unit) == ({"a": 100, "b": 1}, "B/s")


def test_node_without_figure_fails_and_others_are_still_compared():
    found = io.judge_fio({"/data read": {"a": 1.0, "b": 1.0, "c": 1.0, "d": "it moved nothing"}}, 20)
    assert [(entry.status, entry.scope.node) for entry in found] == [("fail", "d"), ("pass", None)]
    assert found[0].severity == "isolate" and "common" not in found[0].message


def test_failure_on_every_node_accuses_no_node():
    found = io.judge_fio({"/data read": dict.fromkeys("abc", "it printed no result")}, 20)
    assert [(entry.status, entry.severity, entry.scope.node) for entry in found] == [
        ("fail", "monitor", node) for node in "abc"
    ]
    assert all(entry.message.endswith("it failed on every node, so the cause is common to all") for entry in found)
    two = io.judge_fio({"/data read": dict.fromkeys("ab", "it moved nothing")}, 20)
    assert all(entry.message.endswith("common to all") for entry in two)
    (alone,) = io.judge_fio({"/data read": {"a": "it printed no result"}}, 20)
    assert alone.severity == "monitor" and "every node" not in alone.message


@pytest.mark.parametrize("text", [None, "", "{", '{"summary": 3}', '{"summary": [{"operation": "write"}]}'])
def test_ior_without_summary_is_no_pass(text):
    found = io.judge_ior(io.ior_figures(text), {"write": 1, "read": 1}, 0)
    assert [entry.status for entry in found] == ["fail", "fail"]


@pytest.mark.parametrize(("least", "rc", "status"), [(0, 0, "undeterminable"), (9, 0, "pass"), (11, 0, "fail"),
                                                     (9, 1, "fail")])  # fmt: skip
def test_ior_against_what_is_wanted(least, rc, status):
    figures = {"write": 10.0, "read": 10.0}
    assert {entry.status for entry in io.judge_ior(figures, {"write": least, "read": least}, rc)} == {status}


@pytest.mark.parametrize(
    ("figure", "least", "problem", "status", "found", "expected"),
    [
        (10.26, {"write": 10}, "", "pass", 10.3, 10),
        (10.26, {"write": 10.26}, "", "pass", 10.3, 10.26),
        (10.26, {"write": 11}, "", "fail", 10.3, 11),
        (0.46, {"write": 0.5}, "", "fail", 0.5, 0.5),
        (10.26, {}, "", "undeterminable", 10.3, None),
        (10.26, {"write": 10}, "it had 1 tasks", "undeterminable", 10.3, None),
        (0.0, {"write": 10}, "", "fail", 0.0, None),
    ],
)
def test_figure_of_ior_and_least_one_are_shown(figure, least, problem, status, found, expected):
    one = io.judge_ior({"write": figure}, least, 0, problem)[0]
    assert (one.id, one.status, one.found, one.expected) == ("io.ior.write", status, found, expected)


MDTEST = "   File {}     :     {}     {}     {}          0.000\n"


@pytest.mark.parametrize(
    ("rows", "figures"),
    [
        ([("creation", "30.0", "10.0", "20.0")], {"File creation": 20.0}),
        # Columns in another order.
        ([("creation", "10.0", "20.0", "30.0")], {}),
        ([("creation", "20.0", "30.0", "10.0")], {}),
        # Two tables: the smaller counts.
        ([("stat", "30.0", "10.0", "20.0"), ("stat", "9.0", "1.0", "5.0")], {"File stat": 5.0}),
        ([("stat", "9.0", "1.0", "5.0"), ("stat", "30.0", "10.0", "20.0")], {"File stat": 5.0}),
        ([("stat", "30,0", "10,0", "20,0")], {}),
        ([("stat", "-30.0", "-10.0", "-20.0")], {}),
        ([("stat", "\u0663", "\u0663", "\u0663")], {}),
    ],
)
def test_mdtest_rows_of_other_shapes(rows, figures):
    assert io.mdtest_figures("".join(MDTEST.format(*row) for row in rows)) == figures


@pytest.mark.parametrize("figure", [1e16, 1e300])
def test_more_than_any_storage_moves_is_no_figure(figure):
    found = {one.id: one.status for one in io.judge_ior({"write": figure, "read": 5.0}, {"write": 1, "read": 1}, 0)}
    assert found == {"io.ior.write": "undeterminable", "io.ior.read": "pass"}
    by_node = {"local read": {"n1": figure, "n2": 5.0, "n3": 5.0}}
    assert {one.status for one in io.judge_fio(by_node, 10)} == {"undeterminable"}


def test_mdtest_of_either_version():
    old = "   File creation     :     845203.634     845203.634     845203.634          0.000\n"
    new = "   File stat                 4513.000      4100.000      4300.500        100.000\n"
    assert io.mdtest_figures(old + new) == {"File creation": 845203.634, "File stat": 4300.5}
    assert io.judge_mdtest(io.mdtest_figures(old + new), 0).status == "fail"
    assert io.judge_mdtest(io.mdtest_figures(old + new + new.replace("stat", "removal")), 0).status == "pass"
    assert io.judge_mdtest(io.mdtest_figures(old + new + new.replace("stat", "removal")), 1).status == "fail"


def ior_text(*counts):
    return json.dumps({"summary": [{"operation": "write", "numTasks": of, "tasksPerNode": on} for of, on in counts]})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (ior_text((16, 8), (16, 8)), ""),
        # Without the right MPI each task is a run of its own, and the last one to end leaves its summary.
        (ior_text((1, 1)), "it had 1 tasks, 1 a node, where 16 were requested, 8 a node"),
        (ior_text((16, 8), (16, 16)), "it had 16 tasks, 16 a node"),
        (ior_text(), "it had no tasks"),
        ('{"summary": [{"operation": "write"}]}', "does not give the numbers of its tasks"),
        (None, "does not give the numbers of its tasks"),
    ],
)
def test_ior_of_other_tasks_is_named(text, wrong):
    found = io.ior_problem(text, 2, 8)
    assert wrong in found and bool(found) == bool(wrong)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["mdtest-4.0.0 was launched with 16 total task(s) on 2 node(s)"], ""),
        (["mdtest-1.9.3 was launched with 16 total task(s) on 2 nodes"], ""),
        (["mdtest-4.0.0 was launched with 1 total task(s) on 1 node(s)"], "it had 1 tasks on 1 nodes"),
        (["mdtest-4.0.0 was launched with 1 total task(s) on 1 node(s)"] * 16, "it ran 16 times"),
        (["mdtest-4.0.0 was launched with 16 total task(s) on 2 node(s)"] * 2, "it ran 2 times"),
        (["mdtest-4.0.0 was launched with 16 total task(s) on 1 node(s)"], "it had 16 tasks on 1 nodes"),
        ([], "does not give the numbers"),
    ],
)
def test_mdtest_of_other_tasks_is_named(lines, wrong):
    found = io.mdtest_problem("\n".join(lines), 2, 8)
    assert wrong in found and bool(found) == bool(wrong)


def test_run_of_other_tasks_proves_nothing():
    figures = {"write": 10.0, "read": 10.0}
    rates = dict.fromkeys(("File creation", "File stat", "File removal"), 5.0)
    found = [
        *io.judge_ior(figures, {"write": 9, "read": 9}, 0, "it had 1 tasks"),
        io.judge_cache(9, 10, 2, "it had 1 tasks"),
        io.judge_cache(11, 10, 1, "it had 1 tasks"),
        io.judge_mdtest(rates, 0, "it had 1 tasks"),
    ]
    assert {(one.status, one.reason) for one in found} == {("undeterminable", "other_run")}
    assert "slurm_jobs_mpi" in found[0].hint
    # A program that failed is a failure all the same.
    assert io.judge_ior(figures, {"write": 9, "read": 9}, 1, "it had 1 tasks")[0].status == "fail"
    assert io.judge_mdtest(rates, 1, "it had 1 tasks").status == "fail"


def test_ior_counts_least_of_several_figures():
    rows = [{"operation": "write", "bwMaxMIB": figure} for figure in (5000, 1, 4000)]
    assert io.ior_figures(json.dumps({"summary": rows})) == {"write": 1.0}
    rows.append({"operation": "write", "bwMaxMIB": float("nan")})
    found = io.judge_ior(io.ior_figures(json.dumps({"summary": rows})), {"write": 1, "read": 1}, 0)[0]
    assert (found.id, found.status) == ("io.ior.write", "undeterminable")


@pytest.mark.parametrize("rate", ["0.000", "1.2.3", ".", "9" * 400, "nan"])
def test_mdtest_without_rate_fails(rate):
    rows = "".join(f"File {name} 2 2 {rate if name == 'stat' else 2} 0\n" for name in ("creation", "stat", "removal"))
    found = io.judge_mdtest(io.mdtest_figures(rows), 0)
    assert found.status == "fail" and "gives no rate for File stat" in found.message


@pytest.mark.parametrize(("size", "memory"), [(9, 0), (9, -1), (0, 10)])
def test_cache_without_sizes_is_undeterminable(size, memory):
    assert io.judge_cache(size, memory, 2).status == "undeterminable"


@pytest.mark.parametrize(
    ("size", "nodes", "status"),
    [(11, 1, "pass"), (10, 1, "undeterminable"), (9, 2, "pass"), (9, 1, "undeterminable"), (1, 2, "pass")],
)
def test_figures_that_may_come_from_memory(size, nodes, status):
    assert io.judge_cache(size, 10, nodes).status == status
    assert io.judge_cache(2, 1, 1).status == "pass"


def test_reports_carry_node_and_missing_one_is_no_pass(tmp_path):
    report = result.Report("ip-1", "2026-11-28T03:00:00Z", {}, (result.passed("gpu.count", 8),))
    (tmp_path / "node-n1.json").write_text(result.dumps(report))
    (tmp_path / "node-n2.json").write_text("srun: error: no such program\n")
    (tmp_path / "node-n4.json").write_text(result.dumps(result.passed("gpu.count", 8)))
    (tmp_path / "node-n5.json").write_text(result.dumps(result.Report("n5", "2026-11-28T03:00:00Z", {}, ())))
    found = io.node_reports(job(tmp_path, "n1", "n2", "n3", "n4", "n5"), Host(), "node")
    assert [(entry.id, entry.status, entry.scope.node) for entry in found] == [
        ("gpu.count", "pass", "n1"),
        ("node.report", "undeterminable", "n2"),
        ("node.report", "undeterminable", "n3"),
        ("node.report", "undeterminable", "n4"),
        ("node.report", "undeterminable", "n5"),
    ]
    assert {entry.reason for entry in found if entry.id == "node.report"} == {"no_report"}


@pytest.mark.parametrize("word", ["NaN", "Infinity"])
def test_figures_that_are_no_number_are_named(word):
    figure = io.fio_figure(fio(bw_bytes=float(word.replace("Infinity", "inf"))), "read")
    found = io.judge_fio({"/data read": {"a": 100.0, "b": figure, "c": 99.0, "d": 101.0}}, 20)
    assert [(one.status, one.reason, one.scope.node) for one in found] == [
        ("undeterminable", "unread", "b"),
        ("pass", None, None),
    ]
    assert f"fio, /data read on b: read.bw_bytes reads '{figure}'" == found[0].message
    figures = io.ior_figures(f'{{"summary": [{{"operation": "write", "bwMaxMIB": {word}}}]}}')
    write, read = io.judge_ior(figures, {"write": 9, "read": 9}, 0)
    assert (write.status, write.reason, read.status) == ("undeterminable", "unread", "fail")
    assert "bwMaxMIB of write in ior.out reads" in write.message
    # A run that failed is a failure, whatever its figures.
    assert {one.status for one in io.judge_ior(figures, {"write": 9, "read": 9}, 1)} == {"fail"}


@pytest.mark.parametrize(
    ("hosts", "bad"),
    [
        (["n1.local", "n2"], []),
        (["ip-1", "ip-2"], []),
        (["n1", "n1"], ["n2"]),
        (["n2", "n1"], ["n1", "n2"]),
        (["ip-1", "ip-1"], ["n1", "n2"]),
    ],
)
def test_report_of_another_node_is_no_pass(tmp_path, hosts, bad):
    for number, name in enumerate(hosts, 1):
        report = result.Report(name, "2026-11-28T03:00:00Z", {}, (result.passed("gpu.count", 8),))
        (tmp_path / f"node-n{number}.json").write_text(result.dumps(report))
    found = io.node_reports(job(tmp_path, "n1", "n2"), Host(), "node")
    assert [entry.scope.node for entry in found if entry.reason == "not_its_own"] == bad
    assert [entry.scope.node for entry in found if entry.status == "pass"] == [n for n in ("n1", "n2") if n not in bad]


class Then(Host):
    """A host whose time is an hour after the start of the job."""

    def now(self):
        return "2026-11-28T04:00:00Z"


@pytest.mark.parametrize(
    ("time", "started", "reason"),
    [
        ("2026-11-28T03:00:00Z", STARTED, None),
        ("2026-11-28T02:55:00Z", STARTED, None),
        ("2026-11-28T05:05:00+01:00", STARTED, None),
        ("2026-11-28T02:54:59Z", STARTED, "not_of_this_job"),
        ("2026-11-28T04:05:01Z", STARTED, "not_of_this_job"),
        ("2001-11-28T03:00:00Z", STARTED, "not_of_this_job"),
        ("2026-13-28T03:00:00Z", STARTED, "not_of_this_job"),
        ("2026-11-28T03:00:00Z", None, "not_of_this_job"),
    ],
)
def test_report_of_another_time_is_no_pass(tmp_path, time, started, reason):
    report = result.Report("n1", time, {}, (result.passed("gpu.count", 8),))
    (tmp_path / "node-n1.json").write_text(result.dumps(report))
    (found,) = io.node_reports(job(tmp_path, "n1", started=started), Then(), "node")
    assert (found.status, found.reason) == ("undeterminable" if reason else "pass", reason)
    assert started or "render the script again" in found.message
    assert (io._other_time(time, started, STARTED + 3600) == "") is (reason is None)


@pytest.mark.parametrize("value", [-5, -0.1, 10**400, "5", True, None, [5]])
def test_figure_below_zero_or_no_number_is_no_pass(value):
    write, read = io.judge_ior(
        io.ior_figures(
            json.dumps({"summary": [{"operation": "write", "bwMaxMIB": value}, {"operation": "read", "bwMaxMIB": 10}]})
        ),
        {"write": 1, "read": 1},
        0,
    )
    number = isinstance(value, (int, float)) and value is not True
    assert (write.status, read.status) == (("undeterminable", "pass") if number else ("fail", "fail"))
    text = fio(bw_bytes=value).replace('"write": {}}]', '"write": {}}, ' + fio(bw_bytes=100)[10:-1])
    found = io.judge_fio({"/d read": {"a": 5.0, "b": 5.0, "c": 5.0, "d": io.fio_figure(text, "read")}}, 20)[0]
    assert (found.status, found.scope.node) == ("undeterminable" if number else "fail", "d")


@pytest.mark.parametrize("wanted", [float("nan"), -1, "9", None, True])
def test_least_figure_that_is_no_number_proves_nothing(wanted):
    found = io.judge_ior({"write": 10.0, "read": 10.0}, {"write": wanted, "read": wanted}, 0)
    assert {one.status for one in found} == {"undeterminable"}


@pytest.mark.parametrize("tolerance", [float("nan"), float("inf"), -1, 100, "20", None, True])
def test_tolerance_that_is_invalid_proves_nothing(tolerance):
    (found,) = io.judge_fio({"/data read": {"a": 100.0, "b": 1.0, "c": 99.0}}, tolerance)
    assert (found.id, found.status, found.reason) == ("io.fio.median", "undeterminable", "no_tolerance")


def test_node_of_which_nothing_applies_is_no_pass(tmp_path):
    report = result.Report("n1", "2026-11-28T03:00:00Z", {}, (result.not_applicable("gds.mode", "no GPU"),))
    (tmp_path / "node-n1.json").write_text(result.dumps(report))
    found = io.node_reports(job(tmp_path, "n1"), Host(), "gds")
    assert [(one.id, one.status, one.reason) for one in found] == [
        ("gds.report", "undeterminable", "no_pass"),
        ("gds.mode", "not_applicable", "no GPU"),
    ]


MODEL = "Amazon EC2 NVMe Instance Storage"
STRIPE = {"root": False, "mount_point": "/data", "fstype": "xfs", "disks": [{"kname": "nvme1n1", "model": MODEL}] * 2}
EBS = [{"kname": "nvme0n1", "model": "Amazon Elastic Block Store"}]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, ""),
        ({"root": True, "disks": EBS}, "is on the root disk (xfs, on nvme0n1 (Amazon Elastic Block Store))"),
        ({"root": True}, "is on the root disk (xfs)"),
        ({"root": None}, "is on the root disk (xfs)"),
        ({"disks": EBS}, "is on disks other than the instance store: nvme0n1 (Amazon Elastic Block Store)"),
        ({"disks": STRIPE["disks"] + EBS}, "is on disks other than the instance store: nvme0n1"),
        ({"disks": [None]}, "is on disks other than the instance store: None (None)"),
        ({"disks": [], "fstype": "tmpfs"}, "is on no local disk: it is on tmpfs at /data"),
        ({"problem": "no mount table", "disks": []}, "is on unknown disks: no mount table"),
        ({"disks": None}, "has no record of its disks: render the script again"),
    ],
)
def test_place_of_fio_is_proved_by_its_disks(changed, problem):
    found = io.place_problem({**STRIPE, **changed})
    assert found.startswith(problem) and bool(found) == bool(problem)


@pytest.mark.parametrize("record", [None, [], {}, "x"])
def test_place_without_record_is_not_proved(record):
    assert io.place_problem(record).startswith("has no record of its disks")


def test_node_whose_directory_is_on_root_disk_is_named():
    results, proved = io.judge_places("/data", {"a": STRIPE, "b": STRIPE})
    assert [(one.id, one.status, one.found) for one in results] == [("io.fio.place", "pass", {"a": 2, "b": 2})]
    assert proved == {"a", "b"}
    results, proved = io.judge_places("/data", {"b": {**STRIPE, "root": True}, "a": STRIPE})
    assert [(one.status, one.reason, one.scope.node) for one in results] == [("undeterminable", "not_local_disks", "b")]
    assert (results[0].message, proved) == ("/data on b is on the root disk (xfs)", {"a"})


FIO = '{"jobs": [{"job options": {"name": "a", "name": "b"}, "error": 0, "write": {"bw_bytes": 9}}]}'


def test_option_that_fio_repeats_is_ignored():
    assert io.fio_figure(FIO, "write") == 9.0


@pytest.mark.parametrize(
    ("old", "new"), [('"bw_bytes": 9', '"bw_bytes": 9, "bw_bytes": 99'), ('"error": 0', '"error": 5, "error": 0')]
)
def test_fio_with_two_values_of_one_key_has_no_figure(old, new):
    assert isinstance(io.fio_figure(FIO.replace(old, new), "write"), str)


def test_ior_with_two_values_of_one_key_has_no_figure():
    text = '{"summary": [{"operation": "write", "bwMaxMIB": 9, "numTasks": 4, "tasksPerNode": 2}]}'
    assert io.ior_figures(text) == {"write": 9.0} and io.ior_problem(text, 2, 2) == ""
    assert io.ior_figures(text.replace('"bwMaxMIB": 9', '"bwMaxMIB": 9, "bwMaxMIB": 99')) == {}
    assert io.ior_problem(text.replace('"numTasks": 4', '"numTasks": 1, "numTasks": 4'), 2, 2) != ""
