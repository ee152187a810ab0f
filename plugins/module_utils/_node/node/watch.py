# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of the timer: the light health check and the counters, written for node_exporter's textfile collector."""

from __future__ import annotations

import dataclasses
import functools
import socket
import time
import typing as t

from ..accelerator.look import pci_gpus
from ..accelerator.parse import parse_nvlink_counters
from ..efa.look import devices
from ..health import expectations, profiles
from ..health.system import versions
from ..slurm.client import Slurm
from ..storage.record import RECORD_PATH, read_document
from ..system.ask import ask
from ..system.host import Host, NodeError
from ..system.instance import instance_type
from ..system.parallel import STATE_DIRECTORY, Check, run_all
from ..verdict.result import PASS, Report, Result, not_applicable, passed, undeterminable
from . import job_labels, step_times
from .metrics import Extras, render

# Prolog and Epilog hold it shared, a run exclusively: no run overlaps a Prolog or another run.
LOCK = "/run/mlcluster/watch.lock"
LOCK_SECONDS = 10
FILE = "mlcluster.prom"
# For everything together. A Prolog waits for the lock a second longer than this.
SECONDS = 4.0
SLURM_SECONDS = 1.5
EFA, NVLINK, JOBS = "efa.counters", "gpu.nvlink_counters", "slurm.job_labels"


@dataclasses.dataclass(frozen=True)
class Options:
    """directory: the path that node_exporter reads. period: seconds between two runs."""

    directory: str
    period: int
    health_options: profiles.Options = dataclasses.field(default_factory=profiles.Options)
    runtime_version: str = ""
    lock: str = LOCK
    labels: str = job_labels.DIRECTORY
    steps: str = step_times.DIRECTORY
    state: str = STATE_DIRECTORY


def run(host: Host, options: Options) -> list[Result]:
    """Look, and replace the file; return the verdicts. Raises ``NodeError`` if it could not be written.

    The old file stays then, and its age shows that it is old.
    """
    with host.locked(options.lock, LOCK_SECONDS):
        started = host.monotonic()
        uptime, now = _uptime(host), time.time()
        answers = run_all(host, checks(host, options), SECONDS, options.state)
        results, known = profiles.split(answers)
        jobs = _jobs(results)
        extras = Extras(
            uptime=uptime,
            time=now,
            period=options.period,
            seconds=round(host.monotonic() - started, 3),
            versions={"version": options.runtime_version, **versions(host, {}), **known},
            storage=read_document(host, RECORD_PATH) or {},
            efa=_found(results, EFA),
            nvlink=_found(results, NVLINK),
            jobs=jobs,
            steps=step_times.read(host, jobs, options.steps),
        )
        report = Report(host=socket.gethostname(), time=host.now(), results=tuple(results))
        path = f"{options.directory}/{FILE}"
        try:
            host.write_text(path, render(report, extras), 0o644)
        except OSError as exc:
            raise NodeError(f"could not write {path} ({exc.strerror or exc}): look with 'df' and 'mount'") from exc
    return results


def checks(host: Host, options: Options) -> list[Check]:
    """Return the light health check, and a bounded look at each kind of counter."""
    health_options = options.health_options
    expect = expectations.resolve(health_options.expectations, health_options.instance_type or instance_type(host))
    slurm = Slurm(host, health_options.slurm_prefix, health_options.slurm_conf)
    more: dict[str, t.Callable[[Host], t.Sequence[Result]]] = {
        EFA: check_efa,
        NVLINK: check_nvlink,
        JOBS: functools.partial(check_jobs, slurm=slurm, directory=options.labels),
    }
    light = profiles.checks("prolog", health_options, expect, SECONDS)
    return light + [Check(name, look, SECONDS) for name, look in more.items()]


def check_efa(host: Host) -> list[Result]:
    """Return efa.counters: found is {device: {counter: value}}."""
    found = {device["name"]: device["counters"] for device in devices(host, counters=True) if device["counters"]}
    return [_measured(EFA, found) if found else not_applicable(EFA, "no EFA device here has counters")]


def check_nvlink(host: Host) -> list[Result]:
    """Return gpu.nvlink_counters: found is {index of the GPU: {counter: value}}."""
    if not pci_gpus(host) or host.which("nvidia-smi") is None:
        return [not_applicable(NVLINK, "no GPU is here, or no nvidia-smi")]
    found: dict[str, dict[str, int]] = {}
    for words in (["-gt", "d"], ["-e"]):
        text, problem = ask(host, ["nvidia-smi", "nvlink", *words], SECONDS)
        if problem:
            return [undeterminable(NVLINK, problem)]
        for gpu, counters in parse_nvlink_counters(text).items():
            found.setdefault(gpu, {}).update(counters)
    return [_measured(NVLINK, found) if found else not_applicable(NVLINK, "the GPUs here have no NVLinks that count")]


def check_jobs(host: Host, slurm: Slurm, directory: str = job_labels.DIRECTORY) -> list[Result]:
    """Return slurm.job_labels: found are the fields of ``Job`` of the jobs that are proved to run here."""
    try:
        jobs = job_labels.refresh(host, slurm, SLURM_SECONDS, directory)
    except NodeError as exc:
        return [undeterminable(JOBS, str(exc))]
    return [passed(JOBS, [dataclasses.asdict(job) for job in jobs], message=f"{len(jobs)} jobs have labels")]


def _measured(check: str, found: t.Mapping[str, t.Any]) -> Result:
    return passed(check, found, message=f"{len(found)} devices are counted; nothing is judged")


def _found(results: t.Sequence[Result], check: str) -> dict[str, dict[str, int]]:
    found = next((one.found for one in results if one.id == check and one.status == PASS), None)
    return found if isinstance(found, dict) else {}


def _jobs(results: t.Sequence[Result]) -> list[job_labels.Job]:
    found = next((one.found for one in results if one.id == JOBS and one.status == PASS), None)
    return [job_labels.Job(**{**job, "gpus": tuple(job["gpus"])}) for job in found] if isinstance(found, list) else []


def _uptime(host: Host) -> float:
    """Return the seconds since boot: a clock that never jumps."""
    word = (host.read_text("/proc/uptime") or "").split()[:1]
    return float(word[0]) if word and word[0].replace(".", "", 1).isdigit() else 0.0
