# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of the scripts that Slurm runs on nodes before and after jobs and as its health check, and Slurm's. Pure."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ..imex.config import MODES as IMEX_MODES

# Keys of slurm_jobs_checks and their defaults.
DEFAULTS: dict[str, t.Any] = {
    # The node runtime of the role nvme_raid0, on a disk of the node: a Prolog must not wait for a file server.
    "command": "/usr/local/bin/mlcluster",
    # open: only a failed check keeps jobs away. closed: an undeterminable check does, too.
    "gate": "open",
    # Drain the node with the reason if a check keeps jobs away, and resume it if the checks pass again.
    "drain": True,
    "undrain": True,
    # More options of mlcluster health, one word in each list entry: [--instance-type, p5.48xlarge].
    "health_options": [],
    # More options of mlcluster imex up, one word in each list entry: [--seconds, "120"].
    "imex_options": [],
    # Directory above Slurm's bin, and its slurm.conf, if they are not in the default places: slurmd passes neither to
    # a HealthCheckProgram. Empty: slurm_jobs_slurm_prefix and slurm_jobs_slurm_conf, if they are set.
    "slurm_prefix": "",
    "slurm_conf": "",
    # Whether each job gets its own directory, and the parent directory; empty: jobs below the volume of nvme_raid0.
    "scratch": True,
    "scratch_base": "",
    # Hours to keep files of ended jobs, and the percentage of free space below which they are removed earlier.
    "keep_hours": 0,
    "least_free_percent": 10,
    # Limit of each running job in GiB of the local volume (0: no limit), and what the health check does with a job
    # above it: report it on the check's error output, or also cancel it.
    "quota_gib": 0,
    "over_quota": "report",
    # Seconds that an Epilog may spend on removing files; the health check removes the rest.
    "epilog_seconds": 20,
    # Whether Prolog and Epilog note which job has which GPU, for the labels of metrics (docs/guides/monitoring.md).
    "labels": True,
    # How often Slurm runs the health check, in seconds, if the role configures it (slurm_jobs_node_checks: slurm).
    "interval": 300,
    # Paths of the scripts on every node, for Prolog, Epilog, TaskProlog and HealthCheckProgram of slurm.conf.
    "prolog": "/etc/mlcluster/slurm/prolog",
    "epilog": "/etc/mlcluster/slurm/epilog",
    "task_prolog": "/etc/mlcluster/slurm/task_prolog",
    "health_check": "/etc/mlcluster/slurm/health_check",
}
# Settings of slurm.conf, and the key with the path of the script for each.
HOOKS = {
    "Prolog": "prolog",
    "Epilog": "epilog",
    "TaskProlog": "task_prolog",
    "HealthCheckProgram": "health_check",
}
NO_VOLUME = "/scratch"
CONF = "/etc/slurm/slurm.conf"
OWN_CONF = "mlcluster_checks.conf"
# An included file without a path is in the directory of slurm.conf, and Slurm sends it to nodes without files.
INCLUDE = f"include {OWN_CONF}"
_PLACES = ("command", "scratch_base", *HOOKS.values())
_NUMBERS = ("keep_hours", "least_free_percent", "quota_gib", "epilog_seconds", "interval")
_PATH = re.compile(r"/[A-Za-z0-9_./-]*")

Checks = t.Mapping[str, t.Any]


def wanted(
    given: Checks,
    volume: str | None = None,
    slurm_prefix: str | None = None,
    slurm_conf: str | None = None,
    imex: str = IMEX_MODES[0],
) -> dict[str, t.Any]:
    """Return all settings of the checks; ``volume`` is the mount point of the local disks, None without them.

    ``imex`` is the value of slurm_jobs_imex, which is not a setting of slurm_jobs_checks.
    """
    found = {
        **DEFAULTS,
        "scratch_base": f"{volume or NO_VOLUME}/jobs",
        "slurm_prefix": slurm_prefix or "",
        "slurm_conf": slurm_conf or "",
        **{key: value for key, value in given.items() if value != ""},
        "imex": imex,
    }
    return {**found, **{key: number(found[key]) for key in _NUMBERS}}


def number(value: t.Any) -> int:
    """Return a whole number, 0 for other values."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def scratch(given: Checks, volume: str | None = None) -> str:
    """Return the parent of the jobs' directories on the local disks; empty if jobs get none."""
    checks = wanted(given, volume)
    return str(checks["scratch_base"]) if checks["scratch"] else ""


def problems(given: Checks) -> list[str]:
    """Return a sentence for each invalid setting in slurm_jobs_checks."""
    checks = wanted(given)
    unknown = sorted(str(key) for key in set(given) - set(DEFAULTS))
    found = []
    if unknown:
        found.append(
            f"slurm_jobs_checks has {', '.join(unknown)}, which is unknown: it may have {', '.join(sorted(DEFAULTS))}"
        )
    for key, allowed in (("gate", ("open", "closed")), ("over_quota", ("report", "cancel"))):
        if checks[key] not in allowed:
            found.append(f"slurm_jobs_checks.{key} is {checks[key]}: use {' or '.join(allowed)}")
    if not 1 <= checks["interval"] <= 65535:
        found.append(f"slurm_jobs_checks.interval is {given['interval']}: use 1 to 65535 seconds")
    for key in ("health_options", "imex_options"):
        if not isinstance(checks[key], list):
            found.append(f"slurm_jobs_checks.{key} is not a list: use one list entry for each word")
    return found + [
        f"slurm_jobs_checks.{key} is not an absolute path of plain characters"
        for key in _PLACES
        if not isinstance(checks[key], str) or not _PATH.fullmatch(checks[key])
    ]


def paths(checks: Checks) -> dict[str, str]:
    """Return the path of each script by the setting of slurm.conf."""
    return {setting: str(checks[key]) for setting, key in HOOKS.items()}


@dataclasses.dataclass(frozen=True)
class SlurmState:
    """State of the checks in Slurm's configuration.

    ``due`` are the settings that it needs. ``taken`` are the programs that it runs instead. ``in_use`` are the settings
    by which it runs our scripts: a missing script drains every node.
    """

    due: t.Mapping[str, str]
    taken: tuple[str, ...]
    in_use: tuple[str, ...]


def slurm_state(checks: Checks, settings: t.Mapping[str, str | None], container_options: int) -> SlurmState:
    """Compare the checks with the settings that ``scontrol show config`` has."""
    scripts = paths(checks)
    # Newer releases accept several programs for one of these settings.
    runs = {name: (settings.get(name) or "").split(",") for name in HOOKS if settings.get(name)}
    programs = [program for found in runs.values() for program in found]
    # ParallelCluster has folders: Prolog=/opt/slurm/etc/scripts/prolog.d/*.
    folders = {posixpath.dirname(program) for program in programs if program.endswith("/*")}
    due = {
        name: path
        for name, path in scripts.items()
        # Pyxis enters the container before Slurm looks for TaskProlog, which is missing there, and Slurm ends the step:
        # no step would start in a container.
        if not (name == "TaskProlog" and container_options) and posixpath.dirname(path) not in folders
    }
    own_programs = set(due.values())
    return SlurmState(
        due=due,
        taken=tuple(program for name in due for program in runs.get(name, ()) if program not in own_programs),
        in_use=tuple(sorted(name for name, path in scripts.items() if path in programs)),
    )


def conf_path(settings: t.Mapping[str, str | None]) -> str:
    """Return the slurm.conf that the controller has read."""
    return settings.get("SLURM_CONF") or CONF


def own_conf_path(settings: t.Mapping[str, str | None]) -> str:
    """Return the file that slurm.conf has to include."""
    return f"{posixpath.dirname(conf_path(settings))}/{OWN_CONF}"
