# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: the storage code of the installed runtime, killed by SIGKILL at a chosen point.

python3 guest_interrupt.py POINT [boot]: POINT is an action, ``write_intent:STAGE``, ``amid`` (mkfs has begun to write),
or ``never``. With ``boot`` it runs the boot unit's work, without it a run with default settings.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

sys.path.insert(0, "/usr/local/lib/mlcluster/mlcluster.pyz")
from mlcluster._node.cli import storage as storage_cli
from mlcluster._node.storage import apply as storage_apply
from mlcluster._node.storage import config as storage_config
from mlcluster._node.storage import converge as storage
from mlcluster._node.system.host import CommandResult, Host

POINT = sys.argv[1]
PTRACE_TRACEME = 0
PTRACE_SYSCALL = 24
whole_action = storage_apply.run_action


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_action(host: Host, action: Any, table: Any) -> None:
    whole_action(host, action, table)
    if POINT in (action["action"], f"{action['action']}:{action.get('stage')}"):
        die()


def die_amid(argv: Sequence[str]) -> NoReturn:
    """Run mkfs with a stop at each of its system calls; kill it and this process once it has begun to write."""
    ptrace = ctypes.CDLL(None).ptrace
    child = os.fork()
    if not child:
        try:
            ptrace(PTRACE_TRACEME, 0, None, None)
            os.execvp(argv[0], argv)
        finally:
            os._exit(127)
    while os.WIFSTOPPED(os.waitpid(child, 0)[1]):
        with open(f"/proc/{child}/io", encoding="utf-8") as stream:
            counts = dict(line.split(": ") for line in stream.read().splitlines())
        if int(counts["wchar"]) > 4096:
            os.kill(child, signal.SIGKILL)
            die()
        ptrace(PTRACE_SYSCALL, child, None, None)
    raise SystemExit(f"{argv[0]} ended before it was to be killed")


class HostThatDiesAmid(Host):
    """A host on which this process is killed while mkfs runs."""

    def run(self, argv: Sequence[str], *arguments: Any, **options: Any) -> CommandResult:
        if POINT == "amid" and argv[0].startswith("mkfs."):
            die_amid(argv)
        return super().run(argv, *arguments, **options)


storage_apply.run_action = run_action
host = HostThatDiesAmid()
if "boot" in sys.argv[2:]:
    config = storage_config.load_config(host, storage_config.CONFIG_PATH)
    storage_cli.wait_for_disks(host, config, 30)
    storage.converge(host, config, at_boot=True)
else:
    storage.converge(host, storage_config.parse_config({}))
