# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remove the files of the role slurm_jobs, after taking them out of Slurm's configuration. Results are kept."""

from __future__ import annotations

import os
import posixpath
import re
import typing as t

from ..slurm.client import Slurm
from ..slurm.look import survey
from ..system.files import remove_directory
from ..system.host import Host, NodeError
from ..system.role_file import path_of, read_role_file
from . import checks as node_checks
from . import files

# Directories below dir: of the data programs and of tools. Others may have files in both.
DATA, TOOLS = "mlcluster_data", "tools"
# In a script of the role: the name of its job. A user's copy has another file name.
_RUNS = re.compile(rf"{re.escape(files.JOB_MARK)}.* It runs (\S+)\.json ")
ROLE_FILES = tuple(path_of(role) for role in ("slurm_jobs", "slurm_jobs_checks", "slurm_jobs_tools"))
# Replaces the text of slurm.conf, with its owner and mode, and keeps a backup.
Rewrite = t.Callable[[str, str], None]


def find(host: Host, place: str, checks: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """Return scripts of checks, files of jobs, our directories, and those that are empty after a removal."""
    scripts = [path for path in node_checks.paths(checks).values() if is_ours(host, path, files.CHECK_MARK)]
    named = [f"{place}/{name}" for name in sorted(host.listdir(place)) if name.endswith((".sbatch", ".json"))]
    jobs = [path for path in named if _is_job_file(host, path)]
    own = [path for path in (f"{place}/{files.RUNTIME_NAME}", *ROLE_FILES) if _is_plain(host, path)]
    tools = f"{place}/{TOOLS}"
    existing = [f"{tools}/{name}" for name in host.listdir(tools)] if _is_directory(host, tools) else []
    built = [path for path in existing if _is_directory(host, path) and host.stat(f"{path}/{files.BUILT}")]
    sums = {f"{place}/{name}": digest for name, digest in _data_sums(host).items()}
    programs, emptied = _programs(host, f"{place}/{DATA}", sums)
    emptied += [tools] if _is_directory(host, tools) and built == existing else []
    return {"scripts": scripts, "files": [*jobs, *programs, *own], "directories": built, "emptied": emptied}


def _is_job_file(host: Host, path: str) -> bool:
    """Return whether the role wrote a script or its JSON file: a copy under another name is a user's own."""
    name = posixpath.splitext(posixpath.basename(path))[0]
    if not is_ours(host, path, files.JOB_MARK):
        return False
    if path.endswith(".json"):
        document = host.read_json(path)
        return not isinstance(document, dict) or document.get("name", name) == name
    found = _RUNS.search(host.read_text(path) or "")
    return found is None or found.group(1) == name


def _data_sums(host: Host) -> dict[str, str]:
    """Return the sha256 of each data program that the role wrote, by its path; empty if that is unknown."""
    try:
        sums = read_role_file(host, "slurm_jobs").get("data_sums")
    except NodeError:
        return {}
    return sums if isinstance(sums, dict) else {}


def _programs(host: Host, path: str, sums: t.Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the program files below a directory, and the directories that are empty without them, deepest first.

    sums: sha256 by path. A program that was changed since, and a changed copy, are a user's own.
    """
    if not _is_directory(host, path):
        return [], []
    found: list[str] = []
    emptied: list[str] = []
    existing = [f"{path}/{name}" for name in host.listdir(path)]
    for entry in existing:
        if _is_directory(host, entry):
            inside, empty = _programs(host, entry, sums)
            found += inside
            emptied += empty
        elif _is_program(host, entry, sums):
            found.append(entry)
    return found, [*emptied, path] if set(existing) <= {*found, *emptied} else emptied


def _is_program(host: Host, path: str, sums: t.Mapping[str, str]) -> bool:
    """Return whether a plain file is a program as the role wrote it, or one that Python compiled."""
    if not _is_plain(host, path):
        return False
    if path.endswith(".pyc") and path.split("/")[-2] == "__pycache__":
        return True
    return path in sums and host.sha256(path) == sums[path]


def _is_plain(host: Host, path: str) -> bool:
    """Return whether this is a plain file: not a directory, link, pipe, socket or device."""
    state = host.stat(path)
    return bool(state and not state["is_link"] and host.file_size(path) is not None)


def _is_directory(host: Host, path: str) -> bool:
    """Return whether this is a directory and not a link to one."""
    state = host.stat(path)
    return bool(state and state["is_dir"] and not state["is_link"])


def is_ours(host: Host, path: str, mark: str) -> bool:
    """Return whether this is a plain file with the mark of the role."""
    state = host.stat(path)
    if not state or state["is_link"] or state["is_dir"]:
        return False
    return mark in (host.read_text(path) or "")


def deregister_checks(host: Host, slurm: Slurm, checks: t.Mapping[str, t.Any], rewrite: Rewrite | None) -> list[str]:
    """Remove the scripts from Slurm's configuration; return the files that were, or would be, changed.

    Without ``rewrite`` nothing is changed. Raises NodeError if it is unknown what Slurm runs, and if it still runs one
    of the scripts, because a missing script drains every node.
    """
    cluster = survey(slurm)
    if not cluster["installed"]:
        return []
    _demand_settings(cluster)
    conf = node_checks.conf_path(cluster["settings"])
    own = node_checks.own_conf_path(cluster["settings"])
    lines = (host.read_text(conf) or "").splitlines(keepends=True)
    kept = [line for line in lines if line.rstrip("\n") != node_checks.INCLUDE]
    changed = [conf] if kept != lines else []
    changed += [own] if host.stat(own) else []
    if rewrite is None:
        return changed
    if kept != lines:
        rewrite(conf, "".join(kept))
    host.remove(own)
    if kept != lines:
        slurm.ask("scontrol", "reconfigure")
        cluster = survey(slurm)
        _demand_settings(cluster)
    in_use = node_checks.slurm_state(checks, cluster["settings"], cluster["container_options"]).in_use
    if in_use:
        raise NodeError(
            f"the scripts of slurm_jobs_checks stay, since Slurm still runs them as {', '.join(in_use)} and an absent "
            f"one would drain every node: take that out of {conf} first"
        )
    return changed


def _demand_settings(cluster: t.Mapping[str, t.Any]) -> None:
    """Raise NodeError if it is unknown what Slurm runs: unreported settings look like missing ones."""
    if not cluster["healthy"] or not cluster["settings"]:
        raise NodeError(f"the scripts of slurm_jobs_checks stay: {'; '.join(cluster['problems'])}")


def remove(host: Host, found: t.Mapping[str, t.Sequence[str]]) -> None:
    """Delete the files and directories that ``find`` returned."""
    for path in (*found["scripts"], *found["files"]):
        host.remove(path)
    for path in found["directories"]:
        remove_directory(path)
    for path in found["emptied"]:
        os.rmdir(path)
