# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as the field has them, and short ways to look at and converge them."""

from __future__ import annotations

import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import StorageConfig, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.plan import Plan

from tests.unit.fakes.fake_machine import Machine, fs_uuid
from tests.unit.fakes.fake_storage_host import SimulatedHost

CONSENT = {"existing": "replace", "safe_mode": False}
FOREIGN_ARRAY = "f" * 32
PCLUSTER_UNIT = "setup-ephemeral.service"
DLAMI_UNIT = "dlami-nvme.service"

# Everything that changes or may change what is on a disk.
DESTRUCTIVE = frozenset(
    "wipe stop_array remove_volume_group swap_off create_array make_filesystem unmount mask_unit".split()
)


def config(**options: t.Any) -> StorageConfig:
    return parse_config(options)


def node(disks: int = 4, shape: str = "2.39") -> SimulatedHost:
    """A node with its root on EBS and so many blank instance-store disks."""
    machine = Machine(shape)
    machine.root()
    machine.stores(disks)
    return SimulatedHost(machine)


def converged(disks: int = 4, **options: t.Any) -> SimulatedHost:
    """A node on which the role has made its volume."""
    host = node(disks)
    storage.converge(host, config(**options))
    host.calls.clear()
    return host


def store_names(host: SimulatedHost) -> list[str]:
    return [d.kname for d in host.machine.devices.values() if d.model == "Amazon EC2 NVMe Instance Storage"]


def foreign_array(host: SimulatedHost, **fields: t.Any) -> None:
    """A running foreign array over all disks, with a mounted ext4."""
    host.machine.array("md127", store_names(host), FOREIGN_ARRAY, **{"name": "elsewhere:theirs", **fields})
    host.machine.sign("md127", "ext4", fs_uuid("theirs"), "theirs")
    host.machine.mount("md127", "/mnt/theirs")


def owned_by_image(host: SimulatedHost, unit: str, mount: str | None, members: t.Sequence[str] = ()) -> None:
    """The LVM volume of ParallelCluster or a DLAMI over all disks, and its unit."""
    host.machine.unit(unit)
    host.machine.volume("vg.01", "lv_ephemeral", [*store_names(host), *members])
    host.machine.sign("dm-0", "ext4", fs_uuid("ephemeral"))
    if mount:
        host.machine.mount("dm-0", mount)


def plan_of(host: SimulatedHost, at_boot: bool = False, **options: t.Any) -> Plan:
    return storage.survey(host, config(**options), at_boot)[1]


def kinds(plan: Plan) -> list[str]:
    """The names of a plan's actions, in order."""
    return [action["action"] for action in plan.actions]


def run(host: SimulatedHost, at_boot: bool = False, **options: t.Any) -> list[str]:
    """Converge and return the names of what was done."""
    return [action["action"] for action in storage.converge(host, config(**options), at_boot).done]


def refusal(host: SimulatedHost, at_boot: bool = False, **options: t.Any) -> str:
    """The text of a refused plan; checks that nothing would be done."""
    plan = plan_of(host, at_boot, **options)
    assert (plan.situation, plan.actions) == ("refused", [])
    assert plan.refusals
    return "; ".join(plan.refusals)
