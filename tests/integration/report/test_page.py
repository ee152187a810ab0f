# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of the report in a real browser: headless Chromium draws it and runs its script."""

from __future__ import annotations

import re
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _report_html, _report_model

from tests.unit.plugins.plugin_utils import cluster_scene as scene

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
            timeout=60,
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
