# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import STATUSES
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report.assets import SCRIPT, STYLE


def test_style_defines_every_colour_that_it_uses():
    defined, used = set(re.findall(r"(--\w+):", STYLE)), set(re.findall(r"var\((--\w+)\)", STYLE))
    assert used == defined


def test_every_status_has_style_and_cell_on_map():
    assert all(f".{status}" in STYLE and f".cells a.{status}{{" in STYLE for status in STATUSES)


def test_style_braces_are_balanced():
    assert STYLE.count("{") == STYLE.count("}")
    depth = 0
    for sign in re.findall(r"[{}]", STYLE):
        depth += 1 if sign == "{" else -1
        assert 0 <= depth <= 2


def test_script_knows_every_status():
    (order,) = re.findall(r"var ORDER = \[(.*?)\];", SCRIPT)
    assert set(re.findall(r"'(\w+)'", order)) == set(STATUSES)


# Node output is only ever set as text: these would parse or run it.
@pytest.mark.parametrize(
    "word",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc", "setTimeout"],
)
def test_script_never_evaluates_text(word):
    assert word not in SCRIPT


# Either would end the element that holds it.
@pytest.mark.parametrize(("text", "end"), [(STYLE, "</style"), (SCRIPT, "</script"), (SCRIPT, "<!--")])
def test_text_stays_inside_its_element(text, end):
    assert end not in text.lower()


@pytest.mark.parametrize("word", ["url(", "@import", "http:", "https:", "fetch(", "XMLHttpRequest", "import("])
def test_nothing_is_fetched(word):
    assert word not in STYLE + SCRIPT
