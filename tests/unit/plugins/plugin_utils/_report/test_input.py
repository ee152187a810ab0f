# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any data of a node, a file or the inventory: there is a page, and every node is on it."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from ansible_collections.mlcluster.aws.plugins.action import cluster_report
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as model

from tests.unit.fakes import fake_cluster as scene


def nested(depth):
    value = "deep"
    for _level in range(depth):
        value = [value]
    return value


TRAPS = {
    "nan": float("nan"),
    "infinity": float("-inf"),
    "huge": 10**400,
    "endless": 10**5000,
    "negative": -1,
    "truth": True,
    "nothing": None,
    "empty": "",
    "deep": nested(700),
    "megabyte": "x" * 1_000_000,
    "long list": ["y" * 100] * 1000,
    "mapping": {"a": {"b": 1}, "__proto__": 2},
    "half a character": "\ud800",
    "controls": "\x1b[2J\x00\r\n{{ 7 * 7 }} \u202e",
    "digits": "9" * 5000,
    "markup": scene.ATTACK,
}
PLACES = ("instance_id", "instance_type", "queue", "place", "health")
FIELDS = (
    "id", "status", "severity", "expected", "found", "unit", "reason", "message", "hint", "source", "scope", "seconds",
)  # fmt: skip


def files(*nodes, **more):
    """Check the report in every format and return its JSON."""
    document = model.build(nodes, scene.TIME, **more)
    made = {name: write(document).encode(errors="replace") for name, (_file, write) in cluster_report.FILES.items()}
    names = [node["name"] for node in nodes]
    written = json.loads(made["json"])
    assert sorted(node["name"] for node in written["nodes"]) == sorted(names)
    ElementTree.fromstring(made["junit"])
    assert b"<script>alert" not in made["html"] and b"<img" not in made["html"]
    assert max(map(len, made.values())) < 1_000_000
    return written


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS.keys())
def test_invalid_node_data_does_not_break_page(trap):
    nodes = [scene.node(f"good-{number}") for number in range(4)]
    nodes += [scene.node(f"of {place}", **{place: trap}) for place in PLACES]
    for status in ("pass", "fail"):
        nodes += [
            scene.node(f"{status} {field}", {**scene.verdict("gpu.count", status, message="m"), field: trap})
            for field in FIELDS
        ]
    health = {"results": [scene.verdict("gpu.count", found=8)], "versions": {"driver": trap}, "seconds": trap}
    nodes.append({"name": "versions", "health": health})
    nodes.append({"name": "verdict", "health": {"results": [trap, scene.verdict("gpu.xid", found=trap)]}})
    nodes.append({"name": "word", "health": {"msg": trap, "module_stderr": trap}})
    nodes.append({"name": "silent", "health": {"unreachable": True, "msg": trap}})
    document = files(*nodes)
    assert {node["status"] for node in document["nodes"] if node["name"].startswith("good")} == {"pass"}


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS.keys())
def test_damaged_file_is_drawn_or_rejected_in_one_sentence(trap):
    good = scene.validation(scene.bandwidth(0.9), scene.verdict("io.fio.read", found=7, message="a: b"))
    entry = good["jobs"][0]["results"][0]
    validations = [{**good, "jobs": trap}, {**good, "jobs": [trap]}]
    validations += [{**good, "jobs": [{**good["jobs"][0], key: trap}]} for key in good["jobs"][0]]
    for damaged in (
        *({**entry, field: trap} for field in FIELDS),
        *({**entry, "found": {size: trap}} for size in ("1024", "busbw")),
        {**entry, "expected": dict.fromkeys(entry["found"], trap)},
        {**entry, "found": {"largest_size": trap, "busbw": trap}},
        {**entry, "id": "io.fio.read", "found": {"a": trap, "b": 3}},
    ):
        validations.append({**good, "jobs": [{**good["jobs"][0], "results": [entry, damaged]}]})
    node = scene.node("a")
    for more in (
        *({"validation": validation} for validation in validations),
        *({"run": {**scene.RUN, "roles": roles}} for roles in (trap, {"gds": trap, "nvme": 2.5})),
    ):
        try:
            files(node, **more)
        except model.ReportError as exc:
            assert len(str(exc).splitlines()) == 1 and len(str(exc)) < 600


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS.keys())
def test_damaged_previous_report_is_ignored(trap):
    node = scene.node("a")
    before = model.build([scene.node("a", versions={"driver": "1"})], scene.TIME)
    inner = before["nodes"][0]
    assert files(node, previous=before)["changes"]["versions"]
    for previous in (
        *({**before, key: trap} for key in ("time", "nodes")),
        {**before, "nodes": [trap]},
        *({**before, "nodes": [{**inner, key: trap}]} for key in ("name", "results", "versions")),
        {**before, "nodes": [{**inner, "versions": {"driver": trap}}]},
        {**before, "nodes": [{**inner, "results": [{**inner["results"][0], "status": trap}]}]},
        {"schema": before["schema"]},
    ):
        files(node, previous=previous)


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "0", "9" * 5000, "\x1b[31mred", 'a"}\\ 1\nb', "日本", "|`*"]
)
def test_unusual_node_names_are_shown(name):
    document = files(scene.broken(name), scene.node("other"))
    assert document["problems"][0]["nodes"] == [name]
    from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import markdown as _report_markdown

    assert all(line.isprintable() for line in _report_markdown.lines(document))


def test_surplus_verdicts_are_reported_and_not_drawn():
    entries = [scene.verdict(f"check.number_{number}") for number in range(model.MAX_VERDICTS + 5)]
    document = model.build([scene.node("a", *entries)], scene.TIME)
    left = 5 + len(scene.others(*entries))
    # One for the cut, one for the missing subjects.
    assert len(document["nodes"][0]["results"]) == model.MAX_VERDICTS + 2
    assert any(problem["text"].startswith(f"{left} more verdicts than") for problem in document["problems"])


def test_numeric_queue_names_become_strings():
    nodes = [scene.node("a", queue=1), scene.node("b", queue="gpu"), scene.node("c", place=3)]
    assert [node["queue"] for node in files(*nodes)["nodes"]] == ["1", "gpu", "gpu"]


def test_invalid_time_is_rejected():
    with pytest.raises(model.ReportError, match="time is 'now': use a time such as"):
        model.build([scene.node("a")], "now")


def test_thousand_problems_do_not_fill_page():
    nodes = [scene.broken(f"n{number}", message=f"serial {number}") for number in range(1000)]
    document = model.build(nodes, scene.TIME)
    for name in ("html", "markdown"):
        text = cluster_report.FILES[name][1](document)
        assert "and 500 more, which report.json has" in text
        assert text.count("n999") >= 1, "every node stays"
    assert len(document["problems"]) == 1000
