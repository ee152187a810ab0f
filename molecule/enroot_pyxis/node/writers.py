# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fifty processes write plugstack.conf at once, with the code that the node has, while jobs start one after another.

Prints {"writers": exit statuses, "jobs": exit statuses} as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys

sys.path.insert(0, "/usr/local/lib/mlcluster/mlcluster.pyz")

from mlcluster._node.enroot_host import EnrootHost
from mlcluster._node.pyxis_plugstack import read_stack
from mlcluster._node.pyxis_plugstack_write import Wanted, apply_changes

STACK = "/opt/slurm/etc/plugstack.conf"
PLUGIN = read_stack(EnrootHost(), STACK).pyxis[0].plugin


def write(index: int) -> None:
    """Write a line that no other writer writes, twice over."""
    for turn in range(2):
        apply_changes(EnrootHost(), STACK, Wanted(PLUGIN, options={"runtime_path": f"/run/pyxis{index}x{turn}"}))


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write, args=(index,)) for index in range(50)]
    for writer in writers:
        writer.start()
    jobs = []
    while not jobs or any(writer.is_alive() for writer in writers):
        command = ["runuser", "-u", "alice", "--", "srun", "--quiet", "--chdir=/", "true"]
        jobs.append(subprocess.run(command, check=False, timeout=300).returncode)
    print(json.dumps({"writers": [writer.exitcode for writer in writers], "jobs": jobs}))
