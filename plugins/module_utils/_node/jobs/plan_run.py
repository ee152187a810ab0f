# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the trainings of a plan from the head node: submit each model once, the largest first, and follow them."""

from __future__ import annotations

import posixpath
import typing as t

from ..slurm import job as slurm_job
from ..slurm import plan as slurm_plan
from ..slurm import request as slurm_request
from ..slurm.client import Slurm
from ..slurm.follow import Entry, follow, sentence
from ..slurm.look import survey
from ..system.host import NodeError

Progress = t.Callable[[str], None]
Judged = t.Mapping[str, t.Any]


class InvalidPlanError(slurm_request.NotSubmittedError):
    """The plan itself is invalid, whatever the cluster has."""


def scripts(judged: Judged, directory: str) -> dict[str, str]:
    """Return the script of each model: its own, or the one that the role rendered under its name."""
    return {
        entry["name"]: entry["script"] or posixpath.join(directory, f"{entry['name']}.sbatch")
        for entry in judged["submissions"]
    }


def duplicate_scripts(script_of: t.Mapping[str, str]) -> list[str]:
    """Return a message for each script of two models."""
    users: dict[str, list[str]] = {}
    for name, script in script_of.items():
        users.setdefault(posixpath.normpath(script), []).append(name)
    return [
        f"{script} would run twice, for the models {' and '.join(sorted(names))}, and both would write into the same "
        "checkpoints: give each its own"
        for script, names in users.items()
        if len(names) > 1
    ]


class PlanRun:
    """One run of a plan; ``progress`` is called with each line, ``changed`` is true after a submission."""

    def __init__(self, slurm: Slurm, directory: str, progress: Progress) -> None:
        self.slurm, self.directory, self.progress = slurm, directory, progress
        self.changed = False
        self.requests: dict[str, slurm_job.Request] = {}
        self.entries: list[Entry] = []

    def prepare(self, plan: t.Any) -> None:
        """Check everything before the first submission. Raises ``InvalidPlanError``, and ``NodeError`` for the rest."""
        judged = slurm_plan.judge(plan)
        script_of = scripts(judged, self.directory)
        problems = judged["problems"] or duplicate_scripts(script_of)
        if problems:
            raise InvalidPlanError(problems)
        for note in judged["notes"]:
            self.progress(note)
        self.progress(", ".join(f"{key} {value}" for key, value in judged["totals"].items() if value is not None))
        facts = survey(self.slurm)
        if not facts["healthy"]:
            raise NodeError("; ".join(facts["problems"]) + ": run this on a node that submits jobs")
        for entry in judged["submissions"]:
            try:
                self._prepare(entry, script_of[entry["name"]], facts)
            except NodeError as exc:
                problems = [*problems, f"model {entry['name']}: {exc}"]
        if problems:
            raise slurm_request.NotSubmittedError(problems)

    def _prepare(self, entry: t.Mapping[str, t.Any], script: str, facts: dict[str, t.Any]) -> None:
        wanted = slurm_job.Request(
            script=script,
            options=slurm_request.parse_options(entry["options"]),
            unique=True,
            exit_file=posixpath.join(self.directory, "results", f"{entry['name']}-%j.exit"),
        )
        request, text = slurm_job.prepare(self.slurm, wanted)
        if text is None or slurm_job.find(self.slurm, request) is None:
            problems = slurm_job.problems(self.slurm, request, text, facts)
            if problems:
                raise slurm_request.RequestError(problems)
            slurm_job.test_only(self.slurm, request)
        self.requests[entry["name"]] = request

    def submit(self) -> list[str]:
        """Submit each model that is not queued or running; return a message for each that Slurm rejected."""
        failed = []
        for name, request in self.requests.items():
            try:
                number, submitted = slurm_job.submit_once(self.slurm, request, self.progress)
            except NodeError as exc:
                failed.append(f"model {name}: {exc}")
                continue
            self.changed = self.changed or submitted
            self.entries.append(Entry(name, number, request.exit_file))
            self.progress(f"{name}: job {number}")
        return failed

    def follow(self, timeout: float) -> list[str]:
        """Follow each job to its end; return a message for each unsuccessful one."""
        follow(self.slurm, self.entries, self.progress, timeout)
        return [text for text in map(sentence, self.entries) if text]
