# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role slurm_jobs on machines that submit jobs: its facts, and its report to users and other tasks."""

from __future__ import annotations

import typing as t

from ..slurm.client import Slurm
from ..slurm.look import survey
from ..storage.record import RECORD_PATH
from ..system import shared_place
from ..system.host import Host
from ..system.plan import Report
from ..verdict.result import Result
from . import checks as node_checks
from .config import JobsConfig
from .plan import configures_slurm, directories, marks, runtime_path, wanted_files
from .settings import places, settings

# Time limit in seconds for an answer of the file system of dir.
PLACE_SECONDS = 30.0
# A dozen commands of Slurm within a minute each.
_SECONDS = 900.0

Facts = t.Mapping[str, t.Any]


def seconds(config: JobsConfig) -> float:
    """Return the time limit of the look, in seconds."""
    return _SECONDS


def look(host: Host, config: JobsConfig) -> dict[str, t.Any]:
    """Return the facts of ``plan.make_plan``.

    ``cluster``: the result of ``slurm.look.survey``. ``place_problem``: why nothing may be written to dir. ``model``:
    the jobs for this cluster, or if it cannot run them for the settings alone, with ``cluster_problems``. ``checks``:
    the settings of the checks. ``files`` and ``paths``: sums and states. ``unmarked``: directories of tools that no
    build of the role has begun. ``is_included``: whether slurm.conf has our line; None if it cannot be
    read.
    """
    # Imported here: it imports all job kinds, which a look at a volume does not need.
    from .model import model

    slurm = Slurm(host, config.slurm_prefix, config.slurm_conf)
    cluster = survey(slurm)
    volume = volume_path(host)
    options = settings(config, node_checks.scratch(config.checks, volume))
    fitting = model(options, cluster if cluster["healthy"] else None)
    facts: dict[str, t.Any] = {
        "cluster": cluster,
        "cluster_problems": fitting["problems"],
        "model": model(options) if fitting["problems"] else fitting,
        "checks": node_checks.wanted(config.checks, volume, config.slurm_prefix, config.slurm_conf, config.imex),
        "place_problem": place_problem(host, config) if cluster["installed"] else "",
    }
    if not cluster["installed"] or facts["place_problem"]:
        # A file system without an answer is not queried again.
        return {**facts, "files": {}, "paths": {}, "unmarked": [], "directories": {}}
    looked_at = [entry.path for entry in (*wanted_files(facts, config), *marks(config).values())]
    looked_at += [runtime_path(config), *(f"{config.dir}/{name}" for name in config.data_sums)]
    facts["files"] = {path: host.sha256(path) for path in looked_at}
    facts["paths"] = {path: host.stat(path) for path in looked_at}
    facts["unmarked"] = [
        place
        for tool, place in places(config).items()
        if facts["paths"][marks(config)[tool].path] is None and host.listdir(place)
    ]
    facts["directories"] = {path: host.stat(host.realpath(path)) for path in directories(config)}
    facts["uid"], facts["gid"] = host.uid(config.owner), host.gid(config.group)
    if configures_slurm(facts, config):
        text = host.read_text(node_checks.conf_path(cluster["settings"]))
        facts["is_included"] = None if text is None else node_checks.INCLUDE in map(str.strip, text.splitlines())
        facts["reconfigure"] = slurm.argv("scontrol", "reconfigure")
    return facts


def volume_path(host: Host) -> str | None:
    """Return the mount point of the local disks of role nvme_raid0; None if there are none."""
    record = host.read_json(RECORD_PATH)
    path = record.get("path") if isinstance(record, dict) else None
    return path if isinstance(path, str) and path else None


def place_problem(host: Host, config: JobsConfig) -> str:
    """Return why other nodes would not see files in dir; empty if they do or need not. Raises NodeError."""
    if not config.require_mount:
        shared_place.demand_answer(host, config.dir)
        return ""
    return shared_place.problem(shared_place.look(host, config.dir, PLACE_SECONDS), shared_place.shared_mounts(host))


def verify(facts: Facts, config: JobsConfig) -> list[Result]:
    """Return no verdicts: the plan decides whether a cluster can run the jobs, and jobs have their own verdicts."""
    return []


def report(facts: Facts, config: JobsConfig) -> Report:
    """Return the number of scripts.

    The fact ``mlcluster_slurm_jobs`` has the jobs to check with Slurm, and the names of those that a validation runs.
    """
    cluster, jobs = facts["cluster"], facts["model"]["jobs"]
    named = [{"name": job["name"], "path": job["path"]} for job in jobs] if cluster["healthy"] else []
    report_lines: tuple[str, ...] = ()
    if named:
        report_lines = (
            f"{len(named)} jobs in {config.dir}, for Slurm {cluster['version'] or 'of an unknown version'}",
        )
    judged = [job["name"] for job in jobs if job["judged"]]
    return Report(info=report_lines, facts={"mlcluster_slurm_jobs": {"jobs": named, "judged": judged}})
