# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One validation from the head node: submit jobs, follow them, make their verdict, and drain nodes if requested."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import typing as t

from ..slurm import drain
from ..slurm import job as slurm_job
from ..slurm import request as slurm_request
from ..slurm.client import Slurm
from ..slurm.follow import Entry, follow
from ..slurm.look import survey
from ..slurm.shortages import find_shortages
from ..system.host import Host, NodeError
from .files import JOB_MARK
from .kinds import JOB_KINDS
from .options import NAME
from .spec import RENDER, SCHEMA, Spec, parse
from .validation import MARK, collect
from .verify import REPORT

# Seconds that a command of a drain may take.
DRAIN_SECONDS = 20.0

Progress = t.Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a validation.

    ``directory`` is the role's directory, ``names`` are the jobs in order (empty: all that have a verdict). ``nodes``
    is a number, ``all`` (of the partition) or empty (the setting of each job); ``nodelist`` is an explicit list of
    nodes. ``timeout`` is in seconds, for each job; ``undrain`` names nodes to resume first.
    """

    directory: str
    names: tuple[str, ...] = ()
    nodes: str = ""
    nodelist: tuple[str, ...] = ()
    partition: str = ""
    timeout: float = 7200
    drain: bool = False
    undrain: tuple[str, ...] = ()
    cluster: str = ""


@dataclasses.dataclass
class Run:
    """A job of the validation: its submission and its end."""

    spec: Spec
    request: slurm_job.Request
    script: t.Optional[str]
    taken: t.Optional[int] = None
    entry: t.Optional[Entry] = None
    message: t.Optional[str] = None
    # Time of the submission, in ISO 8601; None for a job that existed before.
    since: t.Optional[str] = None

    @property
    def asked(self) -> slurm_request.Options:
        """Return the effective options of sbatch: given options take precedence over those of the script."""
        return {**slurm_request.directives(self.script or ""), **self.request.options}


def find_jobs(host: Host, directory: str, names: t.Sequence[str] = ()) -> tuple[list[Spec], list[str]]:
    """Return the jobs of a validation, and a message for each name that is not a job."""
    split = map(posixpath.splitext, host.listdir(directory))
    rendered = sorted({name for name, end in split if end in (".json", ".sbatch")})
    specs, problems = [], []
    for name in names or rendered:
        path = posixpath.join(directory, f"{name}.json")
        document = host.read_json(path) if NAME.fullmatch(name) else None
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            # The verdict would not show that such a job is missing.
            if not names and JOB_MARK in (host.read_text(posixpath.join(directory, f"{name}.sbatch")) or ""):
                problems.append(f"{path} does not fit {name}.sbatch, and that job would have no verdict: {RENDER}")
            if names:
                problems.append(f"{directory} has no job {name}: use one that the role slurm_jobs has rendered there")
            continue
        try:
            spec = parse(host.read_text(path) or "", path, JOB_KINDS)
        except NodeError as exc:
            problems.append(str(exc))
            continue
        if JOB_KINDS[spec.kind].judge is not None:
            specs.append(spec)
        elif names:
            problems.append(
                f"{name} is a {spec.kind}, which validates nothing, and the timeout would cancel it: submit it with "
                "submit-training or sbatch"
            )
    if not specs and not problems:
        problems.append(f"{directory} has no job with a verdict: apply the role slurm_jobs, or set its slurm_jobs_dir")
    return specs, problems


def node_problems(options: Options, facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return a message for each node that Slurm does not know, or that must not be resumed."""
    reasons = {node["name"]: node["reason"] or "" for node in facts["nodes"]}
    return [f"Slurm knows no node {name}: use one that sinfo shows" for name in options.nodelist
            if name not in reasons] + [
        f"{name} is not drained by mlcluster and was not changed: the user who drained it has to resume it"
        for name in options.undrain if not reasons.get(name, "").startswith(MARK)
    ]  # fmt: skip


def sbatch_options(
    options: Options, stated: slurm_request.Options, facts: t.Mapping[str, t.Any]
) -> dict[str, t.Optional[str]]:
    """Return the options for sbatch in addition to those of the script (``stated``)."""
    given: dict[str, t.Optional[str]] = {"partition": options.partition} if options.partition else {}
    if options.nodelist:
        return {**given, "nodes": str(len(options.nodelist)), "nodelist": ",".join(options.nodelist)}
    if options.nodes != "all":
        return {**given, "nodes": options.nodes} if options.nodes else given
    chosen = slurm_request.chosen_partitions({**stated, **given}, facts)
    return {**given, "nodes": str(max((entry["node_count"] for entry in chosen), default=1))}


class Validation:
    """One run of a validation; ``progress`` is called with each line, ``changed`` is true after the first change."""

    def __init__(self, slurm: Slurm, options: Options, progress: Progress) -> None:
        self.slurm, self.options, self.progress = slurm, options, progress
        self.changed = False
        self.facts: dict[str, t.Any] = {}
        self.runs: list[Run] = []

    def prepare(self) -> None:
        """Check everything before the first change. Raises ``NotSubmittedError``, or ``NodeError``."""
        self.facts = survey(self.slurm)
        if not self.facts["healthy"]:
            raise NodeError("; ".join(self.facts["problems"]) + ": run this on a node that submits jobs")
        specs, problems = find_jobs(self.slurm.host, self.options.directory, self.options.names)
        problems += node_problems(self.options, self.facts)
        if problems:
            raise slurm_request.NotSubmittedError(problems)
        for spec in specs:
            try:
                problems += self._prepare(spec)
            except NodeError as exc:
                problems.append(f"job {spec.name}: {exc}")
        # A job that exists already is only followed, so the current state of the nodes does not matter.
        asked = {run.spec.name: run.asked for run in self.runs if run.taken is None}
        problems += find_shortages(asked, self.facts, self.options.undrain)
        if problems:
            raise slurm_request.NotSubmittedError(problems)

    def _prepare(self, spec: Spec) -> list[str]:
        stated = slurm_request.directives(self.slurm.host.read_text(spec.script) or "")
        wanted = slurm_job.Request(
            script=spec.script,
            options=sbatch_options(self.options, stated, self.facts),
            unique=True,
            exit_file=spec.exit_file,
        )
        request, text = slurm_job.prepare(self.slurm, wanted)
        run = Run(spec, request, text)
        if text is not None:
            run.taken = slurm_job.find(self.slurm, request)
        if run.taken is None:
            found = slurm_job.problems(self.slurm, request, text, self.facts)
            if found:
                return [f"job {spec.name}: {slurm_request.RequestError(found)}"]
        self.runs.append(run)
        return []

    def preview(self) -> None:
        """Report the jobs that would be submitted, with Slurm's forecast."""
        for run in self.runs:
            if run.taken is not None:
                self.progress(f"{run.spec.name}: job {run.taken} exists already, and would be followed")
                continue
            words = slurm_request.argv(run.request.script, run.request.options, run.request.arguments)
            try:
                forecast = slurm_job.test_only(self.slurm, run.request)
            except NodeError as exc:
                forecast = str(exc)
            self.progress(f"{run.spec.name}: sbatch {' '.join(words)}: {forecast}")

    def submit(self) -> None:
        """Resume the requested nodes, and submit each job that does not exist already."""
        for name in self.options.undrain:
            drain.update(self.slurm, name, DRAIN_SECONDS, "State=RESUME")
            self.changed = True
        for run in self.runs:
            since = self.slurm.host.now()
            try:
                number, submitted = slurm_job.submit_once(self.slurm, run.request, self.progress)
            except NodeError as exc:
                # A rejection by Slurm is part of the verdict.
                run.message = str(exc)
                self.progress(f"{run.spec.name}: {exc}")
                continue
            self.changed = self.changed or submitted
            run.since = since if submitted else None
            run.entry = Entry(run.spec.name, number, run.request.exit_file)

    def follow(self) -> None:
        """Follow each job to its end, or cancel it when its time is over."""
        entries = [run.entry for run in self.runs if run.entry]
        follow(self.slurm, entries, self.progress, self.options.timeout, cancel_on_timeout=True)

    def judge(self) -> dict[str, t.Any]:
        """Return the verdict on all jobs together, ``mlcluster.validation/1``."""
        runs = [
            {
                "name": run.spec.name,
                "job": run.entry and (run.entry.job or slurm_job.submitted_job(run.entry.job_id)),
                "report": run.entry and self._report(run.entry),
                "since": run.since,
                "message": (run.entry.msg or None) if run.entry else run.message,
            }
            for run in self.runs
        ]
        return collect(runs, self.options.cluster, self.slurm.host.now(), self.options.nodelist)

    def _report(self, entry: Entry) -> t.Optional[str]:
        """Return the report of a job; None if another user owns it, since all users may write there."""
        directory = posixpath.join(self.options.directory, "results", f"{entry.name}-{entry.job_id}")
        info = self.slurm.host.stat(directory)
        if not info or not info["is_dir"] or info["uid"] != self.slurm.host.own_uid():
            return None
        return self.slurm.host.read_text(posixpath.join(directory, REPORT))

    def drain(self, verdict: t.Mapping[str, t.Any]) -> list[str]:
        """Drain the nodes that failures single out; return a message for each undrained one."""
        failed = []
        for node, reason in verdict["bad_nodes"].items():
            try:
                state = drain.state_of(self.slurm, node, DRAIN_SECONDS)
                drain_reason = state["reason"] or ""
                if "DRAIN" in state["flags"] and drain_reason and not drain_reason.startswith(MARK):
                    self.progress(
                        f"{node} was skipped, for it is drained already and the reason is not of mlcluster: "
                        f"{drain_reason}"
                    )
                    continue
                drain.update(self.slurm, node, DRAIN_SECONDS, "State=DRAIN", f"Reason={reason}")
                self.changed = True
                self.progress(f"drained {node}: {reason}")
            except NodeError as exc:
                failed.append(f"{node} could not be drained by scontrol ({exc})")
        return failed

    @property
    def file(self) -> str:
        """Return the path of the stored verdict."""
        first = next((run.entry.job_id for run in self.runs if run.entry), "none")
        return posixpath.join(self.options.directory, "results", f"validation-{first}.json")

    def keep(self, verdict: t.Mapping[str, t.Any]) -> list[str]:
        """Write the verdict beside the results; return a message if that fails."""
        try:
            self._set_earlier_aside()
            self.slurm.host.write_text(self.file, json.dumps(verdict, indent=4) + "\n")
        except OSError as exc:
            return [f"the verdict was not written to {self.file}: {exc.strerror or exc}"]
        self.changed = True
        return []

    def _set_earlier_aside(self) -> None:
        """Rename the verdict of an earlier job of this number: a new head node counts its jobs from 1 again."""
        host, earlier = self.slurm.host, 1
        state = host.stat(self.file)
        if not state or state["is_dir"] or not any(run.entry for run in self.runs):
            return
        while host.stat(f"{self.file}.earlier-{earlier}"):
            earlier += 1
        host.rename(self.file, f"{self.file}.earlier-{earlier}")
