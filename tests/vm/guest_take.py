# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: the storage code of the installed runtime, with another program that runs before an action.

python3 guest_take.py ACTION PROGRAM ARGUMENT…: the program runs once, after the look and right before that action.
python3 guest_take.py ACTION hold DEVICE: the device is open exclusively from then until the storage code waits for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

sys.path.insert(0, "/usr/local/lib/mlcluster/mlcluster.pyz")
from mlcluster._node.storage import apply as storage_apply
from mlcluster._node.storage import config as storage_config
from mlcluster._node.storage import converge as storage
from mlcluster._node.system.host import Host, NodeError

ACTION, PROGRAM = sys.argv[1], sys.argv[2:]
whole_action = storage_apply.run_action
held: list[int] = []


class HostThatWaits(Host):
    """Closes the held device as soon as the storage code waits."""

    def sleep(self, seconds: float) -> None:
        while held:
            os.close(held.pop())
            print("closed")
        super().sleep(seconds)


def run_action(host: Host, action: Any, table: Any) -> None:
    if action["action"] == ACTION:
        if PROGRAM[0] == "hold":
            held.append(os.open(PROGRAM[1], os.O_RDONLY | os.O_EXCL))
        else:
            subprocess.run(PROGRAM, check=True)
    whole_action(host, action, table)


storage_apply.run_action = run_action
try:
    storage.converge(HostThatWaits(), storage_config.parse_config({}))
except NodeError as exc:
    sys.exit(str(exc))
