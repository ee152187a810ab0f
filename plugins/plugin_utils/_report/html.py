# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one page that needs nothing else: no network, no second file. Pure.

Everything that came from a node is escaped here or set as text by the script; the page's own policy lets nothing be
loaded and no other script run.
"""

from __future__ import annotations

import base64
import collections
import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result

from . import svg as _report_svg
from .assets import SCRIPT, STYLE
from .document import sentence

WORDS = {"pass": "good", "fail": "broken", "undeterminable": "not proved", "not_applicable": "not judged"}
# In the order in which a sentence counts them.
WORDS_OF_MANY = {state: WORDS[state] for state in ("fail", "undeterminable", "pass", "not_applicable")}
GLYPHS = {"pass": "✓", "fail": "✕", "undeterminable": "?", "not_applicable": "-"}
FIRST_SCREEN = 5
NAMES = 12
# Nobody reads more rows of one table, and a page of all of them would not open; the JSON has every one.
MOST_ROWS = 500


def page(document: Mapping[str, Any]) -> str:
    """The page of a document of _report_model."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = _text(f"{document['cluster'] or 'Cluster'}: {WORDS[document['status']]}")
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        *_head(document),
        *_map(document["nodes"]),
        *_problems(document["problems"]),
        *_outliers(document["outliers"]),
        *_validation(document),
        *_timings(document["timings"]),
        *_versions(document["nodes"]),
        *_changes(document["changes"]),
        *_nodes(document["nodes"]),
        f'<script type="application/json" id="data">{_data(document["nodes"])}</script>',
        f"<script>{SCRIPT}</script></body></html>\n",
    ]
    return "".join(parts)


def _text(what: object) -> str:
    return html.escape(str(what))


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(what: object, name: str = "") -> str:
    return f'<td class="{name}">{_text(what)}</td>' if name else f"<td>{_text(what)}</td>"


def _table(headings: Sequence[str], rows: Sequence[str], name: str = "") -> str:
    head = "".join(f'<th scope="col">{_text(heading)}</th>' for heading in headings)
    shown = rows if name else rows[:MOST_ROWS]
    more = f"<p>{_text(more_text(rows))}</p>" if len(shown) < len(rows) else ""
    return (
        f'<div class="scroll"><table{f" id={name}" if name else ""}><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(shown)}</tbody></table></div>{more}"
    )


def more_text(rows: Sequence[object]) -> str:
    """What stands below a table that is cut."""
    return f"and {len(rows) - MOST_ROWS} more, which report.json has"


def names_text(names: Sequence[str]) -> str:
    """Names, the first of them where there are many."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(names[:NAMES]) + more


def _verdict(status: str) -> str:
    return f'<td class="{status} name">{GLYPHS[status]} {WORDS[status]}</td>'


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    counts, total = document["counts"], len(document["nodes"])
    status = document["status"]
    yield f"<header><h1>{_text(document['cluster'] or 'Cluster')}</h1>"
    yield f'<p class="say {status}">{GLYPHS[status]} {_text(summary(document))}</p>'
    yield f'<p class="soft">{_text(document["time"])}, mlcluster.aws {_text(document["version"])}</p>'
    yield '<div class="tiles">'
    for state in ("fail", "undeterminable", "pass"):
        yield f'<div class="tile {state}"><b>{counts[state]}</b>{GLYPHS[state]} {WORDS[state]}</div>'
    odd = len({one["node"] for one in document["outliers"]})
    yield f'<div class="tile"><b>{odd}</b>unlike their neighbours</div>'
    yield f'<div class="tile"><b>{total}</b>nodes</div></div>'
    worst = document["problems"][:FIRST_SCREEN]
    if worst:
        yield "<h2>Do this first</h2><ol>"
        for problem in worst:
            yield f"<li>{_problem(problem)}</li>"
        yield "</ol>"
    yield "</header>"


def summary(document: Mapping[str, Any]) -> str:
    """One sentence on all nodes, and on the validation jobs that were not proved good."""
    counts, total = document["counts"], len(document["nodes"])
    silent = sum(not node["answered"] for node in document["nodes"])
    if not total:
        return "no node was judged"
    parts = [f"{counts[state]} {words}" for state, words in WORDS_OF_MANY.items() if counts[state]]
    said = [f"{', '.join(parts)} of {total} nodes" if counts["pass"] != total else f"all {total} nodes are proved good"]
    said += [f"{silent} did not answer"] if silent else []
    for state in ("fail", "undeterminable"):
        jobs = sum(job["status"] == state for job in document["jobs"])
        said += [f"{jobs} of {len(document['jobs'])} validation jobs {WORDS[state]}"] if jobs else []
    return "; ".join(said)


def _problem(problem: Mapping[str, Any]) -> str:
    where = f" on {len(problem['nodes'])} nodes" if len(problem["nodes"]) > 1 else ""
    whose = f" (job {problem['job']})" if problem["job"] else ""
    names = f'<div class="soft">{_text(names_text(problem["nodes"]))}</div>' if problem["nodes"] else ""
    return (
        f'<span class="{problem["status"]}">{GLYPHS[problem["status"]]} {_text(problem["id"])}</span>'
        f"{_text(where + whose)}: {_text(problem['text'])}{names}"
    )


def _map(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield '<h2>Map</h2><div class="map">'
    places: dict[tuple[str, ...], list[tuple[int, Mapping[str, Any]]]] = collections.defaultdict(list)
    for number, node in enumerate(nodes):
        places[(node["queue"] or node["kind"], *node["place"])].append((number, node))
    for place, there in sorted(places.items()):
        yield f'<div class="place"><span>{_text(" / ".join(place))}</span><div class="cells">'
        for number, node in there:
            about = _text(f"{node['name']}: {WORDS[node['status']]}")
            yield (
                f'<a class="{node["status"]}" href="#node-{number}" title="{about}" aria-label="{about}">'
                f"{GLYPHS[node['status']]}</a>"
            )
        yield "</div></div>"
    yield "</div>"


def _problems(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"<h2>Problems ({len(problems)})</h2>"
    if not problems:
        yield "<p>None was found.</p>"
        return
    yield _table(
        ("", "Check", "Severity", "What was found, and what to do", "Nodes"),
        [
            _row(
                _verdict(problem["status"]),
                _cell(problem["id"], "name"),
                _cell(problem["severity"]),
                _cell(problem["text"]),
                _cell(names_text(problem["nodes"]) or problem["job"] or ""),
            )
            for problem in problems
        ],
    )


def _outliers(outliers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if outliers:
        yield f"<h2>Unlike their neighbours ({len(outliers)})</h2>"
        yield _table(("Node", "What differs"), [_row(_cell(o["node"], "name"), _cell(o["message"])) for o in outliers])


def _validation(document: Mapping[str, Any]) -> Iterator[str]:
    if document["jobs"]:
        yield "<h2>Validation jobs</h2>"
        if document["jobs_source"]:
            yield f'<p class="soft">{_text(document["jobs_source"])}</p>'
        yield _table(
            ("", "Job", "Id", "Nodes", "State", "Seconds"),
            [
                _row(
                    _verdict(job["status"]),
                    _cell(job["name"], "name"),
                    *(_cell("" if job[key] is None else job[key]) for key in ("job_id", "nodes", "state", "seconds")),
                )
                for job in document["jobs"]
            ],
        )
    for heading, chart, figures, key in (
        ("NCCL bandwidth: ", _report_svg.curves, document["bandwidth"], "collective"),
        ("Pairs of nodes: ", _report_svg.heat_map, document["pairs"], "collective"),
    ):
        for name in sorted({figure[key] for figure in figures}):
            yield f"<h2>{_text(heading + name)}</h2>"
            yield f'<div class="scroll">{chart([figure for figure in figures if figure[key] == name])}</div>'
    measures: dict[tuple[str, ...], list[dict[str, Any]]] = collections.defaultdict(list)
    for figure in document["io"]:
        head = tuple(str(figure[key]) for key in ("tool", "what", "measure", "unit"))
        measures[head].append({"label": figure["node"] or "all nodes", **figure})
    if measures:
        yield "<h2>Storage</h2>"
    for (tool, what, measure, unit), rows in sorted(measures.items()):
        yield f"<h3>{_text(f'{tool} {measure}, {what} ({unit})')}</h3>{_report_svg.bars(rows)}"


def _timings(timings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if timings:
        yield f"<h2>Where the time of the last configuration went</h2>{_report_svg.time_bar(timings)}"
        yield _table(
            ("Role", "Seconds"),
            [_row(_cell(part["role"]), _cell(_report_svg.number_text(part["seconds"]))) for part in timings],
        )


def _versions(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    table: dict[str, dict[str, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for node in nodes:
        for name, version in node["versions"].items():
            table[name][version].append(node["name"])
    if not table:
        return
    yield "<h2>Versions</h2>"
    rows = []
    for name, versions in sorted(table.items()):
        for version, names in sorted(versions.items(), key=lambda pair: -len(pair[1])):
            where = "every node that told" if len(versions) == 1 else names_text(names)
            rows.append(_row(_cell(name, "name"), _cell(version), _cell(len(names)), _cell(where)))
    yield _table(("Component", "Version", "Nodes", "Which"), rows)


def change_rows(changes: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """What is not as it was, as (node, what, before, now)."""
    rows = [(name, what, "", "") for what in ("joined", "left") for name in changes[what]]
    for kind, key in (("verdicts", "id"), ("versions", "name")):
        rows += [(one["node"], one[key], one["before"] or "-", one["after"] or "-") for one in changes[kind]]
    return rows


CHANGE_HEADINGS = ("Node", "What", "Before", "Now")


def _changes(changes: Mapping[str, Any] | None) -> Iterator[str]:
    if changes is None:
        return
    yield f"<h2>Since {_text(changes['since'])}</h2>"
    rows = [_row(_cell(row[0], "name"), *map(_cell, row[1:])) for row in change_rows(changes)]
    yield _table(CHANGE_HEADINGS, rows) if rows else "<p>Nothing has changed.</p>"


def _about(node: Mapping[str, Any]) -> str:
    parts = [node["kind"], node["instance_type"], node["instance_id"], node["queue"], *node["place"]]
    return ", ".join(str(part) for part in parts if part)


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield '<h2>Nodes</h2><div id="detail" role="region" aria-live="polite" aria-label="the chosen node"></div>'
    yield '<p class="screen"><label>Show those with <input id="filter" type="search"></label></p>'
    rows = []
    for number, node in enumerate(nodes):
        counts = node["counts"]
        seconds = "" if node["seconds"] is None else f"{node['seconds']:.1f}"
        rows.append(
            _row(
                _verdict(node["status"]),
                f'<td class="name"><a href="#node-{number}">{_text(node["name"])}</a></td>',
                _cell(_about(node)),
                _cell(f"{counts['fail']} / {counts['undeterminable']} / {counts['pass']}"),
                _cell(seconds),
            )
        )
    yield _table(("", "Node", "About", "Broken / not proved / good", "Seconds"), rows, "nodes")


def _data(nodes: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts for the script, each sentence once. Nothing in it can end the element that it stands in."""
    said: dict[tuple[str, str, str, str], int] = {}
    entries = []
    for node in nodes:
        numbers = []
        for entry in node["results"]:
            verdict = Result.from_dict({**entry, "hint": None})
            name = f"{verdict.id} ({verdict.scope.device})" if verdict.scope.device else verdict.id
            hint = entry["hint"] or "" if verdict.status != "pass" else ""
            numbers.append(said.setdefault((verdict.status, name, sentence(verdict), hint), len(said)))
        entries.append({"name": node["name"], "status": node["status"], "about": _about(node), "said": numbers})
    text = json.dumps({"words": WORDS, "said": list(said), "nodes": entries}, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
