# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger test: every leaf of a recorded output counts for a verdict, or stands in a ledger with its reason.

A ``Room`` has the leaves of one kind of output and the function that judges it. Each leaf is replaced by every text of
``changed``; after each change some verdict is no longer a pass, or an ``Excuse`` of the room names the leaf. A leaf of
health, error, state or speed is never excused from a text that proves nothing.

To add a room: a file ``test_NAME.py`` here, with a ``Room`` and ``test_sample, test_every_leaf, test_ledger =
room_tests(ROOM)``.
"""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import functools
import random
import re
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

# Texts that prove nothing.
UNKNOWN: dict[str, str | None] = {
    "nothing": None,
    "empty": "",
    "N/A": "N/A",
    "Unknown Error": "Unknown Error",
    "ERR!": "ERR!",
    "not supported": "[Not Supported]",
    "NaN": "NaN",
}
OPPOSITES = (
    ("Yes", "No"),
    ("Enabled", "Disabled"),
    ("Active", "Not Active"),
    ("True", "False"),
    ("true", "false"),
    ("OK", "FAILED"),
    ("Completed", "In Progress"),
    ("Success", "Failure"),
    ("Default", "Prohibited"),
    ("None", "Reset"),
    ("Libfabric", "Socket"),
    ("efa", "tcp"),
    ("sum", "none"),
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# Leaves that are health, errors, state or speed, by their path.
ESSENTIAL = re.compile(
    r"ecc_(?!object)|error|health|state|status|retired_count|retirement$|pending_(?:mig|ecc|blacklist)|repair_pending|remap|repair|recovery|reset"
    r"|clocks_event_reasons/|persistence|mig_mode|link_width|(?:device|current|max)_link_gen|(?<!deferred)_clocks/|/clocks/"
    r"|gpu_power_readings/(?:current|requested|default|max)_power_limit|attached_gpus|driver_version"
    r"|link\d|GPU\d+/GPU|#wrong|busbw|algbw|/time|out of bounds|validation|^average",
    re.IGNORECASE,
)
SEED = 20261129
SAMPLE = 60
MAX_EXCUSES = 80


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One value of an output: its path, its text, and the output with another text in its place (None: without it)."""

    path: str
    text: str
    replaced: t.Callable[[str | None], t.Any]


@dataclasses.dataclass(frozen=True)
class Excuse:
    """Leaves (by a pattern of ``fnmatch``) that may change without a verdict; ``kinds``: by these changes only."""

    pattern: str
    reason: str
    kinds: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Room:
    """``judge`` returns the status of each verdict on an output."""

    name: str
    good: t.Any
    leaves: t.Sequence[Leaf]
    judge: t.Callable[[t.Any], t.Mapping[str, str]]
    excuses: t.Sequence[Excuse]


def changed(text: str) -> dict[str, str | None]:
    """Return the texts that stand in place of a leaf, by the kind of the change."""
    found: dict[str, str | None] = dict(UNKNOWN)
    for pair in OPPOSITES:
        for word, other in (pair, pair[::-1]):
            if text == word:
                found["opposite"] = other
    number = _NUMBER.search(text)
    if number:
        value = float(number.group())
        digits = len(number.group().partition(".")[2])
        for kind, other_value in (("zero", 0.0), ("half", value / 2), ("ten times", value * 10)):
            shown = f"{other_value:.{digits}f}"
            found[kind] = text[: number.start()] + shown + text[number.end() :]
    return {kind: other for kind, other in found.items() if other != text}


def excused(room: Room, path: str, kind: str) -> list[Excuse]:
    """Return the excuses for a change of a leaf."""
    return [
        excuse
        for excuse in room.excuses
        if fnmatch.fnmatchcase(path, excuse.pattern) and (not excuse.kinds or kind in excuse.kinds)
    ]


def unnoticed(room: Room, changes: t.Iterable[tuple[Leaf, str, str | None]]) -> tuple[list[str], set[Excuse]]:
    """Return the changes that no verdict notices and no excuse names, and the excuses that were needed."""
    before = {check for check, status in room.judge(room.good).items() if status == "pass"}
    assert before, f"{room.name}: the good output has no pass"
    holes, needed = [], set()
    for leaf, kind, text in changes:
        after = room.judge(leaf.replaced(text))
        if all(after.get(check) == "pass" for check in before):
            excuses = excused(room, leaf.path, kind)
            needed.update(excuses)
            if not excuses:
                holes.append(f"{leaf.path}: {leaf.text!r} -> {kind}")
    return holes, needed


def all_changes(room: Room) -> list[tuple[Leaf, str, str | None]]:
    """Return every change of every leaf."""
    return [(leaf, kind, text) for leaf in room.leaves for kind, text in changed(leaf.text).items()]


def room_tests(room: Room) -> tuple[t.Callable[[], None], t.Callable[[], None], t.Callable[[], None]]:
    """Return the tests of a room: of a sample, of every leaf, and of the ledger itself."""

    def test_sample() -> None:
        changes = all_changes(room)
        picked = random.Random(SEED).sample(changes, min(SAMPLE, len(changes)))
        holes = unnoticed(room, picked)[0]
        assert not holes, "\n".join(holes)

    @pytest.mark.slow
    def test_every_leaf() -> None:
        holes, needed = unnoticed(room, all_changes(room))
        assert not holes, "\n".join(holes)
        idle = [excuse.pattern for excuse in room.excuses if excuse not in needed]
        assert not idle, f"these are noticed, drop them: {idle}"

    def test_ledger() -> None:
        paths = [leaf.path for leaf in room.leaves]
        assert len(paths) == len(set(paths)), "two leaves of one path"
        assert len(room.excuses) <= MAX_EXCUSES, f"{room.name} has {len(room.excuses)} excuses"
        for excuse in room.excuses:
            found = fnmatch.filter(paths, excuse.pattern)
            assert found, f"{room.name} has no leaf {excuse.pattern}"
            assert len(excuse.reason) > len("judged"), f"{excuse.pattern} has no reason"
            essential = [path for path in found if ESSENTIAL.search(path)]
            if essential:
                assert excuse.kinds, f"{excuse.pattern} excuses {essential}"
                assert not set(excuse.kinds) & set(UNKNOWN), f"{excuse.pattern} excuses {essential}"

    return test_sample, test_every_leaf, test_ledger


def fact_leaves(facts: t.Any, skip: t.Collection[str] = ()) -> list[Leaf]:
    """Return the leaves of facts as a look gives them; of a list only the first and the last entry.

    A value is replaced by one of its own type where the text has such a value. ``skip``: keys at the top.
    """
    found: list[Leaf] = []

    def walk(value: t.Any, path: tuple[t.Any, ...]) -> None:
        if isinstance(value, dict):
            for key in value:
                if path or key not in skip:
                    walk(value[key], (*path, key))
        elif isinstance(value, (list, tuple)):
            for index in sorted({0, len(value) - 1} & set(range(len(value)))):
                walk(value[index], (*path, index))
        elif value is not None:
            found.append(Leaf("/".join(map(str, path)), str(value), functools.partial(_with, facts, path)))

    walk(facts, ())
    return found


def _with(facts: t.Any, path: t.Sequence[t.Any], text: str | None) -> t.Any:
    made = copy.deepcopy(facts)
    place = made
    for part in path[:-1]:
        if isinstance(place[part], tuple):
            place[part] = list(place[part])
        place = place[part]
    place[path[-1]] = _typed(place[path[-1]], text)
    return made


def _typed(before: t.Any, text: str | None) -> t.Any:
    if isinstance(before, bool):
        return {"True": True, "False": False}.get(text or "", text)
    if isinstance(before, (int, float)) and text is not None:
        try:
            return type(before)(text) if isinstance(before, float) or "." not in text else int(float(text))
        except ValueError:
            return float("nan") if text == "NaN" else text
    return text


def statuses(results: t.Iterable[t.Any]) -> dict[str, str]:
    """Return the worst status by id of results; one that passes for one device and not for another is not a pass."""
    found: dict[str, str] = {}
    for one in results:
        found[one.id] = one.status if found.get(one.id, "pass") == "pass" else found[one.id]
    return found


def bounded(judge: t.Callable[[t.Any], t.Iterable[t.Any]]) -> t.Callable[[t.Any], dict[str, str]]:
    """Return a judge of a room; facts of types that no look gives may end in an error, which is not a pass."""

    def judged(facts: t.Any) -> dict[str, str]:
        try:
            return statuses(judge(facts))
        except (AttributeError, KeyError, NodeError, TypeError, ValueError) as problem:
            return {"raised": type(problem).__name__}

    return judged
