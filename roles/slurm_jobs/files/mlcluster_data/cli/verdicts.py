# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of a check in the project's format: ``mlcluster.result/1`` in a ``mlcluster.report/1``."""

from __future__ import annotations

import datetime
import json
import socket
from typing import Any

from ..errors import FAIL, PASS, UNDETERMINABLE


def verdict(
    name: str, status: str, message: str, *, expected: Any = None, found: Any = None, **more: str | None
) -> dict[str, Any]:
    """Return an ``mlcluster.result/1``: status pass, fail or undeterminable; ``more``: unit, reason, hint, source."""
    result: dict[str, Any] = {
        "id": name,
        "status": status,
        "severity": "none",
        "expected": expected,
        "found": found,
        **dict.fromkeys(("unit", "reason", "hint", "source"), None),
        "message": message,
        "scope": {"node": socket.gethostname(), "instance_id": None, "device": None},
        "seconds": None,
    }
    return {**result, **more}


def report(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a ``mlcluster.report/1`` of these results."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {
        "schema": "mlcluster.report/1",
        "host": socket.gethostname(),
        "time": now,
        "versions": {},
        "results": [{"schema": "mlcluster.result/1", **result} for result in results],
    }


def exit_status(results: list[dict[str, Any]]) -> int:
    """Return 1 if a result is fail, else 2 if one is undeterminable or there is none, else 0."""
    statuses = {result["status"] for result in results}
    if "fail" in statuses:
        return FAIL
    return UNDETERMINABLE if "undeterminable" in statuses or not results else PASS


def show(results: list[dict[str, Any]], as_json: bool) -> None:
    """Print the results: one line each, or the report."""
    if as_json:
        print(json.dumps(report(results), indent=2, ensure_ascii=False))
        return
    for result in results:
        hint = f" ({result['hint']})" if result["hint"] else ""
        print(f"{result['status']:<14} {result['id']}: {result['message']}{hint}")
