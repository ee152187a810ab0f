# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases: states of disks as on real nodes, and the function that sets a guest's disks up like that."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from .command import RigError
from .guest import Guest

SCRIPTS = Path(__file__).parent / "cases"


class Case(NamedTuple):
    """A case: its description, its script's first arguments, and whether the EBS volume is the next argument."""

    about: str
    arguments: tuple[str, ...] = ()
    with_ebs: bool = False


CASES = {
    "parallelcluster": Case("vg.01/lv_ephemeral on /scratch, made and kept by setup-ephemeral.service", ("/scratch",)),
    "dlami": Case("vg.01/lv_ephemeral on /opt/dlami/nvme, made and kept by dlami-nvme.service"),
    "old-md": Case("a stopped RAID 0 with a filesystem labelled old and a file inside"),
    "gpt": Case("a partition table with one empty partition on the first disk"),
    "lone-ext4": Case("an unmounted ext4 labelled keep on the first disk"),
    "swap": Case("the first disk is swapped on"),
    "half-array": Case("a running RAID 0 over all disks without a filesystem"),
    "foreign-homehost": Case("md127, made on another host, with an ext4 mounted on /mnt"),
    "mounted-disk": Case("an ext4 on the first disk, mounted on /mnt/busy by fstab"),
    "lvm-with-ebs": Case("a volume group over an EBS volume and all disks, mounted on /mnt/mixed", (), True),
}


def script_of(name: str) -> str:
    """Return the shell script of a case. Raises RigError for a name that is not a case."""
    if name not in CASES:
        raise RigError(f"there is no case {name!r}: choose one of {', '.join(CASES)}.")
    return (SCRIPTS / f"{name}.sh").read_text(encoding="utf-8")


def prepare(guest: Guest, name: str) -> str:
    """Set the guest's disks up as in a case; return the output of the script."""
    script = script_of(name)
    case = CASES[name]
    disks = guest.instance_store()
    if not disks:
        raise RigError(f"the case {name} needs instance-store disks, and the guest has none: `up --disks 4`.")
    volumes = guest.ebs_volumes()[:1] if case.with_ebs else []
    return guest.script(script, *case.arguments, *volumes, *disks, what=f"preparing {name}")
