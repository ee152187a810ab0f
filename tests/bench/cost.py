# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python cost.py FILE COMMAND...``: run a command and write what it cost as JSON to FILE.

A small process of its own, because the peak memory of a program counts from that of the process that starts it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def main(target: str, command: list[str]) -> int:
    """The exit status of the command; FILE gets ``wall_seconds``, ``cpu_seconds`` (all of it) and ``peak_mib``."""
    began = time.monotonic()
    process = subprocess.Popen(command)
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    figures = {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
        "wall_seconds": time.monotonic() - began,
    }
    with open(target, "w", encoding="utf-8") as stream:
        json.dump(figures, stream)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
