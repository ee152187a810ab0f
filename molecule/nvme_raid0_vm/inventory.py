#!/usr/bin/env python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory of the scenario: the rig's guest as an instance_store node, without connection while it does not run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.rig.vm.guest import Guest

NAME = "molecule"


def inventory(guest: Guest) -> dict[str, object]:
    """Ansible's dynamic-inventory document with the guest in the groups test and instance_store."""
    variables = guest.host_variables() if guest.running else {}
    hosts = {"hosts": [guest.name]}
    return {"test": hosts, "instance_store": hosts, "_meta": {"hostvars": {guest.name: variables}}}


if __name__ == "__main__":
    print(json.dumps(inventory(Guest(NAME))))
