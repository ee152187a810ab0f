# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import gdsio as gds_io
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.probe import Ended
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.fake_gds_host import fixture

MOUNT = {"path": "/data", "mode": "p2pdma", "proof": "active", "reason": "", "answers": True, "exists": True}
KIB = 1048576


def line(name, gib, done=KIB, size=KIB, **changed):
    """Return a line with consistent figures, except the changed ones."""
    seconds = done / (1 << 20) / gib if gib else 0.0
    had = {"io": "READ", "threads": 8, "each": 1024, "rate": f"{gib:.6f}", "wait": 1200.5, "ops": done // 1024,
           "seconds": f"{seconds:.6f}", **changed}  # fmt: skip
    return (
        "IoType: {io} XferType: {0} Threads: {threads} DataSetSize: {1}/{2}(KiB) IOSize: {each}(KiB) "
        "Throughput: {rate} GiB/sec, Avg_Latency: {wait} usecs ops: {ops} total_time {seconds} secs\n"
    ).format(name, done, size, **had)


def run(name, gib, done=KIB, **changed):
    return gds_io.parse_gdsio(line(name, gib, done, **changed))


def runs(gpud=6.5, cpu_gpu=3.25):
    return {"GPUD": run("GPUD", gpud), "CPUONLY": run("CPUONLY", 7.0), "CPU_GPU": run("CPU_GPU", cpu_gpu)}


def test_published_line():
    assert gds_io.parse_gdsio(fixture("gdsio-gpud-write-4k.txt")) == [
        {
            "io_type": "WRITE",
            "transfer": "GPUD",
            "threads": 1,
            "done_kib": 1024,
            "size_kib": 1024,
            "throughput_gib_s": 0.013104,
            "latency_us": 264.007812,
            "ops": 256,
            "seconds": 0.074524,
            "io_size_kib": 4,
        }
    ]


def test_lines_among_others_and_without_any():
    text = "warming up\n" + line("GPUD", 6.5) + "\n" + line("CPUONLY", 1.0, 5)
    assert [(one["transfer"], one["done_kib"]) for one in gds_io.parse_gdsio(text)] == [("GPUD", KIB), ("CPUONLY", 5)]
    assert gds_io.parse_gdsio("file register error: GPUDirect Storage not supported on current file\n") == []


@given(st.text())
def test_any_text_is_read_without_error(text):
    assert isinstance(gds_io.parse_gdsio(text), list)


def test_without_threshold_figures_are_recorded_beside_each_other():
    verdict = gds_io.compare(MOUNT, runs())
    assert (verdict.status, verdict.unit) == ("undeterminable", "GiB/s")
    assert verdict.found == {"mode": "p2pdma", "proof": "active", "GPUD": 6.5, "CPUONLY": 7.0, "CPU_GPU": 3.25}
    assert verdict.reason == (
        "cuFile 6.50 GiB/s, through the CPU 3.25 GiB/s, ratio 2.00; there is no threshold with a source"
    )


@pytest.mark.parametrize(("baseline", "status"), [(6.0, "pass"), (6.5, "pass"), (6.6, "fail")])
def test_site_has_its_own_baseline(baseline, status):
    verdict = gds_io.compare(MOUNT, runs(), baseline)
    assert (verdict.status, verdict.expected) == (status, baseline)


@pytest.mark.parametrize("changes", [{"mode": "compat"}, {"proof": "passive"}, {"mode": "undeterminable"}])
def test_figure_of_unproved_direct_path_is_no_pass(changes):
    verdict = gds_io.compare({**MOUNT, **changes}, runs(), 0.1)
    assert verdict.status == "undeterminable"
    assert "is not that of a direct path" in verdict.reason


def test_missing_or_early_run_passes_nothing():
    verdict = gds_io.compare(MOUNT, {**runs(), "GPUD": []}, 0.1)
    assert verdict.reason == "gdsio gave no result for GPUD"
    verdict = gds_io.compare(MOUNT, {**runs(), "CPU_GPU": run("CPU_GPU", 3.0, 1024)}, 0.1)
    assert verdict.reason.startswith("gdsio's run of CPU_GPU: share of DataSetSize that was moved reads '0.0009")


def test_rate_of_nothing_proves_nothing():
    assert gds_io.compare(MOUNT, runs(cpu_gpu=0.0), 1.0).status == "undeterminable"


def test_published_run_of_threads_that_end_together_passes():
    # 8 threads of 1 GiB each.
    size = 8 * KIB
    two = {name: run(name, 6.8, 8363008, size=size) for name in ("GPUD", "CPU_GPU")}
    assert gds_io.compare(MOUNT, two, 6.0).status == "pass"


@pytest.mark.parametrize("which", ["GPUD", "CPUONLY", "CPU_GPU"])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"io": "WRITE"}, "IoType reads 'WRITE'"),
        ({"io": "RANDREAD"}, "IoType reads 'RANDREAD'"),
        ({"threads": 1}, "Threads reads '1'"),
        ({"each": 4}, "IOSize reads '4'"),
        ({"size": 1024, "done": 1024}, "DataSetSize reads '1024'"),
        ({"size": 2 * KIB, "done": 2 * KIB}, "DataSetSize reads '2097152'"),
        ({"size": 0}, "DataSetSize reads '0'"),
        ({"done": 0}, "share of DataSetSize that was moved reads '0.0'"),
        ({"done": KIB * 98 // 100 // 1024 * 1024}, "share of DataSetSize that was moved reads '0.97"),
        ({"done": 2 * KIB}, "share of DataSetSize that was moved reads '2.0'"),
        ({"ops": 1}, "KiB by ops less KiB moved reads '-1047552'"),
        ({"rate": "65.0"}, "distance of Throughput from what was moved in total_time reads '"),
        ({"rate": "0.0"}, "distance of Throughput"),
        ({"seconds": "0.0"}, "distance of Throughput from what was moved in total_time is missing"),
        ({"wait": "0.0"}, "Avg_Latency reads '0.0'"),
    ],
)
def test_run_other_than_one_asked_for_passes_nothing(which, changed, words):
    given_runs = {**runs(), which: run(which, 6.5, **changed)}
    verdict = gds_io.compare(MOUNT, given_runs, 0.1)
    assert verdict.status == "undeterminable" and f"gdsio's run of {which}: {words}" in verdict.reason


def test_line_of_another_transfer_or_twice_passes_nothing():
    assert "XferType reads 'CPU_GPU'" in gds_io.compare(MOUNT, {**runs(), "GPUD": run("CPU_GPU", 6.5)}, 0.1).reason
    twice = {**runs(), "GPUD": 2 * run("GPUD", 6.5)}
    assert "number of result lines reads '2'" in gds_io.compare(MOUNT, twice, 0.1).reason


def test_baseline_that_is_no_number_passes_nothing():
    for baseline in (float("nan"), float("inf"), 0.0, -1.0):
        assert gds_io.compare(MOUNT, runs(), baseline).status == "undeterminable"


def gdsio(answers):
    """Return a runner that answers by transfer type and I/O type, writes the file on a write, and keeps commands."""
    calls = []

    def runner(argv, seconds, environment):
        calls.append(argv)
        path = argv[argv.index("-f") + 1]
        if argv[argv.index("-I") + 1] == "1":
            with open(path, "w", encoding="utf-8") as stream:
                stream.write("x")
            return answers.get("write", Ended(0, "", 1.0))
        name = {number: word for word, number in gds_io.TRANSFERS.items()}[argv[argv.index("-x") + 1]]
        return answers.get(name, Ended(0, line(name, 5.0, 65536, size=65536), 1.0))

    runner.calls = calls
    return runner


def measure(tmp_path, answers, baseline=None):
    runner = gdsio(answers)
    facts = {"tools": {"gdsio": "/usr/local/cuda/gds/tools/gdsio"}}
    verdict = gds_io.bandwidth(facts, {**MOUNT, "path": str(tmp_path)}, 64, baseline, runner)
    assert list(tmp_path.iterdir()) == []
    return verdict, runner.calls


def test_one_file_is_written_and_read_by_each_path_and_removed(tmp_path):
    verdict, calls = measure(tmp_path, {}, 4.0)
    assert verdict.status == "pass"
    assert [call[1:5] for call in calls] == [
        ["-x", "2", "-I", "1"],
        ["-x", "0", "-I", "0"],
        ["-x", "1", "-I", "0"],
        ["-x", "2", "-I", "0"],
    ]
    assert {call[call.index("-s") + 1] for call in calls} == {"64M"}


def test_file_that_cannot_be_written(tmp_path):
    verdict, calls = measure(tmp_path, {"write": Ended(1, "No space left on device\n", 1.0)})
    assert (verdict.status, len(calls)) == ("undeterminable", 1)
    assert verdict.reason.endswith("(status 1): No space left on device")


@pytest.mark.parametrize("ended", [Ended(None, "", 300.0), Ended(-11, "", 1.0), Ended(0, "nothing", 1.0)])
def test_run_that_gives_no_figure(tmp_path, ended):
    verdict, _calls = measure(tmp_path, {"GPUD": ended}, 4.0)
    assert verdict.reason == "gdsio gave no result for GPUD"


def test_without_tool_nothing_is_known():
    verdict = gds_io.bandwidth({"tools": {"gdsio": None}}, MOUNT)
    assert (verdict.status, verdict.scope.device) == ("undeterminable", "/data")
    assert verdict.reason.startswith("gdsio is not installed")


@pytest.mark.parametrize("changes", [{"answers": False}, {"exists": False}])
def test_nothing_is_started_on_mount_that_is_missing(changes):
    facts = {"tools": {"gdsio": "/gdsio"}}
    mount = {**MOUNT, **changes, "reason": "/data is not there"}
    verdict = gds_io.bandwidth(facts, mount, runner=lambda *more: pytest.fail("started"))
    assert (verdict.status, verdict.reason) == ("undeterminable", "/data is not there")


def test_gdsio_that_cannot_be_started(tmp_path):
    facts = {"tools": {"gdsio": str(tmp_path)}}
    verdict = gds_io.bandwidth(facts, {**MOUNT, "path": str(tmp_path)})
    assert (verdict.status, verdict.reason) == ("undeterminable", f"{tmp_path} could not be started: Permission denied")
