# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a run, ``mlcluster.evidence/1``: made of an allow-list of fields, each of a known shape. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

SCHEMA = "mlcluster.evidence/1"
WITHHELD = "withheld"
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
STATES = (PASSED, FAILED, NOT_RUN)
STATUSES = ("pass", "fail", "undeterminable", "not_applicable")

_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+/()~:-]{0,127}\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z0-9_]{1,63}){0,5}\Z")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")
# What tells whose the instance was: ids of AWS, addresses, account numbers, names of EC2's hosts.
PRIVATE = re.compile(
    r"\b(?:(?:i|ami|eni|fs|key|r|sg|snap|subnet|vol|vpc)-[0-9a-f]{8,17}\b|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![.0-9])|[0-9]{12}\b|arn:"
    r"|ip-[0-9]+-[0-9]+-[0-9]+-[0-9]+|(?:[0-9a-f]{2}:){5}[0-9a-f]{2})"
)
FACTS = ("kernel", "system", "architecture", "python", "driver")
FIELDS = {"schema", "type", "image", "facts", "versions", "started", "finished", "steps"}
STEP_FIELDS = {"name", "state", "seconds", "verdicts"}


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
            {
                "name": text(step["name"], _NAME),
                "state": _state(done.get(step["name"])),
                "seconds": int((done.get(step["name"]) or {}).get("seconds") or 0),
                "verdicts": verdicts(reports.get(step["name"], "")),
            }
            for step in run["steps"]
        ],
    }


def _state(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return NOT_RUN
    # Only what says so has passed.
    return PASSED if entry.get("passed") is True else FAILED


def text(value: Any, shape: re.Pattern[str] = _TEXT) -> str:
    """Return a text of the shape that names nobody; anything else is withheld."""
    found = str(value)
    return found if shape.match(found) and not PRIVATE.search(found) else WITHHELD


def verdicts(lines: str) -> list[dict[str, str]]:
    """Return id and status of every verdict of a report; messages may have names and addresses in them."""
    told = []
    for line in filter(None, map(str.strip, lines.splitlines())):
        for entry in json.loads(line)["results"]:
            status = entry.get("status")
            told.append({"id": text(entry["id"], _NAME), "status": status if status in STATUSES else "undeterminable"})
    return told


def problems(document: Any) -> list[str]:
    """Return what is wrong with a file that was sent, a sentence each."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        return [f"is no document of the schema {SCHEMA}"]
    told = [f"has the field {name}, which the schema has not" for name in sorted(set(document) - FIELDS)]
    told += [f"lacks {name}" for name in sorted(FIELDS - set(document))]
    if told:
        return told
    for name in ("type", "image"):
        told += _shape(name, document[name], _TEXT)
    for name in ("started", "finished"):
        told += _shape(name, document[name], _TIME)
    for part, known in (("facts", FACTS), ("versions", None)):
        if not isinstance(document[part], Mapping):
            told.append(f"{part} is no mapping")
            continue
        for name, value in document[part].items():
            told += [] if known is None or name in known else [f"{part} has {name}, which the schema has not"]
            told += _shape(f"{part}.{name}", value, _TEXT)
    if not isinstance(document["steps"], list) or not document["steps"]:
        return [*told, "has no steps"]
    for step in document["steps"]:
        told += list(_step(step))
    return told


def _step(step: Any) -> Iterable[str]:
    if not isinstance(step, Mapping) or set(step) != STEP_FIELDS:
        yield "has a step with other fields than name, state, seconds and verdicts"
        return
    yield from _shape("a step", step["name"], _NAME)
    if step["state"] not in STATES or not isinstance(step["seconds"], int):
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
    """Return a row of the support matrix for each document: type, system, what passed, what did not."""
    told = []
    for document in documents:
        facts = document["facts"]
        system = ", ".join(filter(None, [facts.get("system"), facts.get("kernel")])) or "unknown"
        states: dict[str, list[str]] = {}
        for step in document["steps"]:
            states.setdefault(step["state"], []).append(step["name"])
        rest = [f"{state}: {', '.join(states[state])}" for state in (FAILED, NOT_RUN) if state in states]
        told.append(
            (document["type"], system, ", ".join(states.get(PASSED, [])) or "nothing", "; ".join(rest) or "nothing")
        )
    return sorted(told)
