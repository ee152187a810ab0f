# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A corpus of outputs with the right answer beside each: recorded, in documented shapes, and made adversarial.

An answer has the three verdicts by their first letters: p(ass), f(ail), u(ndeterminable), n(ot applicable).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse, parse_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge

from tests.unit.fakes.fake_nccl_output import OLD, Plan, header, log, output, snapshots, table, without

FIXTURES = Path(__file__).parents[4] / "fixtures" / "nccl"
P5 = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge", collective="all_reduce", rc=0)
FOUR = RequestedRun(ranks=8, nodes=4, instance_type="p5.48xlarge", rc=0)
ONE = RequestedRun(ranks=1, nodes=1, rc=0)
GOOD = Plan(hosts=("node-1", "node-2"), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda _size: 480.0)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv")


def good(**fields):
    return output(dataclasses.replace(GOOD, **fields))


def replaced(old, new, lines=None, only=""):
    return [line.replace(old, new) if only in line else line for line in lines or good()]


def at(place, *more, lines=None):
    found = list(lines or good())
    found[place:place] = more
    return found


def recorded():
    """Outputs recorded on one GPU."""
    for name, requested, answer in (
        ("all_reduce", ONE, "pnn"),
        ("alltoall", ONE, "pnn"),
        ("broadcast", ONE, "pnn"),
        ("info-interleaved", ONE, "pnn"),
        ("net-ofi-missing", dataclasses.replace(ONE, rc=3), "fnu"),
        ("too-many-gpus", dataclasses.replace(ONE, rc=5), "fuu"),
        ("all_reduce", P5, "pfu"),
        ("alltoall", dataclasses.replace(P5, collective="alltoall"), "pfu"),
        ("info-interleaved", P5, "pfu"),
        ("alltoall", P5, "uuu"),
    ):
        path = FIXTURES / f"nccl-tests-{name}-2.19.6.txt"
        yield (
            f"recorded {name} {requested.ranks} ranks {requested.collective}",
            parse_file(str(path)),
            requested,
            answer,
        )


def shapes():
    """Shapes of other versions and of other runs, good and bad."""
    yield "good", good(), P5, "ppp"
    yield "good, four hosts", output(), FOUR, "ppu"
    yield "oldest table", OLD, RequestedRun(ranks=2, nodes=2, collective="all_reduce", rc=0), "puu"
    yield "without the line of the version", without(good(), "nccl-tests version"), P5, "ppp"
    yield "without starting and concluded", without(good(), "Collective test"), P5, "ppp"
    yield "appended log", header(GOOD) + table(GOOD) + log(GOOD), P5, "ppp"
    yield "log first", log(GOOD) + header(GOOD) + table(GOOD), P5, "ppp"
    yield "no log", header(GOOD) + table(GOOD), P5, "pup"
    yield "header only", header(GOOD), P5, "fuu"
    yield "log only", log(GOOD), P5, "uuu"
    yield "nothing", [], P5, "uuu"
    yield "header and log", header(GOOD) + log(GOOD), P5, "fuu"
    for made in COLLECTIVES:
        requested = dataclasses.replace(P5, collective=made)
        yield f"{made} as itself", good(collective=made), requested, "ppp" if made == "all_reduce" else "ppu"
        anonymous = without(good(collective=made), "Collective test")
        for wanted in COLLECTIVES:
            fits = made == wanted or {made, wanted} <= {"all_gather", "alltoall"}
            answer = ("ppp" if wanted == "all_reduce" else "ppu") if fits else "upu"
            yield f"nameless {made} as {wanted}", anonymous, dataclasses.replace(P5, collective=wanted), answer


def spoilt():
    """Yield a good output with one thing wrong in it."""
    yield "sockets", good(network="Socket", gdr=""), P5, "pfp"
    yield "InfiniBand", good(network="IB"), P5, "pfp"
    yield "provider tcp", good(provider="tcp"), P5, "pfp"
    yield "provider sockets on one host", replaced("is efa", "is sockets", only="node-2:"), P5, "pfp"
    yield "one host silent", good(silent=("node-2",)), P5, "pup"
    yield "without GPUDirect", good(gdr=""), P5, "ppp"
    yield "slow", good(busbw=lambda _size: 300.0), P5, "ppf"
    yield "slow in place", good(in_place_busbw=lambda _size: 1.0), P5, "ppf"
    yield "slow at one size", good(busbw=lambda size: 480.0 if size < 1 << 34 else 400.0), P5, "ppf"
    yield "too fast", good(busbw=lambda _size: 99999.0), P5, "ppu"
    for unit in ("(MB/s)", "(Gb/s)", "(TB/s)", ""):
        yield f"unit {unit}", replaced("(GB/s)", unit), P5, "ppu"
    yield "milliseconds", replaced("(us)", "(ms)"), P5, "ppu"
    yield "no iterations", replaced(" iters: 20 ", " iters: 0 "), P5, "ppu"
    yield "not validated", replaced("validation: 1", "validation: 0"), P5, "upp"
    yield "wrong values in place", good(in_place_wrong="5"), P5, "fpu"
    yield "not checked in place", good(in_place_wrong="N/A"), P5, "upp"
    yield "nan in place", good(in_place_wrong="nan"), P5, "fpu"
    yield "out of bounds", replaced("0 OK", "4 FAILED"), P5, "fpu"
    yield "rc 1", good(), dataclasses.replace(P5, rc=1), "fpu"
    yield "rc unknown", good(), dataclasses.replace(P5, rc=None), "ppp"
    yield "other GPUs", good(), dataclasses.replace(P5, instance_type="p4de.24xlarge"), "ppu"
    yield "unknown type", good(), dataclasses.replace(P5, instance_type="p99.metal"), "ppu"
    yield "more ranks asked", good(), dataclasses.replace(P5, ranks=32), "pfu"
    yield "more nodes asked", good(), dataclasses.replace(P5, nodes=4), "pfu"
    yield "nothing asked", good(), RequestedRun(rc=0), "puu"
    yield "groups", replaced("Group  0", "Group  1", only="Rank 15"), P5, "pfu"
    yield "small communicators", replaced("nRanks 16 nNodes 2", "nRanks 8 nNodes 1"), P5, "pfu"
    yield (
        "one NVLink domain",
        replaced(
            "nNodes 2 localRanks 8",
            "nNodes 1 localRanks 16",
            replaced("MNNVL 0", "MNNVL 1", without(good(), "via NET")),
        ),
        P5,
        "pupu",
    )
    yield "a rank lost", without(good(), "#  Rank 15"), P5, "puu"
    yield "shared GPUs", replaced("[0000:01:00]", "[0000:00:00]"), P5, "puu"
    yield "two outputs", good() + good(), P5, "uuu"
    yield "single-node runs", output(hosts=("a",), gpus=8) + output(hosts=("b",), gpus=8), P5, "ufu"
    yield "NaN for a bandwidth", replaced("480.00", "   nan", only="  1073741824"), P5, "upu"
    yield "infinity for a bandwidth", replaced("480.00", "   inf", only="  1073741824"), P5, "upu"
    yield "negative bandwidth", replaced("480.00", "-480.0", only="  1073741824"), P5, "upu"
    yield "another type", replaced("   float", "  floaty"), P5, "upu"
    yield "another operation", replaced("     sum", "     xor"), P5, "uuu"
    yield "a root", replaced("      -1 ", "       0 "), P5, "upu"


def cut():
    """Yield a good output that ends early, or lacks a piece."""
    lines = good()
    rows = [number for number, line in enumerate(lines) if line.startswith(("  1", "  2147"))]
    for number in rows:
        if lines[number].split()[0].isdigit():
            yield f"cut before {lines[number].split()[0]}", lines[:number], P5, "fpu" if number > rows[0] else "fuu"
            yield f"without {lines[number].split()[0]}", lines[:number] + lines[number + 1 :], P5, "upu"
            yield f"twice {lines[number].split()[0]}", at(number, lines[number]), P5, "upu"
    for mark in ("# Out of bounds", "# Avg bus", "# Collective test concluded"):
        number, *_others = (number for number, line in enumerate(lines) if line.startswith(mark))
        yield f"cut before {mark}", lines[:number], P5, "fpu"
        yield f"without {mark}", lines[:number] + lines[number + 1 :], P5, "fpu"


FATAL = (
    "srun: error: node-2: task 3: Exited with exit code 1",
    "srun: error: node-2: tasks 8-15: Killed",
    "slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-11-27T22:00:00 DUE TO TIME LIMIT ***",
    "node-2: Test NCCL failure all_reduce.cu:60 'unhandled system error'",
    "Segmentation fault (core dumped)",
)
HARMLESS = (
    "srun: error: Unable to create step for job 7: Job/step already completing or completed, retrying",
    "slurmstepd: error: mpi/pmix_v4: pmixp_coll_log: collective timeout seq=0",
    "# a note about ranks that run out of memory",
    "srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)",
    "pyxis: importing docker image: nvcr.io#nvidia/pytorch:25.08-py3",
)
PREFIXES = (
    "",
    "0: ",
    "10.9.0.11: ",
    "2026-11-29T05:52:00Z ",
    "[pod/w-0/main] ",
    "Nov 29 05:52:00 h srun[1]: ",
    "        ",
)


def surrounded():
    """Good and bad outputs in what launchers, schedulers and collectors add."""
    for prefix in PREFIXES:
        for line in FATAL:
            yield f"{prefix}+ {line}", [prefix + text for text in at(-8, line)], P5, "fpu"
        for line in HARMLESS:
            yield f"{prefix}+ {line}", [prefix + text for text in at(-8, line)], P5, "ppp"
        yield f"{prefix}+ wrong", [prefix + text for text in replaced("0 OK", "4 FAILED")], P5, "fpu"
        yield f"{prefix}+ sockets", [prefix + text for text in good(network="Socket", gdr="")], P5, "pfp"
        yield f"{prefix}+ slow", [prefix + text for text in good(busbw=lambda _size: 100.0)], P5, "ppf"


NCCOM = [
    "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
    "     262144           65536    fp32          791.38           0.31           0.61",
    "     524288          131072    fp32          343.84           1.42           2.80",
    "Avg bus bandwidth:      1.7050GB/s",
]


def neuron():
    """Outputs of nccom-test in the shapes of its guide."""
    requested = RequestedRun(nodes=2, ranks=64, instance_type="trn1.32xlarge", collective="allr", rc=0, checked=True)
    counted = dataclasses.replace(requested, before=snapshots("ab", 0), after=snapshots("ab", 1 << 30))
    idle = dataclasses.replace(requested, before=snapshots("ab", 0), after=snapshots("ab", 9))
    yield "nccom", NCCOM, requested, "puu"
    yield "nccom with counters", NCCOM, counted, "ppu"
    yield "nccom with idle counters", NCCOM, idle, "pfu"
    yield "nccom of three nodes", NCCOM, dataclasses.replace(counted, nodes=3), "puu"
    yield "nccom on one node", NCCOM, dataclasses.replace(requested, nodes=1), "pnu"
    yield "nccom not checked", NCCOM, dataclasses.replace(counted, checked=False), "upu"
    yield "nccom without status", NCCOM, dataclasses.replace(counted, rc=None), "upu"
    yield "nccom rc 1", NCCOM, dataclasses.replace(counted, rc=1), "fpu"
    yield "nccom cut", NCCOM[:-1], counted, "fpu"
    yield "nccom without a row", NCCOM[:1] + NCCOM[2:], counted, "upu"
    yield "nccom twice", NCCOM + NCCOM, counted, "uuu"
    yield "nccom in MB/s", [line.replace("busbw(GB/s)", "busbw(MB/s)") for line in NCCOM], counted, "uuu"
    yield (
        "nccom too fast",
        [*NCCOM[:1], NCCOM[2].replace("2.80", "9999"), "Avg bus bandwidth: 9999GB/s"],
        counted,
        "ppu",
    )
    yield "nccom killed", [*NCCOM, "Segmentation fault (core dumped)"], counted, "fpu"


CORPUS = [
    pytest.param(made, requested, answer, id=name)
    for source in (recorded, shapes, spoilt, cut, surrounded, neuron)
    for name, made, requested, answer in source()
]


def test_corpus_is_large():
    assert len(CORPUS) >= 150
    assert len({case.id for case in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize(("made", "requested", "answer"), CORPUS)
def test_right_answer(made, requested, answer):
    judged = judge(parse(made) if isinstance(made, list) else made, requested)
    assert "".join(one.status[0] for one in judged.results) == answer, "\n".join(one.line() for one in judged.results)
