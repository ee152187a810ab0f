# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as Markdown and for a terminal."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as _report_model
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import markdown as _report_markdown

from tests.unit.fakes import fake_cluster as scene
from tests.unit.plugins.plugin_utils._report.test_html import everything


def test_markdown_has_same_content_as_page():
    nodes, more = everything()
    document = _report_model.build(nodes, scene.TIME, cluster="train", version="1.2.3", **more)
    text = _report_markdown.markdown(document)
    assert text.startswith("# train: broken\n")
    assert "| ✕ broken | p5-dy-3 | p5.48xlarge |" in text
    assert "- p5-dy-7: version driver is 570.1; 11 of 12 have 580.95.05" in text
    assert "## Since 2026-01-30T12:00:00Z" in text and "| gone | left |  |  |" in text
    assert "| p5-dy-1 | check.number\\_0 | - | pass |" in text
    same = _report_model.build([scene.node("a")], scene.TIME)
    again = _report_model.build([scene.node("a")], scene.TIME, previous=same)
    assert "Nothing has changed." in _report_markdown.markdown(again)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)


def test_terminal_lines_have_verdict_and_problems():
    document = _report_model.build([scene.node("a"), scene.broken("b")], scene.TIME)
    assert _report_markdown.lines(document) == [
        "1 broken, 1 good of 2 nodes",
        "✕ gpu.count: a GPU fell off the bus. expected 8 GPUs, found 7 GPUs. stop the instance and start it again [b]",
    ]
