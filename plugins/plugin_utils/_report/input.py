# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes from nodes, files and the inventory, made such that a page can be drawn of it. Pure.

One node that says nonsense, or megabytes, must not take the page from all the others.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

# The largest verdicts of node_health_info are far below these.
MOST_TEXT = 1000
MOST_VALUE = 20000
MOST_SHORT = 300
# What to do about a node that was not judged, by the words of Ansible's reason; the first that fits counts.
REACH = "See whether it runs, and whether it lets you in with ssh"
HINTS = (
    (
        re.compile(r"sudo", re.IGNORECASE),
        "Let the user that Ansible connects as run sudo without a password, or give --ask-become-pass",
    ),
    (
        re.compile(r"permission denied|authentication fail", re.IGNORECASE),
        "The node runs and refuses the key: see ansible_user and ansible_ssh_private_key_file of the inventory",
    ),
    (
        re.compile(r"host key|REMOTE HOST IDENTIFICATION", re.IGNORECASE),
        "The node's host key is not the known one: remove the old one with ssh-keygen -R if the node was replaced",
    ),
    (
        re.compile(r"python", re.IGNORECASE),
        "See which Python the node has; Ansible needs 3.9 or newer there, and ansible_python_interpreter names it",
    ),
    (re.compile(r"verdict"), "Run 'mlcluster health --profile full' on it and compare"),
)
# What the arithmetic of charts and medians can hold with ease.
LARGEST = 1e100


def read(entry: object, node: str | None) -> result.Result:
    """One verdict, its texts shortened; one that cannot be read or drawn is a verdict that says so."""
    try:
        if not isinstance(entry, Mapping):
            raise result.ResultError(f"it is {entry!r} and no mapping")
        given = result.Result.from_dict(dict(entry))
        if len(given.id) > MOST_SHORT:
            raise result.ResultError(f"the id {given.id[:40]}… has {len(given.id)} characters")
        texts = {name: cut(getattr(given, name), MOST_TEXT) for name in ("message", "hint", "reason", "unit", "source")}
        scope = result.Scope(**{name: cut(text, MOST_TEXT) for name, text in given.scope.to_dict().items()})
        values = {name: _bounded(getattr(given, name)) for name in ("expected", "found")}
        return dataclasses.replace(given, **texts, **values, scope=scope)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as exc:
        return unproved("node.answer", "damaged", f"a verdict cannot be read: {short(exc)}", node)


def unproved(check: str, reason: str, message: str, node: str | None) -> result.Result:
    """The verdict on a node that did not say what it was asked for."""
    return result.undeterminable(
        check,
        reason,
        message=message,
        hint=next((hint for words, hint in HINTS if words.search(message)), REACH),
        scope=result.Scope(node=node),
    )


def cut(text: Any, most: int) -> Any:
    """The beginning of a text that is longer than ``most`` characters; all else as it is."""
    return f"{text[:most]}…" if isinstance(text, str) and len(text) > most else text


def _bounded(value: Any) -> Any:
    """A value as it is, or the beginning of its text where it would make the page unreadable."""
    if isinstance(value, str):
        return cut(value, MOST_VALUE)
    # With the indentation of the document, which is what makes deep values long and takes the stack.
    if isinstance(value, (dict, list, int)) and len(text := json.dumps(value, indent=1)) > MOST_VALUE:
        return cut(" ".join(text.split()), MOST_TEXT)
    return value


def is_figure(value: object) -> bool:
    """Whether a value can be drawn: a number, and none that a chart's arithmetic cannot hold."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return -LARGEST < value < LARGEST


def listed(value: object) -> list[Any]:
    """A list as it is, a single value as a list of it."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None or value == "" else [value]


def label(value: object) -> str | None:
    """What the inventory says, as a text: YAML makes a number of a queue called 01."""
    return None if value is None or value == "" else short(value)


def short(what: object) -> str:
    """Anything as a text of one line."""
    try:
        return " ".join(str(what).split())[:MOST_SHORT]
    except (ValueError, RecursionError):
        return f"a {type(what).__name__} that cannot be written"
