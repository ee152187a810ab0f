# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a run, ``mlcluster.evidence/1``: allow-listed fields, each of a known shape. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .plan import STEPS

SCHEMA = "mlcluster.evidence/1"
WITHHELD = "withheld"
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
STATES = (PASSED, FAILED, NOT_RUN)
STATUSES = ("pass", "fail", "undeterminable", "not_applicable")

_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+/()~:-]{0,127}\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z0-9_]{1,63}){0,5}\Z")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")
# Text that identifies an account: AWS ids, addresses, account numbers, EC2 host names.
PRIVATE = re.compile(
    r"\b(?:(?:i|ami|eni|fs|key|r|sg|snap|subnet|vol|vpc)-[0-9a-f]{8,17}\b|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![.0-9])|[0-9]{12}\b|arn:"
    r"|ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+|(?:[0-9a-f]{2}:){5}[0-9a-f]{2})"
)
FACTS = ("kernel", "system", "architecture", "python", "driver")
FIELDS = {"schema", "type", "image", "facts", "versions", "started", "finished", "steps"}
STEP_FIELDS = {"name", "state", "seconds", "verdicts"}
NAMES = [step["name"] for step in STEPS]
# Playbooks that end with a report on the node; without a report their exit status is no evidence.
JUDGED = ("site", "verify")
_BAD = ("fail", "undeterminable")


def build(run: Mapping[str, Any], reports: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the document; ``run`` has type, image, facts, started, finished, steps and done, ``reports`` the lines of
    ``mlcluster.report/1`` that a step has written."""
    done = {entry["name"]: entry for entry in run["done"]}
    given = run.get("facts")
    facts = given if isinstance(given, Mapping) else {}
    return {
        "schema": SCHEMA,
        "type": text(run["type"]),
        "image": text(run["image"]),
        "facts": {name: text(facts[name]) for name in FACTS if facts.get(name)},
        "versions": {name: text(versions[name]) for name in sorted(versions)},
        "started": text(run["started"], _TIME),
        "finished": text(run["finished"], _TIME),
        "steps": [
            _made(step, done.get(step["name"]), reports.get(step["name"], ""), run["started"]) for step in run["steps"]
        ],
    }


def _made(step: Mapping[str, Any], entry: Mapping[str, Any] | None, report: str, started: Any) -> dict[str, Any]:
    found = verdicts(report, started)
    return {
        "name": text(step["name"], _NAME),
        "state": _state(step, entry, found),
        "seconds": int((entry or {}).get("seconds") or 0),
        "verdicts": found,
    }


def _state(step: Mapping[str, Any], entry: Mapping[str, Any] | None, found: Sequence[Mapping[str, str]]) -> str:
    if entry is None:
        return NOT_RUN
    # A step passed only if both its status and its verdicts are a pass.
    return PASSED if entry.get("passed") is True and not _disproof(str(step["name"]), found) else FAILED


def _disproof(name: str, found: Sequence[Mapping[str, str]]) -> str:
    """Return why the verdicts do not prove a step; empty if they do, or if the step needs none."""
    bad = [entry["id"] for entry in found if entry["status"] in _BAD]
    if bad:
        return f"has verdicts other than pass: {', '.join(bad[:3])}"
    is_judged = any(step["name"] == name and step.get("playbook") in JUDGED for step in STEPS)
    if is_judged and not any(entry["status"] == "pass" for entry in found):
        return "has no passing verdict"
    return ""


def unproved(document: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each unproved step of a document."""
    return [
        f"{step['name']} {_disproof(step['name'], step['verdicts']) or 'is ' + step['state']}"
        for step in document["steps"]
        if step["state"] != PASSED
    ]


def text(value: Any, shape: re.Pattern[str] = _TEXT) -> str:
    """Return the value if it has the shape and identifies no account; otherwise ``withheld``."""
    found = str(value)
    return found if shape.match(found) and not PRIVATE.search(found) else WITHHELD


def verdicts(lines: str, started: Any) -> list[dict[str, str]]:
    """Return id and status of every verdict of a report; messages are left out: they may have addresses.

    A report that is older than the run, left by an earlier run of that name, has none.
    """
    results = []
    for line in filter(None, map(str.strip, lines.splitlines())):
        report = json.loads(line)
        written, since = text(report["time"], _TIME), text(started, _TIME)
        if WITHHELD in (written, since) or written < since:
            continue
        for entry in report["results"]:
            status = entry.get("status")
            results.append(
                {"id": text(entry["id"], _NAME), "status": status if status in STATUSES else "undeterminable"}
            )
    return results


def problems(document: Any) -> list[str]:
    """Return the errors of a submitted file, a sentence each."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        return [f"is not a document of the schema {SCHEMA}"]
    errors = [f"has the field {name}, which is not in the schema" for name in sorted(set(document) - FIELDS)]
    errors += [f"lacks {name}" for name in sorted(FIELDS - set(document))]
    if errors:
        return errors
    for name in ("type", "image"):
        errors += _shape(name, document[name], _TEXT)
    for name in ("started", "finished"):
        errors += _shape(name, document[name], _TIME)
    for part, known in (("facts", FACTS), ("versions", None)):
        if not isinstance(document[part], Mapping):
            errors.append(f"{part} is not a dictionary")
            continue
        for name, value in document[part].items():
            errors += [] if known is None or name in known else [f"{part} has {name}, which is not in the schema"]
            errors += _shape(f"{part}.{name}", value, _TEXT)
    if not isinstance(document["steps"], list) or not document["steps"]:
        return [*errors, "has no steps"]
    for step in document["steps"]:
        errors += list(_step(step))
    # Contradictions can be checked only in a document of known shape.
    return errors or list(_contradictions(document))


def _contradictions(document: Mapping[str, Any]) -> Iterable[str]:
    steps = document["steps"]
    names = [step["name"] for step in steps]
    if names != NAMES:
        yield f"has the steps {', '.join(names)}, and a run has {', '.join(NAMES)}"
    if WITHHELD not in (document["started"], document["finished"]) and document["finished"] < document["started"]:
        yield "has finished before it started"
    for step in steps:
        disproof = _disproof(step["name"], step["verdicts"])
        if step["state"] == PASSED and disproof:
            yield f"the step {step['name']} passed and {disproof}"
    states = [step["state"] for step in steps]
    ended = next((place for place, state in enumerate(states) if state == NOT_RUN), len(states))
    if set(states[ended:]) - {NOT_RUN}:
        yield "has a step that was run after one that was not"


def _step(step: Any) -> Iterable[str]:
    if not isinstance(step, Mapping) or set(step) != STEP_FIELDS:
        yield "has a step with other fields than name, state, seconds and verdicts"
        return
    yield from _shape("a step", step["name"], _NAME)
    seconds = step["seconds"]
    if step["state"] not in STATES or not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
        yield f"the step {step['name']} has no known state or no seconds"
    if not isinstance(step["verdicts"], list):
        yield f"the step {step['name']} has no list of verdicts"
        return
    for entry in step["verdicts"]:
        if not isinstance(entry, Mapping) or set(entry) != {"id", "status"} or entry["status"] not in STATUSES:
            yield f"the step {step['name']} has a verdict with other fields than id and status"
        else:
            yield from _shape(f"a verdict of {step['name']}", entry["id"], _NAME)


def _shape(name: str, value: Any, shape: re.Pattern[str]) -> list[str]:
    return (
        []
        if isinstance(value, str) and (value == WITHHELD or text(value, shape) == value)
        else [f"{name} has an unknown shape"]
    )


def rows(documents: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return a row of the support matrix for each document: type, system, passed and not passed steps."""
    table = []
    for document in documents:
        facts = document["facts"]
        system = ", ".join(filter(None, [facts.get("system"), facts.get("kernel")])) or "unknown"
        states: dict[str, list[str]] = {}
        for step in document["steps"]:
            states.setdefault(step["state"], []).append(step["name"])
        rest = [f"{state}: {', '.join(states[state])}" for state in (FAILED, NOT_RUN) if state in states]
        table.append(
            (document["type"], system, ", ".join(states.get(PASSED, [])) or "nothing", "; ".join(rest) or "nothing")
        )
    return sorted(table)
