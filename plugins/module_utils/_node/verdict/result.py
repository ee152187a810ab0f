# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a check, ``mlcluster.result/1``, and a list of verdicts, ``mlcluster.report/1``.

Only proof is a pass: a pass must have what was found, an undeterminable or inapplicable verdict
must have a reason, and an empty list of results is undeterminable.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import unique_json

RESULT_SCHEMA = "mlcluster.result/1"
REPORT_SCHEMA = "mlcluster.report/1"

PASS = "pass"  # noqa: S105
FAIL = "fail"
UNDETERMINABLE = "undeterminable"
NOT_APPLICABLE = "not_applicable"
STATUSES = (PASS, FAIL, UNDETERMINABLE, NOT_APPLICABLE)

# Ordered from harmless to drastic: what the operator must do about the node.
SEVERITIES = ("none", "monitor", "reset", "reboot", "isolate")

EXIT_OK = 0
EXIT_FAIL = 1
EXIT_UNDETERMINABLE = 2
EXIT_USAGE = 3

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*")
_TEXT_FIELDS = ("unit", "reason", "message", "hint", "source")
_RESULT_FIELDS = ("id", "status", "severity", "expected", "found") + _TEXT_FIELDS + ("scope", "seconds")
_REPORT_FIELDS = ("host", "time", "versions", "results")
# More than thirty years: a larger value is not a duration, and may be too large for a float.
_MAX_SECONDS = 1e9
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def printable(text: object) -> str:
    """Return text that is safe for a terminal: output and names of tools, nodes and jobs may have any characters."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def first_of(names: Sequence[str], maximum: int, joint: str = ", ") -> str:
    """Return names in one text, of many only the first ones and how many more there are."""
    return joint.join(names[:maximum]) + (f" and {len(names) - maximum} more" if len(names) > maximum else "")


def moment(text: object) -> datetime.datetime | None:
    """Return the time of an ISO 8601 text with a zone; None for anything else, such as a 13th month."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


class ResultError(ValueError):
    """A result or report breaks the schema; the message names the field and its value."""


def _refuse(what: str, found: object, wanted: str) -> NoReturn:
    raise ResultError(f"{what} is {found!r}; {wanted}")


def _check_json(what: str, value: object) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ResultError(
            f"{what} cannot be written as JSON ({exc}); use numbers, text, lists or dictionaries"
        ) from exc


def _check_text(what: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        _refuse(what, value, "it must be text or absent")


def _check_mapping(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, dict):
        _refuse(what, value, "it must be a JSON object")
    unknown = sorted(str(key) for key in value if key not in allowed)
    if unknown:
        raise ResultError(
            "{} has unknown fields {}; the schema has {}".format(what, ", ".join(unknown), ", ".join(allowed))
        )


@dataclass(frozen=True)
class Scope:
    """The subject of a verdict: host name, EC2 instance id, device (``/dev/nvme1n1``, ``gpu3``); each may be None."""

    node: str | None = None
    instance_id: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("node", "instance_id", "device"):
            _check_text(f"scope.{name}", getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """Return the three fields by name, as in ``mlcluster.result/1``."""
        return {"node": self.node, "instance_id": self.instance_id, "device": self.device}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Scope:
        """Parse the result of ``to_dict``. Raises ResultError."""
        _check_mapping("scope", data, ("node", "instance_id", "device"))
        return cls(**data)


@dataclass(frozen=True)
class Result:
    """One verdict. Raises ResultError when a field breaks the schema.

    ``id`` is stable and dotted (``storage.members``); ``expected`` and ``found`` are any JSON value in
    ``unit``; ``reason`` is a short stable code (``tool_missing``); ``message`` and ``hint`` are for
    people; ``source`` is the source of the expectation; ``seconds`` is the duration of the check.
    """

    id: str
    status: str
    severity: str = "none"
    expected: object = None
    found: object = None
    unit: str | None = None
    reason: str | None = None
    message: str | None = None
    hint: str | None = None
    source: str | None = None
    scope: Scope = field(default_factory=Scope)
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            _refuse("id", self.id, "it must be dotted lower-case words such as storage.members")
        if self.status not in STATUSES:
            _refuse(f"{self.id}: status", self.status, "it must be one of {}".format(", ".join(STATUSES)))
        if self.severity not in SEVERITIES:
            _refuse(f"{self.id}: severity", self.severity, "it must be one of {}".format(", ".join(SEVERITIES)))
        for name in _TEXT_FIELDS:
            _check_text(f"{self.id}: {name}", getattr(self, name))
        if not isinstance(self.scope, Scope):
            _refuse(f"{self.id}: scope", self.scope, "it must be a Scope")
        self._check_seconds()
        self._check_evidence()

    def _check_seconds(self) -> None:
        value = self.seconds
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _MAX_SECONDS:
            _refuse(f"{self.id}: seconds", value, "it must be a number of seconds, zero or more")

    def _check_evidence(self) -> None:
        _check_json(f"{self.id}: expected", self.expected)
        _check_json(f"{self.id}: found", self.found)
        if self.status == PASS and (self.found is None or (isinstance(self.found, str) and not self.found.strip())):
            wanted = "a pass must state what was found, since a verdict that was not proved is not a pass"
            _refuse(f"{self.id}: found", self.found, wanted)
        if self.status in (PASS, NOT_APPLICABLE) and self.severity != "none":
            _refuse(f"{self.id}: severity", self.severity, f"a {self.status} has severity none")
        if self.status != PASS and not (self.reason or self.message):
            _refuse(f"{self.id}: reason", self.reason, f"a verdict of {self.status} must have a reason or a message")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of ``mlcluster.result/1``: every field, absent ones as null, plus ``schema``."""
        data: dict[str, Any] = {"schema": RESULT_SCHEMA}
        for name in _RESULT_FIELDS:
            data[name] = getattr(self, name)
        data["scope"] = self.scope.to_dict()
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Result:
        """Return the result that to_dict wrote. Raises ResultError on another schema, an unknown or missing field."""
        _check_mapping("result", data, ("schema",) + _RESULT_FIELDS)
        _check_schema(data, RESULT_SCHEMA)
        for name in ("id", "status"):
            if name not in data:
                raise ResultError(f"a result lacks the field {name}")
        values = {key: value for key, value in data.items() if key != "schema"}
        values["scope"] = Scope.from_dict(values.get("scope") or {})
        return cls(**values)

    def line(self) -> str:
        """Return one line: ``FAIL storage.members (/dev/md0): expected 8 disks, found 7 disks. Hint.``"""
        # The name of a mount point may contain line feeds.
        where = f" ({printable(self.scope.device)})" if self.scope.device else ""
        why = self.message or (self.reason if self.status in (UNDETERMINABLE, NOT_APPLICABLE) else None)
        parts = [why or self._comparison() or self.reason or ""]
        if why and self.status in (FAIL, UNDETERMINABLE) and self._comparison():
            parts.append(self._comparison())
        if self.hint and self.status != PASS:
            parts.append(self.hint)
        text = ". ".join(part.rstrip(". ") for part in parts if part)
        return f"{_WORDS[self.status]:4} {self.id}{where}: {' '.join(printable(text).split())}"

    def _comparison(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.expected is not None and self.found is not None:
            return f"expected {_show(self.expected)}{unit}, found {_show(self.found)}{unit}"
        if self.found is not None:
            return f"found {_show(self.found)}{unit}"
        return ""


_WORDS = {PASS: "PASS", FAIL: "FAIL", UNDETERMINABLE: "????", NOT_APPLICABLE: "n/a"}


def _show(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _check_schema(data: dict[str, Any], wanted: str) -> None:
    if data.get("schema") != wanted:
        _refuse("schema", data.get("schema"), f"this version reads {wanted} only")


def passed(check: str, found: object, **fields: Any) -> Result:
    """Return a pass, with what was found as its proof."""
    return Result(id=check, status=PASS, found=found, **fields)


def failed(check: str, message: str, severity: str = "monitor", **fields: Any) -> Result:
    """Return a failure; ``severity`` is what to do about the node."""
    return Result(id=check, status=FAIL, severity=severity, message=message, **fields)


def undeterminable(check: str, reason: str, **fields: Any) -> Result:
    """Return a verdict without proof; ``reason`` states why (tool missing, timeout, no sourced threshold)."""
    return Result(id=check, status=UNDETERMINABLE, reason=reason, **fields)


def not_applicable(check: str, reason: str, **fields: Any) -> Result:
    """Return a verdict for a check that does not apply to this node; ``reason`` states why."""
    return Result(id=check, status=NOT_APPLICABLE, reason=reason, **fields)


def none_expected(check: str, reason: str, source: str, unit: str | None = None) -> Result:
    """Return a not_applicable with its proof: by ``source`` the node has none of what the check is about."""
    return not_applicable(check, reason, expected=0, found=0, source=source, unit=unit)


def unproved(results: Iterable[Result]) -> list[Result]:
    """Return the results that are neither a pass nor not applicable."""
    return [result for result in results if result.status not in (PASS, NOT_APPLICABLE)]


def answer(results: Sequence[Result]) -> dict[str, list[Any]]:
    """Return what modules return of results: themselves, their lines, and the lines of the unproved ones."""
    return {
        "results": [result.to_dict() for result in results],
        "lines": [result.line() for result in results],
        "problems": [result.line() for result in unproved(results)],
    }


def overall(results: Iterable[Result]) -> str:
    """Return the status of many results: fail before undeterminable before pass; undeterminable without results."""
    statuses = {result.status for result in results}
    if not statuses:
        return UNDETERMINABLE
    for status in (FAIL, UNDETERMINABLE, PASS):
        if status in statuses:
            return status
    return NOT_APPLICABLE


def exit_code(results: Iterable[Result]) -> int:
    """Return 0 if all pass or do not apply, 1 for any fail, else 2 for undeterminable (also without results)."""
    return {FAIL: EXIT_FAIL, UNDETERMINABLE: EXIT_UNDETERMINABLE}.get(overall(results), EXIT_OK)


def worst_severity(results: Iterable[Result]) -> str:
    """Return the most drastic severity of the results, ``none`` without results."""
    return max((result.severity for result in results), key=SEVERITIES.index, default="none")


@dataclass(frozen=True)
class Report:
    """Results of one run on one host: ``time`` is ISO 8601 with zone, ``versions`` maps component to version."""

    host: str
    time: str
    versions: dict[str, str] = field(default_factory=dict)
    results: tuple[Result, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            _refuse("host", self.host, "a report must name its host")
        if not isinstance(self.time, str) or not _TIME.fullmatch(self.time):
            _refuse("time", self.time, "it must be like 2026-01-31T12:00:00Z")
        if not isinstance(self.versions, dict) or not all(
            isinstance(text, str) for pair in self.versions.items() for text in pair
        ):
            _refuse("versions", self.versions, "it must map component names to version texts")
        object.__setattr__(self, "results", tuple(self.results))
        for result in self.results:
            if not isinstance(result, Result):
                _refuse("results", result, "every entry must be a Result")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of ``mlcluster.report/1``."""
        return {
            "schema": REPORT_SCHEMA,
            "host": self.host,
            "time": self.time,
            "versions": dict(self.versions),
            "results": [result.to_dict() for result in self.results],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """Return the report that to_dict wrote. Raises ResultError on anything that breaks the schema."""
        _check_mapping("report", data, ("schema",) + _REPORT_FIELDS)
        _check_schema(data, REPORT_SCHEMA)
        missing = [name for name in _REPORT_FIELDS if name not in data]
        if missing:
            raise ResultError("a report lacks the fields {}".format(", ".join(missing)))
        if not isinstance(data["results"], list):
            _refuse("results", data["results"], "it must be a list")
        results = tuple(Result.from_dict(entry) for entry in data["results"])
        return cls(host=data["host"], time=data["time"], versions=data["versions"], results=results)

    def lines(self) -> list[str]:
        """Return one line per result and a closing line with the counts."""
        counts = [f"{number} {status}" for status, number in self._counts() if number]
        return [result.line() for result in self.results] + [
            "{}: {}".format(self.host, ", ".join(counts) or "no results")
        ]

    def _counts(self) -> list[tuple[str, int]]:
        return [(status, sum(result.status == status for result in self.results)) for status in STATUSES]


def dumps(item: Result | Report) -> str:
    """Return a Result or Report as one line of JSON with sorted keys; neither has a figure that is no JSON."""
    return json.dumps(item.to_dict(), sort_keys=True)


def loads(text: str) -> Result | Report:
    """Return a Result or a Report, by the field ``schema``. Raises ResultError if it is neither."""
    try:
        data = unique_json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ResultError(f"the text is not JSON: {exc}") from exc
    kinds: dict[object, type[Result] | type[Report]] = {RESULT_SCHEMA: Result, REPORT_SCHEMA: Report}
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema not in kinds:
        _refuse("schema", schema, f"this version reads {RESULT_SCHEMA} and {REPORT_SCHEMA}")
    return kinds[schema].from_dict(data)
