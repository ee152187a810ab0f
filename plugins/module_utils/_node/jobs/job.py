# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A finished job, as input for verdicts."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Job:
    """A finished job: its request (see slurm_jobs' data model), its nodes in Slurm's order, its results.

    ``asked`` has all options of the kind; of a script from a release without NAME.json only those of ``Kind.asked``.
    ``started`` is when it began, in seconds since 1970; None if its script is of a release that did not record it.
    """

    asked: t.Mapping[str, t.Any]
    nodes: tuple[str, ...]
    results: str
    started: float | None = None

    @property
    def tasks(self) -> int:
        """The requested number of tasks on each node."""
        return int(self.asked["tasks_per_node"])

    @property
    def ranks(self) -> int:
        """The requested number of ranks on each node; one task of nccom-test stands for all ranks of its node."""
        return int(self.asked.get("workers_per_node") or self.tasks)
