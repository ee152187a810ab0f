# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan for the domain of a job, from facts and configuration. Pure."""

from __future__ import annotations

import re
import typing as t

from ..._data.ultraservers import MAX_INSTANCES
from ..system.plan import File, Plan, Step, Unit, not_concerned, refused
from . import config, parse
from .job import Job
from .look import Facts

DOMAIN = "imex"
# Names in Prologs of other programs that configure IMEX for jobs.
_NAMES = ("nvidia-imex", "nodes_config")
# The line of a Prolog that calls this command. Other verbs of it may be in a Prolog next to a foreign program.
_OURS = re.compile(r"\bimex\s+up\b")
SLURM_CHANNELS = "switch/nvidia_imex"


def make_plan(options: config.Options, job: Job, facts: Facts) -> Plan:
    """Return the plan of a Prolog: files, the daemon's unit, the channel, and the wait for the domain."""
    reason = no_domain_reason(options, job, facts)
    if reason:
        return not_concerned(DOMAIN, reason)
    refusals = tuple(obstacles(job, facts))
    if refusals:
        return refused(DOMAIN, refusals)
    files = _files(job, facts)
    record = facts["record"] or {}
    of_this_start = (record.get("job_id"), record.get("restarts")) == (job.job_id, job.restarts)
    # Ports repeat: a daemon with the same files may belong to a job whose Epilog did not run.
    restart = bool(files) or facts["unit"]["active"] != "active" or not of_this_start
    steps = [] if facts["switch"] == SLURM_CHANNELS or channel_is_right(facts) else [Step("channel", config.CHANNEL)]
    return Plan(
        domain=DOMAIN,
        notes=_notes(job, facts),
        files=files,
        units=(Unit(f"{options.service}.service", state="restarted"),) if restart else (),
        steps=(*steps, Step("wait", "the domain")),
    )


def no_domain_on_node_reason(options: config.Options, facts: Facts) -> str:
    """Return why jobs on this node get no domain; empty if they do."""
    if options.mode == "none":
        return "slurm_jobs_imex is none: jobs get no domains"
    if facts["ultraserver"] is False:
        return f"{facts['type'] or 'this machine'} is not part of an UltraServer"
    return ""


def unknown_machine(facts: Facts) -> str:
    """Return why it is unknown whether this machine is part of an UltraServer."""
    kind = facts["type"]
    known = f"{kind} is in no table of types" if kind else "its firmware names no instance type"
    return (
        f"whether this machine is part of an UltraServer is not known: {known}, and nothing proves that its GPUs "
        "join no others; use --instance-type with a type that is known, or set slurm_jobs_imex to none"
    )


def no_domain_reason(options: config.Options, job: Job, facts: Facts) -> str:
    """Return why this job gets no domain; empty if it gets one."""
    if not job.exclusive:
        shared = f"job {job.job_id} shares its nodes: only a job with exclusive nodes (--exclusive) gets a domain"
        return no_domain_on_node_reason(options, facts) or shared
    return no_domain_on_node_reason(options, facts) or other_hands(facts)


def other_hands(facts: Facts) -> str:
    """Return the other program that creates IMEX domains on this node, which is kept; empty without one.

    The daemon of the DRA driver has its own configuration; a site's Prolog names the service or its list of nodes.
    """
    own = facts["config"]["path"]
    for daemon in facts["daemons"]:
        path = daemon["config"] or config.CONFIG
        if path != own:
            return f"process {daemon['pid']} is an IMEX daemon with {path}, which is not that of the unit: not changed"
    for path, text in facts["prologs"].items():
        if any(name in text for name in _NAMES) and not _OURS.search(text):
            return f"{path} configures IMEX for jobs and is not changed: remove it from Prolog to let this role do it"
    return ""


def obstacles(job: Job, facts: Facts) -> t.Iterator[str]:
    """Yield the reasons why no domain can be created, a sentence each."""
    unit, own, nodes = facts["unit"], facts["config"], facts["nodes"]
    if facts.get("slurm_problem"):
        yield f"whether another Prolog makes the domains of jobs here is not known: {facts['slurm_problem']}"
    missing = [name for name, path in facts["programs"].items() if not path]
    if missing:
        yield f"looked for {' and '.join(missing)} and did not find them: install the package nvidia-imex"
    if unit["problem"]:
        yield f"the unit of the IMEX daemon cannot be read: {unit['problem']}"
    elif unit["load"] != "loaded":
        yield f"the unit of the IMEX daemon is {unit['load']}: install or unmask it"
    if own["text"] is None:
        yield f"{own['path']} cannot be read: install the package nvidia-imex"
    for file in (own, nodes):
        if file["shared"]:
            yield (
                f"{file['path']} is on {file['shared']}, where jobs of other nodes would also write it: let the unit "
                "use files on the node"
            )
    have = parse.settings(own["text"] or "")
    for key, what in (("BIND_INTERFACE_IP", "the daemon"), ("IMEX_CMD_BIND_INTERFACE_IP", "its command service")):
        bind = have.get(key)
        if bind and parse.canonical(bind) != job.address:
            yield (
                f"{own['path']} binds {what} to {bind}, and Slurm has {job.address} for this node, where the others "
                f"look for it: leave {key} empty"
            )
    if facts["major"] is None and facts["switch"] != SLURM_CHANNELS:
        yield f"/proc/devices has no {parse.CHANNEL_DRIVER}: load a driver with IMEX channels"


def channel_is_right(facts: Facts) -> bool:
    """Return whether the channel exists with the driver's major number and for all users."""
    return facts["channel"] == (facts["major"], 0, config.CHANNEL_MODE)


def wanted_settings(job: Job, text: str) -> dict[str, str]:
    """Return the settings of config.cfg that a domain needs; the site's settings of the command service are kept."""
    have = parse.settings(text)
    return {
        "SERVER_PORT": str(config.port_of(job.job_id, job.restarts)),
        "IMEX_CMD_ENABLED": "1",
        "IMEX_CMD_PORT": have.get("IMEX_CMD_PORT") or config.COMMAND_PORT,
    }


def _files(job: Job, facts: Facts) -> tuple[File, ...]:
    own, nodes = facts["config"], facts["nodes"]
    list_text = parse.nodes_text(job.members.values())
    text = parse.with_settings(own["text"], wanted_settings(job, own["text"]))
    found = []
    if parse.addresses(nodes["text"] or "") != parse.addresses(list_text):
        found.append(File("list of nodes", nodes["path"], list_text))
    if parse.settings(own["text"]) != parse.settings(text):
        found.append(File("configuration", own["path"], text))
    return tuple(found)


def _notes(job: Job, facts: Facts) -> tuple[str, ...]:
    notes = []
    if job.outside:
        notes.append(f"{len(job.outside)} nodes of the job are in other blocks, and not in this domain")
    if len(job.members) > MAX_INSTANCES:
        notes.append(
            f"{len(job.members)} nodes are more than an UltraServer has ({MAX_INSTANCES}), and Slurm has no blocks "
            "that group them (topology/block): the domain is over all of them, and NVLink is not"
        )
    if facts["switch"] == SLURM_CHANNELS:
        notes.append(f"Slurm makes the channels itself ({SLURM_CHANNELS})")
    return tuple(notes)
