# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report for a terminal, a chat or an issue: Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import first_of, printable

from .charts import number_text, size_text
from .html import (
    CHANGE_HEADINGS,
    GLYPHS,
    MAX_ROWS,
    NAMES,
    STATUS_WORDS,
    change_rows,
    headline,
    more_text,
    summary,
    word,
)


def markdown(document: Mapping[str, Any]) -> str:
    """Return the Markdown of a document of ``document.build``."""
    return "\n".join(_lines(document)) + "\n"


def lines(document: Mapping[str, Any]) -> list[str]:
    """Return the final lines for a terminal: the verdict, and the problems in order of gravity."""
    found = [summary(document)]
    for problem in document["problems"]:
        nodes = f" [{first_of(problem['nodes'], NAMES)}]" if problem["nodes"] else ""
        found.append(f"{GLYPHS[problem['status']]} {problem['id']}: {problem['text']}{nodes}")
    return [printable(line) for line in (*found, *(f"≠ {outlier['message']}" for outlier in document["outliers"]))]


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {_escaped(document['cluster'] or 'Cluster')}: {headline(document)}"
    yield ""
    yield f"{summary(document)}. {document['time']}, mlcluster.aws {document['version']}."
    for part in (_problems, _outliers, _bandwidth, _timings, _changes, _nodes):
        yield from part(document)


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            f"{GLYPHS[problem['status']]} {word(problem['status'], problem['severity'])}",
            problem["id"],
            problem["severity"],
            problem["text"],
            first_of(problem["nodes"], NAMES) or problem["job"] or "",
        )
        for problem in document["problems"][:MAX_ROWS]
    ]
    if rows:
        yield from ("", "## Problems", "")
        yield from _table(("", "Check", "Severity", "What was found, and what to do", "Nodes"), rows)
    if len(document["problems"]) > MAX_ROWS:
        yield from ("", more_text(document["problems"]))


def _outliers(document: Mapping[str, Any]) -> Iterator[str]:
    if document["outliers"]:
        yield from ("", "## Unlike their neighbours", "")
        yield from (f"- {_escaped(outlier['message'])}" for outlier in document["outliers"][:MAX_ROWS])
    if len(document["outliers"]) > MAX_ROWS:
        yield from ("", more_text(document["outliers"]))


def _bandwidth(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            curve["label"],
            size_text(curve["points"][-1]["size"]),
            number_text(curve["points"][-1]["busbw"]),
            STATUS_WORDS[curve["status"]],
        )
        for curve in document["bandwidth"]
    ]
    if rows:
        yield from ("", "## NCCL bandwidth", "")
        yield from _table(("Run", "Largest size", "GB/s", ""), rows)


def _timings(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [(part["role"], number_text(part["seconds"])) for part in document["timings"]]
    if rows:
        yield from ("", "## Time by role", "")
        yield from _table(("Role", "Seconds"), rows)


def _changes(document: Mapping[str, Any]) -> Iterator[str]:
    if document["changes"]:
        rows = change_rows(document["changes"])
        yield from ("", f"## Since {_escaped(document['changes']['since'])}", "")
        yield from _table(CHANGE_HEADINGS, rows[:MAX_ROWS]) if rows else ("Nothing has changed.",)
        if len(rows) > MAX_ROWS:
            yield from ("", more_text(rows))


def _nodes(document: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "## Nodes", "")
    yield from _table(
        ("", "Node", "Type", "Queue", "Failed", "Not proved", "Good"),
        [
            (
                f"{GLYPHS[node['status']]} {word(node['status'], node['severity'])}",
                node["name"],
                node["instance_type"] or "",
                node["queue"] or "",
                *(str(node["counts"][state]) for state in ("fail", "undeterminable", "pass")),
            )
            for node in document["nodes"]
        ],
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(map(_escaped, row))} |"


def _escaped(text: object) -> str:
    """Escape text for Markdown: output of a node may contain anything."""
    return re.sub(r"([\\`*_\[\]<>|#&~])", r"\\\1", " ".join(printable(text).split()))
