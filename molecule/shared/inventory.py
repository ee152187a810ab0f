#!/usr/bin/env python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory of the scenario that Molecule is running: one host for each Debian release.

A scenario whose environment has MLCLUSTER_CONNECTION=piped reaches its hosts through podman_ssh beside this file, which
takes a third of the time for each task.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

RELEASES = ("debian12", "debian13")


PIPED = {
    "ansible_connection": "ansible.builtin.ssh",
    "ansible_ssh_executable": str(Path(__file__).resolve().with_name("podman_ssh")),
    "ansible_ssh_transfer_method": "piped",
    "ansible_pipelining": True,
}


def inventory(scenario: str, piped: bool) -> dict[str, object]:
    """Ansible's dynamic-inventory document: group ``test`` holds the scenario's containers."""
    hosts = [f"mlcluster-{scenario}-{release}" for release in RELEASES]
    connection = {
        **(PIPED if piped else {"ansible_connection": "containers.podman.podman"}),
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {"test": {"hosts": hosts}, "_meta": {"hostvars": dict.fromkeys(hosts, connection)}}


if __name__ == "__main__":
    is_piped = os.environ.get("MLCLUSTER_CONNECTION") == "piped"
    print(json.dumps(inventory(os.environ.get("MOLECULE_SCENARIO_NAME", "default"), is_piped)))
