# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a job in its batch step: earlier results, steps, verdict, exit status, whatever ends it."""

from __future__ import annotations

import os
import platform
import posixpath
import signal
import typing as t

from ..system.host import Host, NodeError
from ..verdict import result
from .job import Job
from .kind import Kind, Submit
from .kinds import JOB_KINDS
from .live import ENDING, LiveWork, Signals, write
from .results import Results
from .spec import Spec, parse
from .step import enroot_variables, own_variables
from .verify import judge_job, write_report
from .work import JobError, SignalError, Work


def load(host: Host, path: str) -> Spec:
    """Return the job of a file. Raises NodeError."""
    text = host.read_text(path)
    if text is None:
        raise NodeError(f"{path} could not be read: use the file NAME.json beside the script of the job")
    return parse(text, path, JOB_KINDS)


def run_job(spec: Spec, host: Host, variables: t.Mapping[str, str], version: str, options: t.Sequence[str] = ()) -> int:
    """Run the job in this process, which Slurm started as its batch step, and return its exit status.

    The script of an array that is started by hand submits itself, with more ``options`` of sbatch.
    """
    kind = JOB_KINDS[spec.kind]
    os.umask(0o022)
    own = {**own_variables(variables, spec.sbatch, spec.container), **enroot_variables(spec.container)}
    if kind.submit and not own.get("SLURM_ARRAY_TASK_ID"):
        return _submit(spec, host, own, kind.submit, options)
    number = job_number(kind.array, own)
    signals = Signals(ENDING, (signal.SIGUSR1,)) if kind.signal else Signals((*ENDING, signal.SIGUSR1))
    results = Results(spec.name, posixpath.join(spec.dir, "results", f"{spec.name}-{number}"))
    work = LiveWork(spec, host, number, (), own, signals, results, version)
    try:
        status = _run(work, kind)
    except SignalError as exc:
        status = exc.status
    except JobError as exc:
        work.log(str(exc), 2)
        status = exc.status
    except BaseException:
        results.keep_status(result.EXIT_UNDETERMINABLE)
        raise
    try:
        if signals.received and not kind.signal:
            status = 128 + signals.received[0]
        results.keep_status(status)
        work.terminate()
        work.wait_for_the_end()
    finally:
        signals.close()
    return status


def _submit(spec: Spec, host: Host, variables: t.Mapping[str, str], submit: Submit, options: t.Sequence[str]) -> int:
    _enter(spec)
    signals = Signals(())
    work = LiveWork(spec, host, "", (platform.node(),), variables, signals, Results(spec.name, ""), "")
    try:
        return submit(work, options)
    finally:
        signals.close()


def _enter(spec: Spec) -> None:
    """Change to the directory of the jobs, which has the data programs."""
    try:
        os.chdir(spec.dir)
    except OSError as exc:
        raise NodeError(f"{spec.dir} cannot be entered ({exc.strerror}): mount the shared directory") from None


def run_part(spec: Spec, host: Host, variables: t.Mapping[str, str], part: t.Callable[[Work], int]) -> int:
    """Run this node's part of a job, as a task of a step; return its exit status."""
    os.umask(0o022)
    number = job_number(False, variables)
    node = variables.get("SLURMD_NODENAME") or platform.node()
    signals = Signals((*ENDING, signal.SIGUSR1))
    results = Results(spec.name, posixpath.join(spec.dir, "results", f"{spec.name}-{number}"))
    work = LiveWork(spec, host, number, (node,), variables, signals, results, "")
    # The batch step stores the status of the job.
    work.keeps_at_once = False
    try:
        return part(work)
    except SignalError as exc:
        return exc.status
    except JobError as exc:
        work.log(str(exc), 2)
        return exc.status
    finally:
        work.terminate()
        work.wait_for_the_end()
        signals.close()


def job_number(array: bool, variables: t.Mapping[str, str]) -> str:
    """Return the number in the names of a job's files. Raises NodeError outside of a job."""
    names = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID") if array else ("SLURM_JOB_ID",)
    if not all(variables.get(name) for name in names):
        raise NodeError(
            f"{' and '.join(names)} are not set, so this is not a job of Slurm: submit the script with sbatch, or use "
            "--dry-run to see the steps"
        )
    return "_".join(variables[name] for name in names)


def _run(work: LiveWork, kind: Kind) -> int:
    spec = work.spec
    again = "requeue" in spec.sbatch and work.variables.get("SLURM_RESTART_COUNT", "0") not in ("", "0")
    line = work.kept.set_earlier_aside(again)
    if line:
        work.log(line)
    if kind.judge:
        work.kept.make()
    if kind.array:
        _enter(spec)
    else:
        nodelist = work.variables.get("SLURM_JOB_NODELIST", "")
        work.nodes = tuple(work.ask("scontrol", "show", "hostnames", nodelist).split())
        if not work.nodes:
            raise JobError(f"scontrol show hostnames {nodelist} printed no node: check that scontrol runs on this node")
    status = kind.run(work)
    work.stop_if_signalled()
    return verdict(work) if status is None else status


def verdict(work: LiveWork) -> int:
    """Judge the results and print the report; return its exit code. Raises ``JobError``."""
    try:
        asked = {**work.spec.values, **work.spec.asked}
        results = judge_job(Job(asked, work.nodes, work.results, work.started), work.host)
    except NodeError as exc:
        raise JobError(str(exc), result.EXIT_USAGE) from None
    try:
        report = write_report(work.host, work.results, results, work.version)
    except OSError as exc:
        raise JobError(f"the report in {work.results} could not be written: {exc.strerror}") from None
    printed = write(1, "\n".join(report.lines()) + "\n")
    # As with every verb: the output could not be written, so the verdict was not received.
    return result.exit_code(results) or (result.EXIT_OK if printed else result.EXIT_UNDETERMINABLE)
