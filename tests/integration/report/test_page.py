# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of the report in a real browser: headless Chromium draws it, runs its script, and measures positions."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as _report_model
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import html as _report_html

from tests.unit.fakes import fake_cluster as scene

# As root, in a container and without a GPU.
BROWSER = ("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars")
DESK, PHONE = (1280, 900), (390, 844)

# Layout errors, found by the positions of elements: [error, element] each.
GEOMETRY = """
var wrong = [], width = document.documentElement.clientWidth;
function report(what, element) { wrong.push([what, element.outerHTML.slice(0, 160)]); }
function visible(element) { return element.getClientRects().length > 0; }
if (document.documentElement.scrollWidth > width) { report('the page is wider than the screen', document.body); }
document.querySelectorAll('body *').forEach(function (element) {
  if (!visible(element) || element.closest('.scroll') || element.closest('svg')) { return; }
  var box = element.getBoundingClientRect();
  if (box.right > width + 1 || box.left < -1) { report('beyond the screen', element); }
  if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX !== 'visible') {
    report('clipped', element);
  }
});
var letter = document.createElement('span');
letter.style.cssText = 'position:absolute;font-size:14px;width:12ch';
document.body.appendChild(letter);
var least = letter.getBoundingClientRect().width;
letter.remove();
document.querySelectorAll('td').forEach(function (cell) {
  if (visible(cell) && cell.textContent.length > 12 && cell.getBoundingClientRect().width < least - 1) {
    report('a column under 12 characters', cell);
  }
});
document.querySelectorAll('.plot, .bar, .legend').forEach(function (chart) {
  var words = Array.prototype.slice.call(chart.querySelectorAll('span, li')).filter(function (one) {
    return one.textContent && visible(one);
  });
  words.forEach(function (one, at) {
    var a = one.getBoundingClientRect();
    words.slice(at + 1).forEach(function (other) {
      var b = other.getBoundingClientRect();
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) {
        report('labels that collide', one);
      }
    });
  });
});
answer(wrong);
"""


def with_probe(page: str, probe: str) -> str:
    """Return the page with an additional script that its policy allows; answer() adds a value to the page."""
    script = "function answer(what) { document.body.insertAdjacentHTML('beforeend', '<pre id=answer></pre>');"
    script += "document.getElementById('answer').textContent = JSON.stringify(what); }" + probe
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = page.replace("script-src 'sha256-", f"script-src 'sha256-{digest}' 'sha256-", 1)
    assert allowed != page, "the page has no policy of its own"
    return allowed.replace("</body>", f"<script>{script}</script></body>")


@pytest.fixture
def browse(tmp_path):
    """Return ``browse(nodes, address)``: it returns the document after its script ran, and console errors.

    With a probe, it returns the probe's answer instead of the document.
    """

    def run(nodes, where="", probe="", size=DESK, **more):
        path = tmp_path / "report.html"
        document = _report_model.build(nodes, scene.TIME, cluster="train", version="1.2.3", **more)
        page = _report_html.page(document)
        path.write_text(with_probe(page, probe) if probe else page, encoding="utf-8")
        done = subprocess.run(
            [
                *BROWSER,
                f"--user-data-dir={tmp_path / 'profile'}",
                f"--window-size={size[0]},{size[1]}",
                "--dump-dom",
                f"{path.as_uri()}{where}",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        errors = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        if not probe:
            return done.stdout, errors
        found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
        assert found, f"the probe gave no answer: {errors}"
        text = found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return json.loads(text), errors

    return run


def verdict_of(tool, measure, figures, unit, message, status="pass"):
    return scene.verdict(f"io.{tool}.{measure}", status, found=figures, unit=unit, message=message)


def crowded():
    """Return a report with seven problems, long names and every chart, which strains a narrow page."""
    names = [f"queue-gpu-dy-p5-48xlarge-{number}" for number in range(1, 13)]
    results = [
        scene.bandwidth(1.0, expected={str(size): 100.0 for size in scene.SIZES}),
        scene.bandwidth(0.5, f"{names[1]}+{names[2]}", "fail", severity="reset"),
        *(scene.bandwidth(1 - at / 50, f"{names[0]}+{name}") for at, name in enumerate(names[1:], 1)),
        verdict_of("fio", "read", {name: 5.1e9 + at * 1e8 for at, name in enumerate(names)}, "B/s", "/local read: all"),
        verdict_of("ior", "write", 12000.5, "MiB/s", "IOR", status="fail"),
    ]
    nodes = [scene.node(name, queue="gpu", place=[f"nn-{at // 4}"]) for at, name in enumerate(names)]
    for at, check in enumerate(("gpu.ecc", "efa.devices", "storage.disks", "mounts.answer")):
        message = f"found a value that is not the expected one, and reports it in a sentence of usual length ({check})"
        nodes[at] = scene.node(names[at], scene.verdict(check, "fail", severity="reboot", message=message), queue="gpu")
    nodes += [{**scene.silent(name), "queue": "cpu"} for name in ("cpu-st-1", "cpu-st-2")]
    before = _report_model.build([scene.node("gone"), scene.node(names[5], versions={"driver": "570.1"})], scene.TIME)
    return nodes, {"validation": scene.validation(*results), "run": scene.RUN, "previous": before}


@pytest.mark.parametrize("size", [1, 80, 640])
def test_page_is_drawn_without_console_errors(browse, size):
    results = [scene.bandwidth(1.0), scene.bandwidth(0.9, "p5-dy-1+p5-dy-2")]
    shown, errors = browse(scene.cluster(size), validation=scene.validation(*results), run=scene.RUN)
    assert errors == []
    assert len(re.findall(r'<a class="\w+" href="#node=[^"]*" title', shown)) == size
    assert (shown.count('class="plot"'), shown.count('class="bars"'), shown.count("<svg")) == (1, 1, 2)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("where", ["", "#node=queue-gpu-dy-p5-48xlarge-1", "#state=fail&sort=-5"])
def test_nothing_is_clipped_squeezed_or_overlapping(browse, size, where):
    nodes, more = crowded()
    wrong, errors = browse(nodes, where, GEOMETRY, size, **more)
    assert errors == []
    assert wrong == []


def test_geometry_test_sees_page_that_is_too_wide(browse, monkeypatch):
    monkeypatch.setattr(
        _report_html, "STYLE", _report_html.STYLE.replace("overflow-wrap:anywhere", "white-space:nowrap")
    )
    nodes, more = crowded()
    wrong, _errors = browse(nodes, "", GEOMETRY, PHONE, **more)
    assert {"the page is wider than the screen", "beyond the screen"} <= {what for what, _where in wrong}


def test_seven_problems_fit_two_phone_screens(browse):
    nodes, more = crowded()
    probe = """
    var items = document.querySelectorAll('#problems > ol > li');
    answer([items.length, Math.round(items[items.length - 1].getBoundingClientRect().bottom)]);
    """
    (count, bottom), _errors = browse(nodes, "", probe, PHONE, **more)
    assert count == 7
    assert bottom <= 2 * PHONE[1]


def test_every_part_of_page_is_drawn(browse):
    """Covers the map by topology, storage of nodes and FSx, time by role, versions and packages, and changes."""
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
    shown, errors = browse(
        nodes, validation=scene.validation(*results), run=scene.RUN, previous=before, source="h1:/fsx/validation-7.json"
    )
    assert errors == []
    places = re.findall(r'<div class="place"><span>([^<]*)</span>', shown)
    assert len(places) == 8 and places[0] == "q0 / nn-0 / nn-0"
    # Curves and pairs of one collective, three measures of storage, and the bars of time.
    charts = re.findall(r'role="img" aria-label="([^"]*)"', shown)
    assert charts == [
        "bus bandwidth by message size, 2 runs, up to 480 GB/s",
        "bandwidth between 3 nodes in pairs",
        "8 figures, median 5.35 GB/s",
        "1 figure, median 14.6 GiB/s",
        "1 figure, median 11.7 GiB/s",
        "54.7 seconds by role",
    ]
    assert shown.count('<rect class="bad"') == 2, "both cells of the pair that failed"
    assert re.search(r">package libnccl2</td><td[^>]*>2.28.9-1\+cuda13.0</td><td[^>]*>8</td>", shown)
    assert f"<h2>Since {scene.TIME}</h2>" in shown and re.search(r">570.1</td><td[^>]*>580.95.05</td>", shown)
    assert re.search(r"gone</td><td[^>]*>left</td>", shown) and "h1:/fsx/validation-7.json" in shown


def test_hostile_node_data_cannot_break_page(browse):
    """HTML in every name, ten megabytes of output, invalid figures, and missing keys."""
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
        {"name": "__proto__", "health": {"results": [{}], "seconds": "long"}},
        scene.node("good"),
    ]
    shown, errors = browse(nodes, "#node=__proto__")
    assert errors == []
    assert '<div id="detail"' not in shown and "__proto__: not proved</h3>" in shown
    assert "<img" not in shown and len(shown) < 1_000_000
    assert len(re.findall(r'<a class="\w+" href="#node=[^"]*" title', shown)) == len(nodes)
    assert "1 broken, 4 not proved, 1 good of 6 nodes; 1 did not answer" in shown
    wrong, errors = browse(nodes, "#node=__proto__", GEOMETRY, PHONE)
    assert (wrong, errors) == ([], [])


def test_requested_node_is_shown_with_failures_first(browse):
    shown, errors = browse([scene.node("a"), scene.broken("b", scene.ATTACK)], "#node=b")
    assert errors == []
    detail = re.search(r'<tr id="detail".*?</tr>', shown, re.DOTALL).group()
    assert '<h3 class="fail">b: broken</h3>' in detail
    assert "&lt;img src=x onerror" in detail and "<img" not in shown
    assert "stop the instance and start it again" in detail
    assert detail.index("broken </b>gpu.count") < detail.index("good or not judged")


# The nodes shown at each address, as after a click on a link.
ADDRESSES = {
    "#state=": ["b", "c", "a", "d2", "d10"],
    "#state=pass": ["a", "d2", "d10"],
    "#queue=q1": ["d2", "d10"],
    "#queue=q1&text=D10": ["d10"],
    "#check=gpu.count": ["b"],
    "#check=node.answer&state=undeterminable": ["c"],
    "#sort=1": ["a", "b", "c", "d2", "d10"],
    "#sort=-1": ["d10", "d2", "c", "b", "a"],
    "#sort=99": ["b", "c", "a", "d2", "d10"],
    "#state=nonsense": [],
    # A node requested by name is shown despite the filter.
    "#state=fail&node=a": ["b", "a"],
    "#node=absent": ["b", "c", "a", "d2", "d10"],
    # Another address keeps the view.
    "#unlike": ["b", "c", "a", "d2", "d10"],
}
SHOWN = """
answer(%s.map(function (where) {
  history.replaceState(null, '', where);
  window.dispatchEvent(new Event('hashchange'));
  var rows = Array.prototype.slice.call(document.querySelectorAll('#nodes tbody tr:not(.detail)'));
  return rows.filter(function (row) { return !row.hidden; }).map(function (row) { return row.cells[1].textContent; });
}));
"""


def test_address_selects_and_sorts_nodes(browse):
    nodes = [scene.node("a"), scene.broken("b"), scene.silent("c")]
    nodes += [scene.node(name, queue="q1") for name in ("d10", "d2")]
    found, errors = browse(nodes, "", SHOWN % json.dumps([*ADDRESSES]))
    assert errors == []
    assert dict(zip(ADDRESSES, found, strict=True)) == ADDRESSES


def test_click_opens_and_closes_node_in_place(browse):
    probe = """
    var steps = [];
    function step(selector) {
      document.querySelector(selector).click();
      var detail = document.getElementById('detail');
      steps.push([detail ? detail.parentNode.className || detail.parentNode.tagName : null, location.hash]);
    }
    step('.place a[title^="b"]');
    step('.problems a[href="#node=b"]');
    step('#nodes tbody tr a[href="#node=b"]');
    step('#nodes tbody tr a[href="#node=b"]');
    answer(steps);
    """
    steps, errors = browse([scene.node("a"), scene.broken("b")], "", probe)
    assert errors == []
    assert steps == [["map", "#node=b"], ["open", "#node=b"], ["TBODY", "#node=b"], [None, ""]]


def test_filter_of_page_is_in_its_address(browse):
    probe = """
    function choose(name, value) {
      var field = document.querySelector('#tools [name=' + name + ']');
      field.value = value;
      field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input'));
    }
    choose('state', 'fail');
    choose('text', 'zeta');
    document.querySelectorAll('#nodes th button')[1].click();
    document.querySelectorAll('#nodes th button')[1].click();
    answer([location.hash, document.querySelector('#tools span').textContent]);
    """
    found, errors = browse([scene.node("a"), scene.broken("zeta"), scene.broken("c")], "", probe)
    assert errors == []
    assert found == ["#state=fail&text=zeta&sort=-1", "1 of 3 shown"]


def test_page_shows_its_age(browse):
    found, _errors = browse([scene.node("a")], "", "answer(document.getElementById('age').textContent);")
    assert re.fullmatch(r", \d+ days old", found)
