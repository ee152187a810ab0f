# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The EC2-like guest: a machine whose NVMe disks follow a plan. This is the API that tests use."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import base, cache, image, plan, qemu
from .command import RigError, progress
from .node import Node
from .plan import Disk, Plan

EC2_DISKS = "/usr/local/lib/ec2-rig/ec2-disks"
EBS_MB = 512
DISK_MB = 1024
KEPT = ("plan", "disks", "ebs", "disk_mb", "generation")


def folder_of(name: str) -> Path:
    """Return the folder of the guest of that name. Raises RigError for a name that is not a host name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
        raise RigError(f"{name!r} is not a guest name: use small letters, digits and '-'.")
    return cache.root() / "guests" / name


class Guest(Node):
    """A named guest. Several can run at once; one process at a time should work with each."""

    def __init__(self, name: str = "demo"):
        super().__init__(folder_of(name))
        self.name = name

    @property
    def plan(self) -> Plan:
        """The disks that the guest has now, in the order of their names."""
        return plan.load(self.state.get("plan", ""))

    def _set_plan(self, disks: Plan) -> None:
        # The guest may reboot itself at any time, so the plan disk that it reads at boot is always up to date.
        (self.folder / "plan.raw").write_bytes(plan.image(disks))
        self.state["plan"] = plan.dump(disks)
        self.save()

    def _apply_plan(self) -> None:
        self.run([EC2_DISKS, "apply"], stdin=plan.dump(self.plan))

    # -- life -------------------------------------------------------------------------------------------------------

    def up(self, disks: int = 4, ebs: int = 1, disk_mb: int = DISK_MB, instance_type: str = qemu.INSTANCE_TYPE) -> None:
        """Start a fresh guest and replace an earlier one of this name.

        The default instance type starts from the base snapshot. Another type boots, as the firmware reports the type.
        """
        wanted = plan.make(disks, ebs, disk_mb, EBS_MB)
        if not re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", instance_type):
            raise RigError(f"{instance_type!r} is not an instance type: use one like {qemu.INSTANCE_TYPE}.")
        started = time.monotonic()
        self.down()
        if instance_type != qemu.INSTANCE_TYPE:
            self._boot_cold(instance_type)
        else:
            try:
                self._start_from_base()
            except RigError as exc:
                progress(f"the base snapshot does not start ({str(exc).splitlines()[0]}) and is made again")
                self.down()
                cache.discard(base.ensure()[0])
                self._start_from_base()
        self._remember(base.SNAPSHOT)
        self._insert(wanted, disks, ebs, disk_mb)
        progress(f"{self.name} is up with {disks} instance-store disks after {time.monotonic() - started:.0f} s")

    def renew(self, disks: int = 4, ebs: int = 1, disk_mb: int = DISK_MB) -> None:
        """Replace ``up`` for a guest that exists, in less time: restore the base snapshot and plug new disks in."""
        wanted = plan.make(disks, ebs, disk_mb, EBS_MB)
        self.restore(base.SNAPSHOT)
        self._insert(wanted, disks, ebs, disk_mb)

    def _insert(self, wanted: Plan, disks: int, ebs: int, disk_mb: int) -> None:
        self.state.update(disks=disks, ebs=ebs, disk_mb=disk_mb, generation=1)
        self._set_plan(wanted)
        self._apply_plan()

    def _prepare_folder(self) -> tuple[Path, str]:
        found = base.ensure()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = {"disks": 0, "ebs": 0, "disk_mb": 0, "generation": 0, "snapshots": {}}
        self._set_plan(())
        return found

    def _start_from_base(self) -> None:
        folder, accelerator = self._prepare_folder()
        self.copy_disks_from(folder)
        self.power_on(accelerator, qemu.INSTANCE_TYPE, load=base.SNAPSHOT)
        self.resumed()

    def _boot_cold(self, instance_type: str) -> None:
        _folder, accelerator = self._prepare_folder()
        base.make_disks(self.folder, image.ensure())
        self.power_on(accelerator, instance_type)
        self.wait_ssh()
        self.save_snapshot(base.SNAPSHOT)

    def down(self) -> None:
        """End the guest and remove its files; a missing guest is not an error."""
        self.power_cut()
        cache.discard(self.folder)
        self.state = {}

    def start(self) -> None:
        """Start the stopped instance with new, blank instance-store disks and its old EBS volumes."""
        self.state["generation"] += 1
        s = self.state
        self._set_plan(plan.make(s["disks"], s["ebs"], s["disk_mb"], EBS_MB, s["generation"]))
        self.power_on(s["accelerator"], s["instance_type"])

    def stop_start(self) -> float:
        """Stop and start the instance; return the seconds until ssh answered."""
        started = time.monotonic()
        before = self.boot_id()
        self.power_off()
        self.start()
        self.wait_ssh(not_boot=before)
        return time.monotonic() - started

    # -- hardware ---------------------------------------------------------------------------------------------------

    def lose_disk(self, slot: int) -> Disk:
        """Remove the instance-store disk of that slot, now and at later boots, and return it."""
        self.need_running()
        lost = plan.find(self.plan, slot)
        self._set_plan(plan.without(self.plan, slot))
        self._apply_plan()
        return lost

    def reshuffle(self, seed: int = 1) -> bool:
        """Change the order in which disks get their names; return False if that takes effect at the next boot only.

        That is so if a disk is mounted, in use as swap, or held by an array or a volume group.
        """
        self.need_running()
        self._set_plan(plan.reshuffled(self.plan, seed))
        in_use = self.run([EC2_DISKS, "busy"]).out.split()
        if in_use:
            progress(f"{', '.join(sorted(set(in_use)))} in use: the new order applies from the next boot")
            return False
        self.run([EC2_DISKS, "detach"])
        self._apply_plan()
        return True

    def instance_store(self) -> list[str]:
        """Return the device paths of the instance-store disks as the guest names them now."""
        return self.run([EC2_DISKS, "list", plan.INSTANCE_STORE]).out.split()

    def ebs_volumes(self) -> list[str]:
        """Return the device paths of the EBS volumes as the guest names them now."""
        return self.run([EC2_DISKS, "list", plan.EBS]).out.split()

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _remember(self, name: str) -> None:
        self.state["snapshots"][name] = {key: self.state[key] for key in KEPT}
        self.save()

    def snapshot(self, name: str) -> float:
        """Save memory, disks and plan under a name; return the duration in seconds."""
        started = time.monotonic()
        self.save_snapshot(name)
        self._remember(name)
        return time.monotonic() - started

    def restore(self, name: str) -> float:
        """Go back to a snapshot, also from a guest that hangs; return the seconds until ssh answered."""
        started = time.monotonic()
        kept = self.state.get("snapshots", {}).get(name)
        if kept is None:
            known = ", ".join(sorted(self.state.get("snapshots", {}))) or "none"
            raise RigError(f"there is no snapshot {name!r}: the guest has {known}.")
        self.load_snapshot(name)
        self.state.update(kept)
        self._set_plan(self.plan)
        return time.monotonic() - started

    # -- connection -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the data by which a program uses this guest: state, disks, ssh, Ansible's host variables."""
        seen: dict[str, Any] = {"name": self.name, "running": self.running, "folder": str(self.folder)}
        if "port" not in self.state:
            return seen
        seen.update(
            accelerator=self.state["accelerator"],
            instance_type=self.state["instance_type"],
            snapshots=sorted(self.state["snapshots"]),
            disks=[disk._asdict() for disk in self.plan],
            ssh={
                "host": "127.0.0.1",
                "port": self.state["port"],
                "user": "root",
                "key": str(cache.ssh_key()),
                "config": str(self.folder / "ssh_config"),
            },
            ansible=self.host_variables(),
        )
        return seen

    def host_variables(self) -> dict[str, Any]:
        """Return Ansible's connection variables; the ssh configuration makes Ansible share the rig's connection."""
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.state["port"],
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(cache.ssh_key()),
            "ansible_ssh_args": f"-F {shlex.quote(str(self.folder / 'ssh_config'))}",
            "ansible_ssh_pipelining": True,
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def inventory(self, groups: Sequence[str] = ("instance_store",)) -> str:
        """Return a YAML inventory with this guest in the given groups."""
        self.need_running()
        lines = ["all:", "  hosts:", f"    {self.name}:"]
        # Every JSON scalar is a YAML scalar.
        lines += [f"      {key}: {json.dumps(value)}" for key, value in self.host_variables().items()]
        lines += ["  children:"]
        for group in groups:
            lines += [f"    {group}:", "      hosts:", f"        {self.name}: {{}}"]
        return "\n".join(lines) + "\n"
