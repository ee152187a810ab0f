# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the document from which every report is written: ``mlcluster.cluster/1``. Pure.

Unreadable input becomes an undeterminable verdict: a node never vanishes from the page, and missing data is no pass.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.parse import expand
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.subjects import FULL_SUBJECTS

from . import outliers as _report_outliers
from .input import cut, is_figure, label, listed, read, short, unproved

SCHEMA = "mlcluster.cluster/1"
RUN_SCHEMA = "mlcluster.run/1"
VALIDATION_SCHEMA = "mlcluster.validation/1"
NODE_KINDS = ("head", "login", "compute", "node")
# In the order of interest.
ORDER = (result.FAIL, result.UNDETERMINABLE, result.PASS, result.NOT_APPLICABLE)
BANDWIDTH = re.compile(r"(nccl|nccom)\.bandwidth\.(\w+)")
IO = re.compile(r"io\.(fio|ior|gdsio)\.(\w+)")
# The check of nodes that did not answer, and the addresses that ssh names when it fails.
NO_ANSWER = "node.answer"
ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){2,7})(?![\w.:])", re.IGNORECASE
)
# Days for which a validation is evidence. Our own choice: nodes are replaced and repaired within days.
VALIDATION_DAYS = 7.0
# Allowed difference between the clocks of the head node and of this machine: ten minutes.
SKEW_DAYS = 10 / 1440
# Limits on one node's share of the page; node_health_info returns a hundred verdicts at most.
MAX_SENTENCE = 2000
MAX_NAMED = 8
MAX_NAME = 300
MAX_VERDICTS = 2000
MAX_VERSIONS = 200
_NO_VERDICT = result.undeterminable("job.end", "no_report", message="the file of the run has no verdict of this job")
_NO_PASS = result.undeterminable("job.end", "no_pass", message="no verdict of this job is a pass")
_NO_JOB = result.undeterminable("job.end", "no_jobs", message="the file of the validation has no job")


class ReportError(ValueError):
    """The input cannot be made into a report; the message states what was found and what to pass."""


def build(
    nodes: Sequence[Mapping[str, Any]],
    time: str,
    cluster: str = "",
    version: str = "",
    validation: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    previous: Mapping[str, Any] | None = None,
    source: str = "",
    validation_days: float = VALIDATION_DAYS,
) -> dict[str, Any]:
    """Return the whole document.

    Each of ``nodes`` has ``name``, perhaps ``slurm_name`` (where Slurm has another one for it), ``kind``,
    ``instance_id``, ``instance_type``, ``queue``, ``place`` (network nodes or zone, the widest first), and ``health``:
    the result of ``node_health_info``, or Ansible's report that the node did not answer. ``time`` is ISO 8601.
    ``validation`` is the file that ``run_validation`` wrote, ``run`` the status of a configuration run, ``previous`` an
    earlier document, ``source`` the path of the validation. A validation of other nodes, of another cluster, or older
    than ``validation_days`` proves nothing. Raises ReportError.
    """
    _require_schema(validation, VALIDATION_SCHEMA, "validation")
    _require_schema(run, RUN_SCHEMA, "timings")
    _require_schema(previous, SCHEMA, "previous")
    if result.moment(time) is None:
        raise ReportError(f"time is {time!r}: use a time such as 2026-01-31T12:00:00Z")
    answered = _answered_by(nodes)
    judged = sorted((_node(given, answered) for given in nodes), key=lambda node: natural(node["name"]))
    names = collections.Counter(node["name"] for node in judged)
    if duplicates := [name for name, count in names.items() if count > 1]:
        raise ReportError(f"nodes has {duplicates[0]} twice: list each node once")
    why_not_valid = _why_not_valid(validation, time, cluster, validation_days) or _why_other_nodes(validation, nodes)
    jobs = _jobs(validation, why_not_valid)
    curves = bandwidth(jobs)
    status = _worst([*(node["status"] for node in judged), *(job["status"] for job in jobs)])
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "time": time,
        "cluster": cluster,
        "version": version,
        "status": status,
        "exit_code": {result.FAIL: result.EXIT_FAIL, result.UNDETERMINABLE: result.EXIT_UNDETERMINABLE}.get(
            status, result.EXIT_OK
        ),
        "counts": {state: sum(node["status"] == state for node in judged) for state in ORDER},
        "nodes": judged,
        "problems": problems(judged, jobs),
        "outliers": _report_outliers.find(judged, curves),
        "jobs": [_job(job) for job in jobs],
        "jobs_source": "; ".join(filter(None, [short(source), _not_validated(validation, nodes)])),
        "bandwidth": curves,
        "pairs": pairs(jobs),
        "io": io_figures(jobs),
        "timings": timings(run),
    }
    document["changes"] = _changes(previous, document)
    return document


def _require_schema(document: Mapping[str, Any] | None, schema: str, what: str) -> None:
    if document is not None and (not isinstance(document, Mapping) or document.get("schema") != schema):
        found = document.get("schema") if isinstance(document, Mapping) else type(document).__name__
        raise ReportError(f"{what} is not {schema} but {found!r}: use the file that this version wrote")


def _health(given: Mapping[str, Any]) -> Mapping[str, Any]:
    health = given.get("health")
    return health if isinstance(health, Mapping) else {}


def _answered_by(nodes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the names of the nodes by the instance that answered for them."""
    found: dict[str, list[str]] = {}
    for given in nodes:
        machine = _health(given).get("instance_id")
        if isinstance(machine, str) and machine:
            found.setdefault(machine, []).append(short(given.get("name")))
    return found


def _of_another_machine(given: Mapping[str, Any], answered: Mapping[str, Sequence[str]]) -> str:
    """Return why the machine that answered is not known to be this node; empty if nothing contradicts it."""
    machine, expected = _health(given).get("instance_id"), given.get("instance_id")
    if not isinstance(machine, str) or not machine:
        return ""
    if expected and machine != expected:
        return f"another machine answered: it is {short(machine)}, and the inventory has {short(expected)}"
    others = [name for name in answered[machine] if name != given.get("name")]
    return f"the same machine, {short(machine)}, answered for {_first_names(others)} too" if others else ""


def _node(given: Mapping[str, Any], answered_by: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    name, kind = given.get("name"), given.get("kind") or "node"
    if not isinstance(name, str) or not name:
        raise ReportError(f"an entry of nodes has the name {name!r}: use a string")
    if kind not in NODE_KINDS:
        raise ReportError(f"node {name} is of kind {kind!r}: use one of {', '.join(NODE_KINDS)}")
    health = _health(given)
    versions = health.get("versions")
    judged, answered = _results(name, health)
    other = _of_another_machine(given, answered_by)
    if other:
        judged.append(unproved(NO_ANSWER, "another_machine", other, name))
    return {
        "name": name,
        "kind": kind,
        **{key: label(given.get(key)) for key in ("instance_id", "queue")},
        # The node reports its type if the inventory has none; nodes are compared within one type.
        "instance_type": label(given.get("instance_type")) or label(health.get("instance_type")),
        "place": [short(part) for part in listed(given.get("place"))],
        "answered": answered,
        "status": _worst([entry.status for entry in judged]),
        "severity": result.worst_severity(judged),
        "counts": {state: sum(entry.status == state for entry in judged) for state in ORDER},
        "seconds": health.get("seconds") if is_figure(health.get("seconds")) else None,
        "versions": {short(key): short(text) for key, text in [*versions.items()][:MAX_VERSIONS] if text}
        if isinstance(versions, Mapping)
        else {},
        "results": [entry.to_dict() for entry in judged],
    }


def _worst(statuses: Sequence[str]) -> str:
    """Return the worst of several statuses; undeterminable if there are none."""
    return min(statuses, key=ORDER.index, default=result.UNDETERMINABLE)


def _results(name: str, health: Mapping[str, Any]) -> tuple[list[result.Result], bool]:
    """Return the verdicts on a node, and whether it answered."""
    if health.get("unreachable"):
        why = short(health.get("msg") or "no reason was given")
        return [unproved(NO_ANSWER, "unreachable", f"the node did not answer: {why}", name)], False
    if not isinstance(health.get("results"), (list, tuple)):
        # The last line of a crashed module's output has the reason.
        stderr = health.get("module_stderr")
        printed = stderr.strip().splitlines()[-1:] if isinstance(stderr, str) else []
        why = short(". ".join(short(part) for part in [health.get("msg") or "it gave no verdicts", *printed]))
        return [unproved(NO_ANSWER, "no_verdicts", f"the node was not judged: {why}", name)], False
    found = [read(entry, name) for entry in health["results"][:MAX_VERDICTS]]
    if more := len(health["results"]) - len(found):
        found.append(unproved(NO_ANSWER, "damaged", f"{more} more verdicts than {MAX_VERDICTS} were left", name))
    if not found:
        return [unproved(NO_ANSWER, "no_verdicts", "the node gave no verdict at all", name)], True
    if health.get("failed"):
        why = short(health.get("msg") or "no reason was given")
        found.append(unproved(NO_ANSWER, "failed", f"the check of the node failed: {why}", name))
    subjects = {entry.id.partition(".")[0] for entry in found}
    missing = [wanted[0] for wanted in FULL_SUBJECTS if not subjects & set(wanted)]
    if missing:
        text = f"there is no verdict on {', '.join(missing)}: use the complete result of the profile full"
        found.append(unproved(NO_ANSWER, "incomplete", text, name))
    elif all(entry.status == result.NOT_APPLICABLE for entry in found):
        text = "no verdict on the node is a pass: nothing of it was proved"
        found.append(unproved(NO_ANSWER, "no_pass", text, name))
    return found, True


def natural(name: str) -> list[Any]:
    """Return a sort key that puts p5-2 before p5-10."""
    # Not int: Python rejects numbers with thousands of digits.
    return [
        (len(part.lstrip("0")), part.lstrip("0"), part) if part.isdecimal() else part
        for part in re.split(r"(\d+)", name)
    ]


def sentence(entry: result.Result) -> str:
    """Return a verdict's text without status and id; long figures are in the charts and the JSON only."""
    if isinstance(entry.found, (dict, list)) and (entry.message or entry.reason):
        # The line of a pass shows the message alone, and the found value is needed as well.
        kept = {"found": entry.found if entry.status == result.PASS else None, "expected": None}
        entry = dataclasses.replace(entry, message=entry.message or entry.reason, **kept)
    return str(cut(entry.line().split(": ", 1)[-1], MAX_SENTENCE))


def problems(nodes: Sequence[Mapping[str, Any]], jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the problems, each sentence once for all checks and nodes that report it.

    Ordered by gravity (failures, then nodes that did not answer, then what else was not proved; by severity), then
    by the number of nodes. Each: id (the first of ids), ids, status, severity, text, hint, nodes and job (names).
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    sources = [(entry, node["name"], None) for node in nodes for entry in node["results"]]
    sources += [
        (entry, (entry.get("scope") or {}).get("node"), job["name"])
        for job in jobs
        for entry in job.get("results") or []
    ]
    for entry, node, job in sources:
        if entry["status"] in (result.FAIL, result.UNDETERMINABLE):
            text = sentence(result.Result.from_dict(entry))
            if entry["id"] == NO_ANSWER and node:
                text = _without_node(text, node)
            problem = found.setdefault(
                (entry["status"], text, job),
                {
                    "id": entry["id"],
                    "ids": [],
                    "status": entry["status"],
                    "severity": "none",
                    "text": text,
                    "hint": entry.get("hint"),
                    "nodes": [],
                    "job": job,
                },
            )
            if entry["id"] not in problem["ids"]:
                problem["ids"].append(entry["id"])
            problem["severity"] = max(problem["severity"], entry.get("severity") or "none", key=result.SEVERITIES.index)
            if node and node not in problem["nodes"]:
                problem["nodes"].append(node)
    for problem in found.values():
        problem["nodes"].sort(key=natural)
    return sorted(
        found.values(),
        key=lambda one: (
            ORDER.index(one["status"]),
            one["id"] != NO_ANSWER,
            -result.SEVERITIES.index(one["severity"]),
            -len(one["nodes"]),
            one["id"],
            one["text"],
        ),
    )


def _without_node(text: str, node: str) -> str:
    """Return a reason without the node's name and address, so that the same reason of many nodes is one line."""
    # A name of letters only could match any word.
    if not node.isalpha():
        text = re.sub(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", "the node", text)
    return ADDRESS.sub("its address", text)


def _why_not_valid(validation: Mapping[str, Any] | None, time: str, cluster: str, days: float) -> str:
    """Return why a validation does not count for this cluster now; empty if it counts."""
    if validation is None:
        return ""
    written, of = validation.get("time"), validation.get("cluster")
    now, made = result.moment(time), result.moment(written)
    if now is None or made is None:
        return f"the validation has no valid time (time is {short(written)}): run run_validation again"
    age = (now - made).total_seconds() / 86400
    if age < -SKEW_DAYS:
        clocks = "compare the clocks of the head node and of this machine"
        return f"the validation of {written} is dated in the future (here it is {time}): {clocks}"
    # Also where ``days`` is not a number.
    if not age <= days:
        age_text = f"{age:.0f}" if not round(age) <= days else f"{math.ceil(age * 100) / 100:g}"
        limit = f"more than the {days:g} days for which it counts"
        return f"the validation of {written} is {age_text} days old, {limit}: run run_validation again"
    if cluster and of != cluster:
        other = f"the cluster {short(of)}" if of else "a cluster without a name"
        return f"the validation is of {other} and this is {cluster}: use the file of this one"
    return ""


def _slurm_name(node: Mapping[str, Any]) -> str:
    return str(node.get("slurm_name") or node.get("name"))


def _validated(validation: Mapping[str, Any] | None) -> list[str] | None:
    """Return the nodes that were chosen for a validation: empty if Slurm chose them, None if it cannot be read."""
    chosen = (validation or {}).get("nodes")
    if chosen is None:
        return []
    return chosen if isinstance(chosen, list) and all(isinstance(name, str) for name in chosen) else None


def _ran_on(validation: Mapping[str, Any] | None) -> list[str]:
    """Return the nodes on which the jobs of a validation ran; empty if they cannot be read."""
    found: set[str] = set()
    for job in listed((validation or {}).get("jobs")):
        nodes = job.get("nodes") if isinstance(job, Mapping) else None
        try:
            found |= set(expand(nodes)) if isinstance(nodes, str) else set()
        except NodeError:
            return []
    return sorted(found)


def _why_other_nodes(validation: Mapping[str, Any] | None, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return why a validation does not count for these nodes; empty if it counts."""
    chosen = _validated(validation)
    if chosen is None:
        return (
            f"the validation's list of nodes reads {short((validation or {}).get('nodes'))}: run run_validation again"
        )
    if chosen and nodes and not {_slurm_name(node) for node in nodes} & set(chosen):
        return f"the validation is of {_first_names(chosen)}, and none of them is a node of this report"
    return ""


def _not_validated(validation: Mapping[str, Any] | None, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return which nodes of the report the validation did not have; empty without any."""
    others = [_slurm_name(node) for node in nodes if node.get("kind") in ("compute", "node", None)]
    chosen, how = _validated(validation), "were not sent to"
    if chosen == []:
        # The names of nodes need not be those of Slurm; then nothing is known.
        ran = _ran_on(validation)
        chosen, how = ran if set(ran) & set(others) else [], "did not run on"
    others = [name for name in others if chosen and name not in chosen]
    return f"the jobs prove nothing about {_first_names(others)}, which they {how}" if others else ""


def _first_names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return short(", ".join(sorted(names, key=natural)[:MAX_NAMED])) + rest


def _jobs(validation: Mapping[str, Any] | None, why_not_valid: str = "") -> list[dict[str, Any]]:
    """Return the validation jobs, each with a name, a known status, and verdicts that can be drawn.

    The status is the worst of the file's status and the verdicts.
    """
    found = []
    given = listed((validation or {}).get("jobs"))
    if validation is not None and not given:
        given = [{"name": "validation", "results": [_NO_JOB.to_dict()]}]
    for number, job in enumerate(given, 1):
        if not isinstance(job, Mapping):
            raise ReportError(f"validation has {short(job)} for job {number}: use the file that this version wrote")
        verdicts = [read(entry, None).to_dict() for entry in listed(job.get("results"))] or [_NO_VERDICT.to_dict()]
        if why_not_valid:
            verdicts.append(result.undeterminable("job.end", "not_of_now", message=why_not_valid).to_dict())
        status = job.get("status")
        fields = {key: value if is_figure(value) else label(value) for key, value in _job(job).items()}
        name = fields["name"] or f"job {number}"
        stated = status if status in ORDER else result.UNDETERMINABLE
        if stated == result.PASS and all(entry["status"] == result.NOT_APPLICABLE for entry in verdicts):
            verdicts.append(_NO_PASS.to_dict())
        worst = _worst([stated, *(entry["status"] for entry in verdicts)])
        # Only a job in state COMPLETED is evidence; its script fails if a verdict is not a pass.
        if worst in (result.PASS, result.NOT_APPLICABLE) and fields["state"] != "COMPLETED":
            verdicts.append(_not_completed(fields["state"]).to_dict())
            worst = verdicts[-1]["status"]
        found.append({**fields, "name": str(name), "status": worst, "results": verdicts})
    return found


def _not_completed(state: object) -> result.Result:
    if state is None:
        return result.undeterminable("job.end", "no_state", message="the file has no final state of the job")
    text = f"the job ended as {short(state)}, and the file reports that it passed"
    return result.failed("job.end", text, expected="COMPLETED", found=state)


def _job(job: Mapping[str, Any]) -> dict[str, Any]:
    return {key: job.get(key) for key in ("name", "job_id", "state", "nodes", "seconds", "status")}


def _results_of(jobs: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(str(job["name"]), entry) for job in jobs for entry in job.get("results") or []]


def bandwidth(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a curve for each run: label, job, where (a node, or two joined by +; None: more), collective, unit (GB/s),
    status and points [{size (bytes), busbw, least (None: no figure known)}]."""
    curves = []
    for job, entry in _results_of(jobs):
        match = BANDWIDTH.fullmatch(entry["id"])
        figures = entry.get("found")
        if not match or not isinstance(figures, Mapping):
            continue
        if "largest_size" in figures:
            figures = {str(figures["largest_size"]): figures.get("busbw")}
        expected = entry.get("expected")
        minimum_by_size = expected if isinstance(expected, Mapping) else {}
        points: list[dict[str, Any]] = [
            {
                "size": int(size),
                "busbw": figure,
                "least": minimum_by_size.get(size) if is_figure(minimum_by_size.get(size)) else None,
            }
            for size, figure in figures.items()
            if _is_size(size) and is_figure(figure)
        ]
        if points:
            scope = entry.get("scope") or {}
            where = scope.get("device") or scope.get("node")
            curves.append(
                {
                    "label": " ".join(part for part in (job, match.group(2), where) if part),
                    "job": job,
                    "where": where,
                    "collective": match.group(2),
                    "unit": "GB/s",
                    "status": entry["status"],
                    "points": sorted(points, key=lambda point: point["size"]),
                }
            )
    return curves


def _is_size(size: object) -> bool:
    # No message size has more than 25 digits.
    return re.fullmatch(r"[0-9]{1,25}", str(size)) is not None


def pairs(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs of two nodes: a, b (names in order), collective, busbw at the largest size (GB/s), status."""
    found = []
    for _job_name, entry in _results_of(jobs):
        match = BANDWIDTH.fullmatch(entry["id"])
        two = str((entry.get("scope") or {}).get("device") or "").split("+")
        figures = entry.get("found")
        if not match or len(two) != 2 or not isinstance(figures, Mapping):
            continue
        sizes = {int(size): figure for size, figure in figures.items() if _is_size(size)}
        busbw = figures.get("busbw") if "largest_size" in figures else sizes[max(sizes)] if sizes else None
        if is_figure(busbw):
            first, second = sorted(two, key=natural)
            found.append(
                {"a": first, "b": second, "collective": match.group(2), "busbw": busbw, "status": entry["status"]}
            )
    return sorted(found, key=lambda pair: (pair["collective"], pair["a"], pair["b"]))


def io_figures(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of fio, IOR and gdsio: tool, measure, what (a place or a job), node (None: all together),
    value, unit, status."""
    found = []
    for job, entry in _results_of(jobs):
        match = IO.fullmatch(entry["id"])
        if not match:
            continue
        what = str(entry.get("message") or job).split(": ", 1)[0] if match.group(1) == "fio" else job
        figures = entry.get("found")
        by_node = figures if isinstance(figures, Mapping) else {(entry.get("scope") or {}).get("node"): figures}
        found += [
            {
                "tool": match.group(1),
                "measure": match.group(2),
                "what": what,
                "node": node,
                "value": figure,
                "unit": entry.get("unit"),
                "status": entry["status"],
            }
            for node, figure in by_node.items()
            if is_figure(figure)
        ]
    return found


def timings(run: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the wall-clock seconds of each role, in the order they ran; tasks outside roles are ``other``."""
    roles = (run or {}).get("roles") or {}
    if not isinstance(roles, Mapping):
        raise ReportError(f"timings has the roles {short(roles)}: use the status file that this version wrote")
    return [
        {"role": short(role) or "other", "seconds": seconds}
        for role, seconds in roles.items()
        if is_figure(seconds) and seconds >= 0
    ]


def _changes(previous: Mapping[str, Any] | None, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the comparison with an earlier document; None if that one is damaged, which must not stop the report."""
    try:
        found = changes(previous, document) if previous else None
        # As strict as the document that it becomes part of.
        json.dumps(found, allow_nan=False)
        return found
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def changes(previous: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes: since (time), joined, left (names of nodes), verdicts [{node, id, before, after}] and
    versions [{node, name, before, after}]; before or after is None if there was no such verdict."""
    before = {node["name"]: node for node in previous["nodes"]}
    after = {node["name"]: node for node in document["nodes"]}
    verdicts, versions = [], []
    for name in after:
        if name in before:
            verdicts += [
                {"node": name, "id": cut(key, MAX_NAME), "before": old, "after": new}
                for key, old, new in _differences(_states(before[name]), _states(after[name]))
            ]
            versions += [
                {"node": name, "name": cut(key, MAX_NAME), "before": old if old is None else short(old), "after": new}
                for key, old, new in _differences(before[name]["versions"], after[name]["versions"])
            ]
    return {
        "since": short(previous["time"]),
        "joined": sorted(after.keys() - before.keys()),
        "left": sorted(cut(name, MAX_NAME) for name in before.keys() - after.keys()),
        "verdicts": verdicts,
        "versions": versions,
    }


def _states(node: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each id, the worst if a check gave several."""
    found: dict[str, str] = {}
    for entry in node["results"]:
        found[entry["id"]] = min(found.get(entry["id"], entry["status"]), entry["status"], key=ORDER.index)
    return found


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    keys = [*before, *(key for key in after if key not in before)]
    return [(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)]
