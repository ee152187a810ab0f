# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drain marker: a program that could not make a node ready writes it, and the health check keeps jobs away.

A boot hook that fails may have neither this runtime nor a working Python, so the file may contain anything: a JSON
object with a reason, or any text.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ..system.host import Host, NodeError
from ..system.state import STATE_DIRECTORY, write_json
from ..verdict.result import Result, failed, passed, undeterminable

MARKER_PATH = f"{STATE_DIRECTORY}/drain.json"
MARKER_SCHEMA = "mlcluster.drain/1"
CHECK = "node.drain_marker"
LONGEST_REASON = 200


@dataclasses.dataclass(frozen=True)
class Marker:
    """Why jobs are kept away, the author and the time (None if the file lacks them)."""

    reason: str
    by: str | None = None
    at: str | None = None


def read_marker(host: Host, path: str = MARKER_PATH) -> Marker | None:
    """Return the marker, None if there is none. Raises ``NodeError`` if that cannot be determined."""
    text = host.read_text(path)
    if text is None:
        try:
            os.lstat(path)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise NodeError(f"looked for {path}: {exc.strerror}") from None
        return Marker("the marker exists and cannot be read")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return Marker(_short(text) or "an empty marker")
    by, at = (value if isinstance(value, str) else None for value in (document.get("by"), document.get("at")))
    return Marker(_short(str(document.get("reason") or "no reason is given")), by, at)


def write_marker(host: Host, reason: str, by: str, path: str = MARKER_PATH) -> None:
    """Write the marker, which keeps jobs away."""
    document = {"schema": MARKER_SCHEMA, "reason": _short(reason), "by": by, "at": host.now()}
    write_json(host, path, document)


def clear_marker(host: Host, path: str = MARKER_PATH) -> bool:
    """Remove the marker; return whether there was one."""
    existed = os.path.lexists(path)
    try:
        host.remove(path)
    except OSError as exc:
        raise NodeError(f"could not remove {path} ({exc.strerror}): run as root") from exc
    return existed


def check_marker(host: Host, path: str = MARKER_PATH) -> list[Result]:
    """Return the verdict node.drain_marker."""
    try:
        marker = read_marker(host, path)
    except NodeError as exc:
        return [undeterminable(CHECK, str(exc))]
    if marker is None:
        return [passed(CHECK, "no marker")]
    who = " ".join(word for word in (marker.by and f"by {marker.by}", marker.at and f"at {marker.at}") if word)
    return [
        failed(
            CHECK,
            f"{marker.reason}{f' ({who})' if who else ''}",
            severity="isolate",
            hint=f"fix the cause, then run 'mlcluster drain-marker --clear' (it is {path})",
        )
    ]


def _short(text: t.Any) -> str:
    return " ".join(str(text).split())[:LONGEST_REASON]
