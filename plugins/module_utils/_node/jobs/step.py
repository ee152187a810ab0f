# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps of a job as argument lists: srun and its options, the environment, the container. Pure.

No shell, except for one fixed line in containers whose image may lack Python.
"""

from __future__ import annotations

import dataclasses
import shlex
import typing as t

from ..efa.plugin import CLEARED, DEFAULTS, LOADER
from .spec import Container

# Options that a step would read from the variables of the job in which this one was submitted.
INHERITED = (
    "distribution",
    "hint",
    "threads-per-core",
    "cpus-per-task",
    "gpu-bind",
    "gpus-per-task",
    "tres-per-task",
    "overcommit",
)
Value = t.Union[str, int, bool, None]


@dataclasses.dataclass(frozen=True)
class Step:
    """One command. ``stdout`` and ``stderr`` are files; without them it writes to the job's output.

    ``stderr`` may be the same file as ``stdout``.
    """

    argv: tuple[str, ...]
    stdout: str = ""
    stderr: str = ""

    def line(self) -> str:
        """Return the step as a command line for a terminal."""
        words = shlex.join(self.argv)
        if self.stdout:
            words += f" >{shlex.quote(self.stdout)}"
        if self.stderr:
            words += " 2>&1" if self.stderr == self.stdout else f" 2>{shlex.quote(self.stderr)}"
        return words


def options(**given: Value) -> tuple[str, ...]:
    """Return long options: ``ntasks_per_node=8`` is --ntasks-per-node=8, True a bare option, None no option."""
    named = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    return tuple(f"--{name}" if value is True else f"--{name}={value}" for name, value in named.items())


def srun(**given: Value) -> tuple[str, ...]:
    """Return srun with these options."""
    return ("srun", *options(**given))


def each_node(nodes: t.Sequence[str], **given: Value) -> tuple[str, ...]:
    """Return srun with one task on each of these nodes, which are all nodes of the job."""
    return srun(nodes=len(nodes), ntasks=len(nodes), ntasks_per_node=1, mpi="none", **given)


def container_options(container: Container | None) -> tuple[str, ...]:
    """Return the options of Pyxis, none without a container."""
    if container is None:
        return ()
    return options(
        container_image=container.image,
        container_mounts=",".join(container.mounts),
        container_workdir=container.workdir,
    )


def with_variables(variables: t.Mapping[str, str], container: Container | None = None) -> tuple[str, ...]:
    """Return the command prefix that sets these variables for a program, also inside of a container.

    With a container, variables of its image that would change NCCL's transport are cleared or get their default, unless
    they are among these.
    """
    given = dict(variables) if container is None else {**DEFAULTS, **variables}
    cleared = [] if container is None else [name for name in CLEARED if name not in given]
    return (
        "env",
        *(word for name in cleared for word in ("-u", name)),
        *(f"{key}={value}" for key, value in given.items()),
    )


def unset_disabled_plugin(variables: t.Mapping[str, str], container: Container | None) -> tuple[str, ...]:
    """Return the option of job-exec for a container whose image disables the plugins of NCCL."""
    # Any other value is the plugin's name in the image and is kept.
    return () if container is None or "NCCL_NET_PLUGIN" in variables else ("--without", "NCCL_NET_PLUGIN=none")


# A line without data: the program and its arguments are "$@".
UNSET_DISABLED_PLUGIN = 'if [ "$NCCL_NET_PLUGIN" = none ]; then unset NCCL_NET_PLUGIN; fi; exec "$@"'


def unset_disabled_plugin_in_shell(variables: t.Mapping[str, str], container: Container | None) -> tuple[str, ...]:
    """Return the command prefix that does the same as ``unset_disabled_plugin`` in an image without Python."""
    return ("sh", "-c", UNSET_DISABLED_PLUGIN, "sh") if unset_disabled_plugin(variables, container) else ()


def enroot_variables(container: Container | None) -> dict[str, str]:
    """Return what Enroot needs on the host to start the container of a step.

    Pyxis names a container after the numbers of job and step, and a requeued job has the same ones. On a node that
    died, or where the step was killed, the first container is still there, and Enroot rejects the name without this.
    """
    return {} if container is None else {"ENROOT_FORCE_OVERRIDE": "yes"}


def own_variables(
    variables: t.Mapping[str, str], sbatch: t.Collection[str], container: Container | None = None
) -> dict[str, str]:
    """Return the variables of the batch step without those of a job in which this one was submitted.

    A job that is submitted from inside of another one (srun --pty bash, salloc) inherits its variables, and its steps
    would use the order, the cores and the memory of the other job. ``sbatch`` names the options that the script itself
    has; their variables stay. Variables of Pyxis are removed too, because they affect every step, also one that looks
    at the host. For a job in a container, the paths of the host's dynamic loader are removed: Pyxis passes every
    variable into an image that does not set it, and the job would load other libraries than those that were checked.
    """
    removed_prefixes: tuple[str, ...] = ("SLURM_MEM_PER_", "PYXIS_CONTAINER_")
    removed_names = set() if container is None else set(LOADER)
    if variables.get("SLURM_STEP_ID"):
        removed_prefixes += ("SLURM_STEP", "SLURM_CPU_BIND", "SLURM_MEM_BIND")
        removed_names |= {f"SLURM_{name.replace('-', '_').upper()}" for name in INHERITED if name not in sbatch}
    return {
        name: value
        for name, value in variables.items()
        if not name.startswith(removed_prefixes) and name not in removed_names
    }
