# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables of all versions are read by their header, and a damaged one never counts as whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import table as nccl_table
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.log import NcclLog
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse, parse_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.table import NCCOM_TEST, Row, Run
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge

from tests.unit.fakes.fake_nccl_output import COLUMNS, FOUR, OLD, Plan, only, output, reduced, verdicts

FIXTURES = Path(__file__).parents[4] / "fixtures" / "nccl"


def test_wrong_values_fail():
    lines = output()
    broken = [line[:-1] + "3" if line.startswith("     4194304") else line for line in lines]
    assert [only(broken, "correct").status, only(broken, "correct").severity] == ["fail", "isolate"]
    assert only([line.replace("0 OK", "2 FAILED") for line in lines], "correct").status == "fail"
    assert only([line.replace("       0  ", "     nan  ") for line in lines], "correct").status == "fail"


def test_unchecked_table_is_not_correct_by_that():
    lines = [line.replace("       0  ", "     N/A  ").replace("       0", "     N/A") for line in output()]
    assert only(lines, "correct").reason == "not_checked"
    # A column of zeros is not a check where the header announces none.
    lines = [line.replace("validation: 1", "validation: 0") for line in output()]
    assert only(lines, "correct").reason == "not_checked"


@pytest.mark.parametrize("collective", ["alltoall", "sendrecv"])
def test_collectives_without_in_place_check_pass(collective):
    assert verdicts(output(collective=collective, in_place_wrong="N/A"))[0] == "pass"
    assert only(output(in_place_wrong="N/A"), "correct").reason == "not_checked"


@pytest.mark.parametrize("cut", ["# Out of bounds", "    16777216", "# Avg bus", "# Collective test concluded"])
def test_truncated_output_fails(cut):
    lines = output()
    end = next(number for number, line in enumerate(lines) if line.startswith(cut))
    correct = only(lines[:end], "correct")
    assert (correct.status, correct.reason) == ("fail", "truncated")
    assert only(lines[:end], "bandwidth").status == "undeterminable"


def test_missing_or_doubled_row_makes_table_incomplete():
    lines = output()
    row = next(number for number, line in enumerate(lines) if line.startswith("    16777216"))
    for changed in (lines[:row] + lines[row + 1 :], lines[: row + 1] + lines[row:]):
        correct = only(changed, "correct")
        assert (correct.status, correct.reason) == ("undeterminable", "incomplete")
        assert "announces 6 sizes" in correct.message


def test_row_of_another_size_or_bandwidth_is_noticed():
    lines = output()
    assert (
        "where the header announces"
        in only([line.replace("    16777216", "    16000000") for line in lines], "correct").message
    )
    changed = [line.replace("  80.00", " 980.00") if line.startswith("    16777216") else line for line in lines]
    assert "printed an average" in only(changed, "correct").message


@pytest.mark.parametrize(
    "error",
    [
        "node-2: Test NCCL failure common.cu:222 'unhandled cuda error'",
        " .. node-2 pid 1234: Test failure common.cu:1454",
        "srun: error: node-2: task 3: Segmentation fault",
        "slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-11-27T22:00:00 DUE TO TIME LIMIT ***",
        "node-2:1234:1250 [0] enqueue.cc:1694 NCCL WARN Cuda failure 'out of memory'",
    ],
)
def test_error_in_middle_fails(error):
    lines = output()
    lines.insert(len(lines) - 8, error)
    correct = only(lines, "correct")
    assert (correct.status, correct.reason) == ("fail", "test_failed")


def test_slurm_error_about_directory_is_not_test_failure():
    error = "slurmstepd: error: couldn't chdir to `/home/x': No such file or directory: going to /tmp instead"
    assert verdicts([error, *output(), error])[:2] == ["pass", "pass"]


def test_longest_name_that_fits_is_host(tmp_path):
    hosts = ("node-1", "a-node-1", "1")
    lines = output(hosts=hosts)
    torn = [f"     1048576  {line}" if line.startswith("a-node-1:") else line for line in lines]
    result = only(torn, "fabric", RequestedRun(ranks=6, nodes=3))
    assert (result.status, result.found["hosts"]) == ("pass", sorted(hosts))


def test_warning_is_reported_and_not_more():
    lines = output()
    lines.insert(
        30, "[2026-11-27 21:38:21] node-2:1234:1250 [0] misc/ibvwrap.cc:1 NCCL WARN Failed to open libibverbs.so"
    )
    judged = judge(parse(lines), FOUR)
    assert [one.status for one in judged.results][:2] == ["pass", "pass"]
    assert judged.facts["warnings"] == ["Failed to open libibverbs.so"]


def test_exit_status_counts():
    assert only(output(), "correct", RequestedRun(rc=1)).status == "fail"
    assert only(output(), "correct", RequestedRun(rc=0)).status == "pass"


def glued(line, start, noise):
    """A line another process wrote into: the beginning, the noise behind it, and the rest on a line of its own."""
    return [line[:start] + noise, line[start:]]


@pytest.mark.parametrize("start", [47, 51, 52, 65, 84, 90])
def test_row_torn_by_log_is_put_together(start):
    noise = "node-2:1002:1102 [0] NCCL INFO Channel 03/1 : 2[0] -> 4[0] [send] via NET/Libfabric/1/GDRDMA"
    lines = [
        part for line in output() for part in (glued(line, start, noise) if line.startswith("    1677") else [line])
    ]
    judged = judge(parse(lines), FOUR)
    assert [one.status for one in judged.results][:2] == ["pass", "pass"]
    assert judged.results[1].found["channels"]["node-2"] == 5


def test_row_with_lost_rest_makes_table_incomplete():
    lines = [line[:50] if line.startswith("    16777216") else line for line in output()]
    assert "damaged" in only(lines, "correct").message


@pytest.mark.parametrize("label", ["{}: ", "[1,{}]<stdout>:", "  {}: ", "[prterun-ip-10-0-0-1-2711@1,{}]<stdout>: "])
def test_labels_of_srun_and_mpirun_are_taken_off(label):
    assert verdicts([label.format(number % 8) + line for number, line in enumerate(output())])[:2] == ["pass", "pass"]


def test_colours_and_windows_line_ends_do_not_matter():
    assert verdicts([f"\x1b[32m{line}\x1b[0m\r\n" for line in output()])[:2] == ["pass", "pass"]


def test_nothing_of_output_reaches_terminal():
    evil = [f"\ufeff\x00\x1b]0;x\x07{line}" for line in output()]
    evil.insert(30, "node-1:1:1 [0] NCCL WARN \x1b[2J\u202eboo")
    judged = judge(parse([line.replace("node-2", "no\x1b[5mde-2").replace("\x1b]0;x\x07", "") for line in evil]), FOUR)
    assert [one.status for one in judged.results][:2] == ["pass", "pass"]
    assert judged.facts["warnings"] == ["boo"]
    assert all(text.isprintable() for one in judged.results for text in (one.line(), repr(one.found)))


def test_oldest_tables_are_judged_by_their_closing_line():
    judged = judge(parse(OLD), RequestedRun(ranks=2, nodes=2, collective="all_reduce"))
    assert [one.status for one in judged.results] == ["pass", "undeterminable", "undeterminable"]
    assert judged.facts["hosts"] == ["ip-10-0-0-1", "ip-10-0-0-2"]
    failed = [line.replace("0 OK", "1 FAILED") for line in OLD]
    assert only(failed, "correct", RequestedRun()).status == "fail"


def test_table_without_operation_column_is_read():
    lines = [line.replace("   redop", "").replace("     sum", "") for line in OLD]
    assert only(lines, "correct", RequestedRun()).status == "pass"


def columns(more_names, more_words, time="time"):
    lines = output(smallest=1 << 20, largest=1 << 20)
    return [
        line.replace("    time", f"  {time}").rstrip() + more_names
        if line == COLUMNS
        else line.rstrip() + more_words
        if line.startswith("     1048576")
        else line
        for line in lines
    ]


def test_newer_columns_are_read_by_their_names():
    assert only(columns("", "", "cputime"), "correct").status == "pass"
    assert only(columns("  timestamp", "  2026-11-27 21:38:21"), "correct").status == "pass"
    assert only(columns("  timestamp", ""), "correct").status == "undeterminable"


def test_times_of_each_iteration_are_read():
    extra = "    i_min    i_max    i_p99    i_cv%"
    lines = [
        line.replace("#wrong", "#wrong" + extra)
        if line == COLUMNS
        else line.replace("       0", "       0     9.00    10.00    10.00     2.00")
        if line.startswith("     1048576")
        else line
        for line in output(smallest=1 << 20, largest=1 << 20)
    ]
    assert only(lines, "correct").status == "pass"


def test_step_in_bytes_and_reduced_maximum_are_understood():
    lines = [
        line.replace("step: 4(factor)", "step: 1048576(bytes)")
        for line in output(smallest=1 << 20, largest=1 << 22, factor=4)
    ]
    assert only(lines, "correct").reason == "incomplete"
    reduced = output()
    reduced = [line for line in reduced if not line.startswith("  1073741824")]
    reduced.insert(14, "# Reducing maxBytes to 300000000 due to memory limitation")
    assert "average" in only(reduced, "correct").message


def test_several_types_each_have_all_sizes():
    plan = Plan()
    lines = output(plan)
    start = lines.index(COLUMNS) + 2
    rows = lines[start : start + 6]
    second = [row.replace("   float", "    half").replace(row[12:26], f"{2 * int(row[12:26]):14}", 1) for row in rows]
    assert only(lines[: start + 6] + second + lines[start + 6 :], "correct").status == "pass"
    assert only(lines[: start + 6] + second[:4] + lines[start + 6 :], "correct").reason == "incomplete"


@pytest.mark.parametrize("collective", ["all_reduce", "alltoall", "broadcast"])
def test_recorded_tables_of_one_gpu_prove_no_fabric(collective):
    recorded = parse_file(str(FIXTURES / f"nccl-tests-{collective}-2.19.6.txt"))
    one = judge(recorded, RequestedRun(ranks=1, nodes=1, collective=collective))
    assert [result.status for result in one.results] == ["pass", "not_applicable", "not_applicable"]
    two = judge(recorded, RequestedRun(ranks=16, nodes=2))
    assert [result.status for result in two.results] == ["pass", "fail", "undeterminable"]


def test_recorded_table_with_log_lines_is_read():
    judged = judge(parse_file(str(FIXTURES / "nccl-tests-info-interleaved-2.19.6.txt")), RequestedRun(ranks=1, nodes=1))
    assert judged.results[0].status == "pass"
    assert judged.facts["networks"] == ["Socket"]
    assert judged.facts["nvls_channels"] == 0
    assert judged.facts["nccl_version"] == "2.28.3+cuda13.0"


@pytest.mark.parametrize("name", ["net-ofi-missing", "too-many-gpus"])
def test_recorded_failures_fail(name):
    judged = judge(parse_file(str(FIXTURES / f"nccl-tests-{name}-2.19.6.txt")), RequestedRun(ranks=1, nodes=1))
    assert judged.results[0].status == "fail"
    assert judged.results[2].status == "undeterminable"


def test_recorded_log_without_test_is_no_output():
    judged = judge(parse_file(str(FIXTURES / "nccl-2.28-socket.txt")), FOUR)
    assert {one.status for one in judged.results} == {"undeterminable"}
    assert judged.facts["networks"] == ["Socket"]


def test_many_outputs_are_read_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_RUNS", 2)
    read = parse(output() * 4)
    assert (len(read.runs), read.runs[-1].tangled) == (2, True)


def test_table_without_valid_rows_is_incomplete():
    without_rows = [line for line in output() if not line.startswith(" ")]
    assert only(without_rows, "correct").message == "the table has no rows"
    for old, new in (("   float", "   fl@at"), ("  80.00", "  8x.00"), ("       0", "       ?")):
        assert "damaged" in only([line.replace(old, new) for line in output()], "correct").message


def test_operation_printed_as_nothing_is_read():
    lines = [line.replace("    none      -1", "              -1") for line in output(collective="all_gather")]
    assert only(lines, "correct").status == "pass"
    # A collective that reduces has one.
    lines = [line.replace("     sum      -1", "              -1") for line in output()]
    assert only(lines, "correct").reason == "other_collective"


def test_threads_have_averages_of_their_own():
    lines = [line.replace("# nThread 1", "# nThread 2").replace("167.692", "150.1") for line in output()]
    assert only(lines, "correct").status == "pass"
    assert only([line.replace("167.692", "150.1") for line in output()], "correct").reason == "incomplete"


@pytest.mark.parametrize(
    "noise",
    [
        "a" * (1 << 20) + " NCCL ",
        "node-1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P" + "/a" * (1 << 19) + "!",
        "#  Rank  9 Group  0 Pid 1 on x device 0 [0] y" + " " * (1 << 20) + "z",
        "\n".join(["    1048576  262144 float", *["1"] * 50_000]),
        "\n".join(["node-1:1:1 [0] NCCL INFO x"] * 50_000),
        "\n".join(["pod | node-1:1:1 [0] NCCL INFO x"] * 50_000),
    ],
    ids=["long word", "long path", "long blank", "long row", "many lines", "many labels"],
)
def test_time_of_line_is_in_proportion(tmp_path, noise):
    lines = output()
    path = tmp_path / "test.out"
    path.write_text("\n".join([*lines[:-12], noise, *lines[-12:]]) + "\n")
    correct, fabric, _bandwidth = judge(parse_file(str(path)), FOUR).results
    assert (correct.status == "pass") == ("float" not in noise)
    assert fabric.status == "pass"


@pytest.mark.parametrize(("average", "whole"), [("167.692", True), ("167.6", True), ("168.1", False), ("166.0", False)])
def test_average_that_does_not_fit_rows(average, whole):
    lines = [line.replace("167.692", average) for line in output()]
    assert ("167.692" in "".join(output()), only(lines, "correct").status == "pass") == (True, whole)


def test_exact_figures_fit_each_other():
    words = "1000000000 250000000 float sum -1 100.00000 10000.0 300.00 0 100.00000 10000.0 300.00 0".split()
    assert nccl_table.parse_row(COLUMNS[1:].split(), words).contradiction is None


def test_time_of_processor_is_not_compared():
    names = COLUMNS[1:].split()
    at = len(names) - names[::-1].index("time") - 1
    words = "1000000 250000 float sum -1 5.00 200.00 300.00 0 9.00 200.00 300.00 0".split()
    assert nccl_table.parse_row(names, words).contradiction == "1000000 bytes in 9.00 us are not 200.00 GB/s"
    row = nccl_table.parse_row([*names[:at], "cputime", *names[at + 1 :]], words)
    assert row.contradiction is None


@pytest.mark.parametrize("time", ["-5.00", "x"])
def test_row_without_time_is_no_row(time):
    words = f"1000000 250000 float sum -1 {time} 200.00 300.00 0 5.00 200.00 300.00 0".split()
    assert nccl_table.parse_row(COLUMNS[1:].split(), words) is None


@pytest.mark.parametrize(
    ("time", "fits"),
    [("4.99", False), ("5.00", True), ("5.01", False), ("5", True), ("5.00e+00", True), ("0.00", False)],
)
def test_size_time_and_bandwidth_belong_together(time, fits):
    words = f"1000000 250000 float sum -1 {time} 200.00 300.00 0 5.00 200.00 300.00 0".split()
    row = nccl_table.parse_row(COLUMNS[1:].split(), words)
    assert (row.contradiction is None) == fits
    other = nccl_table.parse_row(COLUMNS[1:].split(), [*words[:5], *words[9:], *words[5:9]])
    assert (other.contradiction is None) == fits


@pytest.mark.parametrize(
    ("kind", "count", "ranks", "fits"),
    [
        ("float", 262144, 8, True),
        ("float", 32768, 8, True),
        ("float", 32767, 8, False),
        ("half", 524288, 8, True),
        ("half", 262144, 8, False),
        ("double", 131072, 8, True),
        ("f8e4m3", 1048576, 8, True),
        ("float128", 65536, 8, False),
    ],
)
def test_elements_that_size_holds(kind, count, ranks, fits):
    run = Run("nccl-tests", None, where=dict.fromkeys(range(ranks), "n"))
    run.header = {"min": 1 << 20, "max": 1 << 20, "step": 2, "step_kind": "factor", "threads": 1}
    run.rows = [nccl_table.Row(1 << 20, (kind, "sum", "-1"), 1.0, 1.0, 0, 0, count)]
    run.average = 1.0
    assert (run.completeness() is None) == fits


def test_row_before_any_header_is_of_another_run():
    row = next(line for line in output() if line.startswith("     1048576"))
    assert parse([row, *output()]).runs[0].tangled
    assert parse(["     1048576  what a pity", *output()]).runs[0].tangled is False
    assert not parse([f"{row} more words", *output()]).runs[0].tangled


def test_fragment_counts_only_inside_of_table():
    noise = "node-2:1002:1102 [0] NCCL INFO x"
    lines = output()
    place = lines.index(COLUMNS)
    early = [*lines[: place - 1], f"     1048576  262144  float {noise}", *lines[place - 1 :]]
    assert only(early, "correct").status == "pass"
    inside = [*lines[: place + 2], f"text of a user {noise}", *lines[place + 2 :]]
    assert only(inside, "correct").status == "pass"


@pytest.mark.parametrize(
    ("smallest", "largest", "step", "kind", "sizes"),
    [
        (8, 32, 2, "factor", [8, 16, 32]),
        (8, 32, 1, "factor", []),
        (0, 32, 2, "factor", []),
        (1, 2, 2, "factor", [1, 2]),
        (0, 2, 1, "bytes", [0, 1, 2]),
        (0, 2, 0, "bytes", []),
        (9, 8, 2, "factor", []),
    ],
)
def test_sizes_that_header_announces(smallest, largest, step, kind, sizes):
    run = Run("nccl-tests", None)
    run.header = {"min": smallest, "max": largest, "step": step, "step_kind": kind}
    assert run.sizes() == sizes


@pytest.mark.parametrize(
    ("time", "algbw", "fits"), [("5", "210.00", True), ("5.00", "210.00", False), ("5.00", "2e2", True)]
)
def test_numbers_are_as_exact_as_they_are_printed(time, algbw, fits):
    words = f"1000000 250000 float sum -1 {time} {algbw} 300.00 0 5.00 200.00 300.00 0".split()
    assert (nccl_table.parse_row(COLUMNS[1:].split(), words).contradiction is None) == fits


@pytest.mark.parametrize(
    "start",
    ["#       size", "#        (B)", "# Out of bounds", "# Avg bus", "# Collective test concluded", "#  Rank  3"],
)
def test_part_that_comes_twice_is_of_two_runs(start):
    lines = output()
    place = next(number for number, line in enumerate(lines) if line.startswith(start))
    assert parse(lines).runs[0].tangled is False
    found = parse([*lines[: place + 1], lines[place], *lines[place + 1 :]]).runs
    assert [run.tangled for run in found] == [True]


def test_row_behind_average_is_of_another_run():
    lines = output()
    row = next(line for line in lines if line.startswith("     4194304"))
    average = next(number for number, line in enumerate(lines) if line.startswith("# Avg bus"))
    assert parse([*lines[: average + 1], row, *lines[average + 1 :]]).runs[0].tangled is True
    assert parse([*lines[:average], row, *lines[average:]]).runs[0].tangled is False


def test_more_runs_than_are_kept_tangle_last(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_RUNS", 2)
    assert [run.tangled for run in parse(output() * 2).runs] == [False, False]
    assert [run.tangled for run in parse(output() * 3).runs] == [False, True]
    # A run that did not end is not separated from the next.
    cut = output()[:-5]
    assert [run.tangled for run in parse([*cut, *output()]).runs] == [True, True]


def test_row_that_continues_is_damaged_at_its_end():
    lines = output()
    place = next(number for number, line in enumerate(lines) if line.startswith("     4194304"))
    for more, damaged in ((0, False), (1, True), (2, True)):
        longer = lines[place] + "  1" * more
        run = parse([*lines[:place], longer, *lines[place + 1 :]]).runs[0]
        assert (bool(run.broken), len(run.rows)) == (damaged, 5 if damaged else 6)


def test_rows_have_largest_number(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_ROWS", 3)
    run = parse(output()).runs[0]
    assert (len(run.rows), run.broken > 0 or bool(run.fragment)) == (3, True)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("9" * 18, int("9" * 18)),
        ("9" * 19, -1),
        ("-1", -1),
        ("1.0", -1),
        ("", -1),
        ("\u0663", -1),
        ("\u00b2", -1),
    ],
)
def test_number_of_table(text, number):
    assert nccl_table._integer(text) == number


@pytest.mark.parametrize("largest", [0, 1 << 29, 1 << 31])
def test_maximum_that_was_reduced_never_grows(largest):
    lines = output()
    reduced = f"# Reducing maxBytes to {largest} due to memory limitation"
    run = parse([*lines[:3], reduced, *lines[3:]]).runs[0]
    assert run.header["max"] == min(largest, 1 << 30)


def test_values_out_of_bounds_count_failed_test():
    lines = output()
    for line, found in (("0 OK", 0), ("2 OK", 2), ("2 FAILED", 3), ("0 FAILED", 1)):
        assert parse([old.replace("0 OK", line) for old in lines]).runs[0].out_of_bounds == found


def test_failure_counts_what_was_wrong():
    broken = [line[:-1] + "3" if line.startswith(("     4194304", "    16777216")) else line for line in output()]
    found = only(broken, "correct")
    assert (found.expected, found.found, found.unit) == (0, 2, "wrong values")
    found = only([line.replace("0 OK", "7 FAILED") for line in output()], "correct")
    assert (found.expected, found.found) == (0, 8)


def test_failed_status_is_compared_with_none():
    judged = judge(parse(output()), RequestedRun(ranks=8, nodes=4, rc=3)).results[0]
    assert (judged.status, judged.expected, judged.found) == ("fail", 0, 3)
    assert judged.message == "the test ended with status 3"


def test_rows_that_were_not_compared_are_counted():
    lines = [line[:-1] + "N/A" if line.startswith("     4194304") else line for line in output()]
    found = only(lines, "correct")
    assert (found.status, found.reason) == ("undeterminable", "not_checked")
    assert found.message == "1 rows were not checked"


def test_header_that_announces_nothing_has_no_sizes():
    assert nccl_table.Run("nccl-tests", None).sizes() == []
    lines = [line for line in output() if not line.startswith("# nThread")]
    message = only(lines, "correct").message
    assert message.startswith("the header does not announce the sizes of the test")


def test_type_of_unknown_width_is_named():
    run = Run("nccl-tests", None)
    run.header = {"min": 8, "max": 8, "step": 2, "step_kind": "factor"}
    run.rows = [nccl_table.Row(8, ("float128", "sum", "-1"), 1.0, 1.0, 0, 0, 1)]
    assert run.completeness() == "how many bytes a float128 has is not known"


def test_reduced_maximum_without_header_announces_nothing():
    reduced = "# Reducing maxBytes to 1048576 due to memory limitation"
    (run,) = parse(["# Collective test starting: all_reduce_perf", reduced, *output()[5:]]).runs
    assert (run.header, run.sizes()) == ({}, [])


def test_rest_of_row_is_kept_up_to_length(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_ROW", 60)
    lines = output()
    place = next(number for number, line in enumerate(lines) if line.startswith("     4194304"))
    begun = lines[place][:47]
    assert len(begun) == 47
    for rest, broken, kept in (("0" * 13, 0, 60), ("0" * 14, 1, 0)):
        run = parse([*lines[:place], begun, rest]).runs[0]
        assert (run.broken, len(run.fragment)) == (broken, kept)


def test_row_that_is_cut_in_its_last_word_is_put_together():
    lines = output(collective="alltoall", in_place_wrong="N/A")
    place = next(number for number, line in enumerate(lines) if line.startswith("     4194304"))
    assert lines[place].endswith("N/A")
    run = parse([*lines[:place], lines[place][:-1], "A", *lines[place + 1 :]]).runs[0]
    assert (run.broken, run.fragment, len(run.rows)) == (0, "", 6)


NCCOM_COLUMNS = ["size(B)", "count(elems)", "type", "time:avg(us)", "algbw(GB/s)", "busbw(GB/s)"]


@pytest.mark.parametrize(
    ("words", "is_row"),
    [
        ("524288 131072 fp32 343.84 1.42 2.80", True),
        ("0 0 fp32 343.84 0.00 0.00", True),
        ("524288 131072 fp32 343.84 1.42", False),
        ("524288 131072 fp32 343.84 1.42 2.80 7", False),
        ("-8 131072 fp32 343.84 1.42 2.80", False),
        ("524288 -1 fp32 343.84 1.42 2.80", False),
        ("524288 131072 3.5 343.84 1.42 2.80", False),
        ("524288 131072 fp32 nan 1.42 2.80", False),
        ("524288 131072 fp32 343.84 -1.42 2.80", False),
        ("524288 131072 fp32 343.84 1.42 N/A", False),
    ],
)
def test_row_of_nccom_test_has_all_its_values(words, is_row):
    row = nccl_table.parse_nccom_row(NCCOM_COLUMNS, words.split())
    assert (row is not None) == is_row
    assert not is_row or (row.size, row.count, row.kind) == (
        int(words.split()[0]),
        int(words.split()[1]),
        ("fp32", "", ""),
    )


@pytest.mark.parametrize(
    ("size", "algbw", "contradiction"),
    [
        (10**12, "10000000.00", None),
        (100 << 30, "1000000.00", None),
        (100 << 30, "1010000.00", f"{100 << 30} bytes in 100.00000 us are not 1010000.00 GB/s"),
    ],
)
def test_bandwidth_of_nccom_test_is_decimal_or_binary(size, algbw, contradiction):
    words = f"{size} {size // 4} fp32 100.00000 {algbw} {algbw}".split()
    assert nccl_table.parse_nccom_row(NCCOM_COLUMNS, words).contradiction == contradiction


def test_reduced_maximum_is_kept_with_first_one():
    (run,) = parse(reduced(1 << 28)).runs
    assert (run.reduced_from, run.header["max"], run.completeness()) == (1 << 30, (1 << 28) + 5, None)
    assert parse(output()).runs[0].reduced_from is None
    for largest in (1 << 30, 1 << 31):
        lines = output()
        lines.insert(3, f"# Reducing maxBytes to {largest} due to memory limitation")
        assert parse(lines).runs[0].reduced_from is None


def test_sizes_of_complete_table_are_those_of_header():
    (run,) = parse(reduced(1 << 28)).runs
    assert run.missing_sizes(Plan().sizes, 8) == [1 << 30]
    assert run.missing_sizes([1 << 20, 1 << 28], 8) == []
    assert run.missing_sizes([1 << 21], 8) == [1 << 21]


def nccom_of(*sizes):
    run = nccl_table.Run("nccom-test", None)
    run.rows = [nccl_table.Row(size, ("fp32", "", ""), 1.0, None, None, None, size // 4) for size in sizes]
    return run


@pytest.mark.parametrize(
    ("measured", "missing"),
    [
        ([8, 1024, 1 << 17, 1 << 24], []),
        # Rounded down, or up to something for each rank, with a line for each size.
        ([2048, 2048, (1 << 17) - 64, (1 << 24) - 100], []),
        ([2048, (1 << 17) - 64, (1 << 24) - 100], [1024]),
        ([8, 1024, 1 << 17], [1 << 24]),
        ([8, 1024, 1 << 24], [1 << 17]),
        ([1 << 17, 1 << 24], [8, 1024]),
        ([1 << 16, 1 << 24], [8, 1024, 1 << 17]),
        ([], [8, 1024, 1 << 17, 1 << 24]),
    ],
)
def test_sizes_of_nccom_test_may_be_rounded(measured, missing):
    assert nccom_of(*measured).missing_sizes([8, 1024, 1 << 17, 1 << 24], 32) == missing


@pytest.mark.parametrize(
    ("sweep", "sizes"),
    [
        ((8, 64, 2, True), [8, 16, 32, 64]),
        ((8, 63, 4, True), [8, 32]),
        ((8, 20, 6, False), [8, 14, 20]),
        ((0, 8, 2, True), []),
        ((8, 64, 1, True), []),
        ((8, 64, 0, False), []),
        ((9, 8, 2, True), []),
    ],
)
def test_sizes_of_sweep(sweep, sizes):
    assert nccl_table.sweep(*sweep) == sizes


@pytest.mark.parametrize(
    ("wanted", "rows", "missing"),
    [
        ([8, 16, 32, 64], [8, 16, 32, 64], []),
        # 64 ranks: each small size may be rounded up by 4096 bytes, and still has a line of its own.
        ([8, 16, 32], [4096, 4096, 4096], []),
        ([8, 16, 32], [4096], [16, 32]),
        ([8, 16, 32, 2048, 4096], [2048, 4096], [8, 16, 32]),
        ([1024, 10240], [1024, 10240], []),
        ([1024, 2048], [1024, 1024], []),
        ([1024, 1 << 20], [1024, 1024], [1 << 20]),
        ([1 << 20], [], [1 << 20]),
    ],
)
def test_each_size_of_nccom_test_has_its_own_line(wanted, rows, missing):
    run = Run(NCCOM_TEST, NcclLog(), rows=[Row(size, ("fp32", "", ""), 1.0, None, None, None) for size in rows])
    assert run.missing_sizes(wanted, 64) == missing


WIDTHS = {
    "nccom-test": {
        **dict.fromkeys(("int8", "uint8"), 1),
        **dict.fromkeys(("fp16", "bf16", "int16", "uint16"), 2),
        **dict.fromkeys(("fp32", "int32", "uint32"), 4),
        **dict.fromkeys(("int64", "uint64"), 8),
    },
    "nccl-tests": {
        **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
        **dict.fromkeys(("half", "float16", "bfloat16"), 2),
        **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
        **dict.fromkeys(("int64", "uint64", "double"), 8),
    },
}


def row_of(size, kind, count):
    return Row(size, (kind, "", ""), 1.0, 1.0, 0.0, 0.0, count)


@pytest.mark.parametrize(("tool", "kind", "width"), [(tool, *one) for tool in WIDTHS for one in WIDTHS[tool].items()])
def test_elements_of_each_type_have_its_bytes(tool, kind, width):
    fits, wrong = (
        nccl_table.Run(tool, NcclLog(), rows=[row_of(size, kind, 101)]) for size in (101 * width, 99 * width)
    )
    assert fits._element_count_error() is None
    assert wrong._element_count_error() == f"a row of {99 * width} bytes has 101 elements of {kind}"


@pytest.mark.parametrize(("size", "whole"), [(1025, False), (1024, True), (960, True), (959, False)])
def test_size_is_rounded_down_by_64_bytes_a_rank(size, whole):
    header = {"min": 1024, "max": 1024, "step": 2, "step_kind": "factor"}
    run = Run("nccl-tests", NcclLog(), header=header, rows=[row_of(size, "int8", size)])
    wrong = f"a row has {size} bytes where the header announces 1024"
    assert run.completeness() == (None if whole else wrong)


@pytest.mark.parametrize(
    ("tool", "more", "closed"),
    [
        ("nccom-test", {"average": 1.0}, True),
        ("nccom-test", {"out_of_bounds": 0}, False),
        ("nccl-tests", {"average": 1.0}, False),
        ("nccl-tests", {"out_of_bounds": 0}, False),
        ("nccl-tests", {"average": 1.0, "out_of_bounds": 0}, True),
        ("nccl-tests", {"average": 1.0, "out_of_bounds": 0, "program": "all_reduce"}, False),
        ("nccl-tests", {"average": 1.0, "out_of_bounds": 0, "program": "all_reduce", "concluded": True}, True),
    ],
)
def test_closing_lines_of_each_tool(tool, more, closed):
    run = Run(tool, NcclLog(), **more)
    assert (run.closed, run.tangled) == (closed, False)


def test_size_that_nccl_tests_did_not_announce_is_missing():
    header = {"min": 1024, "max": 1024, "step": 2, "step_kind": "factor"}
    run = Run("nccl-tests", NcclLog(), header=header, rows=[row_of(1024, "int8", 1024)])
    assert (run.missing_sizes([1024], 1), run.missing_sizes([1000], 1)) == ([], [1000])
    # nccom-test announces none: a size may differ by a quarter.
    run = Run("nccom-test", NcclLog(), rows=[row_of(500, "int8", 500)])
    assert (run.missing_sizes([400], 1), run.missing_sizes([396], 1)) == ([], [396])


@pytest.mark.parametrize(
    ("reduced_from", "largest", "rows", "small"),
    [(2048, 512, 0, True), (2048, 1024, 0, False), (2048, 512, 1, False), (None, 512, 0, False)],
)
def test_memory_for_less_than_smallest_size(reduced_from, largest, rows, small):
    made = [row_of(512, "int8", 512)] * rows
    run = Run("nccl-tests", NcclLog(), header={"min": 1024, "max": largest}, rows=made, reduced_from=reduced_from)
    assert run.too_small is small


def test_memory_for_nothing_is_why_table_is_incomplete():
    run = Run("nccl-tests", NcclLog(), header={"min": 1024, "max": 512}, reduced_from=2048)
    assert run.completeness() == (
        "nothing was measured: the smallest requested size is 1024 bytes, and the memory holds at most 512"
    )


def test_broken_and_unfinished_lines_are_damaged():
    assert Run("nccl-tests", NcclLog(), broken=1, fragment="x").completeness() == "2 lines of the table are damaged"


@pytest.mark.parametrize(
    ("tool", "ranks", "fits"), [("nccom-test", 0, True), ("nccl-tests", 1, False), ("nccl-tests", 2, True)]
)
def test_bytes_of_all_ranks_fit_elements_of_one(tool, ranks, fits):
    run = Run(tool, NcclLog(), where=dict.fromkeys(range(ranks), "a"), rows=[row_of(200, "int8", 100)])
    assert (run._element_count_error() is None) is fits


@pytest.mark.parametrize(("average", "fits"), [(0.01, True), (0.011, False)])
def test_average_is_that_of_rows_but_for_rounding(average, fits):
    row = Row(100, ("int8", "", ""), 0.0, None, None, None, 100)
    wrong = f"the test printed an average of {average} GB/s, and that of the rows is 0"
    assert Run("nccom-test", NcclLog(), rows=[row], average=average).completeness() == (None if fits else wrong)


def test_rows_without_their_columns_are_stray():
    bare = [line for line in output() if "redop" not in line]
    assert [run.tangled for run in parse(bare).runs] == [True]
    assert [run.tangled for run in parse([*output(), *bare]).runs] == [False, True]


def fed(*lines):
    tables = nccl_table.Tables()
    for line in lines:
        tables.feed(line)
    return tables


VERSION = "# nccl-tests version 2.17.1 nccl-headers=22809 nccl-library=22809"
RANK = "#  Rank  {} {}Pid   1001 on     node-1 device  {} [0000:0{}:00] NVIDIA H100"


@pytest.mark.parametrize("size", ["0", "9" * 20])
def test_reduced_size_without_header_changes_nothing(size):
    (run,) = fed(VERSION, f"# Reducing maxBytes to {size} due to memory limitation").runs
    assert (run.reduced_from, run.header) == (None, {})


def test_closing_line_before_first_run_is_stray():
    (run,) = fed("# Avg bus bandwidth    : 1.5", VERSION).runs
    assert run.tangled
    (run,) = fed("# nothing of a test", VERSION).runs
    assert not run.tangled


def test_runs_above_number_tangle_last_one(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_RUNS", 2)
    found = parse([*output(), *output(), *output()]).runs
    assert [run.tangled for run in found] == [False, True]


def test_ranks_above_number_tangle_run(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_RANKS", 2)
    lines = [RANK.format(number, "Group  1 " if number else "", number, number) for number in range(3)]
    (run,) = fed(VERSION, *lines[:2]).runs
    assert (run.where, run.groups, run.tangled) == ({0: "node-1", 1: "node-1"}, {0, 1}, False)
    (run,) = fed(VERSION, *lines).runs
    assert (len(run.where), run.tangled) == (2, True)


@pytest.mark.parametrize(
    ("place", "word", "fits"),
    [(3, "sum", True), (3, "none", True), (3, "median", False), (4, "0", True), (4, "two", False), (2, "9", False)],
)
def test_row_has_known_operation_root_and_type(place, word, fits):
    columns = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong".split()
    words = "1024 256 float sum -1 1.00 1.02 1.02 0 1.00 1.02 1.02 0".split()
    words[place] = word
    assert (nccl_table.parse_row(columns, words) is not None) is fits


def test_second_average_of_nccom_test_tangles_run():
    columns = "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)"
    row = "     524288          131072    fp32          343.84           1.42           2.80"
    average = "Avg bus bandwidth:      2.8000GB/s"
    (run,) = fed(columns, row, average).runs
    assert (len(run.rows), run.average, run.tangled) == (1, 2.8, False)
    (run,) = fed(columns, row, average, average).runs
    assert run.tangled


def test_numbers_without_beginning_of_row_are_no_row():
    (run,) = fed(VERSION, COLUMNS, "   1.00  2.00").runs
    assert (run.fragment, run.broken, run.rows) == ("", 0, [])
