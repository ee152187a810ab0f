# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses as fio, ior, mdtest or gdsio, by its own name; the figures are invented.

The shapes are those of the documentation: fio's JSON, IOR's JSON summary, mdtest's table; gdsio's line is that of an
issue of NVIDIA/gds-nvidia-fs. STAND_IN_SLOW in the folder
of the program names a host whose disks are slow.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

NAME = Path(sys.argv[0]).name
OPTIONS = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)


def fio() -> None:
    slow = Path(sys.argv[0]).with_name("STAND_IN_SLOW")
    host = os.uname().nodename
    speed = 1e9 if slow.exists() and slow.read_text() == host else 8e9
    (Path(OPTIONS["directory"]) / f"data-{host}").write_text("x")
    direction = "write" if OPTIONS["rw"] == "write" else "read"
    figures = {"write": {"bw_bytes": 0, "iops": 0.0}, "read": {"bw_bytes": 0, "iops": 0.0}}
    figures[direction] = {"bw_bytes": int(speed), "iops": speed / 4096}
    print("fio: a warning that is not JSON")
    print(json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "data", "error": 0, **figures}]}))


def ior() -> None:
    words = dict(zip(sys.argv[1:], sys.argv[2:]))
    summary = [
        {"operation": name, "API": "POSIX", "bwMaxMIB": speed} for name, speed in (("write", 900.5), ("read", 1800))
    ]
    if os.environ["SLURM_PROCID"] == "0":
        Path(words["-o"]).write_text("x")
        file = next(word.split("=", 1)[1] for word in sys.argv if word.startswith("summaryFile="))
        Path(file).write_text(json.dumps({"Version": "4.0.0", "summary": summary}))


def mdtest() -> None:
    if os.environ["SLURM_PROCID"] == "0":
        print("SUMMARY rate: (of 1 iterations)")
        print("   Operation                     Max            Min           Mean        Std Dev")
        for name in ("File creation", "File stat", "File read", "File removal"):
            print(f"   {name:<26}{845203.634:12.3f} {845203.634:12.3f} {845203.634:12.3f} {0:12.3f}")


def gdsio() -> None:
    words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    kind = {"0": "GPUD", "1": "CPUONLY", "2": "CPU_GPU"}[words["-x"]]
    size = int(words["-s"].removesuffix("M")) * 1024
    Path(words["-f"]).touch()
    io_type = "WRITE" if words["-I"] == "1" else "READ"
    print(
        f"IoType: {io_type} XferType: {kind} Threads: {words['-w']} DataSetSize: {size}/{size}(KiB) IOSize: 1024(KiB) "
        "Throughput: 9.870000 GiB/sec, Avg_Latency: 100.000000 usecs ops: 8 total_time 1.000000 secs"
    )


if __name__ == "__main__":
    {"gdsio": gdsio, "fio": fio, "ior": ior, "mdtest": mdtest}[NAME]()
