# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show a job: every step as a command line, as if each step ended with 0."""

from __future__ import annotations

import contextlib
import shlex
import typing as t

from ..system.host import Host
from .kinds import JOB_KINDS
from .spec import Spec
from .step import Step
from .work import Work

JOB = "JOBID"


def lines(spec: Spec, host: Host, nodes: t.Sequence[str] = ()) -> list[str]:
    """Return a command line for each step of the job; without nodes their names are node1, node2 and so on."""
    named = tuple(nodes) or tuple(f"node{at + 1}" for at in range(spec.nodes))
    kind = JOB_KINDS[spec.kind]
    work = DryWork(spec, host, JOB, named, f"{JOB}-TIME")
    work.note(f"{spec.name}: {kind.title}")
    work.note(f"nodes: {' '.join(named)}")
    work.note(f"results: {work.results}, exit status: {work.results}.exit")
    if kind.submit:
        work.note("started by hand it submits itself:")
        kind.submit(work, ())
        work.note("each task:")
    kind.run(work)
    if kind.judge:
        work.note(f"verdict: the judge of kind {spec.kind}, into {work.file('report.json')}")
    return work.printed


class DryWork(Work):
    """A job that runs nothing. ``printed`` are the lines of its steps."""

    dry = True

    def __init__(self, *words: t.Any) -> None:
        super().__init__(*words)
        self.printed: list[str] = []

    def note(self, text: str) -> None:
        """Print a line that is not a step as a comment."""
        self.printed.append(f"# {text}")

    def on_each_node(self, *words: str) -> int:
        status = super().on_each_node(*words)
        part = DryWork(self.spec, self.host, self.number, ("NODE",), self.unique)
        on_node = JOB_KINDS[self.spec.kind].on_node
        if on_node:
            on_node(part, words)
        self.printed += [f"#   on each node: {line.removeprefix('# ')}" for line in part.printed]
        return status

    def together(self, steps: t.Sequence[Step]) -> list[int]:
        self.printed += [f"{step.line()}{' &' if len(steps) > 1 else ''}" for step in steps]
        if len(steps) > 1:
            self.printed.append("wait")
        return [0 for _step in steps]

    def ask(self, *argv: str) -> str:
        self.printed.append(Step(argv, stderr="/dev/null").line())
        return ""

    def require(self, program: str, advice: str) -> None:
        self.note(f"needs {shlex.quote(program)}")

    def write(self, name: str, text: str) -> None:
        self.note(f"writes {self.file(name)}")

    def append(self, name: str, text: str) -> None:
        """Print nothing: the text belongs to a step that is shown."""

    def remove(self, name: str) -> None:
        """Print nothing, as above."""

    @contextlib.contextmanager
    def place(self, path: str, advice: str) -> t.Iterator[None]:
        self.note(f"makes {path}")
        yield
        self.note(f"removes {path}, whatever ends the job")
