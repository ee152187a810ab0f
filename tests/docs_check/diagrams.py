# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the mermaid diagrams of the pages as SVG for the documentation site, which may load no program from elsewhere.

Only what the pages use is known: ``flowchart`` with boxes, arrows and labels, and ``sequenceDiagram``. Anything else is
refused, so that no diagram is drawn wrong in silence.
"""

from __future__ import annotations

import dataclasses
import html
import re

BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LETTER, LINE, PAD, GAP = 7.0, 16, 10, 56
WIDEST = 1000
NODE = re.compile(r"(\w+)(?:\[\((.+?)\)\]|\[\"(.+?)\"\]|\[(.+?)\]|\{(.+?)\})?")
ARROW = re.compile(r"\s*(?:-->\|(.+?)\||--\s+\"(.+?)\"\s+-->|(-->)|(-\.->))\s*")
MESSAGE = re.compile(r"(\w+)-{1,2}>>(\w+):\s*(.+)")
STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.b{fill:#f6f8fa;stroke:#57606a}.e{stroke:#57606a;"
    "fill:none}.l{font-size:12px;fill:#0a3069}.h{fill:#fff;opacity:.9}</style>"
    '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>'
)


class DiagramError(ValueError):
    """A diagram has what this program does not draw; the text names the line."""


@dataclasses.dataclass
class Box:
    """A box: its lines of text, its rank from the first, and where its centre is.

    ``room``: the least width that it is given, for the labels of arrows to it. One without lines is where an arrow
    passes a rank.
    """

    lines: list[str]
    rank: int = 0
    x: float = 0
    y: float = 0
    room: float = 0

    @property
    def width(self) -> float:
        """As wide as its longest line."""
        return max(len(line) for line in self.lines) * LETTER + 2 * PAD if self.lines else 0

    @property
    def height(self) -> float:
        """As high as its lines."""
        return len(self.lines) * LINE + PAD if self.lines else 0


@dataclasses.dataclass(frozen=True)
class Edge:
    """An arrow between the boxes of two names."""

    start: str
    end: str
    label: str = ""
    dashed: bool = False


def draw(text: str) -> str:
    """Return the SVG of one diagram. Raises DiagramError."""
    head, *rest = [line.strip() for line in text.splitlines() if line.strip()]
    if head.startswith("flowchart "):
        return _flowchart(head.split()[1], rest)
    if head == "sequenceDiagram":
        return _sequence(rest)
    raise DiagramError(f"{head}: only flowchart and sequenceDiagram are drawn")


def read_flowchart(lines: list[str]) -> tuple[dict[str, Box], list[Edge]]:
    """Boxes by name and arrows of a flowchart. Raises DiagramError."""
    boxes: dict[str, Box] = {}
    edges: list[Edge] = []
    for line in map(str.strip, lines):
        if line == "end" or line.startswith("subgraph "):
            continue
        at, last, label, dashed = 0, "", "", False
        while at < len(line):
            found = NODE.match(line, at)
            if not found:
                raise DiagramError(f"{line}: no box at {line[at:]!r}")
            name, words = found[1], next((one for one in found.groups()[1:] if one), "")
            if words or name not in boxes:
                boxes[name] = Box((words or name).split("<br/>"))
            if last:
                edges.append(Edge(last, name, label, dashed))
            at, last = found.end(), name
            if at == len(line):
                break
            arrow = ARROW.match(line, at)
            if not arrow:
                raise DiagramError(f"{line}: no arrow at {line[at:]!r}")
            at, label, dashed = arrow.end(), arrow[1] or arrow[2] or "", bool(arrow[4])
    return boxes, edges


def _rank(boxes: dict[str, Box], edges: list[Edge]) -> None:
    """Give each box the length of the longest way to it. Raises DiagramError for a circle."""
    for _round in boxes:
        changed = False
        for edge in edges:
            least = boxes[edge.start].rank + 1
            if boxes[edge.end].rank < least:
                boxes[edge.end].rank, changed = least, True
        if not changed:
            return
    if edges:
        raise DiagramError("the arrows make a circle")


def _flowchart(direction: str, lines: list[str]) -> str:
    boxes, edges = read_flowchart(lines)
    _rank(boxes, edges)
    ways = [_way(boxes, edge) for edge in edges]
    for edge, way in zip(edges, ways):
        way[1].room = max(way[1].room, len(edge.label) * LETTER)
    ranks: dict[int, list[Box]] = {}
    # Points that an arrow passes are at the end of their rank.
    for box in [*boxes.values(), *(box for way in ways for box in way[1:-1])]:
        ranks.setdefault(box.rank, []).append(box)
    labels = max((len(edge.label) for edge in edges), default=0) * LETTER
    across = direction == "LR"
    gap = max(GAP, labels + 2 * PAD if across else GAP)
    if across and sum(max(box.width for box in row) + gap for row in ranks.values()) > WIDEST:
        across, gap = False, GAP
    width, height = _place(ranks, across, gap)
    parts = [_edge(way, edge, across) for edge, way in zip(edges, ways)]
    parts += [_box(box) for box in boxes.values()]
    return _svg(width, height, parts)


def _way(boxes: dict[str, Box], edge: Edge) -> list[Box]:
    """Return the boxes of an arrow's ends, and between them one without text in each rank that it passes."""
    start, end = boxes[edge.start], boxes[edge.end]
    return [start, *(Box([], rank) for rank in range(start.rank + 1, end.rank)), end]


def _place(ranks: dict[int, list[Box]], across: bool, gap: float) -> tuple[float, float]:
    """Give each box its place, one rank after the other; returns the size of the whole."""
    spans = {rank: sum(_size(box, across) for box in row) for rank, row in ranks.items()}
    widest, along = max(spans.values()), float(PAD)
    for rank in sorted(ranks):
        row = ranks[rank]
        thick = max(box.width if across else box.height for box in row)
        side = (widest - spans[rank]) / 2
        for box in row:
            size = _size(box, across)
            middle, centre = side + size / 2, along + thick / 2
            box.x, box.y = (centre, middle) if across else (middle, centre)
            side += size
        along += thick + gap
    along += PAD - gap
    return (along, widest) if across else (widest, along)


def _size(box: Box, across: bool) -> float:
    """Return the space of a box in its rank."""
    return (box.height if across else max(box.width, box.room)) + 2 * PAD


def _box(box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    first = top + PAD / 2 + 12
    words = "".join(
        f'<text x="{box.x:.0f}" y="{first + at * LINE:.0f}" text-anchor="middle">{html.escape(line)}</text>'
        for at, line in enumerate(box.lines)
    )
    rect = f'<rect class="b" x="{left:.0f}" y="{top:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="5"/>'
    return rect + words


def _edge(way: list[Box], edge: Edge, across: bool) -> str:
    points = []
    for at, box in enumerate(way):
        width, height = (box.width / 2, 0) if across else (0, box.height / 2)
        if at:
            points.append((box.x - width, box.y - height))
        if at < len(way) - 1:
            points.append((box.x + width, box.y + height))
    line = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in points)
    dash = ' stroke-dasharray="4 3"' if edge.dashed else ""
    path = f'<path class="e" d="{line}" marker-end="url(#a)"{dash}/>'
    (x1, y1), (x2, y2) = points[:2]
    # Nearer to where it goes: others begin at the same box.
    return path + (_label(edge.label, x1 + (x2 - x1) * 0.7, y1 + (y2 - y1) * 0.6) if edge.label else "")


def _label(text: str, x: float, y: float, anchor: str = "middle") -> str:
    """Return a text on a white ground."""
    width = len(text) * 6.4
    left = {"middle": x - width / 2, "start": x - 2, "end": x - width + 2}[anchor]
    back = f'<rect class="h" x="{left:.0f}" y="{y - 9:.0f}" width="{width:.0f}" height="16"/>'
    return f'{back}<text class="l" x="{x:.0f}" y="{y + 4:.0f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _sequence(lines: list[str]) -> str:
    names: dict[str, str] = {}
    messages: list[tuple[str, str, str]] = []
    for line in lines:
        if line.startswith("participant "):
            short, _as, name = line.removeprefix("participant ").partition(" as ")
            names[short] = name or short
        elif (found := MESSAGE.fullmatch(line)) and {found[1], found[2]} <= set(names):
            messages.append((found[1], found[2], found[3]))
        else:
            raise DiagramError(f"{line}: neither a participant nor a message between two")
    longest = max(len(text) for _start, _end, text in messages) * 6.4
    step = max(max(map(len, names.values())) * LETTER + 3 * PAD, longest / 2)
    places = {short: PAD + step / 2 + at * step for at, short in enumerate(names)}
    height = 60 + len(messages) * 40
    parts = []
    for short, name in names.items():
        parts.append(f'<path class="e" d="M{places[short]:.0f} 40V{height - PAD}" stroke-dasharray="3 3"/>')
        parts.append(_box(Box([name], 0, places[short], 24)))
    for at, (start, end, text) in enumerate(messages):
        y, x1, x2 = 72 + at * 40, places[start], places[end]
        way = f"M{x1:.0f} {y}h34v12h-34" if start == end else f"M{x1:.0f} {y}H{x2:.0f}"
        anchor, x = ("start", x1 + 40) if start == end else ("middle", (x1 + x2) / 2)
        if start == end and x + len(text) * 6.4 > PAD + len(names) * step:
            anchor, x = "end", x1 - 8
        words = _label(text, x, y - 10 + 16 * (start == end), anchor)
        parts.append(f'<path class="e" d="{way}" marker-end="url(#a)"/>{words}')
    return _svg(len(names) * step + 2 * PAD, height, parts)


def _svg(width: float, height: float, parts: list[str]) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{STYLE}'
    return f'{head}<rect width="100%" height="100%" fill="#fff"/>' + "\n".join(parts) + "</svg>\n"


def replaced(text: str, name: str) -> tuple[str, dict[str, str]]:
    """A page with pictures in the place of its diagrams, and file name to SVG; ``name`` begins the file names."""
    files: dict[str, str] = {}

    def put(found: re.Match[str]) -> str:
        file = f"{name}-{len(files) + 1}.svg"
        files[file] = draw(found[1])
        return f"![diagram]({file})"

    return BLOCK.sub(put, text), files
