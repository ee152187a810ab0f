# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on fio, IOR and mdtest, and on the reports of nodes. All functions but the readers are pure."""

from __future__ import annotations

import dataclasses
import math
import posixpath
import re
import statistics
import typing as t

from ..nccl.log import short_host
from ..storage.devices import INSTANCE_STORE_MODEL
from ..system.host import Host
from ..verdict import result, unique_json
from ..verdict.evidence import is_number
from .job import Job

# fio's JSON has these for each direction; which one counts depends on the type of run.
MEASURES = {"write": ("write", "bw_bytes"), "read": ("read", "bw_bytes"), "randread": ("read", "iops")}
# The median of fewer nodes does not single out one of them.
MIN_FOR_MEDIAN = 3
# Allowed difference between the clocks of two nodes, in seconds: our own choice, far more than with chrony, and less
# than the time between two jobs with the same number.
SKEW = 300
# mdtest's table: an operation, then Max, Min, Mean and Std Dev; before 3.4 the operation ends in a colon.
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_RATE = re.compile(
    rf"\s*(File (?:creation|stat|removal))\s*:?\s+({_NUMBER})\s+({_NUMBER})\s+({_NUMBER})\s+{_NUMBER}\s*"
)
# No storage moves more in a second, in any unit of these tools.
_MAX_VALUE = 1e15

# Printed by every mdtest; older ones write "nodes".
_LAUNCHED = re.compile(r"mdtest\S* was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node(?:\(s\)|s)")
_MPI_HINT = "Set slurm_jobs_mpi to what the program's MPI takes: without it each task is a run of its own"

Figures = dict[str, float]


def node_reports(job: Job, host: Host, check: str) -> list[result.Result]:
    """Return each node's verdicts from node-NAME.json, its name in every scope; CHECK.report for a node without one.

    A report of another node of this job does not count. Host names may differ from Slurm's, so it is recognized by the
    name of that node, or by two nodes with reports of one host. A report from outside of the job's time does not count.
    """
    reports = {node: _read_report(host, posixpath.join(job.results, f"node-{node}.json")) for node in job.nodes}
    now = result.moment(host.now())
    hosts = [report.host for report in reports.values() if report]
    found: list[result.Result] = []
    for node, report in reports.items():
        scope = result.Scope(node=node)
        if report is None:
            message = f"{node} gave no report; see node-{node}.err beside the results"
            found.append(result.undeterminable(f"{check}.report", "no_report", message=message, scope=scope))
            continue
        name = short_host(report.host)
        if name != node and (name in reports or hosts.count(report.host) > 1):
            message = f"node-{node}.json has the report of {report.host}; run the job again"
            found.append(result.undeterminable(f"{check}.report", "not_its_own", message=message, scope=scope))
            continue
        when = _other_time(report.time, job.started, now.timestamp() if now else None)
        if when:
            message = f"node-{node}.json {when}"
            found.append(result.undeterminable(f"{check}.report", "not_of_this_job", message=message, scope=scope))
            continue
        if all(entry.status == result.NOT_APPLICABLE for entry in report.results):
            message = f"no verdict of {node} is a pass: nothing of it was proved"
            found.append(result.undeterminable(f"{check}.report", "no_pass", message=message, scope=scope))
        for entry in report.results:
            found.append(dataclasses.replace(entry, scope=dataclasses.replace(entry.scope, node=node)))
    return found


def _other_time(text: str, started: float | None, now: float | None) -> str:
    """Return why a report of this time is not of a job that began at ``started``; empty if it is."""
    made = result.moment(text)
    if started is None:
        return "may be of an earlier job: render the script again with the role slurm_jobs"
    if made is None or now is None or not started - SKEW <= made.timestamp() <= now + SKEW:
        return (
            f"is of {text}, which is not within the time of this job; compare the node's clock, and run the job again"
        )
    return ""


def _read_report(host: Host, path: str) -> result.Report | None:
    try:
        report = result.loads(host.read_text(path) or "")
    except result.ResultError:
        return None
    return report if isinstance(report, result.Report) and report.results else None


def fio_figure(text: str | None, mode: str) -> float | str:
    """Return the figure of a run of fio (bytes/s, or operations/s for random reads), or the error.

    fio's JSON may contain NaN or Infinity: then the figure is not finite.
    """
    try:
        found = unique_json.loads((text or "")[(text or "").index("{") :])
        jobs = found["jobs"]
        errors = {job["error"] for job in jobs if job["error"] != 0}
        direction, key = MEASURES[mode]
        figure = _together([_figure(job[direction][key]) for job in jobs], sum)
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it printed no result"
    if errors:
        return f"it ended with error {', '.join(sorted(map(str, errors)))}"
    return figure if figure else "it moved nothing"


def place_problem(place: t.Any) -> str:
    """Return why the files of fio were not on local disks, by the record of ``local_io``; empty if they were."""
    if not isinstance(place, dict) or not isinstance(place.get("disks"), list):
        return "has no record of its disks: render the script again with the role slurm_jobs, and run the job again"
    if place.get("problem"):
        return f"is on unknown disks: {place['problem']}"
    rows = [disk if isinstance(disk, dict) else {} for disk in place["disks"]]
    others = [f"{row.get('kname')} ({row.get('model')})" for row in rows if row.get("model") != INSTANCE_STORE_MODEL]
    disks = f", on {', '.join(others)}" if others else ""
    if place.get("root") is not False:
        return f"is on the root disk ({place.get('fstype')}{disks})"
    if others:
        return f"is on disks other than the instance store: {', '.join(others)}"
    return "" if rows else f"is on no local disk: it is on {place.get('fstype')} at {place.get('mount_point')}"


def judge_places(directory: str, places: t.Mapping[str, t.Any]) -> tuple[list[result.Result], set[str]]:
    """Return the verdicts on whether a directory is on the local disks of each node, and the nodes where it is."""
    problems = {node: place_problem(place) for node, place in places.items()}
    proved = {node for node, problem in problems.items() if not problem}
    if proved == set(places):
        disks = {node: len(place["disks"]) for node, place in sorted(places.items())}
        message = f"{directory} is on the local disks of every node"
        return [result.passed("io.fio.place", disks, unit="disks", message=message)], proved
    return [
        result.undeterminable(
            "io.fio.place",
            "not_local_disks",
            message=f"{directory} on {node} {problem}",
            hint="Mount the local disks there, as the role nvme_raid0 does, or set slurm_jobs_local_dir to their mount",
            scope=result.Scope(node=node),
        )
        for node, problem in sorted(problems.items())
        if problem
    ], proved


def judge_fio(figures: t.Mapping[str, t.Mapping[str, float | str]], tolerance: float) -> list[result.Result]:
    """Return the verdicts on each place and mode (``PLACE MODE``): nodes against their median, tolerance in percent.

    A node without a figure is accused only if another node has one.
    """
    results: list[result.Result] = []
    if not is_number(tolerance) or not 0 <= tolerance < 100:
        message = f"median_percent reads '{tolerance}': render the script again with the role slurm_jobs"
        return [result.undeterminable("io.fio.median", "no_tolerance", message=message)]
    for what, by_node in sorted(figures.items()):
        mode = what.rpartition(" ")[2]
        check, unit = f"io.fio.{mode}", "1/s" if MEASURES[mode][1] == "iops" else "B/s"
        unread = {node: figure for node, figure in by_node.items() if _is_no_number(figure)}
        for node, figure in sorted(unread.items()):
            field = ".".join(MEASURES[mode])
            results.append(_unread(check, f"fio, {what} on {node}: {field} reads '{figure}'", result.Scope(node=node)))
        by_node = {node: figure for node, figure in by_node.items() if node not in unread}
        good = {node: figure for node, figure in by_node.items() if not isinstance(figure, str)}
        common = "; it failed on every node, so the cause is common to all" if len(by_node) > 1 else ""
        for node, figure in sorted(by_node.items()):
            if isinstance(figure, str):
                results.append(
                    result.failed(
                        check,
                        f"fio, {what} on {node}: {figure}{'' if good else common}",
                        severity="isolate" if good else "monitor",
                        found=figure,
                        scope=result.Scope(node=node),
                    )
                )
        if good:
            results += _against_median(check, unit, what, good, tolerance)
    return results


def _figure(value: object) -> float:
    """Return a figure of a tool. Raises TypeError if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _together(figures: t.Sequence[float], combine: t.Callable[[t.Sequence[float]], float]) -> float:
    """Return several figures as one; a figure that proves nothing takes precedence."""
    return next(filter(_is_no_number, figures), combine(figures))


def _is_no_number(figure: float | str | None) -> bool:
    """Return whether a figure proves nothing: NaN, infinite, less than zero, or more than any storage moves."""
    return isinstance(figure, float) and not 0 <= figure <= _MAX_VALUE


def _unread(check: str, message: str, scope: result.Scope | None = None) -> result.Result:
    hint = "Run it again: the program printed no number in the place of its figure"
    return result.undeterminable(check, "unread", message=message, hint=hint, scope=scope or result.Scope())


def _against_median(
    check: str, unit: str, what: str, good: t.Mapping[str, float], tolerance: float
) -> list[result.Result]:
    rounded = {node: round(figure) for node, figure in sorted(good.items())}
    if len(good) < MIN_FOR_MEDIAN:
        return [
            result.undeterminable(
                check,
                "no_median",
                found=rounded,
                unit=unit,
                message=f"{what}: {len(good)} nodes have no median to be compared with",
                hint=f"Run it on {MIN_FOR_MEDIAN} nodes of the same type or more",
            )
        ]
    median = statistics.median(good.values())
    minimum = median * (1 - tolerance / 100)
    slow = {node: figure for node, figure in rounded.items() if good[node] < minimum}
    if not slow:
        return [
            result.passed(
                check, rounded, expected=round(minimum), unit=unit, message=f"{what}: no node is below the median"
            )
        ]
    return [
        result.failed(
            check,
            f"{what}: {node} has {figure} {unit}, and the median of {len(good)} nodes is {round(median)}",
            severity="isolate",
            expected=round(minimum),
            found=figure,
            unit=unit,
            source="median of the nodes of this job",
            scope=result.Scope(node=node),
        )
        for node, figure in slow.items()
    ]


def ior_figures(text: str | None) -> Figures:
    """Return MiB/s by operation (write, read) from IOR's JSON summary; empty if it is not valid."""
    try:
        found: dict[str, list[float]] = {}
        for entry in unique_json.loads(text or "")["summary"]:
            found.setdefault(str(entry["operation"]), []).append(_figure(entry["bwMaxMIB"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    # The smallest of several counts.
    return {name: _together(several, min) for name, several in found.items()}


def ior_problem(text: str | None, nodes: int, tasks: int) -> str:
    """Return why IOR's JSON summary is not of one run with so many tasks on each node; empty where it is."""
    try:
        rows = [(entry["numTasks"], entry["tasksPerNode"]) for entry in unique_json.loads(text or "")["summary"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "its summary does not give the numbers of its tasks"
    if rows and all(row == (nodes * tasks, tasks) for row in rows):
        return ""
    found = next((row for row in rows if row != (nodes * tasks, tasks)), ("no", "none"))
    return f"it had {found[0]} tasks, {found[1]} a node, where {nodes * tasks} were requested, {tasks} a node"


def mdtest_problem(text: str | None, nodes: int, tasks: int) -> str:
    """Return why an output of mdtest is not of one run with so many tasks on each node; empty where it is."""
    rows = [(int(of), int(on)) for of, on in _LAUNCHED.findall(text or "")]
    if rows == [(nodes * tasks, nodes)]:
        return ""
    if not rows:
        return "its output does not give the numbers of its tasks and nodes"
    several = f"it ran {len(rows)} times" if len(rows) > 1 else f"it had {rows[0][0]} tasks on {rows[0][1]} nodes"
    return f"{several}, where one run with {nodes * tasks} tasks on {nodes} nodes was requested"


def mdtest_figures(text: str | None) -> Figures:
    """Return operations/s (the mean) by operation from mdtest's table; the smallest of several counts.

    A row whose mean is not between its smallest and its largest figure has other columns, and does not count.
    """
    figures: Figures = {}
    for found in filter(None, (_RATE.fullmatch(line) for line in (text or "").splitlines())):
        maximum, minimum, mean = map(float, found.groups()[1:])
        if minimum <= mean <= maximum:
            figures[found.group(1)] = min(figures.get(found.group(1), mean), mean)
    return figures


def _other_run(check: str, problem: str, found: object = None) -> result.Result:
    return result.undeterminable(check, "other_run", message=problem, found=found, hint=_MPI_HINT)


def judge_ior(figures: Figures, minimum: t.Mapping[str, float], rc: int, problem: str = "") -> list[result.Result]:
    """Return io.ior.write and io.ior.read against the least MiB/s that the site expects (0: unknown).

    ``problem`` is of ``ior_problem``: another run than the one that was requested proves nothing.
    """
    results = []
    for operation in ("write", "read"):
        check = f"io.ior.{operation}"
        figure, wanted = figures.get(operation), _expected_figure(minimum.get(operation))
        if _is_no_number(figure) and not rc:
            results.append(_unread(check, f"bwMaxMIB of {operation} in ior.out reads '{figure}'"))
        elif rc or not figure:
            why = f"IOR ended with {rc}" if rc else f"IOR gives no figure for {operation}"
            found = None if _is_no_number(figure) else figure
            results.append(result.failed(check, f"{why}; see ior.out beside the results", found=found))
        elif problem:
            results.append(_other_run(check, f"IOR: {problem}", round(figure, 1)))
        elif wanted is None:
            results.append(
                result.undeterminable(
                    check,
                    "no_figure",
                    found=round(figure, 1),
                    unit="MiB/s",
                    message=f"{figure:.0f} MiB/s, and no expected value is set",
                    hint=f"Set least_{operation}_mib to what this file system is provisioned for",
                )
            )
        elif figure < wanted:
            results.append(
                result.failed(
                    check,
                    f"{figure:.0f} MiB/s, and at least {wanted:g} are wanted",
                    expected=wanted,
                    found=round(figure, 1),
                    unit="MiB/s",
                )
            )
        else:
            results.append(
                result.passed(check, round(figure, 1), expected=wanted, unit="MiB/s", message=f"{figure:.0f} MiB/s")
            )
    return results


def _expected_figure(value: object) -> float | None:
    """Return the smallest figure that a site accepts; None for 0 and for values that no figure can be compared with."""
    return value if isinstance(value, (int, float)) and is_number(value) and value > 0 else None


def judge_mdtest(figures: Figures, rc: int, problem: str = "") -> result.Result:
    """Return io.mdtest: whether files were made, looked up and removed; no expected figure is known.

    ``problem`` is of ``mdtest_problem``.
    """
    wanted = {"File creation", "File stat", "File removal"}
    lacking = sorted(name for name in wanted if not figures.get(name))
    if rc or lacking:
        why = f"mdtest ended with {rc}" if rc else f"mdtest gives no rate for {', '.join(lacking)}"
        return result.failed("io.mdtest", f"{why}; see mdtest.out beside the results", found=figures)
    if problem:
        return _other_run("io.mdtest", f"mdtest: {problem}", figures)
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in sorted(figures.items()))
    return result.passed("io.mdtest", figures, unit="1/s", message=f"{rates} a second")


def judge_cache(size: int, memory: int, nodes: int, problem: str = "") -> result.Result:
    """Return io.cache: whether the data may have come from the memory of the nodes. Bytes of one node.

    ``problem`` is of ``ior_problem``: a task that is a run of its own reads what it wrote itself.
    """
    if size <= 0 or memory <= 0:
        message = f"ran.json gives {size} bytes read and {memory} bytes of memory"
        return result.undeterminable("io.cache", "unread", message=message, hint="See ran.json and /proc/meminfo")
    if problem:
        return _other_run("io.cache", f"IOR: {problem}", size)
    if size > memory:
        return result.passed("io.cache", size, expected=memory, unit="B", message="more than a node's memory was read")
    if nodes > 1:
        return result.passed(
            "io.cache", size, expected=memory, unit="B", message="each node read what another one had written"
        )
    return result.undeterminable(
        "io.cache",
        "fits_into_memory",
        expected=memory,
        found=size,
        unit="B",
        message="one node read back what it wrote, and that fits into its memory",
        hint="Raise memory_percent above 100, or run it on two nodes",
    )
