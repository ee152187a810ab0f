# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role efa_nccl reboots a node only if that is needed and allowed."""

from __future__ import annotations

import pytest

from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import HERE, Run

pytestmark = pytest.mark.vm
# The guest has neither EFA nor a GPU: the role expects a device and only reports that it is missing.
EFA = {
    "role": "efa_nccl",
    "efa_nccl_installer_enabled": False,
    "efa_nccl_expected_devices": 1,
    "efa_nccl_wait_seconds": 0,
    "efa_nccl_required": False,
}


def boot_id(node: Guest) -> str:
    return node.run("cat /proc/sys/kernel/random/boot_id").out.strip()


def apply(node: Guest, **settings: object) -> Run:
    done = helpers.play(node, playbook=HERE / "playbooks" / "reboot.yml", **settings)
    assert done.rc == 0, (done.errors, [step.result.get("msg") for step in done.steps if step.result.get("failed")])
    return done


def test_efa_node_reboots_once_and_only_with_consent(guest) -> None:
    """A needed reboot is reported, happens with consent only, and does not happen again."""
    node = guest(disks=0)
    node.run("touch /run/reboot-required")
    first = boot_id(node)
    notes = apply(node, **EFA).result_of("node_plan")["plan"]["notes"]
    assert "a reboot is needed, and efa_nccl_reboot_allowed does not allow it" in notes
    assert boot_id(node) == first

    done = apply(node, **EFA, efa_nccl_reboot_allowed=True)
    second = boot_id(node)
    assert second != first and done.result_of("reboot")["rebooted"]
    assert done.result_of("node_plan")["plan"]["differences"] == []
    again = apply(node, **EFA, efa_nccl_reboot_allowed=True)
    assert (again.changed, boot_id(node)) == (0, second)
