# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes the domain of a job in its Prolog, and takes it away in its Epilog."""

from __future__ import annotations

import dataclasses
import re

from ..slurm.client import Slurm
from ..system.host import CommandError, Host, NodeError
from ..system.plan import Plan
from ..system.state import write_json
from ..verdict.result import FAIL, PASS, Result, failed, not_applicable, passed
from . import config, parse, verify
from .job import Job
from .look import Facts, look, look_domain, look_slurm, look_unit

# Between two questions to the daemon: at first as short as one takes, then longer, for a daemon that is slow.
FIRST_POLL = 0.01
LONGEST_POLL = 0.25
_GROWTH = 1.5
_START_SECONDS = 30
_STOP_SECONDS = 15
_ASK_SECONDS = 5
_LOG_LINES = "40"
# Time, level and thread of a line.
_PREFIX = re.compile(r"^(?:\[[^\]]*\] ?)+")
# Two daemons that differ in version or list never talk to each other, so that more time does not help.
_FINAL = ("!V!", "!M!")


def make(host: Host, options: config.Options, job: Job, facts: Facts, plan: Plan) -> list[Result]:
    """Carry out a plan and return the verdicts on the domain; the record says what became of it."""
    if not plan.concerned:
        return [not_applicable("imex.domain", plan.reason)]
    if plan.refusals:
        # Nothing was begun, so that nothing is to be taken away.
        _record(host, job, "failed", "own", "; ".join(plan.refusals))
        return [failed("imex.service", "; ".join(plan.refusals), severity="reset")]
    started = host.monotonic()
    deadline = started + options.seconds
    try:
        _record(host, job, "starting")
        for file in plan.files:
            host.write_text(file.path, file.text)
        for unit in plan.units:
            _restart(host, unit.name)
        for step in plan.steps:
            if step.name == "channel":
                _make_channel(host, facts["major"])
    except CommandError as exc:
        # A drain has room for 200 characters, and the log says more than systemctl.
        log = _log_end(host, facts)
        reason = f"the daemon did not start{log}" if log else str(exc)
        _record(host, job, "failed", "own", reason)
        return [failed("imex.service", reason, severity="reset")]
    except (NodeError, OSError) as exc:
        reason = str(exc)
        _record(host, job, "failed", "own", reason)
        return [failed("imex.service", reason, severity="reset")]
    result = wait(host, job, options.service, facts["config"]["path"], deadline)
    if result.status == PASS:
        _record(host, job, "ready")
        return [dataclasses.replace(result, seconds=round(host.monotonic() - started, 3))]
    if result.status == FAIL and result.severity == "monitor":
        _record(host, job, "failed", "peer", result.message or "")
        return [result]
    result = dataclasses.replace(result, message=f"{result.message}{_log_end(host, facts)}")
    _record(host, job, "failed", "own", result.message or "")
    return [result]


def wait(host: Host, job: Job, service: str, path: str, deadline: float) -> Result:
    """Ask the daemon until each pair of this node is connected, and return the last verdict."""
    members = sorted(set(job.members.values()))
    pause = FIRST_POLL
    while True:
        left = deadline - host.monotonic()
        domain, problem = look_domain(host, path, max(min(left, _ASK_SECONDS), LONGEST_POLL))
        mine = domain.members.get(job.address) if domain else None
        # ctl prints a table of nodes that cannot be reached also where no daemon runs.
        if domain is None or mine is None or mine.status == "UNAVAILABLE":
            active = look_unit(host, service)["active"]
            if active in ("failed", "inactive"):
                return failed("imex.service", f"the daemon does not run: ActiveState is {active}", severity="reset")
        if domain is None:
            result = failed("imex.domain", f"the daemon gives no answer: {problem}", severity="reset")
        else:
            result = verify.verify_domain(domain, members, job.address)
        if result.status == PASS or _is_final(mine) or host.monotonic() >= deadline:
            return result
        host.sleep(pause)
        pause = min(pause * _GROWTH, LONGEST_POLL)


def _is_final(mine: parse.Member | None) -> bool:
    return mine is not None and any(letter in _FINAL for letter in mine.to.values())


def _restart(host: Host, unit: str) -> None:
    """Restart a unit, also one that systemd has given up."""
    host.run(["systemctl", "reset-failed", unit], timeout=_ASK_SECONDS, check=False)
    host.run(["systemctl", "restart", unit], timeout=_START_SECONDS)


def _make_channel(host: Host, major: int | None) -> None:
    if major is None:
        raise NodeError(f"/proc/devices has no {parse.CHANNEL_DRIVER}: load a driver with IMEX channels")
    host.make_character_device(config.CHANNEL, major, 0, config.CHANNEL_MODE)


def _record(host: Host, job: Job, state: str, blame: str = "", reason: str = "") -> None:
    """Write what became of a job's domain. Raises ``NodeError``."""
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


def _log_end(host: Host, facts: Facts) -> str:
    """Return the last error of the daemon's log, to end a sentence with; empty without one."""
    path = parse.settings(facts["config"]["text"] or "").get("LOG_FILE_NAME") or config.LOG
    try:
        text = host.run(["tail", "-n", _LOG_LINES, path], timeout=_ASK_SECONDS, check=False).stdout
    except NodeError:
        return ""
    errors = [line for line in text.splitlines() if "[ERROR]" in line or "[CRITICAL]" in line]
    return f": {' '.join(_PREFIX.sub('', errors[-1]).split())[:200]}" if errors else ""


def take_away(host: Host, options: config.Options, job_id: int) -> list[Result]:
    """End the domain of a job that has ended here. A record of another job, or of nobody, leaves all as it is."""
    record = host.read_json(config.RECORD)
    if not isinstance(record, dict) or record.get("schema") != config.SCHEMA or record.get("job_id") != job_id:
        return [not_applicable("imex.domain", f"job {job_id} has no domain on this node")]
    if record.get("state") == "failed" and record.get("blame") == "own":
        # The next health check has to find why no domain came up here; the daemon goes all the same.
        done = "taken away, and the record of its failure kept"
        problem = _stop(host, options)
    else:
        done = f"that of job {job_id} is taken away"
        # A health check meanwhile must not take the daemon that ends for one that died.
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


def forget(host: Host, options: config.Options) -> list[Result]:
    """Remove the record of a domain that failed on this node, and systemd's, once a person has put it right."""
    record = host.read_json(config.RECORD)
    if isinstance(record, dict) and record.get("state") in ("starting", "ready"):
        raise NodeError(f"job {record.get('job_id')} has its domain here: its Epilog takes that away")
    host.run(["systemctl", "reset-failed", f"{options.service}.service"], timeout=_ASK_SECONDS, check=False)
    host.remove(config.RECORD)
    return [passed("imex.service", "no failure is recorded")]


def status(host: Host, options: config.Options, slurm: Slurm) -> list[Result]:
    """Return the verdicts on what there is now; Slurm is asked only on a node of an UltraServer."""
    facts = look(host, options)
    if not facts["ultraserver"]:
        return verify.verify(facts)
    facts.update(look_slurm(host, slurm))
    record = facts["record"] or {}
    if record.get("state") == "ready" and facts["unit"]["active"] == "active":
        return verify.verify(facts, *look_domain(host, facts["config"]["path"]))
    return verify.verify(facts, None, "its daemon does not run")
