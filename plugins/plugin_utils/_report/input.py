# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the data of nodes, files and the inventory into values that a page can show. Pure.

Invalid or huge data of one node must not break the page for all others.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

# Far above the largest verdicts of node_health_info.
MAX_TEXT = 1000
MAX_VALUE = 20000
MAX_SHORT = 300
# The hint for a node that was not judged, by a pattern of Ansible's reason; the first match is used.
REACH = "Check that it runs, and that it accepts your ssh login"
HINTS = (
    (
        re.compile(r"another machine|the same machine"),
        "Compare the node's address in the inventory (ansible_host) with the one that EC2 has for the instance",
    ),
    (
        re.compile(r"sudo", re.IGNORECASE),
        "Let the user that Ansible connects as run sudo without a password, or use --ask-become-pass",
    ),
    (
        re.compile(r"permission denied|authentication fail", re.IGNORECASE),
        "The node runs and rejects the key: check ansible_user and ansible_ssh_private_key_file of the inventory",
    ),
    (
        re.compile(r"host key|REMOTE HOST IDENTIFICATION", re.IGNORECASE),
        "The node's host key is not the known one: remove the old one with ssh-keygen -R if the node was replaced",
    ),
    (
        re.compile(r"python", re.IGNORECASE),
        "Check which Python the node has; Ansible needs 3.9 or newer there, and ansible_python_interpreter names it",
    ),
    (re.compile(r"verdict"), "Run 'mlcluster health --profile full' on it and compare"),
)
# Largest number for the arithmetic of charts and medians.
LARGEST = 1e100


def read(entry: object, node: str | None) -> result.Result:
    """Return one verdict with shortened texts; an unreadable entry becomes an undeterminable verdict."""
    try:
        if not isinstance(entry, Mapping):
            raise result.ResultError(f"it is {entry!r} and not a dictionary")
        given = result.Result.from_dict(dict(entry))
        if len(given.id) > MAX_SHORT:
            raise result.ResultError(f"the id {given.id[:40]}… has {len(given.id)} characters")
        texts = {name: cut(getattr(given, name), MAX_TEXT) for name in ("message", "hint", "reason", "unit", "source")}
        scope = result.Scope(**{name: cut(text, MAX_TEXT) for name, text in given.scope.to_dict().items()})
        values = {name: _bounded(getattr(given, name)) for name in ("expected", "found")}
        return dataclasses.replace(given, **texts, **values, scope=scope)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as exc:
        return unproved("node.answer", "damaged", f"a verdict cannot be read: {short(exc)}", node)


def unproved(check: str, reason: str, message: str, node: str | None) -> result.Result:
    """Return the undeterminable verdict for a node that did not answer a check."""
    return result.undeterminable(
        check,
        reason,
        message=message,
        hint=next((hint for words, hint in HINTS if words.search(message)), REACH),
        scope=result.Scope(node=node),
    )


def cut(text: Any, maximum: int) -> Any:
    """Shorten a string to ``maximum`` characters; return any other value unchanged."""
    return f"{text[:maximum]}…" if isinstance(text, str) and len(text) > maximum else text


def _bounded(value: Any) -> Any:
    """Return the value, or the beginning of its text if it would make the page unreadable."""
    if isinstance(value, str):
        return cut(value, MAX_VALUE)
    # With the document's indentation: it makes deep values long, and deep recursion fails here.
    if isinstance(value, (dict, list, int)) and len(text := json.dumps(value, indent=1)) > MAX_VALUE:
        return cut(" ".join(text.split()), MAX_TEXT)
    return value


def is_figure(value: object) -> bool:
    """Return whether a value can be drawn: a number within the range of the chart's arithmetic."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return -LARGEST < value < LARGEST


def listed(value: object) -> list[Any]:
    """Return a list unchanged, and a single value as a list."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None or value == "" else [value]


def label(value: object) -> str | None:
    """Return a value of the inventory as a string: YAML reads a queue named 01 as a number."""
    return None if value is None or value == "" else short(value)


def short(what: object) -> str:
    """Return any value as one line of text."""
    try:
        return " ".join(str(what).split())[:MAX_SHORT]
    except (ValueError, RecursionError):
        return f"a {type(what).__name__} that cannot be written"
