# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of whether the last job got its directory, which the health check reads. A boot removes it."""

from __future__ import annotations

import contextlib

from ..system.host import Host, NodeError
from ..system.state import write_json
from ..verdict.result import FAIL, PASS, UNDETERMINABLE, Result, Scope, failed, not_applicable, passed

RECORD = "/run/mlcluster/scratch.json"
SCHEMA = "mlcluster.scratch_made/1"
CHECK = "scratch.make"
HINT = (
    "mend it by the message; the next job here that gets its directory ends this, and 'mlcluster scratch make --job "
    "NUMBER --uid USER', then 'remove', is one by hand"
)


def remember(host: Host, base: str, job_id: int, verdict: Result) -> None:
    """Record the verdict on the directory of a job in place of that of an earlier job. Raises ``NodeError``.

    If it cannot be written, as on a full /run, a pass of the earlier job is removed: it is not that of the last one.
    """
    text = verdict.message or verdict.reason or ""
    document = {"schema": SCHEMA, "base": base, "job_id": job_id, "status": verdict.status, "text": text}
    try:
        write_json(host, RECORD, {**document, "at": host.now()})
    except NodeError:
        earlier = host.read_json(RECORD)
        if isinstance(earlier, dict) and earlier.get("status") == PASS:
            with contextlib.suppress(OSError):
                host.remove(RECORD)
        raise


def verify(host: Host, base: str) -> Result:
    """Return whether the last job got its directory in base.

    Never undeterminable, so that no closed gate drains a node for a job of the past: an unreadable record counts as
    missing, which is no pass.
    """
    scope = Scope(device=base)
    record = host.read_json(RECORD)
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or record.get("base") != base:
        return not_applicable(CHECK, "no readable record of a job's directory since the boot", scope=scope)
    job, status = f"job {record.get('job_id')} at {record.get('at')}", record.get("status")
    if status == PASS:
        return passed(CHECK, job, scope=scope)
    if status in (FAIL, UNDETERMINABLE):
        message = f"{job} got no directory: {record.get('text') or 'no message'}"
        return failed(CHECK, message, scope=scope, hint=HINT)
    return not_applicable(CHECK, f"the record has an unknown status: {str(status)[:40]!r}", scope=scope)
