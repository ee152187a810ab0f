# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one page that needs nothing else: no network, no second file. Pure.

Everything from a node is escaped here or set as text by the script; the page's content security policy blocks all
loading and any other script. Links choose the script's view (``#state=fail&check=gpu.ecc``, ``#node=NAME``), so that
a view can be sent as an address.
"""

from __future__ import annotations

import base64
import collections
import hashlib
import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result

from . import charts
from .assets import SCRIPT, STYLE
from .charts import escaped
from .document import ORDER, sentence

STATUS_WORDS = {"pass": "good", "fail": "broken", "undeterminable": "not proved", "not_applicable": "not judged"}
# Jobs still start on a node with no failure above the severity monitor.
WATCH = "to watch"
GLYPHS = {"pass": "✓", "fail": "✕", "undeterminable": "?", "not_applicable": "-"}
# The action for each severity; details are in docs/guides/failure-catalogue.md.
SEVERITY_WORDS = {
    "isolate": "keep jobs away from the node and replace it",
    "reboot": "reboot the node, then check it again",
    "reset": "reset the GPU, or reload its driver, then check again",
    "monitor": "jobs still start on the node; watch it",
    "none": "not about the hardware",
}
FIRST_PROBLEMS = 7
NAMES = 12
# A table with more rows is not readable, and a page with all of them would not open; the JSON has every one.
MAX_ROWS = 500


def word(status: str, severity: str | None) -> str:
    """Return the word for a status of a node, verdict or problem with its most drastic severity."""
    return WATCH if (status, severity) == ("fail", "monitor") else STATUS_WORDS[status]


def headline(document: Mapping[str, Any]) -> str:
    """Return the word for the whole document: nothing is broken if only nodes to watch failed."""
    failed = [*document["nodes"], *({**job, "severity": "none"} for job in document["jobs"])]
    failed = [one for one in failed if one["status"] == "fail"]
    watched = bool(failed) and all(one["severity"] == "monitor" for one in failed)
    return word(document["status"], "monitor" if watched else None)


def page(document: Mapping[str, Any]) -> str:
    """Return the page for a document of ``document.build``."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = f"{document['cluster'] or 'Cluster'}, {document['time'][:10]}: {summary(document)}"
    # The worst first; the document sorts them by name.
    nodes = sorted(document["nodes"], key=lambda node: ORDER.index(node["status"]))
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escaped(title)}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        *_head(document),
        *_problems(document["problems"]),
        *_map(document["nodes"]),
        *_nodes(nodes),
        *_outliers(document["outliers"]),
        *_validation(document),
        *_timings(document["timings"]),
        *_versions(document["nodes"]),
        *_changes(document["changes"]),
        f'<script type="application/json" id="data">{_data(document["time"], nodes)}</script>',
        f"<script>{SCRIPT}</script></body></html>\n",
    ]
    return "".join(parts)


def _link(words: str, name: str = "", **view: str) -> str:
    """Return a link that makes the script show a view: state, check, queue or node."""
    target = escaped("#" + urllib.parse.urlencode(view, errors="replace"))
    kind = f' class="{name}"' if name else ""
    return f'<a{kind} href="{target}">{words}</a>'


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(what: object, heading: str, name: str = "") -> str:
    """Return a table cell; a narrow screen shows its heading before it."""
    return _html_cell(escaped(what), heading, name)


def _html_cell(inner: str, heading: str, name: str = "") -> str:
    kind = f' class="{name}"' if name else ""
    return f'<td{kind} data-th="{escaped(heading)}">{inner}</td>'


def _table(headings: Sequence[str], rows: Sequence[str], name: str = "") -> str:
    head = "".join(f'<th scope="col">{escaped(heading)}</th>' for heading in headings)
    visible = rows if name else rows[:MAX_ROWS]
    more = f"<p>{escaped(more_text(rows))}</p>" if len(visible) < len(rows) else ""
    return (
        f"<table{f' id={name}' if name else ''}><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(visible)}</tbody></table>{more}"
    )


def more_text(rows: Sequence[object]) -> str:
    """Return the line below a table that is cut."""
    return f"and {len(rows) - MAX_ROWS} more, which report.json has"


def nodes_text(count: int) -> str:
    """Format a number of nodes: 1 node, 2 nodes."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def _names(names: Sequence[str], more: str = "") -> str:
    """Return names as links to their nodes; the rest is behind ``more``, a link that shows them all, or folded."""
    first = ", ".join(_link(escaped(name), node=name) for name in names[:NAMES])
    if len(names) <= NAMES:
        return first
    if more:
        return f"{first} {more}"
    rest = escaped(", ".join(names[NAMES:]))
    return f"{first} <details><summary>and {len(names) - NAMES:,} more</summary>{rest}</details>"


def _verdict(status: str, severity: str | None = None) -> str:
    order = ORDER.index(status)
    return f'<td class="{status} state" data-th="" data-v="{order}">{GLYPHS[status]} {word(status, severity)}</td>'


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    total, status = len(document["nodes"]), document["status"]
    yield f"<header><h1>{escaped(document['cluster'] or 'Cluster')}</h1>"
    yield f'<p class="headline {status}">{GLYPHS[status]} {escaped(summary(document))}</p>'
    yield f'<p class="soft"><time datetime="{escaped(document["time"])}">{escaped(document["time"])}</time>'
    yield f'<span id="age"></span>, mlcluster.aws {escaped(document["version"])}</p>'
    yield '<div class="tiles">'
    for state, label, number in _counted(document):
        if number or (state != "not_applicable" and label != WATCH):
            yield _link(f"<b>{number:,}</b>{GLYPHS[state]} {label}", f"tile {state}", state=state)
    outlier_count = len({one["node"] for one in document["outliers"]})
    if outlier_count:
        yield f'<a class="tile" href="#unlike"><b>{outlier_count:,}</b>unlike their neighbours</a>'
    yield _link(f"<b>{total:,}</b>nodes", "tile", state="") + "</div></header>"


def _counted(document: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return status, word and number of nodes, in the order of the summary."""
    counts = document["counts"]
    watched = sum(word(node["status"], node["severity"]) == WATCH for node in document["nodes"])
    return [
        ("fail", STATUS_WORDS["fail"], counts["fail"] - watched),
        ("fail", WATCH, watched),
        *((state, STATUS_WORDS[state], counts[state]) for state in ("undeterminable", "pass", "not_applicable")),
    ]


def summary(document: Mapping[str, Any]) -> str:
    """Return one sentence about all nodes and about the validation jobs that did not pass."""
    counts, total = document["counts"], len(document["nodes"])
    unanswered = sum(not node["answered"] for node in document["nodes"])
    if not total:
        return "no node was judged"
    parts = [f"{number} {label}" for _state, label, number in _counted(document) if number]
    all_good = "the only node is proved good" if total == 1 else f"all {total} nodes are proved good"
    clauses = [all_good if counts["pass"] == total else f"{', '.join(parts)} of {nodes_text(total)}"]
    clauses += [f"{unanswered} did not answer"] if unanswered else []
    for state in ("fail", "undeterminable"):
        jobs = sum(job["status"] == state for job in document["jobs"])
        clauses += [f"{jobs} of {len(document['jobs'])} validation jobs {STATUS_WORDS[state]}"] if jobs else []
    return "; ".join(clauses)


def _problems(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f'<section id="problems"><h2>{"Do this first" if problems else "Problems"} ({len(problems):,})</h2>'
    if not problems:
        yield "<p>None was found.</p></section>"
        return
    visible = problems[:MAX_ROWS]
    yield f'<ol class="problems">{"".join(map(_problem, visible[:FIRST_PROBLEMS]))}</ol>'
    if rest := visible[FIRST_PROBLEMS:]:
        yield f"<details><summary>and {len(problems) - FIRST_PROBLEMS:,} more</summary>"
        yield f'<ol class="problems" start="{FIRST_PROBLEMS + 1}">{"".join(map(_problem, rest))}</ol></details>'
    if len(problems) > MAX_ROWS:
        yield f"<p>{escaped(more_text(problems))}</p>"
    used = [name for name in SEVERITY_WORDS if any(problem["severity"] == name for problem in problems)]
    meanings = "".join(f"<dt>{name}</dt><dd>{escaped(SEVERITY_WORDS[name])}</dd>" for name in used)
    yield f'<details class="soft"><summary>What the severities ask for</summary><dl>{meanings}</dl></details></section>'


def _problem(problem: Mapping[str, Any]) -> str:
    ids = ", ".join(_link(escaped(name), problem["status"], check=name) for name in problem["ids"])
    severity = problem["severity"]
    grade = "" if severity == "none" else f' <abbr title="{escaped(SEVERITY_WORDS[severity])}">{severity}</abbr>'
    job = f" (job {escaped(problem['job'])})" if problem["job"] else ""
    names = problem["nodes"]
    more = _link(f"and {len(names) - NAMES:,} more", check=problem["id"])
    where = f'<div class="soft">{nodes_text(len(names))}: {_names(names, more)}</div>' if names else ""
    return (
        f'<li><span class="{problem["status"]}">{GLYPHS[problem["status"]]} {ids}</span>{grade}{job}: '
        f"{escaped(problem['text'])}{where}</li>"
    )


def _map(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield '<section><h2>Map</h2><div class="map">'
    places: dict[tuple[str, ...], list[Mapping[str, Any]]] = collections.defaultdict(list)
    for node in nodes:
        places[(node["queue"] or node["kind"], *node["place"])].append(node)
    for place, members in sorted(places.items()):
        yield f'<div class="place"><span>{escaped(" / ".join(place))}</span><div class="cells">'
        for node in members:
            about = escaped(f"{node['name']}: {word(node['status'], node['severity'])}")
            target = escaped("#" + urllib.parse.urlencode({"node": node["name"]}, errors="replace"))
            yield (
                f'<a class="{node["status"]}" href="{target}" title="{about}" aria-label="{about}">'
                f"{GLYPHS[node['status']]}</a>"
            )
        yield "</div></div>"
    yield "</div></section>"


NODE_HEADINGS = ("", "Node", "Type and place", "Queue", "Failed", "Not proved", "Good", "Seconds")


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield '<section id="all"><h2>Nodes</h2><div class="tools screen" id="tools"></div>'
    rows = []
    for node in nodes:
        counts = node["counts"]
        seconds = "" if node["seconds"] is None else f"{node['seconds']:.1f}"
        rows.append(
            _row(
                _verdict(node["status"], node["severity"]),
                _html_cell(_link(escaped(node["name"]), node=node["name"]), "Node", "name"),
                _cell(_about(node), "Type and place"),
                _cell(node["queue"] or "", "Queue"),
                *(
                    _html_cell(
                        _link(str(counts[state]), state, node=node["name"]) if counts[state] else "0",
                        heading,
                        "number",
                    )
                    for state, heading in zip(("fail", "undeterminable", "pass"), NODE_HEADINGS[4:7])
                ),
                _cell(seconds, "Seconds", "number"),
            )
        )
    yield _table(NODE_HEADINGS, rows, "nodes") + "</section>"


def _about(node: Mapping[str, Any]) -> str:
    parts = [node["kind"], node["instance_type"], node["instance_id"], *node["place"]]
    return ", ".join(str(part) for part in parts if part)


def _outliers(outliers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if outliers:
        yield f'<section id="unlike"><h2>Unlike their neighbours ({len(outliers):,})</h2>'
        yield _table(
            ("Node", "What differs"),
            [
                _row(
                    _html_cell(_outlier_link(outlier["node"]), "Node", "name"),
                    _cell(outlier["message"], "What differs"),
                )
                for outlier in outliers
            ],
        )
        yield "</section>"


def _outlier_link(name: str) -> str:
    """Return a link to a node, or to both nodes of a pair."""
    return " + ".join(_link(escaped(part), node=part) for part in name.split("+"))


def _validation(document: Mapping[str, Any]) -> Iterator[str]:
    if document["jobs"]:
        yield "<section><h2>Validation jobs</h2>"
        if document["jobs_source"]:
            yield f'<p class="soft">{escaped(document["jobs_source"])}</p>'
        headings = {"job_id": "Id", "nodes": "Nodes", "state": "State", "seconds": "Seconds"}
        yield _table(
            ("", "Job", *headings.values()),
            [
                _row(
                    _verdict(job["status"]),
                    _cell(job["name"], "Job", "name"),
                    *(_cell("" if job[key] is None else job[key], words) for key, words in headings.items()),
                )
                for job in document["jobs"]
            ],
        )
        yield "</section>"
    for heading, chart, figures in (
        ("NCCL bandwidth: ", charts.curves, document["bandwidth"]),
        ("Pairs of nodes: ", charts.heat_map, document["pairs"]),
    ):
        for name in sorted({figure["collective"] for figure in figures}):
            figure_html = chart([figure for figure in figures if figure["collective"] == name])
            yield f"<section><h2>{escaped(heading + name)}</h2>{figure_html}</section>"
    measures: dict[tuple[str, ...], list[dict[str, Any]]] = collections.defaultdict(list)
    for figure in document["io"]:
        head = tuple(str(figure[key]) for key in ("tool", "what", "measure", "unit"))
        measures[head].append({"label": figure["node"] or "all nodes", **figure})
    if measures:
        yield "<section><h2>Storage</h2>"
        for (tool, what, measure, _unit), rows in sorted(measures.items()):
            yield f"<h3>{escaped(f'{tool} {measure}, {what}')}</h3>{charts.bars(rows, rows[0]['unit'])}"
        yield "</section>"


def _timings(timings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if timings:
        yield "<section><h2>Where the time of the last configuration went</h2>"
        yield charts.role_times(timings) + "</section>"


def _versions(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    table: dict[str, dict[str, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for node in nodes:
        for name, version in node["versions"].items():
            table[name][version].append(node["name"])
    if not table:
        return
    yield "<section><h2>Versions</h2>"
    rows = []
    for name, versions in sorted(table.items()):
        for version, names in sorted(versions.items(), key=lambda pair: -len(pair[1])):
            where = "every node that reported" if len(versions) == 1 else _names(names)
            rows.append(
                _row(
                    _cell(name, "Component", "name"),
                    _cell(version, "Version"),
                    _cell(len(names), "Nodes", "number"),
                    _html_cell(where, "Which"),
                )
            )
    yield _table(("Component", "Version", "Nodes", "Which"), rows) + "</section>"


def change_rows(changes: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the changes as (node, what, before, now)."""
    rows = [(name, what, "", "") for what in ("joined", "left") for name in changes[what]]
    for kind, key in (("verdicts", "id"), ("versions", "name")):
        rows += [(one["node"], one[key], one["before"] or "-", one["after"] or "-") for one in changes[kind]]
    return rows


CHANGE_HEADINGS = ("Node", "What", "Before", "Now")


def _changes(changes: Mapping[str, Any] | None) -> Iterator[str]:
    if changes is None:
        return
    yield f"<section><h2>Since {escaped(changes['since'])}</h2>"
    rows = [
        _row(
            _cell(row[0], CHANGE_HEADINGS[0], "name"),
            *(_cell(*pair) for pair in zip(row[1:], CHANGE_HEADINGS[1:], strict=True)),
        )
        for row in change_rows(changes)
    ]
    yield (_table(CHANGE_HEADINGS, rows) if rows else "<p>Nothing has changed.</p>") + "</section>"


def _data(time: str, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the script's data, each verdict once. Escaped: it cannot end the element that contains it."""
    rows: dict[tuple[str, ...], int] = {}
    entries = []
    for node in nodes:
        numbers = []
        for entry in node["results"]:
            verdict = Result.from_dict({**entry, "hint": None})
            hint = entry["hint"] or "" if verdict.status != "pass" else ""
            key = (verdict.status, verdict.id, verdict.scope.device or "", sentence(verdict), hint, verdict.severity)
            numbers.append(rows.setdefault(key, len(rows)))
        entry = {"name": node["name"], "status": node["status"], "queue": node["queue"] or "", "verdicts": numbers}
        entries.append({**entry, "word": word(node["status"], node["severity"])})
    text = json.dumps(
        {
            "words": STATUS_WORDS,
            "watch": WATCH,
            "severities": SEVERITY_WORDS,
            "time": time,
            "verdicts": list(rows),
            "nodes": entries,
        },
        separators=(",", ":"),
        ensure_ascii=True,
    )
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
