# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts of the report's page: curves of bandwidth, the matrix of pairs, and bars. Pure.

Text is HTML and only lines are SVG, so that a chart fits a phone's width without smaller letters.
Colours are classes of the page's style sheet, so that they follow light, dark and print. Every chart has a text
alternative, and failures are written out: colour is never the only sign.
"""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .document import natural

SHADES = 6
# With more curves than this, the legend has only the failed and the lowest ones.
LEGEND = 8
# Size labels below a chart: as many as fit on a phone.
TICKS = 4
# With more bars than this, only the lowest are shown: they matter most.
BARS = 40
# Number of pairs listed below their matrix, slowest first.
PAIRS = 10
CELL = 16
# Upper bound of a letter's width in the matrix's labels (11 px sans-serif), in pixels.
LETTER = 7

# Unit of a verdict: factors and names; the largest factor that leaves at least 1 is used.
SCALES: dict[str, Sequence[tuple[float, str]]] = {
    "B/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")),
    "MB/s": ((1e3, "GB/s"),),
    "MiB/s": ((1024, "GiB/s"),),
    "KiB/s": ((1024**2, "GiB/s"), (1024, "MiB/s")),
    "B": ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")),
}


def size_text(count: float) -> str:
    """Format bytes with binary units, such as 8 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:g} {unit}"
        count /= 1024
    raise AssertionError


def number_text(value: float) -> str:
    """Format a number with three significant digits and thousands separators: 12,300."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = round(value, digits) if digits else float(f"{value:.3g}")
    return f"{rounded:,.{digits}f}"


def scale(values: Sequence[float], unit: str | None) -> tuple[float, str]:
    """Return the divisor and the unit that make the largest figure easy to read."""
    largest = max((abs(value) for value in values), default=0.0)
    for factor, name in SCALES.get(unit or "", ()):
        if largest >= factor:
            return factor, name
    return 1.0, unit or ""


def escaped(what: object) -> str:
    """Return any value as text of the page."""
    return html.escape(str(what))


def curves(lines: Sequence[Mapping[str, Any]]) -> str:
    """Draw bus bandwidth over message size (logarithmic) for the runs of one collective; see ``document.bandwidth``."""
    sizes = [math.log2(max(1, point["size"])) for line in lines for point in line["points"]]
    low, high = min(sizes), max(sizes)
    peak = max(max(point["busbw"], point["least"] or 0) for line in lines for point in line["points"]) or 1

    def across(exponent: float) -> float:
        return 100 * (exponent - low) / (high - low) if high > low else 50.0

    def path(points: Sequence[Mapping[str, Any]], key: str) -> str:
        places = [
            f"{across(math.log2(max(1, point['size']))):.2f} {100 - max(0, point[key]) / peak * 100:.2f}"
            for point in points
        ]
        # Round ends draw a line of length zero as a dot.
        return f"M{'L'.join(places)}" + ("h0" if len(places) == 1 else "")

    def paths() -> Iterator[str]:
        for number, line in enumerate(lines):
            title = f"<title>{escaped(_curve_text(line))}</title>"
            yield f'<path class="{_shade_of(line, number)}" d="{path(line["points"], "busbw")}">{title}</path>'
        with_limit = next((line for line in lines if any(point["least"] for point in line["points"])), None)
        if with_limit:
            points = [point for point in with_limit["points"] if point["least"]]
            yield f'<path class="least" d="{path(points, "least")}"><title>lowest bandwidth that passes</title></path>'

    label = f"bus bandwidth by message size, {_counted(len(lines), 'run')}, up to {number_text(peak)} GB/s"
    heights = "".join(
        f'<span class="y" style="bottom:{step * 25}%">{number_text(peak * step / 4)}</span>' for step in range(5)
    )
    steps = max(1, math.ceil((high - low) / TICKS))
    widths = "".join(
        f'<span class="x" style="left:{across(exponent):.2f}%">{size_text(2**exponent)}</span>'
        for exponent in range(math.ceil(low), math.floor(high) + 1, steps)
    )
    return (
        f'<div class="plot" role="img" aria-label="{escaped(label)}">'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{"".join(paths())}</svg>'
        f"{heights}{widths}</div>{_legend(lines)}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _shade_of(line: Mapping[str, Any], number: int) -> str:
    return "bad" if line["status"] == "fail" else f"c{number % SHADES}"


def _curve_text(line: Mapping[str, Any]) -> str:
    last = line["points"][-1]
    failed = ", failed" if line["status"] == "fail" else ""
    return f"{line['label']}: {number_text(last['busbw'])} {line['unit']} at {size_text(last['size'])}{failed}"


def _legend(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the legend: all curves of a few, the failed and the lowest of many."""
    numbered = list(enumerate(lines))
    if len(lines) > LEGEND:
        numbered.sort(key=lambda pair: (pair[1]["status"] != "fail", pair[1]["points"][-1]["busbw"]))
    rows = [
        f'<li><i class="{_shade_of(line, number)}"></i>{escaped(_curve_text(line))}</li>'
        for number, line in numbered[:LEGEND]
    ]
    more = f'<li class="soft">and {len(lines) - LEGEND:,} more runs</li>' if len(lines) > LEGEND else ""
    least = any(point["least"] for line in lines for point in line["points"])
    dashes = '<li><i class="dashes"></i>lowest bandwidth that passes</li>' if least else ""
    return f'<ul class="legend"><li class="soft">GB/s over message size</li>{"".join(rows)}{more}{dashes}</ul>'


def shade(value: float, low: float, high: float) -> int:
    """Return which of ``SHADES`` shades a figure has between the lowest (0) and the highest."""
    return SHADES - 1 if high <= low else min(SHADES - 1, int((value - low) / (high - low) * SHADES))


def heat_map(found: Sequence[Mapping[str, Any]]) -> str:
    """Draw the bandwidth of every pair of nodes and list the slowest; see ``document.pairs`` (one collective)."""
    names = sorted({name for pair in found for name in (pair["a"], pair["b"])}, key=natural)
    place = {name: number for number, name in enumerate(names)}
    values = [pair["busbw"] for pair in found]
    low, high = min(values), max(values)
    left, side = 8 + LETTER * max(map(len, names)), CELL * len(names)

    def parts() -> Iterator[str]:
        for name in names:
            yield f'<text x="{left - 6}" y="{place[name] * CELL + 12}" text-anchor="end">{escaped(name)}</text>'
        for pair in found:
            mark = "bad" if pair["status"] == "fail" else f"h{shade(pair['busbw'], low, high)}"
            for one, other in ((pair["a"], pair["b"]), (pair["b"], pair["a"])):
                x, y = left + place[one] * CELL, place[other] * CELL
                yield f'<rect class="{mark}" x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}">'
                yield f"<title>{escaped(_pair_text(pair))}</title></rect>"

    slowest = sorted(found, key=lambda pair: (pair["status"] != "fail", pair["busbw"], pair["a"], pair["b"]))[:PAIRS]
    rows = "".join(f"<li>{escaped(_pair_text(pair))}</li>" for pair in slowest)
    more = f'<li class="soft">and {len(found) - PAIRS:,} more pairs</li>' if len(found) > PAIRS else ""
    label = f"bandwidth between {len(names)} nodes in pairs"
    return (
        f'<div class="scroll"><svg viewBox="0 0 {left + side} {side}" width="{left + side}" height="{side}" '
        f'role="img" aria-label="{label}">{"".join(parts())}</svg></div>'
        f'<p class="soft">From {number_text(low)} (light) to {number_text(high)} GB/s (dark); a pair that failed is '
        f'red.</p><ul class="legend">{rows}{more}</ul>'
    )


def _pair_text(pair: Mapping[str, Any]) -> str:
    failed = ", failed" if pair["status"] == "fail" else ""
    return f"{pair['a']} with {pair['b']}: {number_text(pair['busbw'])} GB/s{failed}"


def bars(rows: Sequence[Mapping[str, Any]], unit: str | None) -> str:
    """Draw one measure of several nodes (label, value, status), lowest first, with the median."""
    ordered = sorted(rows, key=lambda row: (row["value"], row["label"]))
    factor, name = scale([row["value"] for row in rows], unit)
    middle = statistics.median(row["value"] for row in rows)
    median_text = f"median {number_text(middle / factor)} {name}".rstrip()
    more = f", the lowest {BARS} of {len(rows):,}" if len(rows) > BARS else ""
    label = f"{_counted(len(rows), 'figure')}, {median_text}"
    return _bars(ordered[:BARS], factor, name, label, middle) + f'<p class="soft">{escaped(median_text + more)}</p>'


def role_times(parts: Sequence[Mapping[str, Any]]) -> str:
    """Draw a bar for each role of a run (role, seconds), in the order in which they ran."""
    rows = [{"label": part["role"], "value": part["seconds"], "status": "pass"} for part in parts]
    total = number_text(sum(part["seconds"] for part in parts))
    return _bars(rows, 1.0, "s", f"{total} seconds by role")


def _bars(rows: Sequence[Mapping[str, Any]], factor: float, unit: str, label: str, middle: float | None = None) -> str:
    peak = max(*(row["value"] for row in rows), middle or 0, 0) or 1
    mark = "" if middle is None else f'<em style="left:{max(0.0, middle / peak * 100):.2f}%"></em>'
    lines = []
    for row in rows:
        state = "bad" if row["status"] == "fail" else "c0"
        failed = ", failed" if row["status"] == "fail" else ""
        # A damaged file may hold any value, and a browser ignores a negative width.
        width = max(0.0, row["value"] / peak * 100)
        amount = f"{number_text(row['value'] / factor)} {unit}".rstrip() + failed
        lines.append(
            f'<div class="bar"><span class="who">{escaped(row["label"])}</span><span class="track">'
            f'<i class="{state}" style="width:{width:.2f}%"></i>{mark}</span>'
            f'<span class="amount">{escaped(amount)}</span></div>'
        )
    return f'<div class="bars" role="img" aria-label="{escaped(label)}">{"".join(lines)}</div>'
