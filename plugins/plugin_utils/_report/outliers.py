# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find nodes whose values differ from those of their neighbours. Pure.

Nodes are compared within one instance type and kind, and within one UltraServer, because the GPUs of each are a
separate NVLink cluster. A value that differs on every node (a serial number) has no majority and is ignored. A number
is judged by its distance from the median in units of the spread. A number with a fraction is a measurement, so it is
not compared with a majority: 99.9 % free among nodes with 100.0 % is no outlier.
"""

from __future__ import annotations

import collections
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data.ultraservers import is_ultraserver

from .input import is_figure

# With fewer nodes there is no majority.
MIN_NODES = 4
# The share of the nodes that must agree before the others are called odd.
MAJORITY = 0.6
# A number is odd beyond this many robust standard deviations and beyond this share of the median: if the figures hardly
# spread, the first alone would report rounding differences.
DEVIATIONS = 5.0
MIN_SHARE = 0.1
# The median absolute deviation of normally distributed figures is this share of their standard deviation.
# Source: P. J. Rousseeuw and C. Croux, Alternatives to the Median Absolute Deviation, 1993.
MAD_TO_SIGMA = 1.4826
LONGEST_VALUE = 200


def find(nodes: Sequence[Mapping[str, Any]], curves: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the outliers among nodes and bandwidth curves of ``document.build``, the most frequent nodes first.

    Each: node (of a curve of two nodes both, joined by +), what (an id of a check with its device, ``version NAME``, or
    ``JOB COLLECTIVE``), kind (``value`` or ``number``), found,
    expected (the majority's value, or the median), agree and of (numbers of nodes), message.
    """
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = collections.defaultdict(list)
    for node in nodes:
        kind = str(node.get("instance_type"))
        place = node.get("place") or () if is_ultraserver(kind) else ()
        groups[(kind, str(node.get("kind")), *place)].append(node)
    found = [outlier for _key, group in sorted(groups.items()) for outlier in _group_outliers(group)]
    found += _curve_outliers(curves)
    count_by_node = collections.Counter(outlier["node"] for outlier in found)
    return sorted(found, key=lambda outlier: (-count_by_node[outlier["node"]], outlier["node"], outlier["what"]))


def _group_outliers(group: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    values: dict[str, dict[str, list[Any]]] = collections.defaultdict(dict)
    for node in group:
        for what, value in _values(node):
            # Several verdicts with one name (eight GPUs) are compared together.
            values[what].setdefault(node["name"], []).append(value)
    for what, by_node in values.items():
        if len(by_node) >= MIN_NODES:
            yield from _value_outliers(what, by_node)


def _values(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for verdict in node["results"]:
        if verdict["status"] in ("pass", "fail") and verdict.get("found") is not None:
            device = (verdict.get("scope") or {}).get("device")
            yield (f"{verdict['id']} ({device})" if device else verdict["id"]), verdict["found"]
    for name, version in sorted(node["versions"].items()):
        yield f"version {name}", version


def _curve_outliers(curves: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare runs of one job and collective on equally many nodes by bandwidth at the same largest size."""
    groups: dict[tuple[Any, ...], dict[str, float]] = collections.defaultdict(dict)
    for curve in curves:
        if curve["where"]:
            last = curve["points"][-1]
            comparable = (curve["job"], curve["collective"], curve["where"].count("+"), last["size"])
            groups[comparable][curve["where"]] = last["busbw"]
    for (job, collective, _joined, _size), figures in groups.items():
        if len(figures) >= MIN_NODES:
            yield from _number_outliers(f"{job} {collective}, GB/s", figures)


def _value_outliers(what: str, by_node: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    plain: dict[str, Any] = {node: values[0] if len(values) == 1 else values for node, values in by_node.items()}
    texts = {node: json.dumps(value, sort_keys=True) for node, value in plain.items()}
    (common, agree), *_rest = collections.Counter(texts.values()).most_common(1)
    figures = all(is_figure(value) for value in plain.values())
    measured = figures and any(isinstance(value, float) for value in plain.values())
    if agree >= MAJORITY * len(texts) and not measured:
        expected = json.loads(common)
        return [
            _entry(node, what, "value", plain[node], expected, agree, len(texts))
            for node in sorted(texts)
            if texts[node] != common
        ]
    return _number_outliers(what, plain) if figures else []


def _number_outliers(what: str, by_node: Mapping[str, float]) -> list[dict[str, Any]]:
    middle = statistics.median(by_node.values())
    spread = MAD_TO_SIGMA * statistics.median(abs(value - middle) for value in by_node.values())
    limit = max(DEVIATIONS * spread, MIN_SHARE * abs(middle))
    outlying = {node: value for node, value in by_node.items() if abs(value - middle) > limit}
    return [
        _entry(node, what, "number", value, middle, len(by_node) - len(outlying), len(by_node))
        for node, value in sorted(outlying.items())
    ]


def _entry(node: str, what: str, kind: str, found: Any, expected: Any, agree: int, of: int) -> dict[str, Any]:
    others = (
        f"{agree} of {of} have {_value_text(expected)}" if kind == "value" else f"the median of {of} is {expected:g}"
    )
    return {
        "node": node,
        "what": what,
        "kind": kind,
        "found": found,
        "expected": expected,
        "agree": agree,
        "of": of,
        "message": f"{node}: {what} is {_value_text(found)}; {others}",
    }


def _value_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
