# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts as SVG text: bandwidth curves, the heat map of pairs, bars, and the bar of a run's time. Pure.

Colours are classes of the page's style sheet, so that they follow light, dark and print. Every mark has a title, and
every chart a text alternative: nothing is told by colour alone.
"""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .document import natural

WIDTH = 720
HEIGHT = 280
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
# More curves than this have no legend: their titles name them.
LEGEND = 8
SHADES = 6
# Of more bars than this, the lowest are shown: they are what a person looks for.
BARS = 40
BAR = 18
CELL = 16


def size_text(count: float) -> str:
    """Bytes as 8 MiB; 1024 of one unit are one of the next."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:g} {unit}"
        count /= 1024
    raise AssertionError


def number_text(value: float) -> str:
    """A figure with three significant digits, thousands apart: 12,300."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = round(value, digits) if digits else float(f"{value:.3g}")
    return f"{rounded:,.{digits}f}"


def _svg(parts: Iterator[str], width: float, height: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, words: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{html.escape(words)}</text>'


def curves(lines: Sequence[Mapping[str, Any]]) -> str:
    """Bus bandwidth over message size (logarithmic) of the runs of one collective; see _report_model.bandwidth."""
    sizes = [math.log2(max(1, point["size"])) for line in lines for point in line["points"]]
    low, high = min(sizes), max(sizes)
    peak = max(max(point["busbw"], point["least"] or 0) for line in lines for point in line["points"]) or 1

    def at(point: Mapping[str, Any], key: str) -> str:
        share = (math.log2(max(1, point["size"])) - low) / (high - low) if high > low else 0.5
        x = LEFT + share * (WIDTH - LEFT - RIGHT)
        return f"{x:.1f},{HEIGHT - BOTTOM - point[key] / peak * (HEIGHT - TOP - BOTTOM):.1f}"

    def parts() -> Iterator[str]:
        yield from _axes(low, high, peak)
        for number, line in enumerate(lines):
            shade = "bad" if line["status"] == "fail" else f"c{number % SHADES}"
            ends = line["points"][-1]
            title = f"{line['label']}: {number_text(ends['busbw'])} {line['unit']} at {size_text(ends['size'])}"
            yield f'<g class="line {shade}"><title>{html.escape(title)}</title>'
            yield f'<polyline points="{" ".join(at(point, "busbw") for point in line["points"])}"/>'
            if len(lines) <= LEGEND:
                for point in line["points"]:
                    x, y = at(point, "busbw").split(",")
                    yield f'<circle cx="{x}" cy="{y}" r="2.5"/>'
                yield f'<rect x="{LEFT}" y="{HEIGHT + 16 * number + 8}" width="12" height="8"/></g>'
                yield "<g>" + _text(LEFT + 18, HEIGHT + 16 * number + 16, title)
            yield "</g>"
        wanted = next((line for line in lines if any(point["least"] for point in line["points"])), None)
        if wanted:
            points = [at(point, "least") for point in wanted["points"] if point["least"]]
            yield f'<g class="least"><title>the least that passes</title><polyline points="{" ".join(points)}"/></g>'

    height = HEIGHT + (16 * len(lines) + 8 if len(lines) <= LEGEND else 0)
    return _svg(parts(), WIDTH, height, f"bus bandwidth by message size, {len(lines)} runs, up to {number_text(peak)}")


def _axes(low: float, high: float, peak: float) -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    yield f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    for step in range(5):
        y = bottom - step / 4 * (bottom - TOP)
        yield _text(LEFT - 6, y + 4, number_text(peak * step / 4), ' text-anchor="end"')
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>'
    steps = max(1, math.ceil((high - low) / 6))
    exponent = math.ceil(low)
    while exponent <= high:
        share = (exponent - low) / (high - low) if high > low else 0.5
        yield _text(LEFT + share * (right - LEFT), bottom + 16, size_text(2**exponent), ' text-anchor="middle"')
        exponent += steps
    yield _text(LEFT, HEIGHT - 2, "GB/s over message size")


def shade(value: float, low: float, high: float) -> int:
    """Which of ``SHADES`` shades a figure has between the lowest (0) and the highest."""
    return SHADES - 1 if high <= low else min(SHADES - 1, int((value - low) / (high - low) * SHADES))


def heat_map(found: Sequence[Mapping[str, Any]]) -> str:
    """Bandwidth of every pair of nodes; see _report_model.pairs (of one collective)."""
    names = sorted({name for pair in found for name in (pair["a"], pair["b"])}, key=natural)
    place = {name: number for number, name in enumerate(names)}
    values = [pair["busbw"] for pair in found]
    low, high = min(values), max(values)
    left = 8 + 7 * max(map(len, names))
    side = CELL * len(names)

    def parts() -> Iterator[str]:
        for name in names:
            yield _text(left - 6, 20 + place[name] * CELL + 12, name, ' text-anchor="end"')
        for pair in found:
            title = html.escape(f"{pair['a']} with {pair['b']}: {number_text(pair['busbw'])} GB/s, {pair['status']}")
            mark = "bad" if pair["status"] == "fail" else f"h{shade(pair['busbw'], low, high)}"
            for one, other in ((pair["a"], pair["b"]), (pair["b"], pair["a"])):
                x, y = left + place[one] * CELL, 20 + place[other] * CELL
                yield f'<rect class="{mark}" x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}">'
                yield f"<title>{title}</title></rect>"
        yield _text(left, 14, f"{number_text(low)} (light) to {number_text(high)} GB/s (dark); failed pairs are red")

    return _svg(parts(), max(left + side + 8, 360), side + 28, f"bandwidth between {len(names)} nodes in pairs")


def bars(rows: Sequence[Mapping[str, Any]]) -> str:
    """Figures of several nodes of one measure (label, value, status), the lowest first, with their median."""
    ordered = sorted(rows, key=lambda row: (row["value"], row["label"]))
    shown, middle = ordered[:BARS], statistics.median(row["value"] for row in rows)
    peak = max(*(row["value"] for row in rows), 0) or 1
    left = 16 + 7 * max(len(row["label"]) for row in shown)
    scale = (WIDTH - left - 90) / peak
    height = BAR * len(shown) + 22

    def parts() -> Iterator[str]:
        for number, row in enumerate(shown):
            y = number * BAR + 2
            mark = "bad" if row["status"] == "fail" else "c0"
            yield _text(left - 6, y + 12, row["label"], ' text-anchor="end"')
            # A damaged file may say anything, and a browser takes no width below nothing.
            width = max(0, row["value"] * scale)
            yield f'<rect class="{mark}" x="{left}" y="{y}" width="{width:.1f}" height="{BAR - 4}"/>'
            yield _text(left + width + 5, y + 12, number_text(row["value"]))
        x = left + middle * scale
        yield f'<path class="least" d="M{x:.1f} 0V{height - 20}"><title>median {number_text(middle)}</title></path>'
        more = f", the lowest {BARS} of {len(rows)}" if len(rows) > BARS else ""
        yield _text(left, height - 4, f"median {number_text(middle)}{more}")

    return _svg(parts(), WIDTH, height, f"{len(rows)} figures, median {number_text(middle)}")


def time_bar(found: Sequence[Mapping[str, Any]]) -> str:
    """Where a run's time went: one bar, a part for each role in the order they ran."""
    total = sum(part["seconds"] for part in found) or 1

    def parts() -> Iterator[str]:
        x = 0.0
        for number, part in enumerate(found):
            width = part["seconds"] / total * WIDTH
            title = html.escape(f"{part['role']}: {number_text(part['seconds'])} s")
            yield f'<g><title>{title}</title><rect class="c{number % SHADES}" x="{x:.1f}" y="0" '
            yield f'width="{max(0.5, width - 1):.1f}" height="34"/>'
            if width > 8 * len(part["role"]):
                yield _text(x + 6, 21, part["role"], ' class="on"')
            yield "</g>"
            x += width

    return _svg(parts(), WIDTH, 36, f"{number_text(total)} seconds by role")
