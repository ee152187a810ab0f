# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let fifty processes write plugstack.conf, with the node's code, while jobs start one after another.

Prints {"writers": exit statuses, "jobs": exit statuses} as JSON.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import subprocess
import sys
from multiprocessing.synchronize import Event

sys.path.insert(0, "/usr/local/lib/mlcluster/mlcluster.pyz")

from mlcluster._node.containers.host import EnrootHost
from mlcluster._node.containers.plugstack import read_stack
from mlcluster._node.containers.plugstack_write import PluginRequest, apply_changes

STACK = "/opt/slurm/etc/plugstack.conf"
PLUGIN = read_stack(EnrootHost(), STACK).pyxis[0].plugin


def write(index: int, jobs_ran: Event) -> None:
    """Write two lines of its own alternately until the last job has ended."""
    for turn in itertools.count():
        apply_changes(
            EnrootHost(), STACK, PluginRequest(PLUGIN, options={"runtime_path": f"/run/pyxis{index}x{turn % 2}"})
        )
        if turn and jobs_ran.is_set():
            break


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    jobs_ran = context.Event()
    writers = [context.Process(target=write, args=(index, jobs_ran), daemon=True) for index in range(50)]
    for writer in writers:
        writer.start()
    command = ["runuser", "-u", "alice", "--", "srun", "--quiet", "--chdir=/", "true"]
    jobs = [subprocess.run(command, check=False, timeout=600).returncode for _job in range(3)]
    jobs_ran.set()
    for writer in writers:
        writer.join(600)
    print(json.dumps({"writers": [writer.exitcode for writer in writers], "jobs": jobs}))
