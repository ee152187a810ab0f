# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a launcher, scheduler or library puts around a good output leaves it a pass, and a failure a failure."""

from __future__ import annotations

import io
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import parse as nccl_parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes.fake_nccl_output import output

P5 = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge", collective="all_reduce", rc=0)


def good(**fields):
    """Return a run on two p5 that passes all three verdicts."""
    plan = {
        "hosts": ("node-1", "node-2"),
        "gpus": 8,
        "smallest": 1 << 30,
        "largest": 1 << 34,
        "factor": 2,
        "busbw": lambda size: 480.0,
    }
    return output(**{**plan, **fields})


def statuses(lines, requested=P5):
    return [one.status for one in judge(parse(lines), requested).results]


# A list that grows with cases: what stands before each line; {} is the number of the line.
DECORATIONS = {
    "srun --label": "{0}: ",
    "mpirun --tag-output": "[1,{0}]<stdout>:",
    "prterun --tag-output": "[prterun-ip-10-0-0-1-2711@1,{0}]<stdout>: ",
    "mpirun --timestamp-output": "Sat Nov 29 05:52:{1:02} 2026[1,0]<stdout>:",
    "pdsh": "10.9.0.11: ",
    "collector": "| 2026-11-29T05:52:{1:02}.123456Z | node-1: ",
    "RFC 3339 with zone": "2026-11-29T05:52:{1:02}+00:00 ",
    "kubectl logs --prefix": "[pod/nccl-test-worker-0/main] ",
    "kubectl logs --timestamps": "2026-11-29T05:52:{1:02}.{0}Z ",
    "journald short": "Nov 29 05:52:{1:02} ip-10-0-0-1 srun[4711]: ",
    "journald, day of one digit": "Nov  9 05:52:{1:02} ip-10-0-0-1 srun[4711]: ",
    "systemd-cat": "nccl[{0}]: ",
    "eight blanks": "        ",
    "tab": "\t",
    "ts": "05:52:{1:02} ",
    "epoch": "1764395{1:03}.{0} ",
    "Docker Compose": "worker-1  | ",
    "GitHub Actions": "2026-11-29T05:52:{1:02}.1234567Z ",
    "quoted mail": "> ",
}


def decorated(lines, decoration):
    return [decoration.format(number, number % 60) + line for number, line in enumerate(lines)]


@pytest.mark.parametrize("decoration", DECORATIONS.values(), ids=DECORATIONS)
def test_decorated_lines_leave_good_output_good(decoration):
    assert statuses(good()) == ["pass"] * 3
    assert statuses(decorated(good(), decoration)) == ["pass"] * 3


@pytest.mark.parametrize("decoration", DECORATIONS.values(), ids=DECORATIONS)
def test_decorated_failures_stay_failures(decoration):
    failed = [line.replace("0 OK", "3 FAILED") for line in good()]
    assert statuses(decorated(failed, decoration))[0] == "fail"
    wrong = [line[:-1] + "7" if line.startswith("  1073741824") else line for line in good()]
    assert statuses(decorated(wrong, decoration))[0] == "fail"
    assert statuses(decorated(good(network="Socket", gdr=""), decoration))[1] == "fail"
    assert statuses(decorated(good(busbw=lambda size: 90.0), decoration))[2] == "fail"


@pytest.mark.parametrize("decoration", ["~~ ", "@@{0}@@ ", "a b c d "])
def test_failed_closing_line_counts_in_its_own_decoration(decoration):
    lines = good()
    last = next(number for number, line in enumerate(lines) if "Out of bounds" in line)
    lines[last] = decoration.format(1) + "# Out of bounds values : 3 FAILED"
    assert statuses(lines)[0] == "fail"


def test_lines_of_two_decorations_are_read():
    lines = good()
    half = len(lines) // 2
    mixed = decorated(lines[:4], "2026-11-29T05:52:{1:02}Z ") + lines[4:half] + decorated(lines[half:], "node-1: ")
    assert statuses(mixed)[0] != "pass"
    again = decorated(lines, "node-1: ")
    again[:3] = decorated(lines[:3], "2026-11-29T05:52:{1:02}Z ")
    again[2] = f"node-1: {lines[2]}"
    assert statuses(again) == ["pass"] * 3


def test_decoration_takes_nothing_of_row():
    # After a decoration of digits and a blank, a row without it keeps its size.
    lines = decorated(good(), "{0} ")
    assert statuses(lines) == ["pass"] * 3
    rows = parse(decorated(good()[:3], "{0} ") + good()[3:]).runs[0].rows
    assert [row.size for row in rows] == [1 << power for power in range(30, 35)]


def test_decorations_are_bounded(monkeypatch):
    monkeypatch.setattr(nccl_parse, "MAX_DECORATIONS", 2)
    noise = [f"{mark}x # nThread 1 nGpus 1 minBytes 8" for mark in "!$%&="]
    found = nccl_parse._Decorations()
    assert [found.strip(line) != line for line in noise] == [True, True, False, False, False]
    long = "x" * (nccl_parse.MAX_DECORATION + 1) + " # nThread 1 nGpus 1 minBytes 8"
    assert nccl_parse._Decorations().strip(long) == long


# A list that grows with cases: lines that real programs print into a run that goes well.
HARMLESS = [
    "srun: error: Unable to create step for job 7: Job/step already completing or completed, retrying",
    "srun: error: Task launch for StepId=7.0 failed on node node-2: Socket timed out on send/recv, retrying",
    "slurmstepd: error: mpi/pmix_v4: pmixp_coll_log: collective timeout seq=0",
    "slurmstepd: error: couldn't chdir to `/home/x': No such file or directory: going to /tmp instead",
    "# note: raise the limit if a rank runs out of memory",
    "python: warning: out of memory killer is not configured",
    "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)",
    "srun: Step created for StepId=7.0",
    "WARNING: Open MPI accepted a TCP connection from what appears to be a process that is not its own",
    "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'",
    "[node-1:01234] mca: base: components_register: component 'btl_openib' is deprecated",
    "/usr/bin/id: cannot find name for group ID 1000",
    "bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)",
    "pyxis: imported docker image: nvcr.io#nvidia/pytorch:25.08-py3",
    "",
]


@pytest.mark.parametrize("line", HARMLESS)
@pytest.mark.parametrize("place", [0, 5, 30, -8, -1])
def test_harmless_line_leaves_good_output_good(line, place):
    lines = good()
    lines.insert(place, line)
    assert statuses(lines) == ["pass"] * 3


def test_noted_line_stands_in_verdict():
    lines = [*good(), HARMLESS[2]]
    judged = judge(parse(lines), P5)
    assert "in spite of: slurmstepd: error: mpi/pmix_v4" in judged.results[0].message
    assert judged.facts["notes"] == [HARMLESS[2]]
    without_rc = judge(parse(lines), RequestedRun(ranks=16, nodes=2)).results[0]
    assert (without_rc.status, without_rc.reason) == ("undeterminable", "unclear_lines")
    failed = judge(parse(lines), RequestedRun(ranks=16, nodes=2, rc=1)).results[0]
    assert failed.message == f"the test ended with status 1: {HARMLESS[2]}"


FATAL = [
    "srun: error: node-2: task 3: Exited with exit code 1",
    "srun: error: node-2: tasks 8-15: Killed",
    "srun: error: node-2: task 9: Out Of Memory",
    "srun: error: node-2: task 9: Bus error (core dumped)",
    "srun: error: Node failure on node-2",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
    "slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-11-27T22:00:00 DUE TO TIME LIMIT ***",
    "node-2: Test CUDA failure common.cu:892 'out of memory'",
    "node-2: Test NCCL failure all_reduce.cu:60 'unhandled system error'",
    "Segmentation fault (core dumped)",
    "mpirun noticed that process rank 3 with PID 0 on node node-2 exited on signal 9 (Killed).",
    "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
    # Pyxis 0.24.0 with Enroot 4.1.2.
    "slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /fsx/images/train.sqsh",
    "slurmstepd-n1: error: pyxis:     [ERROR] No such file or directory: /fsx/images/train.sqsh",
    "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /spool/%n/pmix.35.1 at /x: No such file or directory",
    "slurmstepd: error: pyxis: --container-mounts: source path does not exist: /no/such",
    "slurmstepd: error: pyxis: couldn't chdir to /no/such: No such file or directory",
]


@pytest.mark.parametrize("line", FATAL)
@pytest.mark.parametrize("decoration", ["", "node-1: ", "2026-11-29T05:52:00Z "])
def test_line_that_ends_task_fails_test(line, decoration):
    lines = good()
    lines.insert(-8, line)
    assert statuses(decorated(lines, decoration))[0] == "fail"


def test_container_that_does_not_start_is_reason():
    lines = [
        "slurmstepd-n1: error: pyxis: container start failed with error code: 1",
        "slurmstepd-n1: error: pyxis: printing enroot log file:",
        "slurmstepd-n1: error: pyxis:     enroot-mount: failed to mount: /a at /b: No such file or directory",
        "slurmstepd-n1: error: Failed to invoke spank plugin stack",
        "srun: error: n1: tasks 0-1: Exited with exit code 1",
    ]
    correct = judge(parse(lines), RequestedRun(ranks=2, nodes=1, rc=1)).results[0]
    assert correct.message == f"the test failed: {' '.join(lines[2].split())}"


@pytest.mark.parametrize(
    ("length", "known"), [(nccl_parse.MAX_DECORATION, True), (nccl_parse.MAX_DECORATION + 1, False)]
)
def test_decoration_has_longest_length(length, known):
    prefix = "x-" * (length // 2 - 1) + (": " if length % 2 == 0 else "-: ")
    assert len(prefix) == length
    assert (statuses([prefix + line for line in good()]) == ["pass"] * 3) is known


def test_line_longer_than_any_is_read_in_pieces():
    text = io.BytesIO(b"x" * (nccl_parse.MAX_LINE + 1) + b"\n\xff\n")
    assert [len(line) for line in nccl_parse.read_lines(text)] == [nccl_parse.MAX_LINE, 2, 2]


@pytest.mark.parametrize(("extra", "rows"), [(0, 5), (1, 4)])
def test_row_longer_than_table_line_is_not_read(extra, rows):
    lines = good()
    first = next(number for number, line in enumerate(lines) if line.startswith("  1073741824"))
    lines[first] = lines[first].ljust(nccl_parse.MAX_TABLE_LINE + extra)
    assert len(parse(lines).runs[0].rows) == rows


@pytest.mark.parametrize("kind", ["directory", "pipe", "gone"])
def test_output_that_is_not_file_is_rejected_by_name(tmp_path, kind):
    path = tmp_path / "output"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    why = "No such file or directory" if kind == "gone" else "it is a directory, pipe or device"
    before = os.listdir("/proc/self/fd")
    with pytest.raises(NodeError, match=f"could not read the output {path} .{why}.: use the file"):
        nccl_parse.parse_file(str(path))
    assert os.listdir("/proc/self/fd") == before


NCCOM = [
    "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
    "     262144           65536    fp32          791.38           0.31           0.61",
    "Avg bus bandwidth:      0.6100GB/s",
]


# No line of nccom-test begins an output as one of nccl-tests does: only the launchers' own labels are known.
@pytest.mark.parametrize("label", ["0: ", "  12: ", "[1,0]<stdout>:", "[prterun-ip-10-0-0-1-2711@1,0]<stdout>: "])
def test_label_of_launcher_before_table_of_nccom(label):
    (run,) = parse(label + line for line in NCCOM).runs
    assert ([row.busbw for row in run.rows], run.average) == ([0.61], 0.61)


def test_row_with_host_name_behind_is_whole():
    lines = good()
    row = next(number for number, line in enumerate(lines) if line.startswith("  1073741824"))
    joined = lines[row] + "node-1.cluster.local:1000:1100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    assert statuses([*lines[:row], joined, *lines[row + 1 :]]) == ["pass"] * 3
    assert len(parse([*lines[:row], joined, *lines[row + 1 :]]).runs[0].rows) == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\x1b[K\n"),
        lambda text: text.replace("\n", "\x1b[0m\x1b[K\n"),
        lambda text: f"\x1b]0;srun\x07{text}",
        lambda text: f"\x1b]0;srun\x1b\\{text}",
        lambda text: text.replace("\n", "\n\x1b[2K\x1b[1G"),
        lambda text: text.replace("\n", "\x1b[?25l\n"),
        lambda text: text.replace("NET/Libfabric", "\x1b[1;32mNET/Libfabric\x1b[0m"),
    ],
)
def test_sequences_of_a_terminal_are_no_text(change):
    text = change("\n".join(output()) + "\n")
    correct, fabric, _bandwidth = judge(
        parse(text.splitlines(keepends=True)), RequestedRun(ranks=8, nodes=4, rc=0)
    ).results
    assert (correct.status, fabric.status) == ("pass", "pass")
