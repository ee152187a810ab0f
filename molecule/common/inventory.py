#!/usr/bin/env python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory of the scenario that Molecule is running: one host for each Debian release.

Hosts are reached through podman_ssh beside this file: podman's own connection plugin takes ten times as long a task.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

RELEASES = ("debian12", "debian13")

VARIABLES = {
    "ansible_connection": "ansible.builtin.ssh",
    "ansible_ssh_executable": str(Path(__file__).resolve().with_name("podman_ssh")),
    "ansible_ssh_transfer_method": "piped",
    "ansible_pipelining": True,
    "ansible_user": "root",
    "ansible_python_interpreter": "/usr/bin/python3",
}


def inventory(scenario: str) -> dict[str, object]:
    """Return the dynamic inventory: group ``test`` has the scenario's hosts, ``containers`` the way to reach them."""
    return {
        "test": {"hosts": [f"mlcluster-{scenario}-{release}" for release in RELEASES]},
        "containers": {"children": ["test"], "vars": VARIABLES},
        "_meta": {"hostvars": {}},
    }


if __name__ == "__main__":
    print(json.dumps(inventory(os.environ.get("MOLECULE_SCENARIO_NAME", "default"))))
