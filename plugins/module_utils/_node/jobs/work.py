# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface between a job kind and its job, nodes and steps. ``run.py`` runs steps, ``dry_run.py`` prints them."""

from __future__ import annotations

import abc
import contextlib
import posixpath
import typing as t

from ..system.host import Host
from .spec import Spec
from .step import Step, each_node


class JobError(Exception):
    """The job cannot run. The message states what was found and what to do next; ``status`` is its exit status."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


class SignalError(Exception):
    """A signal ends the job with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Work(abc.ABC):
    """A running job. ``number`` is Slurm's (JOB_TASK in an array), ``nodes`` are in Slurm's order, ``results`` is its
    directory of results, ``unique`` a name of this start of this job alone.
    """

    # Whether steps are only shown, and no file is written.
    dry = False

    def __init__(self, spec: Spec, host: Host, number: str, nodes: t.Sequence[str], unique: str) -> None:
        self.spec = spec
        self.host = host
        self.number = number
        self.nodes = tuple(nodes)
        self.unique = unique
        self.results = posixpath.join(spec.dir, "results", f"{spec.name}-{number}")

    @property
    def job(self) -> int:
        """The number of the job, 0 if steps are only shown."""
        return int(self.number) if self.number.isdecimal() else 0

    def file(self, name: str) -> str:
        """Return the path of a file among the results."""
        return posixpath.join(self.results, name)

    def run(self, *argv: str, stdout: str = "", stderr: str = "") -> int:
        """Run a command to its end and return its exit status; see ``Step`` for the files."""
        return self.together([Step(argv, stdout, stderr)])[0]

    def on_each_node(self, *words: str) -> int:
        """Run each node's part of the job, all at once, and return the exit status of the step."""
        return self.run(*each_node(self.nodes), *self.spec.mlcluster, "job-node", self.spec.path, *words)

    @abc.abstractmethod
    def together(self, steps: t.Sequence[Step]) -> list[int]:
        """Run steps in parallel to their ends and return their exit statuses."""

    @abc.abstractmethod
    def ask(self, *argv: str) -> str:
        """Return the output of a command, even if it fails; its errors are dropped."""

    @abc.abstractmethod
    def require(self, program: str, advice: str) -> None:
        """Raise ``JobError`` with the advice if a program (a path, or a name on the PATH) is missing on this node."""

    @abc.abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a file among the results."""

    @abc.abstractmethod
    def append(self, name: str, text: str) -> None:
        """Append to a file among the results."""

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file among the results."""

    def note(self, text: str) -> None:  # noqa: B027
        """Print a comment, in a dry run."""

    def read(self, name: str) -> str:
        """Return the text of a file among the results, an empty string if it cannot be read."""
        return self.host.read_text(self.file(name)) or ""

    @abc.abstractmethod
    def place(self, path: str, advice: str) -> contextlib.AbstractContextManager[None]:
        """Make a directory that is removed with all its files at the end of the with statement, whatever ends it.

        Raises ``JobError`` with the advice if it cannot be made.
        """
