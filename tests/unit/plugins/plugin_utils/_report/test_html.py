# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as _report_model
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import html as _report_html
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import markdown as _report_markdown

from tests.unit.fakes import fake_cluster as scene


class Page(HTMLParser):
    """Tags with their attributes, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.seen, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.seen.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.seen).split())


def page(*nodes, **more):
    return _report_html.page(_report_model.build(nodes, scene.TIME, cluster="train", version="1.2.3", **more))


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


def everything(size=12):
    pairs = [
        scene.bandwidth(1.0, "p5-dy-1+p5-dy-2"),
        scene.bandwidth(0.4, "p5-dy-2+p5-dy-10", "fail", severity="reset"),
    ]
    storage = scene.verdict("io.fio.read", found={"p5-dy-1": 5e9, "p5-dy-2": 6e9}, unit="B/s", message="/local read: x")
    before = _report_model.build([scene.node("p5-dy-1"), scene.node("gone")], "2026-01-30T12:00:00Z")
    results = [scene.bandwidth(1.0, expected={str(scene.SIZES[-1]): 400.0}), *pairs, storage]
    more = {
        "validation": scene.validation(*results, status="fail"),
        "run": scene.RUN,
        "previous": before,
    }
    return [*scene.cluster(size), scene.silent("p5-dy-9999")], more


def test_first_screen_has_problems_and_hints():
    seen = Page(page(scene.node("a"), scene.broken("b"), scene.silent("c"))).text
    assert "1 broken, 1 not proved, 1 good of 3 nodes; 1 did not answer" in seen
    assert "gpu.count isolate : a GPU fell off the bus. expected 8 GPUs, found 7 GPUs. stop the instance" in seen
    assert seen.index("Do this first (2)") < seen.index("Map")


def warm(name):
    return scene.node(name, scene.verdict("gpu.clocks", "fail", severity="monitor", message="too hot"))


def test_node_to_watch_is_not_called_broken():
    """Jobs still start on it, as its severity states."""
    text = page(scene.node("a"), warm("b"))
    seen = Page(text).text
    assert "1 to watch, 1 good of 2 nodes" in seen and "broken" not in seen.replace("0 ✕ broken", "")
    assert "jobs still start on the node; watch it" in seen
    assert "b: to watch" in {given.get("aria-label") for _tag, given in Page(text).tags}
    assert '"word":"to watch"' in text


def test_node_to_watch_is_counted_apart():
    document = _report_model.build([scene.broken("a"), warm("b"), warm("c"), scene.node("d")], scene.TIME)
    assert _report_html.summary(document) == "1 broken, 2 to watch, 1 good of 4 nodes"
    assert (document["counts"]["fail"], document["exit_code"]) == (3, 1)


@pytest.mark.parametrize(
    ("nodes", "job", "shown"),
    [
        ((warm("a"),), None, "to watch"),
        ((warm("a"), scene.broken("b")), None, "broken"),
        ((warm("a"),), "fail", "broken"),
        ((scene.node("a"),), "fail", "broken"),
        ((scene.node("a"),), None, "good"),
        ((scene.silent("a"),), None, "not proved"),
    ],
)
def test_headline_is_broken_if_anything_is(nodes, job, shown):
    given = scene.validation(scene.verdict("nccl.correct", job, message="wrong")) if job else None
    assert _report_html.headline(_report_model.build(list(nodes), scene.TIME, validation=given)) == shown


@pytest.mark.parametrize(
    ("status", "severity", "shown"),
    [
        ("fail", "monitor", "to watch"),
        ("fail", "reset", "broken"),
        ("fail", "none", "broken"),
        ("fail", None, "broken"),
        ("undeterminable", "monitor", "not proved"),
        ("pass", "none", "good"),
    ],
)
def test_word_follows_status_and_severity(status, severity, shown):
    assert _report_html.word(status, severity) == shown


def test_good_cluster_has_no_other_sections():
    seen = Page(page(scene.node("a"), scene.node("b"))).text
    assert "all 2 nodes are proved good" in seen
    assert "Problems (0) None was found." in seen
    for absent in ("Do this first", "Unlike", "NCCL", "Storage", "Since", "Validation"):
        assert absent not in seen


def test_summary_agrees_with_exit_code():
    bad = scene.validation(scene.verdict("nccl.correct", "fail", message="wrong"))
    shown = _report_html.summary(_report_model.build([scene.node("a"), scene.node("b")], scene.TIME, validation=bad))
    assert shown == "all 2 nodes are proved good; 1 of 1 validation jobs broken"
    unjudged = scene.node("c", scene.verdict("gpu.count", "not_applicable", reason="no GPU"))
    assert (
        _report_html.summary(_report_model.build([unjudged, scene.node("a")], scene.TIME))
        == "1 not proved, 1 good of 2 nodes"
    )


def test_no_node_at_all_is_no_good_cluster():
    text = page()
    assert "no node was judged" in Page(text).text
    assert "no node was judged" in re.search("<title>(.*?)</title>", text).group(1)


def test_page_has_every_section():
    nodes, more = everything()
    text = page(*nodes, **more)
    seen = Page(text).text
    for heading in (
        "Map", "Do this first (3)", "Unlike their neighbours", "Validation jobs", "NCCL bandwidth: all_reduce_perf",
        "Pairs of nodes: all_reduce_perf", "Storage", "Where the time of the last configuration went", "Versions",
        "Since 2026-01-30T12:00:00Z", "Nodes",
    ):  # fmt: skip
        assert heading in seen, heading


def test_page_loads_no_other_resource():
    nodes, more = everything()
    text = page(*nodes, **more)
    attributes = [pair for _tag, given in Page(text).tags for pair in given.items()]
    assert {value[:6] for name, value in attributes if name == "href"} == {"#node=", "#state", "#check", "#unlik"}
    assert not [name for name, _value in attributes if name in ("src", "action", "srcset")]
    assert not re.search(r"url\(|@import|https?://", text)


@pytest.mark.parametrize("place", ["name", "message", "version", "queue", "cluster", "hint", "found"])
def test_node_output_is_escaped(place):
    hostile = scene.ATTACK
    entry = scene.verdict("gpu.count", "fail", severity="reset", message="m", hint="h", found="f")
    if place in entry:
        entry[place] = hostile
    given = scene.node(hostile if place == "name" else "a", entry)
    if place == "version":
        given["health"]["versions"] = {hostile: hostile}
    if place == "queue":
        given["queue"] = hostile
    cluster = hostile if place == "cluster" else "train"
    text = _report_html.page(_report_model.build([given], scene.TIME, cluster=cluster, version="1"))
    tags = Page(text).tags
    assert not [tag for tag, _attributes in tags if tag == "img"]
    assert [tag for tag, _attributes in tags].count("script") == 2
    assert not [name for _tag, attributes in tags for name in attributes if name.startswith("on")]
    assert data(text)["nodes"][0]["name"] == given["name"]
    document = _report_model.build([given], scene.TIME, cluster=cluster, version="1")
    assert not re.search(r"(?<!\\)<", _report_markdown.markdown(document))


def test_state_is_shown_without_colour_as_well():
    tags = Page(page(scene.node("a"), scene.broken("b"))).tags
    marks = [attributes for tag, attributes in tags if tag == "a" and "title" in attributes]
    assert {mark["aria-label"] for mark in marks} == {"a: good", "b: broken"}
    nodes, more = everything()
    drawn = [attributes for _tag, attributes in Page(page(*nodes, **more)).tags]
    assert sum(attributes.get("role") == "img" for attributes in drawn) == 4
    assert all(attributes["aria-label"] for attributes in drawn if attributes.get("role") == "img")


def test_script_has_every_verdict_of_every_node():
    text = page(scene.node("a"), scene.broken("b"))
    found = data(text)
    shown = {node["name"]: [found["verdicts"][number] for number in node["verdicts"]] for node in found["nodes"]}
    assert shown["a"][0] == ["pass", "gpu.count", "", "expected 8 GPUs, found 8 GPUs", "", "none"]
    assert len(shown["a"]) == len(scene.node("a")["health"]["results"])
    assert shown["b"][0][0] == "fail"


def test_640_nodes_stay_below_one_megabyte():
    nodes, more = everything(640)
    assert len(page(*nodes, **more).encode()) < 1_000_000


def test_640_nodes_with_seven_problems_stay_below_one_megabyte():
    verdicts = [
        scene.verdict(f"check.number_{at}", "fail", severity="reset", message="it broke" * at) for at in range(7)
    ]
    nodes = [scene.node(f"p5-dy-{number}", *verdicts) for number in range(640)]
    assert len(page(*nodes).encode()) < 1_000_000


def test_title_has_cluster_date_and_verdict():
    (title,) = re.findall("<title>(.*?)</title>", page(scene.node("a"), scene.broken("b")))[:1]
    assert title == "train, 2026-01-31: 1 broken, 1 good of 2 nodes"
    assert "<title>train, 2026-01-31: the only node is proved good</title>" in page(scene.node("a"))


def test_tiles_checks_names_and_counts_are_links():
    text = page(scene.node("a"), scene.broken("b"), scene.silent("c"))
    links = {attributes["href"] for tag, attributes in Page(text).tags if tag == "a"}
    assert {"#state=fail", "#state=undeterminable", "#state=pass", "#check=gpu.count", "#node=b"} <= links
    hostile = page(scene.node('x" onclick="y', scene.verdict("gpu.count", "fail", severity="reset", message="m")))
    assert 'href="#node=x%22+onclick%3D%22y"' in hostile and 'onclick="' not in hostile


def test_severities_are_explained_and_long_list_is_folded():
    broken = [
        scene.node(f"n{at}", scene.verdict("gpu.count", "fail", severity="isolate", message=f"cause {at}"))
        for at in range(9)
    ]
    text = page(*broken)
    assert "keep jobs away from the node and replace it" in Page(text).text
    assert "and 2 more" in Page(text).text and '<ol class="problems" start="8">' in text
    assert set(_report_html.SEVERITY_WORDS) == set(result.SEVERITIES)


def test_problem_of_many_nodes_links_to_all_of_them():
    text = page(*(scene.broken(f"n{at}") for at in range(20)))
    assert "20 nodes" in Page(text).text
    assert re.search(r'n11</a> <a href="#check=gpu.count">and 8 more</a>', text)
