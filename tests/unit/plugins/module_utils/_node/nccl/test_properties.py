# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is done to a good output, it passes only what the rest of it still proves; and no text is too strange."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, entries, judge
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.fake_nccl_output import Plan, header, log, output, table

PLAN = Plan(hosts=("node-1", "node-2", "node-3"), gpus=2)
GOOD = output(PLAN)
TABLE = [line for line in table(PLAN) if not line.startswith("#")]
ASKED = RequestedRun(ranks=6, nodes=3, instance_type="p5.48xlarge")
ONE_NODE = [line for host in PLAN.hosts for line in output(hosts=(host,), gpus=8)]
SOCKETS = log(Plan(hosts=PLAN.hosts, gpus=2, network="Socket", gdr=""))

positions = st.integers(0, len(GOOD) - 1)


def judged(lines):
    return judge(parse(lines), ASKED)


def proved_by(lines):
    """Reads the evidence of the fabric in another way than the parser: by the words of the whole lines."""
    for host in PLAN.hosts:
        own = [line for line in lines if line.startswith(f"{host}:")]
        if not any("] via NET/Libfabric/" in line and "Channel" in line for line in own):
            return False
        if not any("Selected provider is efa," in line for line in own):
            return False
    return sum(line.startswith("#  Rank ") for line in lines) == 6


def row_of(line):
    """Size and wrong values of a line that looks like a row: the last digit of a bandwidth may go without a trace."""
    words = line.split()
    return (words[0], words[8], words[12]) if len(words) == 13 and words[0].isdigit() else None


def check(lines):
    """The verdicts on a changed output are no better than what is left of it."""
    correct, fabric, bandwidth = judged(lines).results
    if correct.status == "pass":
        rows = [row_of(line) for line in lines if row_of(line)]
        assert rows == [row_of(line) for line in TABLE]
        assert any(line.startswith("# Out of bounds values : 0 OK") for line in lines)
        assert any(line.startswith("# Avg bus bandwidth") for line in lines)
    if fabric.status == "pass":
        assert proved_by(lines)
        assert fabric.found["hosts"] == list(PLAN.hosts)
    assert bandwidth.status != "pass"
    return correct, fabric


def test_good_output_is_good():
    correct, fabric = check(GOOD)
    assert (correct.status, fabric.status) == ("pass", "pass")


@given(st.integers(0, len("\n".join(GOOD))))
def test_cut_anywhere(end):
    text = "\n".join(GOOD)
    correct, _fabric = check(text[:end].split("\n"))
    # Only the blank comment after the last closing line may be missing.
    assert correct.status != "pass" or end >= text.index("# Collective test concluded")


@given(st.integers(0, len("\n".join(GOOD))), st.integers(0, 400))
def test_piece_cut_out(start, length):
    text = "\n".join(GOOD)
    check((text[:start] + text[start + length :]).split("\n"))


@given(st.sets(positions, max_size=30))
def test_lines_lost(lost):
    check([line for number, line in enumerate(GOOD) if number not in lost])


@given(st.lists(st.tuples(positions, positions), max_size=6))
def test_lines_in_another_order(swaps):
    lines = list(GOOD)
    for one, other in swaps:
        lines[one], lines[other] = lines[other], lines[one]
    check(lines)


@given(st.permutations(GOOD))
def test_lines_in_any_order(lines):
    check(lines)


@given(st.lists(st.tuples(positions, positions), min_size=1, max_size=4))
def test_lines_doubled_elsewhere(copies):
    lines = list(GOOD)
    for source, target in copies:
        lines.insert(target, GOOD[source])
    check(lines)


@given(st.lists(st.tuples(positions, st.integers(0, 130), st.characters(codec="utf-8")), min_size=1, max_size=8))
def test_characters_changed(changes):
    lines = list(GOOD)
    for number, column, character in changes:
        line = lines[number]
        lines[number] = line[:column] + character + line[column + 1 :]
    result = judged(lines)
    correct, fabric, bandwidth = result.results
    if correct.status == "pass":
        rows = result.facts["rows"]
        assert [row["size"] for row in rows] == PLAN.sizes
        # The average covers every bandwidth: a change that it does not show is a small one.
        most = 0.0011 * sum(PLAN.busbw(size) for size in PLAN.sizes) * 2 + 0.1
        assert all(abs(row["busbw"] - PLAN.busbw(row["size"])) <= most for row in rows)
    if fabric.status == "pass":
        assert fabric.found["hosts"] == list(PLAN.hosts)
        assert fabric.found["ranks"] == 6
    assert bandwidth.status != "pass"


@given(st.lists(st.tuples(positions, st.sampled_from(SOCKETS + ONE_NODE)), min_size=1, max_size=10))
def test_lines_of_run_that_is_not_good_mixed_in(foreign):
    lines = list(GOOD)
    for number, line in foreign:
        lines.insert(number, line)
    fabric = check(lines)[1]
    between = [line for line in lines if "via NET/Socket" in line]
    assert fabric.status != "pass" or not between


def over_sockets(line):
    """Return the line as it is on a host that fell back to sockets."""
    return (
        line.replace("network Libfabric", "network Socket")
        .replace("NET/Libfabric", "NET/Socket")
        .replace("/GDRDMA", "")
    )


@given(
    st.sampled_from(PLAN.hosts),
    st.lists(st.tuples(positions, st.integers(0, 90), st.booleans()), min_size=1, max_size=40),
)
def test_host_over_sockets_never_passes_however_torn_log_is(host, damages):
    lines = [over_sockets(line) if line.startswith(f"{host}:") else line for line in GOOD]
    for number, cut, joined in damages:
        place = number % (len(lines) - 1)
        lines[place] = lines[place][:cut] + (lines.pop(place + 1) if joined else "")
    assert judged(lines).results[1].status != "pass"


@given(st.data())
def test_one_node_runs_woven_together_never_prove_fabric(data):
    runs = [iter(output(hosts=(host,), gpus=2)) for host in PLAN.hosts]
    lines = []
    while runs:
        turn = data.draw(st.integers(0, len(runs) - 1))
        for _count in range(data.draw(st.integers(1, 30))):
            line = next(runs[turn], None)
            if line is None:
                runs.pop(turn)
                break
            lines.append(line)
    correct, fabric, _bandwidth = judged(lines).results
    assert fabric.status == "fail"
    assert correct.status != "pass"


pieces = st.sampled_from(GOOD + ONE_NODE[:40] + SOCKETS + ["", "#", "  ", "# size count type time busbw", "size(B)"])
words = st.one_of(pieces, st.text(max_size=60), st.builds(lambda one, cut: one[cut:], pieces, st.integers(0, 90)))


@given(st.lists(st.lists(words, max_size=3).map("".join), max_size=60))
def test_no_text_is_too_strange_to_read(lines):
    for requested in (ASKED, RequestedRun(), RequestedRun(nodes=1, ranks=1, rc=0, checked=True, before={}, after={})):
        result = judge(parse(lines), requested)
        assert len(result.results) == 3
        recorded, problem = entries(result, requested, "2026-11-27T00:00:00Z")
        assert bool(recorded) == (problem is None) or not recorded
    check(lines)


@given(st.text())
def test_no_text_at_all_raises(text):
    assert len(judge(parse(text.splitlines()), ASKED).results) == 3


def test_log_without_table_proves_neither_fabric_nor_result():
    correct, fabric = check(header(PLAN) + log(PLAN))
    assert (correct.status, correct.reason, fabric.status) == ("fail", "truncated", "undeterminable")
