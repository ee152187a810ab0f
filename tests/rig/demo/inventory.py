# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dynamic inventory of the local demo node that ``make site`` starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def inventory(status: dict) -> dict:
    """Return the output of ``--list`` from the rig's status of its guest."""
    name = status["name"]
    groups = {group: {"hosts": [name]} for group in ("instance_store", "head")}
    return {**groups, "_meta": {"hostvars": {name: status["ansible"]}}}


def main() -> int:
    """Print the inventory; print a message and return 1 if the demo node does not run."""
    command = [sys.executable, "-m", "tests.rig.vm", "status"]
    status = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    if not status["running"]:
        print("the demo node is not running; start it with `make site`", file=sys.stderr)
        return 1
    print(json.dumps(inventory(status), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
