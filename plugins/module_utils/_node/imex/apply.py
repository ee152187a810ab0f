# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create the domain of a job in its Prolog, and remove it in its Epilog."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t

from ..slurm import parse as slurm_parse
from ..slurm.client import Slurm, unknown_job
from ..system.host import CommandError, Host, NodeError
from ..system.plan import Plan
from ..system.state import write_json
from ..verdict.result import FAIL, PASS, Result, failed, not_applicable, passed
from . import config, parse, verify
from .job import SECONDS, Job
from .look import Facts, look, look_domain, look_slurm, look_status, look_unit

# Pauses between two questions to the daemon: short at first, then longer for a slow daemon.
FIRST_POLL = 0.01
LONGEST_POLL = 0.25
_GROWTH = 1.5
_START_SECONDS = 30
_STOP_SECONDS = 15
_ASK_SECONDS = 5
# Time, level and thread of a line.
_PREFIX = re.compile(r"^(?:\[[^\]]*\] ?)+")
_HAS_A_JOB = ("starting", "ready")
# States of a job without processes on any node (Slurm's job state codes); in other states it may still be ending.
_ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PENDING PREEMPTED TIMEOUT".split()
)
# Two daemons with different versions or lists never connect, so more time does not help.
_FINAL = ("!V!", "!M!")


def make(host: Host, options: config.Options, job: Job, facts: Facts, plan: Plan) -> list[Result]:
    """Carry out a plan and return the verdicts on the domain; the record has its state."""
    if not plan.concerned:
        return [not_applicable("imex.domain", plan.reason)]
    if plan.refusals:
        # Nothing was started, so nothing has to be removed.
        _record(host, job, "failed", "own", "; ".join(plan.refusals))
        return [failed("imex.service", "; ".join(plan.refusals), severity="reset")]
    started = host.monotonic()
    deadline = started + options.seconds
    log = parse.settings(facts["config"]["text"] or "").get("LOG_FILE_NAME") or config.LOG
    logged = host.file_size(log) or 0
    try:
        _record(host, job, "starting")
        for file in plan.files:
            with _put(file.path):
                host.write_text(file.path, file.text)
        for unit in plan.units:
            _restart(host, unit.name)
        for step in plan.steps:
            if step.name == "channel":
                with _put(config.CHANNEL):
                    _make_channel(host, facts["major"])
    except CommandError as exc:
        # A drain has room for 200 characters, and the log has more than systemctl.
        error = _log_end(host, log, logged)
        reason = f"the daemon did not start{error}" if error else str(exc)
        return [_record_failure(host, options, job, failed("imex.service", reason, severity="reset"))]
    except NodeError as exc:
        return [_record_failure(host, options, job, failed("imex.service", str(exc), severity="reset"))]
    result = wait(host, job, options.service, facts["config"]["path"], deadline)
    if result.status == PASS:
        _record(host, job, "ready")
        message = "; ".join(plan.notes) or result.message
        return [dataclasses.replace(result, message=message, seconds=round(host.monotonic() - started, 3))]
    if result.severity != "monitor":
        result = dataclasses.replace(result, message=f"{result.message}{_log_end(host, log, logged)}")
    return [_record_failure(host, options, job, result)]


@contextlib.contextmanager
def _put(path: str) -> t.Iterator[None]:
    """Convert an OSError in the block into a ``NodeError`` with the path."""
    try:
        yield
    except OSError as exc:
        raise NodeError(f"could not write {path} ({exc.strerror or exc}): look with 'df' and 'mount'") from exc


def _record_failure(host: Host, options: config.Options, job: Job, result: Result) -> Result:
    """Record why a job has no domain here, end a daemon that no job needs, and return the verdict."""
    blame = "peer" if result.status == FAIL and result.severity == "monitor" else "own"
    if options.mode == "required":
        # Not every Slurm runs an Epilog after a failed Prolog, and systemd may restart the daemon again and again.
        _stop(host, options)
    _record(host, job, "failed", blame, result.message or "")
    return result


def wait(host: Host, job: Job, service: str, path: str, deadline: float) -> Result:
    """Ask the daemon until each pair of this node is connected, and return the last verdict."""
    members = sorted(set(job.members.values()))
    pause = FIRST_POLL
    while True:
        left = deadline - host.monotonic()
        domain, problem = look_domain(host, path, max(min(left, _ASK_SECONDS), LONGEST_POLL))
        own_member = domain.members.get(job.address) if domain else None
        # Without a daemon, ctl also prints a table, of unreachable nodes.
        if domain is None or own_member is None or own_member.status == "UNAVAILABLE":
            active = look_unit(host, service)["active"]
            if active in ("failed", "inactive"):
                return failed("imex.service", f"the daemon does not run: ActiveState is {active}", severity="reset")
        if domain is None:
            result = _without_table(host, path, problem, host.monotonic() >= deadline)
        else:
            result = verify.verify_domain(domain, members, job.address)
        if result.status == PASS or _is_final(own_member) or host.monotonic() >= deadline:
            return result
        host.sleep(pause)
        pause = min(pause * _GROWTH, LONGEST_POLL)


def _without_table(host: Host, path: str, problem: str, is_last: bool) -> Result:
    """Return the verdict on a daemon without a table, which needs all nodes: one of them may not answer."""
    if is_last and look_status(host, path) == parse.READY:
        why = f"this node is READY, and not all others answer: {problem}"
        return failed("imex.domain", why, severity="monitor")
    return failed("imex.domain", f"the daemon gives no answer: {problem}", severity="reset")


def _is_final(member: parse.Member | None) -> bool:
    return member is not None and any(letter in _FINAL for letter in member.to.values())


def _restart(host: Host, unit: str) -> None:
    """Restart a unit, also one that systemd does not start any more."""
    host.run(["systemctl", "reset-failed", unit], timeout=_ASK_SECONDS, check=False)
    host.run(["systemctl", "restart", unit], timeout=_START_SECONDS)


def _make_channel(host: Host, major: int | None) -> None:
    if major is None:
        raise NodeError(f"/proc/devices has no {parse.CHANNEL_DRIVER}: load a driver with IMEX channels")
    host.make_character_device(config.CHANNEL, major, 0, config.CHANNEL_MODE)


def _record(host: Host, job: Job, state: str, blame: str = "", reason: str = "") -> None:
    """Write the state of a job's domain. Raises ``NodeError``."""
    document = {
        "schema": config.SCHEMA,
        "job_id": job.job_id,
        "restarts": job.restarts,
        "state": state,
        "blame": blame,
        "reason": reason,
        "address": job.members.get(job.node),
        "members": sorted(set(job.members.values())),
        "time": host.now(),
    }
    write_json(host, config.RECORD, document)


def _log_end(host: Host, path: str, before: int) -> str:
    """Return the last new error in a log, as the end of a sentence; empty without one."""
    size = host.file_size(path)
    # A log that is smaller than before is a new one.
    start = before if size is not None and size >= before else 0
    try:
        text = host.run(["tail", "-c", f"+{start + 1}", path], timeout=_ASK_SECONDS, check=False).stdout
    except NodeError:
        return ""
    errors = [line for line in text.splitlines() if "[ERROR]" in line or "[CRITICAL]" in line]
    return f": {' '.join(_PREFIX.sub('', errors[-1]).split())[:200]}" if errors else ""


def remove_domain(host: Host, options: config.Options, job_id: int) -> list[Result]:
    """End the domain of a job that has ended here. Without a record of this job, nothing is changed."""
    record = host.read_json(config.RECORD)
    if not isinstance(record, dict) or record.get("schema") != config.SCHEMA or record.get("job_id") != job_id:
        return [not_applicable("imex.domain", f"job {job_id} has no domain on this node")]
    if record.get("state") == "failed" and record.get("blame") == "own":
        # The next health check must find the reason why there was no domain; the daemon is stopped anyway.
        done = "removed, and the record of its failure kept"
        problem = _stop(host, options)
    else:
        done = f"that of job {job_id} is removed"
        # A concurrent health check must not report the stopping daemon as failed.
        write_json(host, config.RECORD, {**record, "state": "ending"})
        problem = _stop(host, options)
        host.remove(config.RECORD)
    if problem:
        return [failed("imex.domain", problem, severity="monitor")]
    return [passed("imex.domain", done)]


def _stop(host: Host, options: config.Options) -> str:
    try:
        host.run(["systemctl", "stop", f"{options.service}.service"], timeout=_STOP_SECONDS)
    except NodeError as exc:
        return str(exc)
    return ""


def forget(host: Host, options: config.Options, slurm: Slurm) -> list[Result]:
    """Remove the record of a failed domain of this node, and systemd's, after a user has fixed the cause."""
    record = host.read_json(config.RECORD)
    if isinstance(record, dict) and record.get("state") in _HAS_A_JOB and not has_ended(slurm, record):
        raise NodeError(f"job {record.get('job_id')} has its domain here: its Epilog removes it")
    host.run(["systemctl", "reset-failed", f"{options.service}.service"], timeout=_ASK_SECONDS, check=False)
    host.remove(config.RECORD)
    return [passed("imex.service", "no failure is recorded")]


def status(host: Host, options: config.Options, slurm: Slurm) -> list[Result]:
    """Return the verdicts on the current state; Slurm is only queried on a node of an UltraServer."""
    if options.mode == "none":
        return [not_applicable("imex.service", "slurm_jobs_imex is none: the domains of jobs are not managed")]
    facts = look(host, options)
    if not facts["ultraserver"]:
        return _with_severity(verify.verify(facts), options)
    facts.update(look_slurm(host, slurm))
    record = facts["record"] or {}
    if record.get("state") in _HAS_A_JOB and has_ended(slurm, record):
        # Its Epilog did not run, for example after a killed slurmd: no process on this node needs that domain.
        facts["record"], record = None, {}
    if record.get("state") == "ready" and facts["unit"]["active"] == "active":
        return _with_severity(verify.verify(facts, *look_domain(host, facts["config"]["path"])), options)
    return _with_severity(verify.verify(facts, None, "its daemon does not run"), options)


def _with_severity(results: list[Result], options: config.Options) -> list[Result]:
    """Return the verdicts with the severity for a node on which jobs may start without their domain."""
    if options.mode == "required":
        return results
    return [dataclasses.replace(one, severity="monitor") if one.status == FAIL else one for one in results]


def has_ended(slurm: Slurm, record: t.Mapping[str, t.Any]) -> bool:
    """Return whether Slurm reports that the job of a record has left this node; False without a clear answer."""
    job_id = record.get("job_id")
    try:
        completed = slurm.run("scontrol", "--oneliner", "show", "job", str(job_id), timeout=SECONDS)
        if unknown_job(completed):
            return True
        found = (
            []
            if completed.rc
            else [one for one in slurm_parse.jobs(completed.stdout, job_id) if one["job_id"] == job_id]
        )
    except NodeError:
        return False
    # A later start of the same job has its own Prolog, which writes the record again.
    return len(found) == 1 and (found[0]["state"] in _ENDED or found[0]["restarts"] > (record.get("restarts") or 0))
