# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's disks as data: pure functions without input or output.

A plan is a tuple of Disk in the order in which the controllers get their names.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable
from typing import NamedTuple

from .command import RigError

INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"
EBS = "Amazon Elastic Block Store"
DISK_COUNTS = (0, 1, 2, 3, 4, 8, 16)
EBS_COUNTS = (1, 2)
# The plan disk has a fixed size, and the guest reads all of it at each boot.
PLAN_BYTES = 16384
_FILE = re.compile(r"(?P<kind>ebs|store)-(?P<generation>\d+)-(?P<slot>\d+)\Z")


class Disk(NamedTuple):
    """One NVMe controller with one namespace: backing file, model, serial, size in MiB."""

    file: str
    model: str
    serial: str
    size_mb: int

    @property
    def slot(self) -> int:
        """The disk's number in the machine, from 0; instance-store disks and EBS volumes are counted separately."""
        match = _FILE.match(self.file)
        if match is None:
            raise RigError(f"the plan names the backing file {self.file!r}, which this rig did not make.")
        return int(match.group("slot"))

    @property
    def is_instance_store(self) -> bool:
        """Whether the contents are lost when the instance stops."""
        return self.model == INSTANCE_STORE


Plan = tuple[Disk, ...]


def _serial(kind: str, generation: int, slot: int) -> str:
    digest = hashlib.sha256(f"{kind}:{generation}:{slot}".encode()).hexdigest()[:16]
    return f"AWS{generation % 16:X}{digest.upper()}" if kind == "store" else f"vol0{digest}"


def _disk(kind: str, generation: int, slot: int, size_mb: int) -> Disk:
    model = INSTANCE_STORE if kind == "store" else EBS
    return Disk(f"{kind}-{generation}-{slot}", model, _serial(kind, generation, slot), size_mb)


def make(disks: int, ebs: int, disk_mb: int, ebs_mb: int, generation: int = 1) -> Plan:
    """Return the plan of a fresh instance, with EBS volumes first, as EC2 most often names them.

    Raises RigError for a count that no instance type has, or a size outside 64 MiB to 1 TiB.
    """
    if disks not in DISK_COUNTS:
        raise RigError(f"{disks} instance-store disks were asked for: choose one of {_listed(DISK_COUNTS)}.")
    if ebs not in EBS_COUNTS:
        raise RigError(f"{ebs} EBS volumes were asked for: choose one of {_listed(EBS_COUNTS)}.")
    if not 64 <= disk_mb <= 1048576:
        raise RigError(f"disks of {disk_mb} MiB were asked for: choose from 64 to 1048576.")
    volumes = tuple(_disk("ebs", 1, slot, ebs_mb) for slot in range(ebs))
    return volumes + tuple(_disk("store", generation, slot, disk_mb) for slot in range(disks))


def _listed(values: Iterable[int]) -> str:
    return ", ".join(str(value) for value in values)


def without(plan: Plan, slot: int) -> Plan:
    """Return the plan without the instance-store disk of that slot. Raises RigError if there is none."""
    lost = find(plan, slot)
    return tuple(disk for disk in plan if disk != lost)


def find(plan: Plan, slot: int) -> Disk:
    """Return the instance-store disk of that slot. Raises RigError if there is none."""
    for disk in plan:
        if disk.is_instance_store and disk.slot == slot:
            return disk
    there = _listed(sorted(disk.slot for disk in plan if disk.is_instance_store)) or "none"
    raise RigError(f"there is no instance-store disk number {slot}: the guest has {there}.")


def reshuffled(plan: Plan, seed: int) -> Plan:
    """Return the same disks in another order, which depends on the seed only."""
    order = list(plan)
    random.Random(seed).shuffle(order)
    # A shuffle may keep the order, and would then test nothing.
    return tuple(order if tuple(order) != plan else order[1:] + order[:1])


def dump(plan: Plan) -> str:
    """Return the lines that the guest reads."""
    return "".join(f"{disk.file}|{disk.model}|{disk.serial}|{disk.size_mb}\n" for disk in plan)


def load(text: str) -> Plan:
    """Return the plan of lines as ``dump`` makes them, without blank lines. Raises RigError for any other line."""
    disks = []
    for line in filter(None, text.split("\n")):
        fields = line.split("|")
        if len(fields) != 4 or not fields[3].isdigit():
            raise RigError(f"the plan has the line {line!r}, which is not file|model|serial|size.")
        disks.append(Disk(fields[0], fields[1], fields[2], int(fields[3])))
    return tuple(disks)


def image(plan: Plan) -> bytes:
    """Return the contents of the plan disk: the plan's lines, padded with line ends to a fixed size."""
    data = dump(plan).encode()
    if len(data) > PLAN_BYTES:
        raise RigError(f"a plan of {len(plan)} disks takes {len(data)} bytes: {PLAN_BYTES} fit.")
    return data.ljust(PLAN_BYTES, b"\n")
