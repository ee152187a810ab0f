# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of jobs: nccom-test's table, the JSON of IOR and fio, mdtest's table, the files of tasks.

IOR, fio and mdtest are in the shape of their documentation, nccom-test in that of AWS's guide.
"""

from __future__ import annotations

import functools
import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds.fsx_io import judge_fsx_io
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds.local_io import judge_local_io
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.tasks import judge_task_roots, judge_tasks
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.unit.fakes.fake_nccl_output import snapshots
from tests.unit.ledger.walk import Excuse, Leaf, Room, bounded, fact_leaves, room_tests, statuses

FASTER, LESS, NAME = "a faster one is as good", "less is asked for", "name that no verdict compares"
NODES = ("n1", "n2", "n3")
NCCOM = [
    "     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)",
    "     262144           65536    fp32          791.38           0.31           0.61",
    "     524288          131072    fp32          343.84           1.42           2.80",
    "Avg bus bandwidth:      1.7050GB/s",
]
NCCOM_ASKED = RequestedRun(
    ranks=64, nodes=2, collective="allr", rc=0, checked=True, before=snapshots("ab", 0), after=snapshots("ab", 1 << 30)
)


NCCOM_LEDGER = (
    Excuse("row*/count", "elements of one rank or of several", ("half",)),
    Excuse("row*/type", "a smaller type in the same bytes", ("half",)),
)


def nccom_leaves():
    names = ("size", "count", "type", "time", "algbw", "busbw")

    def replaced(row, start, end, text):
        return [*NCCOM[:row], NCCOM[row][:start] + (text or "") + NCCOM[row][end:], *NCCOM[row + 1 :]]

    for row in (1, 2):
        for name, word in zip(names, re.finditer(r"\S+", NCCOM[row])):
            yield Leaf(f"row{row}/{name}", word.group(), functools.partial(replaced, row, *word.span()))
    average = re.search(r"[\d.]+(?=GB/s)", NCCOM[3])
    yield Leaf("average", average.group(), functools.partial(replaced, 3, *average.span()))


def nccom_judge(lines):
    return statuses(judge(parse(lines), NCCOM_ASKED, "nccom-test").results)


def fsx_good():
    table = dict.fromkeys(("creation", "stat", "removal"), "     8453.634     8453.634     8453.634          0.000")
    counts = {"numTasks": 8, "tasksPerNode": 8}
    rows = [{"operation": name, "API": "POSIX", **counts, "bwMaxMIB": 5000.5} for name in ("write", "read")]
    ran = {"size": 20, "memory": 10, "ior": 0, "mdtest": 0}
    launched = {"tasks": 8, "nodes": 1}
    least = {"write": 4000, "read": 4000}
    return {
        "ran": ran, "summary": rows, "table": table, "least": least, "stripes": "raid0", "launched": launched
    }  # fmt: skip


def fsx_judge(folder, facts):
    (folder / "ran.json").write_text(json.dumps(facts["ran"]))
    (folder / "ior.json").write_text(json.dumps({"summary": facts["summary"]}))
    launched = "mdtest-4.0.0 was launched with {tasks} total task(s) on {nodes} node(s)\n".format(**facts["launched"])
    rows = (f"   File {name} :{row}\n" for name, row in facts["table"].items())
    (folder / "mdtest.out").write_text("".join([launched, *rows]))
    (folder / "stripes.txt").write_text(facts["stripes"] or "")
    asked = {f"least_{name}_mib": facts["least"].get(name) for name in ("write", "read")}
    return judge_fsx_io(Job({**asked, "tasks_per_node": 8}, NODES[:1], str(folder)), Host())


FSX = (
    *(Excuse(f"summary/*/{name}", NAME) for name in ("API",)),
    Excuse("summary/*/bwMaxMIB", FASTER, ("ten times",)),
    Excuse("ran/size", "more than the memory is read", ("ten times",)),
    Excuse("ran/memory", "more than the memory is read", ("half",)),
    Excuse("least/*", LESS, ("half",)),
    Excuse("table/*", "nobody publishes a rate that they should have", ("half", "ten times", "zero")),
    Excuse("stripes", "told, and judged by nobody"),
)


def fio_good():
    def run():
        return {"jobname": "x", "error": 0, "read": {"bw_bytes": 100.0, "iops": 7.5}, "write": {"bw_bytes": 100.0}}

    disk = {"kname": "nvme1n1", "model": "Amazon EC2 NVMe Instance Storage"}
    place = {"root": False, "mount_point": "/data", "fstype": "xfs", "disks": [disk]}
    return {node: {"jobs": [run()], "place": place} for node in NODES}


def fio_judge(folder, facts):
    for node, document in facts.items():
        for mode in ("write", "read", "randread"):
            (folder / f"fio-0-{mode}-{node}.json").write_text(json.dumps(document))
        (folder / f"place-0-{node}.json").write_text(json.dumps(document.get("place")))
    return judge_local_io(Job({"directories": ["/data"], "median_percent": 20}, NODES, str(folder)), Host())


FIO = (
    Excuse("*/jobname", NAME),
    Excuse("*/jobs/0/*/*", FASTER, ("ten times",)),
    *(Excuse(f"*/place/{name}", "for the message") for name in ("mount_point", "fstype", "disks/*/kname")),
)


def tasks_good():
    ranks = [
        {"rank": rank, "local": rank % 2, "node": node, "host": f"ip-{node}", "gpus": ["0", "1"], "root": f"0:{rank} /"}
        for rank, node in enumerate(name for name in NODES for _task in range(2))
    ]
    return {"tasks": ranks, "roots": dict.fromkeys(NODES, "259:1 /")}


def tasks_judge(_folder, facts):
    job = Job({"tasks_per_node": 2, "gpus_per_node": 2}, NODES, "/r")
    return [*judge_tasks("smoke", job, facts["tasks"]), judge_task_roots(facts["tasks"], facts["roots"])]


TASKS = (
    Excuse("tasks/*/gpus/*", "the number of a GPU; how many there are is judged"),
    Excuse("tasks/5/host", "half the number in a name is another name", ("half",)),
    Excuse("roots/*", "another root that is none of a task's", ("zero", "half", "ten times")),
)
ROOMS = {
    "fsx_io": (fsx_good(), fsx_judge, FSX),
    "local_io": (fio_good(), fio_judge, FIO),
    "tasks": (tasks_good(), tasks_judge, TASKS),
}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ROOMS)
def test_room_of(name, number, tmp_path):
    good, judged, ledger = ROOMS[name]
    room = Room(name, good, fact_leaves(good), bounded(functools.partial(judged, tmp_path)), ledger)
    room_tests(room)[number]()


@pytest.mark.parametrize("number", range(3))
def test_room_of_nccom(number):
    room_tests(Room("nccom-test", NCCOM, list(nccom_leaves()), nccom_judge, NCCOM_LEDGER))[number]()
