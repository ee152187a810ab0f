# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import tracemalloc
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import parse as slurm_parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.look import by_node, container_options
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[4] / "fixtures/slurm-22.05"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8")


def test_recorded_nodes():
    first, second, third = slurm_parse.nodes(recorded("nodes"))
    assert first == {
        "name": "n1",
        "state": "MIXED",
        "flags": [],
        "next_state": None,
        "availability": "takes",
        "availability_reason": "partly allocated",
        "up": True,
        "drained": False,
        "slurmd_started": "2026-11-28T02:25:15",
        "reason": None,
        "reason_by": None,
        "reason_at": None,
        "boot_time": "2026-11-27T22:38:44",
        "cpus": 8,
        "cpus_allocated": 1,
        "memory_mib": 1000,
        "memory_allocated_mib": 0,
        "gpus": 8,
        "gpu_type": None,
        "gpus_allocated": 3,
        "gres": "gpu:8",
        "features": ["p5", "efa"],
        "partitions": ["main"],
        "address": "127.0.0.1",
        "hostname": "n1",
        "version": "22.05.8",
    }
    assert (second["partitions"], second["gpus_allocated"]) == (["main", "debug"], 4)
    # The reason was written by a person and imitates other keys.
    assert (third["state"], third["flags"], third["reason"], third["reason_by"], third["reason_at"]) == (
        "IDLE",
        ["DRAIN"],
        "gpu 3: Xid=79 State=IDLE fell off",
        "root",
        "2026-11-28T02:25:20",
    )


def test_recorded_partitions():
    main, debug = slurm_parse.partitions(recorded("partitions"))
    assert (main["default"], main["node_count"], main["max_nodes"], main["max_seconds"], main["accounts"]) == (
        True,
        3,
        None,
        86400,
        None,
    )
    assert (debug["default"], debug["max_nodes"], debug["max_seconds"], debug["accounts"], debug["state"]) == (
        False,
        1,
        None,
        ["research"],
        "UP",
    )


def test_partition_without_limits():
    (found,) = slurm_parse.partitions(
        "PartitionName=a Nodes=n[1-2] DefaultTime=1:00:00 OverSubscribe=EXCLUSIVE\nno=1\n"
    )
    assert found == {
        "name": "a", "state": "UNKNOWN", "default": False, "nodes": "n[1-2]", "node_count": 0, "max_nodes": None,
        "max_seconds": None, "default_seconds": 3600, "accounts": None, "exclusive": True,
    }  # fmt: skip
    assert [one["exclusive"] for one in slurm_parse.partitions(recorded("partitions"))] == [False, False]


def test_recorded_answers_of_controller():
    assert slurm_parse.controllers(recorded("ping")) == [{"role": "primary", "host": "head", "up": True}]
    assert slurm_parse.controllers(recorded("ping_down")) == [{"role": "primary", "host": "head", "up": False}]
    assert slurm_parse.mpi_types(recorded("mpi")) == ["cray_shasta", "none", "pmi2", "pmix", "pmix_v4"]
    settings = slurm_parse.settings(recorded("config"))
    assert (settings["MinJobAge"], settings["Prolog"], settings["MaxArraySize"]) == ("300 sec", None, "1001")
    assert slurm_parse.version("slurm-wlm 22.05.8\n") == "22.05.8"
    assert container_options(recorded("help")) == 0


def test_container_options_count_loaded_pyxis():
    # Shape of Pyxis's option in srun's help; the text is invented.
    line = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
    assert [container_options(recorded("help") + line * times) for times in (1, 2)] == [1, 2]


@pytest.mark.parametrize(
    ("name", "state", "reason", "code", "signal"),
    [
        ("job_name", "RUNNING", None, 0, 0),
        ("job_failed", "FAILED", "NonZeroExitCode", 3, 0),
        ("job_signal", "FAILED", "JobLaunchFailure", 0, 9),
        ("job_cancelled", "CANCELLED", None, 0, 15),
        ("job_dep", "PENDING", "Dependency", 0, 0),
    ],
)
def test_recorded_jobs(name, state, reason, code, signal):
    (job,) = slurm_parse.jobs(recorded(name))
    assert (job["state"], job["reason"], job["exit_code"], job["signal"]) == (state, reason, code, signal)
    assert (job["stdout"], job["restarts"]) == (f"/rig/output/{job['job_id']}", 0)


def test_job_name_may_contain_any_text():
    (job,) = slurm_parse.jobs(recorded("job_name").replace("a b=c", "x JobState=COMPLETED ExitCode=0:0"))
    assert (job["name"], job["state"], job["nodes"]) == ("x JobState=COMPLETED ExitCode=0:0", "RUNNING", "n1")


def test_recorded_array():
    jobs = slurm_parse.jobs(recorded("job_array"))
    assert [(job["job_id"], job["array_job_id"], job["array_task_id"], job["state"]) for job in jobs] == [
        (2, 2, "2-5%2", "PENDING"),
        (4, 2, "1", "RUNNING"),
        (3, 2, "0", "RUNNING"),
    ]


def test_recorded_accounting():
    jobs = {job["job_id"]: job for job in slurm_parse.parse_sacct(SACCT)}
    assert (jobs[6]["state"], jobs[6]["exit_code"], jobs[7]["signal"]) == ("FAILED", 3, 9)
    assert (jobs[3]["array_job_id"], jobs[3]["array_task_id"], jobs[1]["name"]) == (2, "0", "a|b=c")
    assert (jobs[8]["state"], jobs[8]["nodes"]) == ("CANCELLED", None)
    assert slurm_parse.parse_sacct("sacct: error\n\n") == []


# Rows as recorded from 22.05.8, the columns in the order of SACCT_FORMAT.
SACCT = """\
1|1|RUNNING|0:0|None|main|n1|3|a|b=c
6|6|FAILED|3:0|None|main|n3|0|x.sh
3|2_0|RUNNING|0:0|None|debug|n2|3|y.sh
7|7|FAILED|0:9|None|main|n3|0|z.sh
8|8|CANCELLED by 1000|0:0|None|main|None assigned|0|z.sh
"""


def test_recorded_queue():
    jobs = slurm_parse.queue(recorded("squeue2"))
    assert [(job["job_id"], job["id"], job["nodes"], job["name"]) for job in jobs][1:] == [
        (4, "2_1", ["n2"], jobs[1]["name"]),
        (1, "1", ["n1"], "a b=c"),
    ]
    assert by_node(jobs) == {"n1": [1], "n2": [3, 4]}
    assert {job["state"] for job in jobs} == {"RUNNING"} and {job["user"] for job in jobs} == {"root"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:8", (8, None)),
        ("gpu", (1, None)),
        ("gpu:h100:8(S:0-1)", (8, "h100")),
        ("gpu:a100:4(IDX:0,2-4),nvme:1", (4, "a100")),
        ("gpu:p5:2,gpu:p4:3", (5, "p5")),
        ("gpu:1g.10gb:8", (8, "1g.10gb")),
        ("gpu:3090:2(S:0)", (2, "3090")),
        ("gpu:tesla:no_consume:4", (4, "tesla")),
        ("gpu:no_consume:4", (4, None)),
        ("gpu:(null):3(IDX:0-2)", (3, None)),
        ("gpu:(null):0(IDX:N/A)", (0, None)),
        ("gpu:a100:2(IDX:0,3),gpu:1g.10gb:1(IDX:4)", (3, "a100")),
        ("gpu:h100", (1, "h100")),
        ("gpu:h100:8:9", (0, None)),
        ("(null)", (0, None)),
        ("gpumem:80", (0, None)),
        (None, (0, None)),
    ],
)
def test_gpus(text, expected):
    assert slurm_parse.gpus(text) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("2:00:00", 7200),
        ("1-0", 86400),
        ("1-02:03:04", 93784),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_duration_is_parsed(text, seconds):
    assert slurm_parse.duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("q-[1-2,05],n", ["q-1", "q-2", "q-05", "n"]),
        ("q-[08-10]", ["q-08", "q-09", "q-10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_node_expression_is_expanded(text, names):
    assert slurm_parse.expand(text) == names


# As ParallelCluster 3.12.1 and newer leave a node, in the order of Slurm 25.05 (src/api/node_info.c). The rest of the
# line is recorded from 22.05.8.
LINE = recorded("nodes").splitlines()[2].partition(" Reason=")[0]
OURS = "mlcluster health: gpu.count: 2 GPUs are missing"


@pytest.mark.parametrize(
    ("end", "reason", "by", "at"),
    [
        (f"Reason={OURS} [root@2026-01-02T03:04:05]", OURS, "root", "2026-01-02T03:04:05"),
        (
            f"Reason={OURS} [root@2026-01-02T03:04:05] InstanceId=i-1 InstanceType=p5.48xlarge",
            OURS, "root", "2026-01-02T03:04:05",
        ),
        (
            f"Reason={OURS} [root@2026-01-02T03:04:05]  Comment=x [y@2026] Extra={{}} InstanceType=p5.48xlarge",
            OURS, "root", "2026-01-02T03:04:05",
        ),
        ("Reason=slow [ana@2026-01-02T03:04:05] ReservationName=r", "slow", "ana", "2026-01-02T03:04:05"),
        ("Reason=slow [ana@2026-01-02T03:04:05] KeyOf2030=x", "slow", "ana", "2026-01-02T03:04:05"),
        ("Reason=slow [ana@2026-01-02T03:04:05]         and hot", "slow and hot", "ana", "2026-01-02T03:04:05"),
        ("Reason=slow InstanceId=i-1 InstanceType=p5.48xlarge", "slow", None, None),
        ("InstanceId=i-1 InstanceType=p5.48xlarge", None, None, None),
    ],
)  # fmt: skip
def test_reason_ends_at_next_key(end, reason, by, at):
    (node,) = slurm_parse.nodes(f"{LINE} {end}\n")
    assert (node["reason"], node["reason_by"], node["reason_at"]) == (reason, by, at)


def test_used_gpus_are_counted_without_type():
    line = LINE.replace("Gres=gpu:8", "Gres=gpu:8(S:0-1)").replace("GresUsed=gpu:0", "GresUsed=gpu:(null):3(IDX:0-2)")
    (node,) = slurm_parse.nodes(line)
    assert (node["gpus"], node["gpus_allocated"]) == (8, 3)


def test_reboot_as_soon_as_possible_is_recorded():
    # Recorded from Slurm 22.05.8 while a job ran, after `scontrol reboot ASAP n1`.
    line = LINE.replace("State=IDLE+DRAIN", "State=MIXED+DRAIN+REBOOT_REQUESTED")
    line = line.replace("MCS_label=N/A ", "MCS_label=N/A NextState=RESUME ")
    (node,) = slurm_parse.nodes(f"{line} Reason=Reboot ASAP [root@2026-11-29T06:09:08]")
    assert (node["next_state"], node["availability"], node["reason"]) == ("RESUME", "returns", "Reboot ASAP")


@given(st.text(max_size=200))
def test_any_text_is_parsed_without_error(text):
    for parser in (
        slurm_parse.nodes,
        slurm_parse.partitions,
        slurm_parse.jobs,
        slurm_parse.parse_sacct,
        slurm_parse.queue,
        slurm_parse.settings,
        slurm_parse.mpi_types,
        slurm_parse.gpus,
        slurm_parse.duration,
        slurm_parse.exit_status,
    ):
        parser(text)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("2-5%2", "2 3 4 5"), ("0-6:3%9", "0 3 6"), ("1,3-4,9", "1 3 4 9"), ("7", "7"), ("", "")],
)
def test_array_tasks_are_expanded(text, tasks):
    assert slurm_parse.task_ids(text) == tasks.split()


HUGE = "9" * 5000


@contextlib.contextmanager
def little_memory():
    """Nothing is made that takes a MiB: a list of what these texts stand for would take all that there is."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


FIRST = slurm_parse.ARRAY_MOST - 1


@pytest.mark.parametrize(
    "text",
    ["0-999999999", f"0-{HUGE}", HUGE, f"0-9:{HUGE}", "0-9:0", f"0-{FIRST + 1}", ",".join(["0-2000000"] * 3)],
    ids=["long", "digits", "one", "step", "no step", "beyond", "many"],
)
def test_impossible_array_is_rejected_before_expansion(text):
    with little_memory(), pytest.raises(NodeError, match=f"whose indices end at {FIRST} "):
        slurm_parse.task_ids(text)


def test_last_array_index_is_accepted():
    assert slurm_parse.task_ids(f"{FIRST - 2}-{FIRST}:2") == [str(FIRST - 2), str(FIRST)]
    assert slurm_parse.task_ids("5-1") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node[0-99999999]", r"it has 100000000 names or more, of which Slurm accepts 65536 at most"),
        ("a[0-999]b[0-999]", "it has 1000000 names"),
        ("a" + "[0-9]" * 40, f"it has {10**40} names"),
        (f"n[1-{HUGE}]", "is not a range of numbers"),
        ("n[a-b]", "'a-b' in it is not a range of numbers"),
        ("n[-]", "'-' in it is not a range of numbers"),
    ],
)
def test_impossible_node_list_is_rejected_before_expansion(text, words):
    with little_memory(), pytest.raises(NodeError, match=words):
        slurm_parse.expand(text)


def test_largest_node_list_is_accepted():
    names = slurm_parse.expand("n[00001-65536]")
    assert (len(names), names[0], names[-1]) == (slurm_parse.HOSTS_MOST, "n00001", "n65536")
    with pytest.raises(NodeError, match="it has 65537 names or more"):
        slurm_parse.expand("n[0-65535],n")


def test_associations():
    text = "root||||\nroot|root||normal\nresearch|ana|gpu|normal,fast\n"
    assert slurm_parse.associations(text) == [
        {"account": "root", "user": "root", "partition": None, "qos": ["normal"]},
        {"account": "research", "user": "ana", "partition": "gpu", "qos": ["normal", "fast"]},
    ]


def test_licenses():
    # As scontrol 22.05.8 prints them, cut short.
    text = "LicenseName=matlab Total=2 Used=1 Free=1 Reserved=0 Remote=no\nLicenseName=idl@db Total=4 Used=0 Free=4\n"
    assert slurm_parse.licenses(text) == {"matlab": 2, "idl@db": 4}
    assert slurm_parse.licenses("LicenseName=x Used=1\n") == {"x": 0}
    assert slurm_parse.licenses("No licenses configured in Slurm.\n") == {}


def test_numbered_settings_are_joined():
    text = "Prolog[0]  = /a\nProlog[1]  = /b/*\nEpilog[0] = (null)\nPrologFlags = (null)\nTaskProlog = /c\n"
    found = {"Prolog": "/a,/b/*", "Epilog": None, "PrologFlags": None, "TaskProlog": "/c"}
    assert slurm_parse.settings(text) == found
    # A numbered setting without a value, a line without a setting, and a second value of another.
    text = "Prolog[0] = /a\nProlog[1] = (null)\nEpilog\nEpilog = /e\nEpilog = /f\nSlurmctld(primary) at a = b\n"
    assert slurm_parse.settings(text) == {"Prolog": "/a", "Epilog": "/e"}
    assert slurm_parse.settings("Prolog[0] = (null)\nProlog[1] = /b\n") == {"Prolog": None}


# As Slurm 22.05.8 printed them for `sbatch s.sh StdOut=/x UserId=5 JobState=COMPLETED`, and more.
_ARGUMENTS = "StdOut=/x UserId=5 JobState=COMPLETED WorkDir=/y StdOut=/z"


@pytest.mark.parametrize(
    "where",
    ["Command=/rig/output/tmp9fm7cznd.sh {}", "Command=/a.sh SubmitLine=sbatch /a.sh {}", "SubmitLine=srun /a.sh {}"],
)
def test_script_arguments_are_not_fields(where):
    text = recorded("job_name").replace("Command=/rig/output/tmp9fm7cznd.sh", where.format(_ARGUMENTS))
    (job,) = slurm_parse.jobs(text, of=1)
    assert (job["state"], job["stdout"], job["stderr"]) == ("RUNNING", "/rig/output/1", "/rig/output/1")


def test_keys_behind_text_that_looks_like_command_are_read():
    text = f"JobId=2 JobName=x {_TAIL} Command=/a.sh b WorkDir=/y Comment=x Command=q StdOut=/o\n"
    assert [job["stdout"] for job in slurm_parse.jobs(text)] == ["/o"]


@pytest.mark.parametrize(
    ("end", "requeued"), [("Requeue=1", True), ("Requeue=0", False), ("", False), ("Requeue=10", False)]
)
def test_job_that_may_be_requeued(end, requeued):
    text = f"JobId=2 JobName=Requeue=1 UserId=root(0) JobState=RUNNING {end}\n"
    assert slurm_parse.requeues(text) is requeued


def test_argument_with_line_end_is_not_another_job():
    text = recorded("job_name").replace("tmp9fm7cznd.sh", "s.sh x\nJobId=1 JobName=y UserId=a(1) JobState=COMPLETED")
    with pytest.raises(NodeError, match="queried job 1 and its name or comment has text such as UserId="):
        slurm_parse.jobs(text, of=1)


# As scontrol 22.05.8 printed them for jobs that waited, shortened at the end; the names and comments are hostile.
_TAIL = "UserId=root(0) GroupId=root(0) JobState=PENDING Reason=Priority ExitCode=0:0 Partition=main"
HOSTILE = {
    "a name with fields": f"JobId=2 JobName=x UserId=root(0) JobState=COMPLETED ExitCode=0:0 {_TAIL}\n",
    "a name with a job": f"JobId=2 JobName=x\nJobId=2 JobName=y UserId=a(1) JobState=COMPLETED ExitCode=0:0 {_TAIL}\n",
    "a name with a job of another number": f"JobId=2 JobName=x\nJobId=7 UserId=a(1) JobState=COMPLETED {_TAIL}\n",
    "a comment with fields": f"JobId=2 JobName=x {_TAIL} Comment=a\nJobId=77 JobState=COMPLETED ExitCode=0:0\n",
    "a comment with the same job": (
        f"JobId=2 JobName=x {_TAIL} Comment=a\nJobId=2 JobName=x UserId=root(0) JobState=COMPLETED ExitCode=0:0\n"
    ),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_user_text_is_never_job_state(text):
    with pytest.raises(NodeError, match="queried job 2 and its name or comment has text such as UserId="):
        slurm_parse.jobs(text, of=2)


def test_multiline_comment_belongs_to_its_job():
    text = f"JobId=2 JobName=x {_TAIL} Comment=one\ntwo lines\nJobId=3 JobName=y UserId=a(1) JobState=COMPLETED\n"
    assert [(job["job_id"], job["state"]) for job in slurm_parse.jobs(text, of=2)] == [(2, "PENDING")]
    assert slurm_parse.jobs("", of=2) == []


def test_node_without_counters_has_zero_in_use():
    (node,) = slurm_parse.nodes("NodeName=n1 State=IDLE\n")
    zero = ("cpus", "cpus_allocated", "memory_mib", "memory_allocated_mib", "gpus", "gpus_allocated")
    assert [node[name] for name in zero] == [0] * len(zero)
    assert (node["reason"], node["reason_by"], node["reason_at"]) == (None, None, None)


@pytest.mark.parametrize("text", ["1:2:3:4", "1-2:3:4:5", "1:2:x", "x-1", "-1"])
def test_invalid_duration_is_none(text):
    assert slurm_parse.duration(text) is None


def test_longest_durations():
    assert slurm_parse.duration("1:2:3") == 3723
    assert slurm_parse.duration("2-1:2:3") == 2 * 86400 + 3723


@pytest.mark.parametrize("line", ["JobId=7 JobName=x UserId=a", "JobState=RUNNING UserId=a", "Nothing=1"])
def test_record_without_number_or_state_is_skipped(line):
    assert slurm_parse.job(line) is None


def test_record_of_several_lines_is_one_job():
    text = "JobId=7 JobName=a\nb UserId=x(1) JobState=RUNNING\nNodeList=n1 Restarts=2\n"
    (job,) = slurm_parse.jobs(text)
    assert (job["name"], job["nodes"], job["restarts"]) == ("a b", "n1", 2)
    assert slurm_parse.jobs(text, 8) == []


def test_ambiguous_job_is_reported():
    text = "JobId=7 JobName=x UserId=y UserId=x(1) JobState=RUNNING\n"
    with pytest.raises(NodeError, match="queried job 7 and its name or comment"):
        slurm_parse.jobs(text)
    with pytest.raises(NodeError, match="queried job 9 and its name or comment"):
        slurm_parse.jobs(text, 9)


def test_accounted_job_without_node():
    row = "7|7|CANCELLED by 0|0:0|None|main|None assigned|0|x\n"
    (job,) = slurm_parse.parse_sacct(row + "8|torn\n")
    assert (job["nodes"], job["restarts"], job["reason"], job["state"]) == (None, 0, None, "CANCELLED")
    (ran,) = slurm_parse.parse_sacct(row.replace("None assigned", "n[1-2]"))
    assert ran["nodes"] == "n[1-2]"


def test_several_brackets_multiply():
    assert len(slurm_parse.expand("r[1-256]n[1-256]")) == slurm_parse.HOSTS_MOST
    with pytest.raises(NodeError, match=rf"has {256 * 257} names or more, of which Slurm accepts {64 * 1024} at most"):
        slurm_parse.expand("r[1-256]n[1-257]")
    assert slurm_parse.expand("a[1,x]b[2-3]") == ["a1b2", "a1b3", "axb2", "axb3"]


@pytest.mark.parametrize(("digits", "taken"), [(19, True), (20, False)])
def test_digits_of_node_number_are_limited(digits, taken):
    number = "1" * digits
    if taken:
        assert slurm_parse.expand(f"n[{number}-{number}]") == [f"n{number}"]
        return
    with pytest.raises(NodeError):
        slurm_parse.expand(f"n[{number}-{number}]")


def test_array_with_invalid_indices_is_reported():
    with pytest.raises(NodeError, match=r"indices end at 4000000 \(MaxArraySize\)"):
        slurm_parse.task_ids("4000001")
    assert slurm_parse.task_ids("4000000") == ["4000000"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("JobId=7 JobName=OverSubscribe=NO UserId=a(1) JobState=RUNNING OverSubscribe=OK Contiguous=0", (None, "OK")),
        ("JobId=7 JobName=x UserId=a(1) JobState=RUNNING OverSubscribe=NO", (None, "NO")),
        ("JobId=7 JobName=x UserId=a(1) JobState=RUNNING OverSubscribe=OK Exclusive=NODE", ("NODE", "OK")),
        ("JobId=7 JobName=x UserId=a(1) JobState=RUNNING Command=OverSubscribe=NO WorkDir=/", (None, None)),
        ("", (None, None)),
    ],
)
def test_sharing_settings_are_parsed(line, words):
    assert slurm_parse.sharing(line, 7) == words


def test_sharing_settings_belong_to_job():
    text = "".join(
        f"JobId={number} JobName=x UserId=a(1) JobState=RUNNING OverSubscribe={word}\n"
        for number, word in ((11, "OK"), (12, "NO"))
    )
    assert [slurm_parse.sharing(text, number)[1] for number in (11, 12, 1)] == ["OK", "NO", None]


def test_accounted_job_has_partition_and_node():
    (job,) = slurm_parse.parse_sacct("7|7|COMPLETED|0:0|None|main|n1|3|x\n")
    assert (job["partition"], job["nodes"], job["elapsed_seconds"]) == ("main", "n1", 3)
    assert (job["array_job_id"], job["array_task_id"]) == (None, None)


def test_queued_job_may_have_any_name():
    assert slurm_parse.queue("7|5_2|RUNNING|ana|gpu|n[1-2]|a|b\n8|8|RUNNING|ana|gpu|n1\n") == [
        {
            "job_id": 7, "id": "5_2", "state": "RUNNING", "user": "ana", "partition": "gpu", "nodes": ["n1", "n2"],
            "name": "a|b",
        }
    ]  # fmt: skip


def test_largest_array_is_accepted(monkeypatch):
    monkeypatch.setattr(slurm_parse, "ARRAY_MOST", 11)
    assert len(slurm_parse.task_ids("0-10")) == 11
    with pytest.raises(NodeError, match="indices end at 10 "):
        slurm_parse.task_ids("0-10,0")


def test_name_without_range_counts_as_one():
    names = ",".join(f"x{number}" for number in range(256))
    assert len(slurm_parse.expand(f"r[{names}]n[1-256]")) == slurm_parse.HOSTS_MOST


@pytest.mark.parametrize(
    ("text", "status"),
    [("3:0", (3, 0)), ("0:9", (0, 9)), ("", (None, 0)), (None, (None, 0)), ("Unknown", (None, 0)), ("0", (None, 0))],
)
def test_exit_status_that_is_not_there_is_not_zero(text, status):
    assert slurm_parse.exit_status(text) == status


WHOLE = (
    "NodeName=n1 CPUTot=8 Gres=gpu:8 State={} ThreadsPerCore=1 Partitions=gpu Reason=bad [root@2026-01-31T12:00:00]\n"
)


@pytest.mark.parametrize(
    "state", ["IDLE+DRAIN", "MIXED+DRAIN+REBOOT_REQUESTED", "IDLE+POWERING_DOWN", "DOWN*+DRAIN", "IDLE*"]
)
def test_node_cut_anywhere_takes_no_jobs(state):
    """A state that breaks off before its flags would take jobs."""
    text = WHOLE.format(state)
    for end in range(len(text) + 1):
        assert not [one for one in slurm_parse.nodes(text[:end]) if one["availability"] == "takes"], text[:end]


def test_whole_state_at_end_of_line_counts():
    (found,) = slurm_parse.nodes("NodeName=n1 State=IDLE\n")
    assert found["availability"] == "takes"
