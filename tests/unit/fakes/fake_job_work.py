# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job of any kind, complete as the role writes it, and a job at work of which no step runs."""

from __future__ import annotations

import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.dry_run import DryWork
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Container, Spec
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.step import Step
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

TOOLS = {"nccl_tests_dir": "/opt/nccl-tests", "data_python": "python3", "nccom_test": "nccom-test", "gdsio": ""}
SETTINGS = {"local_dir": "/local", "dir": "/fsx/jobs", "ends_at": "", "capacity": []}


def spec_of(kind: str, container: Container | None = None, tasks: int = 2, **options: t.Any) -> Spec:
    """The smallest job x of a kind on two nodes with two GPUs each, with more options."""
    of = JOB_KINDS[kind]
    values = of.values({**of.example, **options})
    values.update(of.fill(values, SETTINGS))
    tools = {tool: TOOLS.get(tool, tool) for tool in of.tools}
    asked = {"kind": kind, "name": "x", "instance_type": None, **{key: values[key] for key in of.asked}}
    return Spec(
        "x", kind, "/fsx/jobs", "python3", 2, tasks, 2, "pmix", {"A": "b c"}, container, "", (), values, tools, asked
    )


class FakeWork(DryWork):
    """A job at work. ``statuses`` gives the exit status of a step by a word of it, ``answers`` what one prints;
    ``files`` are those among its results.
    """

    dry = False

    def __init__(self, spec: Spec, nodes: t.Sequence[str] = ("n1", "n2")) -> None:
        super().__init__(spec, Host(), "7", nodes, "7-0")
        self.statuses: dict[str, int] = {}
        self.answers: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.batches: list[list[str]] = []

    def together(self, steps: t.Sequence[Step]) -> list[int]:
        """Run nothing; remember the steps that were to run in parallel."""
        self.batches.append([step.line() for step in steps])
        return [self._status(step) for step in steps]

    def _status(self, step: Step) -> int:
        return next((status for word, status in self.statuses.items() if word in step.argv), 0)

    def ask(self, *argv: str) -> str:
        """Return the answer to a program."""
        return self.answers.get(argv[0], "")

    def write(self, name: str, text: str) -> None:
        """Keep a file."""
        self.files[name] = text

    def append(self, name: str, text: str) -> None:
        """Keep what comes behind a file."""
        self.files[name] = self.files.get(name, "") + text

    def remove(self, name: str) -> None:
        """Forget a file."""
        self.files.pop(name, None)

    def read(self, name: str) -> str:
        """Return a file."""
        return self.files.get(name, "")
