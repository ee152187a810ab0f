# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run Slurm's commands on a node, from any installation path."""

from __future__ import annotations

import os
import re
import socket
import typing as t

from ..system.host import CommandResult, Host, NodeError

# Where ParallelCluster installs Slurm (its cookbook, node['cluster']['slurm']['install_dir']); the system path is next.
PREFIXES = ("/opt/slurm",)
# AWS PCS has a folder slurm-VERSION for each version below this one (docs.aws.amazon.com/pcs, spank_install).
PCS_SCHEDULERS = "/opt/aws/pcs/scheduler"
TIMEOUT = 60.0
# Errors of Slurm's commands after a timeout of the controller (slurm_errno.h), which may have received the request.
_NO_ANSWER = re.compile(r"timed out|zero bytes|unable to contact|unexpected message", re.IGNORECASE)
_GONE = re.compile(r"Invalid job id specified|Invalid job array id", re.IGNORECASE)


class SlurmError(NodeError):
    """A failed Slurm command; ``output`` is its error message."""

    def __init__(self, what: str, output: str, advice: str) -> None:
        self.output = output
        super().__init__(f"{what}: {output or 'no output'}; {advice}")


# The prefix of a node that must not use Slurm, regardless of its groups.
WITHOUT_SLURM = "/nonexistent"


def find_prefix(host: Host, program: str) -> t.Optional[str]:
    """Return the directory above the bin with this program: ParallelCluster's, else the only one of AWS PCS, else None.

    Returns None for several versions, since an older scontrol cannot read the slurm.conf of a newer one.
    """
    versions = [f"{PCS_SCHEDULERS}/{name}" for name in host.listdir(PCS_SCHEDULERS) if name.startswith("slurm-")]
    of_pcs = [path for path in versions if host.exists(f"{path}/bin/{program}")]
    places = (*PREFIXES, *(of_pcs if len(of_pcs) == 1 else ()))
    return next((path for path in places if host.exists(f"{path}/bin/{program}")), None)


class Slurm:
    """The Slurm that a node belongs to.

    prefix: the directory above its bin (None: ``find_prefix``, else the system path). conf: its slurm.conf (None: the
    default of Slurm). local: only the cluster of that slurm.conf is asked, whatever SLURM_CLUSTERS names.
    """

    def __init__(
        self, host: Host, prefix: t.Optional[str] = None, conf: t.Optional[str] = None, local: bool = False
    ) -> None:
        self.host = host
        self.conf = conf
        self.local = local
        self.prefix = prefix or find_prefix(host, "scontrol")

    def argv(self, program: str, *arguments: str) -> list[str]:
        """Return the complete command. Raises NodeError if the program is not installed."""
        path = f"{self.prefix}/bin/{program}" if self.prefix else self.host.which(program)
        if not path or not self.host.exists(path):
            where = (
                f"in {self.prefix}/bin"
                if self.prefix
                else f"on the system path, in {' or '.join(PREFIXES)} or as the only one in {PCS_SCHEDULERS}"
            )
            raise NodeError(
                f"looked for {program} {where} and did not find it: set prefix to the directory above Slurm's bin, "
                "or run this on a node that submits jobs"
            )
        # Without it scontrol truncates the pending tasks of an array after 64 characters (squeue's manual page).
        variables = [f"--unset={name}" for name in sorted(os.environ) if self._narrows(program, name)]
        variables += ["SLURM_BITSTR_LEN=0"] if program == "scontrol" else []
        variables += [f"SLURM_CONF={self.conf}"] if self.conf else []
        return (["env", *variables] if variables else []) + [path, *arguments]

    def _narrows(self, program: str, variable: str) -> bool:
        """Return whether a variable of the environment keeps jobs out of an answer (squeue's manual page)."""
        return (program == "squeue" and variable.startswith("SQUEUE_")) or (self.local and variable == "SLURM_CLUSTERS")

    def run(self, program: str, *arguments: str, timeout: float = TIMEOUT) -> CommandResult:
        """Run a command and return its result for any exit status."""
        return self.host.run(self.argv(program, *arguments), timeout=timeout, check=False)

    def ask(self, program: str, *arguments: str, timeout: float = TIMEOUT) -> str:
        """Return the standard output of a command. Raises SlurmError with Slurm's message if it fails."""
        completed = self.run(program, *arguments, timeout=timeout)
        if completed.rc != 0:
            raise SlurmError(
                f"{program} {' '.join(arguments)} ended with status {completed.rc}",
                " ".join((completed.stderr or completed.stdout).split()),
                "check that slurmctld runs (scontrol ping) and that this node has its slurm.conf",
            )
        return completed.stdout


def unknown_job(completed: CommandResult) -> bool:
    """Return whether Slurm answered that it does not know the job, as opposed to not answering."""
    return completed.rc != 0 and bool(_GONE.search(completed.stderr + completed.stdout))


def is_unanswered(completed: CommandResult) -> bool:
    """Return whether a command failed because the controller did not answer."""
    return completed.rc != 0 and bool(_NO_ANSWER.search(completed.stderr or completed.stdout))


def node_name() -> str:
    """Return the name of this node in Slurm: slurmd sets it for its scripts, elsewhere it is the host name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
