# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kinds and their parts. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..system.host import Host
from ..verdict.result import Result
from .job import Job
from .options import Option
from .work import Work

Values = t.Mapping[str, t.Any]
Judge = t.Callable[[Job, Host], list[Result]]
# Returns the exit status of the job, or None if that of the verdict counts.
Run = t.Callable[[Work], t.Optional[int]]
Submit = t.Callable[[Work, t.Sequence[str]], int]
OnNode = t.Callable[[Work, t.Sequence[str]], int]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A job kind: the properties that all its jobs share.

    ``title`` is the question that it answers, ``proves`` its row in the role's README. ``nodes`` is a number or
    ``all``, ``tasks`` is ``one`` or ``gpu`` (one for each GPU) on each node, ``minutes`` the time limit.
    ``use`` is that of ``environment.Setting`` for the NCCL environment (``mpi`` or ``host``), None for none.
    ``debug`` is the value of NCCL_DEBUG.
    ``container`` is ``never``, ``may`` or ``always``; ``accelerator`` is the only accelerator that its nodes may
    have (``gpu`` or ``neuron``), None for any.
    ``array``: a Slurm array with a task for each of many inputs; tasks share nodes.
    ``asked`` names the options that the verdict needs, ``tools`` the settings with paths of programs.
    ``paths`` maps each option whose value is a path to whether steps write there; containers mount these paths.
    ``baseline``: the verdict reads the site's baseline. ``writes`` names the option with a directory that no other job
    may write into. ``example`` is the smallest valid job of the kind.

    ``run(work)`` runs the steps of a job. For a kind with a judge the directory of results exists; another kind creates
    it if needed. ``on_node(work, words)`` is the part of a step that ``mlcluster job-node`` runs on a node.
    ``submit(work, options)`` submits an array whose script is started by hand. ``fill(values, settings)`` completes
    defaults that depend on the role's settings and returns the changed ones. ``programs(values, settings, image)``
    returns the programs that the nodes need; by default all ``tools``. ``problems(values, job)`` yields errors in
    combinations of options, whose values may have any type. ``judge(job, host)`` returns the verdicts; a kind without
    one gives the reason in ``unjudged``.
    """

    title: str
    proves: str
    run: Run
    on_node: OnNode | None = None
    submit: Submit | None = None
    judge: Judge | None = None
    unjudged: str = ""
    nodes: int | str = 2
    tasks: str = "gpu"
    minutes: int = 20
    mpi: bool = False
    use: str | None = None
    debug: str | None = None
    container: str = "never"
    accelerator: str | None = None
    requeue: bool = False
    signal: bool = False
    array: bool = False
    baseline: bool = False
    writes: str = ""
    paths: t.Mapping[str, bool] = dataclasses.field(default_factory=dict)
    options: t.Mapping[str, Option] = dataclasses.field(default_factory=dict)
    asked: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    example: Values = dataclasses.field(default_factory=dict)
    fill: t.Callable[[Values, Values], Values] = lambda values, settings: {}
    programs: t.Callable[[Values, Values, str], t.Sequence[str]] | None = None
    problems: t.Callable[[Values, Values], t.Iterator[str]] = lambda values, job: iter(())

    def values(self, job: Values) -> dict[str, t.Any]:
        """Return the options of ``job``, with defaults for missing ones."""
        return {name: job.get(name, option.default) for name, option in self.options.items()}

    def needed_programs(self, values: Values, settings: Values, image: str) -> list[str]:
        """Return names or paths of the programs that the nodes need."""
        if self.programs is not None:
            return list(self.programs(values, settings, image))
        return [settings[tool] for tool in self.tools]
