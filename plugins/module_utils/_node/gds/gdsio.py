# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run gdsio, NVIDIA's benchmark, parse its output, and compare the direct path with the CPU's path.

gdsio prints the requested transfer type, also if cuFile fell back to compat mode. So its figures do not prove the
path; only the mode that a probe proved does, and it is reported beside them.
"""

from __future__ import annotations

import os
import re
import secrets
import typing as t

from ..verdict import result
from ..verdict.evidence import Field, Subject, above, exactly, find_problems, is_number, within
from .decide import DIRECT
from .probe import Ended, environment, remove_bounded, run_bounded
from .probe_child import PREFIX

# gdsio -x: storage to GPU by cuFile; storage to CPU memory; storage to GPU through CPU memory.
TRANSFERS = {"GPUD": "0", "CPUONLY": "1", "CPU_GPU": "2"}
IO_SIZE_KIB = 1024
THREADS = 8
SECONDS = 300
# The threads end together, and unfinished operations are not counted: published runs have 8167 of 8192.
MIN_DONE = 0.99
# Tolerance between throughput and data moved per time: published ones agree in all six digits.
ROUNDING = 0.01

_RESULT = re.compile(
    r"IoType: (?P<io_type>\S+) XferType: (?P<transfer>\S+) Threads: (?P<threads>\d+) "
    r"DataSetSize: (?P<done>\d+)/(?P<size>\d+)\(KiB\) IOSize: (?P<io_size>\d+)\(KiB\) "
    r"Throughput: (?P<throughput>\d+(?:\.\d+)?) GiB/sec,? Avg_Latency: (?P<latency>\d+(?:\.\d+)?) usecs "
    r"ops: (?P<ops>\d+) total_time (?P<seconds>\d+(?:\.\d+)?) secs"
)

Run = t.Callable[..., Ended]


def parse_gdsio(text: str) -> list[dict[str, t.Any]]:
    """Return every result line of gdsio (format: NVIDIA/gds-nvidia-fs issue 78), [] without one.

    [{io_type, transfer, threads, io_size_kib, done_kib, size_kib, throughput_gib_s, latency_us, ops, seconds}].
    """
    return [
        {
            "io_type": found.group("io_type"),
            "transfer": found.group("transfer"),
            "threads": int(found.group("threads")),
            "io_size_kib": int(found.group("io_size")),
            "done_kib": int(found.group("done")),
            "size_kib": int(found.group("size")),
            "throughput_gib_s": float(found.group("throughput")),
            "latency_us": float(found.group("latency")),
            "ops": int(found.group("ops")),
            "seconds": float(found.group("seconds")),
        }
        for found in _RESULT.finditer(text)
    ]


def _evidence(name: str, mib: int) -> tuple[Field, ...]:
    """Return the fields of a result line that prove that the run is the requested one, with consistent figures."""
    kib = mib * 1024
    return (
        Field("lines", exactly(1), label="number of result lines"),
        Field("transfer", exactly(name), label="XferType"),
        Field("io_type", exactly("READ"), label="IoType"),
        Field("threads", exactly(THREADS), label="Threads"),
        Field("io_size_kib", exactly(IO_SIZE_KIB), label="IOSize"),
        # One file for all threads; in NVIDIA's examples each thread of -D has one of that size.
        Field("size_kib", exactly(kib, kib * THREADS), label="DataSetSize"),
        Field("share", within(MIN_DONE, 1.0), label="share of DataSetSize that was moved"),
        Field("ops_kib", exactly(0), label="KiB by ops less KiB moved"),
        Field("off", within(0.0, ROUNDING), label="distance of Throughput from what was moved in total_time"),
        Field("latency_us", above(0), label="Avg_Latency"),
    )


def _subject(name: str, lines: t.Sequence[t.Mapping[str, t.Any]]) -> Subject:
    line = lines[-1]
    size, seconds, figure = line["size_kib"], line["seconds"], line["throughput_gib_s"]
    by_time = line["done_kib"] / (1 << 20) / seconds if seconds else 0.0
    facts = {
        **line,
        "lines": len(lines),
        "share": line["done_kib"] / size if size else 0.0,
        "ops_kib": line["ops"] * line["io_size_kib"] - line["done_kib"],
        "off": abs(figure - by_time) / by_time if by_time else None,
    }
    return Subject(facts, f"gdsio's run of {name}:")


def compare(
    mount: dict[str, t.Any],
    runs: dict[str, list[dict[str, t.Any]]],
    baseline: float | None = None,
    mib: int = 1024,
) -> result.Result:
    """Return the verdict gds.bandwidth of one mount. Pure.

    runs are parsed results by transfer type; mount carries path, mode, proof and reason; mib is the requested
    size; baseline is the least GiB/s that this site accepts for the GPU's path. Without one the figures are recorded
    and the verdict is undeterminable: no threshold for GPUDirect Storage on EC2 has a public source.
    """
    scope = result.Scope(device=mount["path"])
    figures = {name: lines[-1]["throughput_gib_s"] for name, lines in runs.items() if lines}
    found: dict[str, t.Any] = {"mode": mount["mode"], "proof": mount["proof"], **figures}
    fields: dict[str, t.Any] = {"found": found, "unit": "GiB/s", "scope": scope}
    absent = [name for name in ("GPUD", "CPU_GPU") if name not in figures]
    if absent:
        return result.undeterminable("gds.bandwidth", f"gdsio gave no result for {', '.join(absent)}", **fields)
    unknown = [
        finding.sentence()
        for name, lines in runs.items()
        for finding in (find_problems(_evidence(name, mib), [_subject(name, lines)]).unknown if lines else ())
    ]
    if unknown:
        return result.undeterminable("gds.bandwidth", "; ".join(unknown), **fields)
    ratio = figures["GPUD"] / figures["CPU_GPU"] if figures["CPU_GPU"] else 0.0
    text = f"cuFile {figures['GPUD']:.2f} GiB/s, through the CPU {figures['CPU_GPU']:.2f} GiB/s, ratio {ratio:.2f}"
    if mount["mode"] not in DIRECT or mount["proof"] != "active":
        reason = f"{text}; the active path is {mount['mode']}, so cuFile's figure is not that of a direct path"
        return result.undeterminable("gds.bandwidth", reason, **fields)
    if baseline is None or not is_number(baseline) or baseline <= 0:
        return result.undeterminable("gds.bandwidth", f"{text}; there is no threshold with a source", **fields)
    fields["expected"] = baseline
    if figures["GPUD"] < baseline:
        return result.failed("gds.bandwidth", f"{text}: less than the site's baseline", "monitor", **fields)
    return result.passed("gds.bandwidth", message=text, **fields)


def bandwidth(
    facts: dict[str, t.Any],
    mount: dict[str, t.Any],
    mib: int = 1024,
    baseline: float | None = None,
    runner: Run = run_bounded,
) -> result.Result:
    """Write a file with gdsio, read it by cuFile and through the CPU, compare, and remove the file."""
    gdsio = facts["tools"].get("gdsio")
    if not gdsio:
        reason = "gdsio is not installed, so nothing was measured (it is in gds-tools)"
        return result.undeterminable("gds.bandwidth", reason, scope=result.Scope(device=mount["path"]))
    if not mount["answers"] or not mount["exists"]:
        return result.undeterminable("gds.bandwidth", mount["reason"], scope=result.Scope(device=mount["path"]))
    path = os.path.join(mount["path"], PREFIX + secrets.token_hex(8))
    runs: dict[str, list[dict[str, t.Any]]] = {}
    try:
        for name, argv in plan(gdsio, path, mib):
            ended = runner(argv, SECONDS, environment({}))
            if name == "write" and ended.rc != 0:
                last = (ended.output.strip().splitlines() or ["no message"])[-1]
                how = f"no answer within {SECONDS} seconds" if ended.rc is None else f"status {ended.rc}"
                reason = f"gdsio could not write the file that it was to read ({how}): {last}"
                return result.undeterminable("gds.bandwidth", reason, scope=result.Scope(device=mount["path"]))
            runs[name] = parse_gdsio(ended.output) if ended.rc == 0 else []
    except OSError as exc:
        reason = f"{gdsio} could not be started: {exc.strerror}"
        return result.undeterminable("gds.bandwidth", reason, scope=result.Scope(device=mount["path"]))
    finally:
        remove_bounded(path)
    runs.pop("write", None)
    return compare(mount, runs, baseline, mib)


def plan(gdsio: str, path: str, mib: int) -> list[tuple[str, list[str]]]:
    """Return the commands, in order: one writes the file through the CPU, the others read it, each by another path."""
    common = ["-d", "0", "-w", str(THREADS), "-s", f"{mib}M", "-i", f"{IO_SIZE_KIB}K", "-f", path]
    commands = [("write", [gdsio, "-x", TRANSFERS["CPU_GPU"], "-I", "1", *common])]
    commands += [(name, [gdsio, "-x", number, "-I", "0", *common]) for name, number in TRANSFERS.items()]
    return commands
