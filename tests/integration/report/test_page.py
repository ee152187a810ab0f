# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of the report in a real browser: headless Chromium draws it and runs its script."""

from __future__ import annotations

import re
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as _report_model
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import html as _report_html

from tests.unit.fakes import fake_cluster as scene

# As root, in a container and without a GPU.
BROWSER = ("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")


@pytest.fixture
def browse(tmp_path):
    """browse(nodes, hash) returns the document as it is after its script ran, and what the browser complained of."""

    def run(nodes, where="", **more):
        path = tmp_path / "report.html"
        document = _report_model.build(nodes, scene.TIME, cluster="train", version="1.2.3", **more)
        path.write_text(_report_html.page(document), encoding="utf-8")
        done = subprocess.run(
            [*BROWSER, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"{path.as_uri()}{where}"],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]

    return run


@pytest.mark.parametrize("size", [1, 80, 640])
def test_it_is_drawn_without_complaint(browse, size):
    results = [scene.bandwidth(1.0), scene.bandwidth(0.9, "p5-dy-1+p5-dy-2")]
    shown, complaints = browse(scene.cluster(size), validation=scene.validation(*results), run=scene.RUN)
    assert complaints == []
    assert len(re.findall(r'<a class="\w+" href="#node-\d+" title', shown)) == size
    assert shown.count("<svg") == 3


def verdict_of(tool, measure, figures, unit, message, status="pass"):
    return scene.verdict(f"io.{tool}.{measure}", status, found=figures, unit=unit, message=message)


def test_every_part_of_the_page_is_drawn(browse):
    """The map by topology, storage of the nodes and of FSx, time by role, versions and packages, what changed."""
    names = [f"p5-dy-{number}" for number in range(1, 9)]
    results = [
        scene.bandwidth(1.0, "p5-dy-1+p5-dy-2"),
        scene.bandwidth(0.5, "p5-dy-2+p5-dy-3", "fail", severity="reset"),
        verdict_of("fio", "read", {name: 5e9 + at * 1e8 for at, name in enumerate(names)}, "B/s", "/local read: all"),
        verdict_of("ior", "write", 12000.5, "MiB/s", "IOR"),
        verdict_of("ior", "read", 15000.5, "MiB/s", "IOR"),
    ]
    packages = {"driver": "580.95.05", "package libnccl2": "2.28.9-1+cuda13.0"}
    nodes = [
        scene.node(name, queue=f"q{at % 2}", place=[f"nn-{at // 4}", f"nn-{at}"], versions=packages)
        for at, name in enumerate(names)
    ]
    before = _report_model.build([scene.node("gone"), scene.node(names[0], versions={"driver": "570.1"})], scene.TIME)
    shown, complaints = browse(
        nodes, validation=scene.validation(*results), run=scene.RUN, previous=before, source="h1:/fsx/validation-7.json"
    )
    assert complaints == []
    places = re.findall(r'<div class="place"><span>([^<]*)</span>', shown)
    assert len(places) == 8 and places[0] == "q0 / nn-0 / nn-0"
    # Two kinds of curve and pairs of one collective, three measures of storage, and the bar of time.
    charts = re.findall(r'<svg[^>]* aria-label="([^"]*)"', shown)
    assert len(charts) == 6 and charts[-1] == "54.7 seconds by role"
    assert [chart for chart in charts if "median" in chart] == [
        "8 figures, median 5,350,000,000",
        "1 figures, median 15,000",
        "1 figures, median 12,000",
    ]
    assert shown.count('class="bad"') == 2, "both cells of the pair that failed"
    assert re.search(r"<td[^>]*>package libnccl2</td><td>2.28.9-1\+cuda13.0</td><td>8</td>", shown)
    assert f"<h2>Since {scene.TIME}</h2>" in shown and "<td>570.1</td><td>580.95.05</td>" in shown
    assert re.search(r"gone</td><td>left</td>", shown) and "h1:/fsx/validation-7.json" in shown


def test_what_nodes_say_cannot_break_the_page(browse):
    """HTML in every name, ten megabytes of output, figures that are none, and keys that are missing."""
    hostile = scene.ATTACK
    nodes = [
        scene.node(
            hostile,
            scene.verdict("gpu.count", "fail", severity="reset", message="x" * 10_000_000, hint=hostile, found=hostile),
            queue=hostile,
            place=[hostile],
            versions={hostile: hostile},
        ),
        scene.node("nan", scene.verdict("io.read", found=float("nan")), scene.verdict("io.write", found=float("inf"))),
        scene.node("other", {**scene.verdict("gpu.count"), "schema": "mlcluster.result/7"}),
        {"name": "bare"},
        {"name": "empty", "health": {"results": [{}], "seconds": "long"}},
        scene.node("good"),
    ]
    shown, complaints = browse(nodes, "#node-0")
    assert complaints == []
    assert "<img" not in shown and len(shown) < 1_000_000
    assert len(re.findall(r'<a class="\w+" href="#node-\d+" title', shown)) == len(nodes)
    assert "1 broken, 4 not proved, 1 good of 6 nodes; 1 did not answer" in shown


def test_a_node_that_is_asked_for_is_shown_with_all_it_said(browse):
    shown, complaints = browse([scene.node("a"), scene.broken("b", scene.ATTACK)], "#node-1")
    assert complaints == []
    detail = re.search(r'<div id="detail".*?</table></div>', shown, re.DOTALL).group()
    assert '<h3 class="fail">b: broken</h3>' in detail
    assert "&lt;img src=x onerror" in detail and "<img" not in shown
    assert "stop the instance and start it again" in detail


@pytest.mark.parametrize("where", ["#node-99", "#node-x", "#<b>"])
def test_an_address_of_no_node_shows_none(browse, where):
    shown, complaints = browse([scene.node("a")], where)
    assert complaints == []
    assert re.search(r'<div id="detail"[^>]*></div>', shown)
