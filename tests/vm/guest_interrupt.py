# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: the storage engine of the installed runtime, which gets SIGKILL at a chosen point.

python3 guest_interrupt.py POINT [boot]: POINT is an action, `write_intent:STAGE`, `amid` (mkfs has begun to write), or
`never`; with boot it is the boot unit's work, without it a run with default settings.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, "/usr/local/lib/mlcluster/mlcluster.pyz")
from mlcluster._node import storage, storage_apply, storage_cli, storage_config
from mlcluster._node.host import CommandResult, Host

POINT = sys.argv[1]
whole_action = storage_apply.run_action


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_action(host: Host, action: Any, table: Any) -> None:
    whole_action(host, action, table)
    if POINT in (action["action"], f"{action['action']}:{action.get('stage')}"):
        die()


class HostThatDiesAmid(Host):
    """Kills mkfs and itself as soon as mkfs has written something."""

    def run(self, argv: Sequence[str], *arguments: Any, **options: Any) -> CommandResult:
        if POINT == "amid" and argv[0].startswith("mkfs."):
            with subprocess.Popen(argv) as process:
                while process.poll() is None:
                    with open(f"/proc/{process.pid}/io", encoding="utf-8") as stream:
                        counts = dict(line.split(": ") for line in stream.read().splitlines())
                    if int(counts["wchar"]) > 4096:
                        process.kill()
                        die()
            die()
        return super().run(argv, *arguments, **options)


storage_apply.run_action = run_action
host = HostThatDiesAmid()
if "boot" in sys.argv[2:]:
    config = storage_cli.load_config(host, storage_config.CONFIG_PATH)
    storage_cli.wait_for_disks(host, config, 30)
    storage.converge(host, config, at_boot=True)
else:
    storage.converge(host, storage_config.parse_config({}))
