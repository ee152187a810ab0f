# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An output of nccl-tests on two p5, in the shape of the recorded ones, that passes all three verdicts."""

from __future__ import annotations

import functools
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import judge as judge_nccl

from tests.unit.fakes.fake_nccl_output import Plan, header, log, table
from tests.unit.ledger.walk import Excuse, Leaf, Room, room_tests

PLAN = Plan(hosts=("node-1", "node-2"), gpus=8, smallest=1 << 30, largest=1 << 32, factor=2, busbw=lambda _size: 480.0)
HEADER, LOG, TABLE = header(PLAN), log(PLAN), table(PLAN)
LINES = HEADER + LOG + TABLE
ASKED = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge", collective="all_reduce", rc=0)
HALF = ("time", "algbw", "busbw", "#wrong")
COLUMNS = ("size", "count", "type", "redop", "root", *HALF, *(f"in-place/{name}" for name in HALF))
OPTION = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|step:|warmup iters:|agg iters:|iters:|validation:|graph:|unalign:) "
)


def judge(lines):
    return {result.id: result.status for result in judge_nccl(parse(lines), ASKED).results}


def replaced(number, start, end, text):
    line = LINES[number]
    return [*LINES[:number], line[:start] + (text or "") + line[end:], *LINES[number + 1 :]]


def words(number, names):
    """The words of a line, by these names; an empty name is of no leaf."""
    found = list(re.finditer(r"\S+", LINES[number]))
    for name, word in zip(names, found):
        if name:
            yield name, number, word.start(), word.end()


FIRST_ROW = LINES.index(next(row for row in TABLE if row.startswith("  1073741824")))


def spots():
    """Path, line, start and end of every leaf."""
    for number, line in enumerate(LINES):
        row = number - FIRST_ROW
        if line.startswith("# nccl-tests"):
            yield from words(number, ["", "", "", "version", "headers", "library"])
        elif line.startswith("# Collective test starting"):
            yield from words(number, ["", "", "", "", "collective"])
        elif line.startswith("# nThread"):
            for option in OPTION.finditer(line):
                end = re.compile(r"[\w.]+").match(line, option.end()).end()
                yield f"header/{option.group(1).rstrip(':').replace(' ', '_')}", number, option.end(), end
        elif found := re.match(r"#  Rank +(0|15) ", line):
            names = ["", "", "rank", "", "group", "", "pid", "", "host", "", "device", "bus"]
            yield from ((f"rank{found.group(1)}/{name}", *spot) for name, *spot in words(number, names))
            yield f"rank{found.group(1)}/gpu", number, line.index("NVIDIA"), len(line)
        elif line.startswith("#        (B)"):
            yield from words(number, ["", "", "", *(f"unit/{n}" for n in ("time", "algbw", "busbw"))])
        elif line.startswith("# Out of bounds"):
            yield from words(number, ["", "", "", "", "", "out of bounds/number", "out of bounds/word"])
        elif line.startswith("# Avg bus"):
            yield from words(number, ["", "", "", "", "", "average"])
        elif 0 <= row < len(PLAN.sizes):
            yield from ((f"row{row}/{name}", *spot) for name, *spot in words(number, COLUMNS))


def log_spots():
    """The words of the log of the first rank of each host that prove something."""
    for rank in (0, 8):
        own = [number for number, line in enumerate(LINES) if re.match(rf"node-\d:{1000 + rank}:", line)]
        for number in own:
            line = LINES[number]
            for name, pattern in (
                ("network", r"Using network (\S+)"),
                ("provider", r"provider is ([^,\s]+)"),
                ("ranks", r"nRanks (\d+)"),
                ("nodes", r"nNodes (\d+)"),
            ):
                if found := re.search(pattern, line):
                    yield f"log{rank}/{name}", number, found.start(1), found.end(1)
            if found := re.search(r"Channel (\d+)/0 : .*(send|receive)\] via NET/(\w+)", line):
                path = f"log{rank}/channel{found.group(1)}/{found.group(2)}"
                yield path, number, found.start(3), found.end(3)


LEAVES = [
    Leaf(path, LINES[number][start:end], functools.partial(replaced, number, start, end))
    for path, number, start, end in [*spots(), *log_spots()]
]
NAME, OTHERS = "name or number that no verdict compares", "the lines of other ranks and channels prove it"
HOW = "how the test measures: the table has the results"
NUMBERS = ("zero", "half", "ten times")
LEDGER = (
    *(Excuse(name, NAME) for name in ("version", "headers", "library", "rank*/pid")),
    Excuse("collective", "named by the caller, and the numbers of the table have to fit"),
    *(Excuse(f"header/{name}", HOW) for name in ("warmup_iters", "agg_iters", "graph", "unalign", "nThread", "nGpus")),
    Excuse("header/iters", "any number of iterations but none", ("half", "ten times")),
    Excuse("header/validation", "checked more often", ("ten times",)),
    *(Excuse(f"rank*/{name}", "another place of as many GPUs", NUMBERS) for name in ("device", "bus")),
    *(Excuse(f"log*/{name}", OTHERS) for name in ("ranks", "nodes")),
)
ROOM = Room("nccl-tests", LINES, LEAVES, judge, LEDGER)
test_sample, test_every_leaf, test_ledger = room_tests(ROOM)


@pytest.mark.parametrize(("old", "new"), [("Libfabric", "Socket"), ("provider is efa", "provider is tcp")])
@pytest.mark.parametrize("host", PLAN.hosts)
def test_line_that_proves_another_way_is_noticed(host, old, new):
    numbers = [number for number, line in enumerate(LINES) if line.startswith(f"{host}:") and old in line]
    for number in (numbers[0], numbers[-1]):
        changed = [*LINES[:number], LINES[number].replace(old, new), *LINES[number + 1 :]]
        assert judge(changed)["nccl.fabric"] == "fail"
