#!/usr/bin/env python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory of the scenario that Molecule is running: one host for each Debian release."""

from __future__ import annotations

import json
import os

RELEASES = ("debian12", "debian13")


def inventory(scenario: str) -> dict[str, object]:
    """Ansible's dynamic-inventory document: group ``test`` holds the scenario's containers."""
    hosts = [f"mlcluster-{scenario}-{release}" for release in RELEASES]
    connection = {
        "ansible_connection": "containers.podman.podman",
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {"test": {"hosts": hosts}, "_meta": {"hostvars": dict.fromkeys(hosts, connection)}}


if __name__ == "__main__":
    print(json.dumps(inventory(os.environ.get("MOLECULE_SCENARIO_NAME", "default"))))
