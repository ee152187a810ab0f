# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a verdict: the fields that it reads, with the good and bad values of each. Pure.

A verdict passes only when every field was read and is good. A bad field fails it. A field that is missing, unreadable
or holds anything else makes it undeterminable, and the message names the field and its value.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from .result import SEVERITIES, Result, Scope, failed, first_of, passed, printable, undeterminable

UNREAD = "unread"
# Most names in one sentence.
MAX_NAMED = 8
_LONGEST_VALUE = 80

Test = t.Callable[[t.Any], bool]
Facts = t.Mapping[str, t.Any]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: t.Any = _Missing()


def exactly(*values: object) -> Test:
    """Return a test for one of these values, of the same type: ``exactly(0)`` rejects ``False`` and ``0.0``."""
    return lambda value: any(type(value) is type(wanted) and value == wanted for wanted in values)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number and not a boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_integer(value: object) -> bool:
    """Return whether a value is a whole number and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def within(minimum: float, maximum: float = math.inf) -> Test:
    """Return a test for a finite number from ``minimum`` to ``maximum``, both included."""
    return lambda value: is_number(value) and minimum <= value <= maximum


def above(limit: float) -> Test:
    """Return a test for a finite number greater than ``limit``."""
    return lambda value: is_number(value) and value > limit


def below(limit: float) -> Test:
    """Return a test for a finite number less than ``limit``."""
    return lambda value: is_number(value) and value < limit


def is_text(value: object) -> bool:
    """Return whether a value is a string that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def never(_value: object) -> bool:
    """Return false: no value of this field is bad, only good or unknown."""
    return False


@dataclasses.dataclass(frozen=True)
class Field:
    """One field that a verdict reads.

    ``name`` is its dotted path in the facts of a subject. ``good`` accepts the values that count as proof. ``bad``
    accepts the values that disprove; ``text`` then states the problem, with ``{}`` for the value, and ``severity`` what
    to do. ``label`` is the name in messages (default: ``name``). If ``when`` rejects the subject's facts, the field is
    not evidence for it; ``when`` must be true if its own facts are unknown.

    The first unknown field sets ``reason`` and ``hint`` of an undeterminable verdict; ``unknown`` is its sentence, with
    ``{}`` for the value, if "NAME reads VALUE" is not clear enough.
    """

    name: str
    good: Test
    bad: Test = never
    text: str = "is bad: {}"
    severity: str = "monitor"
    label: str | None = None
    when: t.Callable[[Facts], bool] | None = None
    reason: str = UNREAD
    unknown: str | None = None
    hint: str | None = None


@dataclasses.dataclass(frozen=True)
class Subject:
    """The subject of a verdict: one GPU, host or run.

    ``name`` begins its part of a message and is the device of the verdict (None: the verdict has one subject).
    ``raw`` maps the name of a field that could not be parsed to its text.
    """

    facts: Facts
    name: str | None = None
    raw: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A bad or unknown value of a subject."""

    subject: Subject
    text: str
    severity: str = "none"
    field: Field | None = None

    def sentence(self) -> str:
        """Return the text after the name of its subject."""
        return f"{self.subject.name} {self.text}" if self.subject.name else self.text


@dataclasses.dataclass(frozen=True)
class Findings:
    """All findings: the ``bad`` ones, in the order of the fields, and the ``unknown`` ones."""

    bad: tuple[Finding, ...]
    unknown: tuple[Finding, ...]


def lookup(facts: object, path: str) -> object:
    """Return the value at a dotted path, or ``MISSING``."""
    for part in path.split("."):
        if not isinstance(facts, t.Mapping) or part not in facts:
            return MISSING
        facts = facts[part]
    return facts


def find_problems(fields: t.Sequence[Field], subjects: t.Sequence[Subject]) -> Findings:
    """Return the bad and the unknown findings about these subjects, in their order."""
    bad, unknown = [], []
    for subject in subjects:
        for field in fields:
            if field.when is not None and not field.when(subject.facts):
                continue
            value = lookup(subject.facts, field.name)
            if field.bad(value):
                bad.append(Finding(subject, field.text.format(value), field.severity, field))
            elif not field.good(value):
                state = f"{field.label or field.name} {_state(value, subject.raw.get(field.name))}"
                text = state if field.unknown is None else field.unknown.format(value)
                unknown.append(Finding(subject, text, field=field))
    return Findings(tuple(bad), tuple(unknown))


def _state(value: object, raw: str | None) -> str:
    if raw is not None:
        return f"reads {_quoted(raw)}"
    return "is missing" if value is MISSING or value is None else f"reads {_quoted(value)}"


def _quoted(value: object) -> str:
    text = " ".join(printable(value).split())
    return f"'{text[:_LONGEST_VALUE]}'" if text else "nothing"


def decide(
    check: str, fields: t.Sequence[Field], subjects: t.Sequence[Subject], found: object, **more: t.Any
) -> Result:
    """Return the verdict on these subjects: a pass with ``found``, a fail, or undeterminable with reason ``unread``.

    The message names the worst finding of each bad subject. Without subjects or fields nothing is proved. ``more`` are
    further fields of the result (``expected``, ``hint``, ``source``).
    """
    findings = find_problems(fields, subjects)
    if findings.bad:
        return _failed(check, findings.bad, more)
    if findings.unknown or not subjects or not fields:
        field = findings.unknown[0].field if findings.unknown else None
        hint = {"hint": field.hint} if field and field.hint else {}
        reason = field.reason if field else UNREAD
        return undeterminable(check, reason, message=_unknown(findings.unknown), **{**more, **hint})
    return passed(check, found, **more)


def _failed(check: str, bad: t.Sequence[Finding], more: t.Mapping[str, t.Any]) -> Result:
    worst: dict[int, Finding] = {}
    for finding in bad:
        known = worst.get(id(finding.subject))
        if known is None or SEVERITIES.index(finding.severity) > SEVERITIES.index(known.severity):
            worst[id(finding.subject)] = finding
    findings = list(worst.values())
    severity = max((finding.severity for finding in findings), key=SEVERITIES.index)
    scope = Scope(device=findings[0].subject.name) if len(findings) == 1 else Scope()
    message = "; ".join(finding.sentence() for finding in findings)
    return failed(check, message, severity=severity, **{"scope": scope, **more})


def _unknown(findings: t.Sequence[Finding]) -> str:
    if not findings:
        return "there is nothing to judge"
    return first_of([finding.sentence() for finding in findings], MAX_NAMED, "; ")
