# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: the storage code of the installed runtime, with a late device node of the array.

python3 guest_late.py SECONDS: after mdadm has ended, the new array's device node is missing for this time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, "/usr/local/lib/mlcluster/mlcluster.pyz")
from mlcluster._node.storage import config as storage_config
from mlcluster._node.storage import converge as storage
from mlcluster._node.system.host import CommandResult, Host

SECONDS = sys.argv[1]


class HostWithLateNodes(Host):
    """A host that removes an array's device node after mdadm has made it, and restores it later."""

    def run(self, argv: Sequence[str], *arguments: Any, **options: Any) -> CommandResult:
        done = super().run(argv, *arguments, **options)
        if argv[:2] == ["mdadm", "--create"]:
            subprocess.run(["udevadm", "settle"], check=True)
            node = os.path.realpath(argv[2])
            os.rename(node, "/dev/.late")
            subprocess.Popen(["sh", "-c", f"sleep {SECONDS}; mv /dev/.late {node}"])
        return done


done = storage.converge(HostWithLateNodes(), storage_config.parse_config({})).done
print(" ".join(action["action"] for action in done))
