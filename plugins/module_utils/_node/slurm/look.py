# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a Slurm cluster, read-only."""

from __future__ import annotations

import typing as t

from ..system.host import NodeError
from . import parse as slurm_parse
from .client import PCS_SCHEDULERS, PREFIXES, WITHOUT_SLURM, Slurm

# States in which a job has processes on its nodes (squeue's manual page, "JOB STATE CODES"). Newer releases have more,
# but squeue rejects the whole list if it does not know one state.
ON_NODES = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED,SIGNALING,STAGE_OUT"
CONTAINER_OPTION = "--container-image="
EMPTY: dict[str, t.Any] = {
    "nodes": [],
    "partitions": [],
    "jobs": [],
    "jobs_by_node": {},
    "settings": {},
    "mpi_types": [],
    "container_options": 0,
    "accounting": False,
    "accounts": [],
    "associations": [],
    "qos": [],
    "licenses": {},
}


def container_options(help_text: str) -> int:
    """Return how often ``srun --help`` lists --container-image: 0 without Pyxis, 1 with it, more if loaded twice."""
    return sum(line.strip().startswith(CONTAINER_OPTION) for line in help_text.splitlines())


def _accounting(slurm: Slurm, values: t.Mapping[str, t.Optional[str]]) -> dict[str, t.Any]:
    """Return accounts and qualities of service; empty without accounting."""
    if values.get("AccountingStorageType") != "accounting_storage/slurmdbd":
        return {}
    show = ("--noheader", "--parsable2", "show")
    text = slurm.ask("sacctmgr", *show, "association", "format=Account,User,Partition,QOS")
    found = slurm_parse.associations(text)
    qos = slurm.ask("sacctmgr", *show, "qos", "format=Name").split()
    accounts = sorted({entry["account"] for entry in found})
    return {"accounting": True, "accounts": accounts, "associations": found, "qos": sorted(qos)}


def by_node(jobs: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, list[int]]:
    """Return the numbers of the jobs that have processes on each node."""
    found: dict[str, list[int]] = {}
    for job in jobs:
        for node in job["nodes"]:
            found.setdefault(node, []).append(job["job_id"])
    return {node: sorted(numbers) for node, numbers in sorted(found.items())}


def survey(slurm: Slurm) -> dict[str, t.Any]:
    """Return all facts about the cluster: the keys of ``EMPTY`` and version, controllers, healthy and problems.

    problems: one sentence for each part that could not be read, also for a controller that does not answer and for a
    machine without Slurm, which are not errors. Raises NodeError if there is no Slurm at a given prefix.
    """
    facts: dict[str, t.Any] = {**EMPTY, "version": None, "prefix": slurm.prefix, "problems": []}
    facts["installed"] = slurm.prefix != WITHOUT_SLURM and bool(slurm.prefix or slurm.host.which("scontrol"))
    if not facts["installed"]:
        places = f"on the system path, in {' or '.join(PREFIXES)} and as the only one in {PCS_SCHEDULERS}"
        problem = f"looked for Slurm {places} and found none on this machine"
        return {**facts, "controllers": [], "healthy": False, "problems": [problem]}
    ping = slurm.run("scontrol", "ping")
    facts["controllers"] = slurm_parse.controllers(ping.stdout)
    facts["healthy"] = any(entry["up"] for entry in facts["controllers"])
    facts["version"] = slurm_parse.version(slurm.run("scontrol", "--version").stdout)
    if not facts["healthy"]:
        output = " ".join((ping.stderr or ping.stdout).replace("*", "").split())
        facts["problems"].append(
            f"looked for a running controller and found none ({output}): wait until 'scontrol ping' "
            "shows one up; on the head node, start slurmctld or read its log"
        )
        return facts

    def part(probe: t.Callable[[], dict[str, t.Any]]) -> None:
        try:
            facts.update(probe())
        except NodeError as exc:
            facts["problems"].append(str(exc))

    def show(what: str, parse: t.Callable[[str], t.Any]) -> dict[str, t.Any]:
        text = slurm.ask("scontrol", "--details", "--oneliner", "show", what)
        return {f"{what}s": parse(text)}

    def queue() -> dict[str, t.Any]:
        arguments = ("--noheader", f"--states={ON_NODES}", f"--format={slurm_parse.QUEUE_FORMAT}")
        jobs = slurm_parse.queue(slurm.ask("squeue", *arguments))
        return {"jobs": jobs, "jobs_by_node": by_node(jobs)}

    def launch() -> dict[str, t.Any]:
        listed = slurm.run("srun", "--mpi=list")
        return {
            "mpi_types": slurm_parse.mpi_types(listed.stdout + "\n" + listed.stderr),
            "container_options": container_options(slurm.ask("srun", "--help")),
        }

    part(lambda: {"settings": slurm_parse.settings(slurm.ask("scontrol", "show", "config"))})
    part(lambda: show("node", slurm_parse.nodes))
    part(lambda: show("partition", slurm_parse.partitions))
    part(queue)
    part(lambda: {"licenses": slurm_parse.licenses(slurm.ask("scontrol", "--oneliner", "show", "licenses"))})
    part(launch)
    part(lambda: _accounting(slurm, facts["settings"]))
    return facts
