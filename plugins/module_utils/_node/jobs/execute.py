# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the program of a job with the variables that only a task knows: ``mlcluster job-exec``."""

from __future__ import annotations

import posixpath
import typing as t

from ..system.host import Host, NodeError

RANKS = {"RANK": "SLURM_PROCID", "LOCAL_RANK": "SLURM_LOCALID", "WORLD_SIZE": "SLURM_NTASKS"}


def scratch_directory(host: Host, base: str, variables: t.Mapping[str, str]) -> str:
    """Return the directory that the node has made for this job on its local disks, an empty string without one.

    A TaskProlog cannot set it for a container, because Slurm would look for the TaskProlog inside the container.
    """
    path = posixpath.join(base, f"job-{variables.get('SLURM_JOB_ID', '')}", "tmp")
    info = host.stat(path) if base else None
    return path if info and info["is_dir"] and info["uid"] == host.own_uid() else ""


def missing_directory(host: Host, base: str, scratch: str, variables: t.Mapping[str, str]) -> str:
    """Return the warning of the first task of a node whose job has no directory on the local disks, else empty.

    A node without such disks lacks the folder that ``base`` is in, and needs no warning.
    """
    above = host.stat(posixpath.dirname(base)) if base and not scratch else None
    if not above or not above["is_dir"] or variables.get("SLURM_LOCALID", "0") != "0":
        return ""
    return (
        f"node {variables.get('SLURMD_NODENAME', '')} has no directory for job {variables.get('SLURM_JOB_ID', '')} in "
        f"{base}, so TMPDIR is not on its local disks; /var/log/mlcluster/scratch.log there has the reason"
    )


def task_variables(
    variables: t.Mapping[str, str],
    scratch: str,
    ranks: bool = False,
    spool: bool = False,
    without: t.Sequence[str] = (),
) -> dict[str, str]:
    """Return the variables of the program. Pure. Raises NodeError outside of a step of Slurm.

    ``scratch`` is the directory of the job on the local disks, if any. ``ranks``: add the variables of
    torch.distributed. ``spool``: set MLCLUSTER_SPOOL, where shards are written first, to that directory unless it
    is set. ``without``: NAME=VALUE
    of variables that are left out if they have exactly that value.
    """
    found = {name: value for name, value in variables.items() if f"{name}={value}" not in without}
    if scratch:
        found.update(TMPDIR=scratch, MLCLUSTER_SCRATCH=scratch)
    if ranks:
        found.update({name: _slurm(variables, source) for name, source in RANKS.items()})
    if spool:
        found["MLCLUSTER_SPOOL"] = found.get("MLCLUSTER_SPOOL") or found.get("MLCLUSTER_SCRATCH", "")
    return found


def task_command(variables: t.Mapping[str, str], command: t.Sequence[str], node_rank: bool = False) -> list[str]:
    """Return the command, with the number of this node as its first option if requested. Pure. Raises NodeError."""
    own = [f"--node-rank={_slurm(variables, 'SLURM_NODEID')}"] if node_rank else []
    return [command[0], *own, *command[1:]]


def _slurm(variables: t.Mapping[str, str], name: str) -> str:
    if not variables.get(name):
        raise NodeError(f"{name} is not set, so this is not a task of Slurm: start it with srun")
    return variables[name]
