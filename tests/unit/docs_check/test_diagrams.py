# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Diagrams of the pages, drawn for the site."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.build.house_rules import tracked_files
from tests.docs_check import diagrams
from tests.unit.checkout import CHECKOUT

CHART = 'flowchart LR\nsubgraph a\nA[one<br/>two] -->|yes| B{three}\nend\nA -. "x" .-> C'
SMALL = 'flowchart TD\n  A["one"] -- "to <b>" --> B[(disk)] --> D\n  A --> D\n  E -.-> D\n'


def words(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_boxes_arrows_and_labels_are_drawn():
    boxes, edges = diagrams.read_flowchart(SMALL.splitlines()[1:])
    assert {name: box.lines for name, box in boxes.items()} == {"A": ["one"], "B": ["disk"], "D": ["D"], "E": ["E"]}
    assert [(edge.start, edge.end, edge.label, edge.dashed) for edge in edges] == [
        ("A", "B", "to <b>", False),
        ("B", "D", "", False),
        ("A", "D", "", False),
        ("E", "D", "", True),
    ]
    svg = diagrams.draw(SMALL)
    assert sorted(words(svg)) == ["D", "E", "disk", "one", "to <b>"] and svg.count("stroke-dasharray") == 1


def test_no_arrow_runs_through_box():
    """A to D passes the rank of B beside it."""
    svg = diagrams.draw(SMALL)
    paths = [element.get("d") for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")]
    assert max(path.count("L") for path in paths if path.startswith("M")) > 1


def test_messages_between_participants_are_drawn():
    svg = diagrams.draw("sequenceDiagram\n participant T as training\n participant F\n T->>T: save\n T-->>F: copy\n")
    assert sorted(words(svg)) == ["F", "copy", "save", "training"]


@pytest.mark.parametrize(
    "text",
    [
        CHART,
        "pie\n a: 1",
        "flowchart TD\n A --> B --> A",
        "flowchart TD\n A ==> B",
        "flowchart TD\n A --> [x]",
        "sequenceDiagram\n A->>B: no one",
    ],
)
def test_unsupported_diagram_is_rejected(text):
    with pytest.raises(diagrams.DiagramError):
        diagrams.draw(text)


def test_every_diagram_of_pages_can_be_drawn():
    pages = [name for name in tracked_files(CHECKOUT) if name.endswith(".md")]
    found = {}
    for name in pages:
        text, files = diagrams.replaced((CHECKOUT / name).read_text(encoding="utf-8"), "page")
        found.update({f"{name}-{file}": svg for file, svg in files.items()})
        assert "```mermaid\n" not in text or not files
    assert len(found) > 3 and all(ElementTree.fromstring(svg) is not None for svg in found.values())
