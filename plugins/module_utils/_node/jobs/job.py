# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that ran, for the code that makes its verdicts."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Job:
    """A job that ran: what it was asked for (see slurm_jobs' data model), its nodes in Slurm's order, its results.

    ``started`` is when it began, in seconds since 1970; None if its script is of a release that did not record it.
    """

    asked: t.Mapping[str, t.Any]
    nodes: tuple[str, ...]
    results: str
    started: float | None = None

    @property
    def tasks(self) -> int:
        """How many tasks each node was to have."""
        return int(self.asked["tasks_per_node"])

    @property
    def ranks(self) -> int:
        """How many ranks of a collective each node was to have; one task of nccom-test stands for all of its node."""
        return int(self.asked.get("workers_per_node") or self.tasks)
