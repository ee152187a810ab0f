# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on IMEX, by declared evidence: imex.service, imex.domain, imex.channel. Pure.

The domain belongs to a job: Prolog makes it and Epilog removes it. A node without a job has none, which is not a
problem. (DCGM calls such a node unhealthy: NVIDIA/DCGM#308.)
"""

from __future__ import annotations

import typing as t

from ..system.versions import is_version
from ..verdict.evidence import Field, Subject, Test, decide, exactly, is_integer, is_text, never
from ..verdict.result import Result, not_applicable, undeterminable
from . import config, parse
from .look import Facts
from .plan import channel_is_right, other_hands, unknown_machine

SOURCE = "NVIDIA IMEX guide"
IDS = ("imex.service", "imex.domain", "imex.channel")
_FORGET = "run 'mlcluster imex forget' once no job runs here"
_LOG_HINT = f"look at {config.LOG}, 'systemctl status {config.SERVICE}' and '{config.PROGRAM} -N'"


def verify(facts: Facts, domain: parse.Domain | None = None, problem: str = "") -> list[Result]:
    """Return the three verdicts; ``domain`` is the daemon's table, None with ``problem`` if it is unknown."""
    if facts["ultraserver"] is False:
        known = f"{facts['type']} is not part of an UltraServer"
        alone = "the driver has no IMEX channels, or its GPUs are of no domain with others"
        return [not_applicable("imex.service", known if facts["type"] else alone)]
    if facts["ultraserver"] is not True:
        return [undeterminable("imex.service", "unknown_type", message=unknown_machine(facts))]
    other = other_hands(facts)
    if other:
        return [not_applicable(check, other) for check in IDS]
    return [verify_service(facts), _domain(facts, domain, problem), verify_channel(facts)]


def verify_service(facts: Facts) -> Result:
    """Return the verdict on the daemon: it is installed, and runs if a job needs it."""
    record, unit = facts["record"] or {}, facts["unit"]
    needed = record.get("state") == "ready"
    active = Field("active", exactly("active"), exactly("inactive", "failed"), _died(record), "reset", "ActiveState")
    if not needed:
        active = Field(
            "active",
            exactly("active", "inactive", "activating", "deactivating"),
            exactly("failed"),
            "failed at its start",
            "reset",
            "ActiveState",
        )
    fields = (
        Field("daemon", is_text, exactly(None), "is not installed", "reset", config.SERVICE),
        Field("control", is_text, exactly(None), f"has no {config.PROGRAM} to ask", "reset", config.PROGRAM),
        Field("load", exactly("loaded"), exactly("masked", "not-found"), "is {}", "reset", "LoadState"),
        active,
        Field("failure", exactly(""), is_text, "{}", "reset", "the last start"),
        # Without it, it is unknown whether a job needs the daemon.
        Field("record_problem", exactly(""), unknown="may be needed by a job: {}", hint=_FORGET),
    )
    own_fault = record.get("state") == "failed" and record.get("blame") == "own"
    evidence = {
        "daemon": facts["programs"].get(config.SERVICE),
        "control": facts["programs"].get(config.PROGRAM),
        "load": unit["load"],
        "active": unit["active"],
        "record_problem": facts["record_problem"],
        "failure": f"made no domain for job {record.get('job_id')}: {record.get('reason')}" if own_fault else "",
    }
    found = "runs for a job" if needed else "ready to start"
    return decide("imex.service", fields, [Subject(evidence, "the IMEX daemon")], found, hint=_LOG_HINT, source=SOURCE)


def _died(record: t.Mapping[str, t.Any]) -> str:
    return f"does not run, and job {record.get('job_id')} needs it: ActiveState is {{}}"


def _domain(facts: Facts, domain: parse.Domain | None, problem: str) -> Result:
    record = facts["record"]
    if facts["record_problem"]:
        return undeterminable("imex.domain", "unread", message=facts["record_problem"], hint=_FORGET)
    if record is None or record.get("state") not in ("starting", "ready"):
        return not_applicable("imex.domain", "no job has a domain on this node")
    if record["state"] == "starting":
        return not_applicable("imex.domain", f"the domain of job {record.get('job_id')} is being made")
    if domain is None:
        return undeterminable("imex.domain", problem or "the daemon was not queried", hint=_LOG_HINT)
    return verify_domain(domain, record.get("members"), record.get("address"))


def _letter(text: object) -> bool:
    return text in parse.STATES


def _other_than(good: str | None) -> Test:
    """Return a test for a text that is not this one."""
    return lambda value: is_text(value) and value != good


def verify_domain(domain: parse.Domain, members: object, own: object) -> Result:
    """Return the verdict on whether this node's daemon is ready and connected with each other node of the list.

    A fault that only concerns this node has the severity reset; a missing peer has monitor.
    """
    wanted = sorted(members) if isinstance(members, (list, tuple)) else None
    own_member = domain.members.get(own) if isinstance(own, str) else None
    if wanted is None or own_member is None or not isinstance(own, str):
        return undeterminable("imex.domain", "the list of the job's nodes, or this node in it, is not known")
    fields: list[Field] = [
        Field(
            "addresses",
            exactly(", ".join(wanted)),
            _other_than(", ".join(wanted)),
            "the daemon has another list of nodes: {}",
            "reset",
            "the list",
        ),
        Field("status", exactly(parse.READY), exactly(*parse.NOT_READY), "this node is {}", "reset", "own state"),
    ]
    severity = "reset" if cut_off(own_member) else "monitor"
    evidence: dict[str, t.Any] = {"addresses": ", ".join(sorted(domain.members)), "status": own_member.status}
    subjects = [Subject(evidence)]
    result = decide("imex.domain", fields, subjects, evidence["addresses"], hint=_LOG_HINT, source=SOURCE)
    if result.status != "pass":
        return result
    pair = (
        Field("to", exactly(parse.CONNECTED), _letter, "is not joined ({})", severity, "connection from this node"),
        Field("back", exactly(parse.CONNECTED), _letter, "does not see this node ({})", "monitor", "connection back"),
        Field("status", exactly(parse.READY), exactly(*parse.NOT_READY), "is {}", "monitor", "state"),
        Field("version", is_version, never, label="Version"),
        Field(
            "version",
            exactly(own_member.version),
            _other_than(own_member.version),
            f"has version {{}} and this node {own_member.version}",
            "reset",
        ),
    )
    peers = [
        Subject(
            {
                "to": own_member.to.get(address),
                "back": member.to.get(own),
                "status": member.status,
                "version": member.version,
            },
            address,
        )
        for address, member in sorted(domain.members.items())
    ]
    rest = (Field("letter", exactly(parse.CONNECTED), _letter, "is not joined ({})", "monitor", "connection"),)
    between = [
        Subject({"letter": letter}, f"{member.address} to {address}")
        for member in domain.members.values()
        for address, letter in member.to.items()
        if own not in (member.address, address)
    ]
    state = (Field("state", exactly("UP"), exactly("DEGRADED", "DOWN"), "the domain is {}", "monitor", "Domain State"),)
    found = {"nodes": len(peers), "version": own_member.version}
    joined = decide("imex.domain", pair, peers, found, hint=_LOG_HINT, source=SOURCE)
    if between and joined.status == "pass":
        joined = decide("imex.domain", rest, between, found, hint=_LOG_HINT, source=SOURCE)
    if joined.status != "pass":
        return joined
    return decide("imex.domain", state, [Subject({"state": domain.state})], found, hint=_LOG_HINT, source=SOURCE)


def cut_off(member: parse.Member) -> bool:
    """Return whether a node is connected with fewer than half of its peers, so that the fault is its own."""
    peers = [letter for address, letter in member.to.items() if address != member.address]
    joined = sum(1 for letter in peers if letter == parse.CONNECTED)
    return bool(peers) and joined * 2 < len(peers)


def verify_channel(facts: Facts) -> Result:
    """Return the verdict on the channel: the driver's major number, minor 0, readable and writable for all."""
    if facts["switch"] is not None and facts["switch"].endswith("nvidia_imex"):
        return not_applicable("imex.channel", "Slurm makes the channels of jobs itself (switch/nvidia_imex)")
    record = facts["record"] or {}
    if facts["channel"] is None and facts["record_problem"]:
        return undeterminable("imex.channel", "unread", message=facts["record_problem"], hint=_FORGET)
    if facts["channel"] is None and record.get("state") != "ready" and facts["major"] is not None:
        return not_applicable("imex.channel", "no job needs the channel, which Prolog makes")
    wanted = f"{facts['major']}:0 mode {config.CHANNEL_MODE:04o}"
    found = "{}:{} mode {:04o}".format(*facts["channel"]) if facts["channel"] else ""
    fields = (
        Field(
            "major",
            is_integer,
            exactly(None),
            f"/proc/devices has no {parse.CHANNEL_DRIVER}: the driver has no channels",
            "reset",
        ),
        Field("channel", exactly(wanted), exactly(""), f"{config.CHANNEL} is missing, and a job needs it", "reset"),
        Field("right", exactly(True), exactly(False), f"{config.CHANNEL} is {found}, and has to be {wanted}", "reset"),
    )
    evidence = {"major": facts["major"], "channel": found, "right": channel_is_right(facts)}
    return decide("imex.channel", fields, [Subject(evidence)], found, expected=wanted, source=SOURCE)
