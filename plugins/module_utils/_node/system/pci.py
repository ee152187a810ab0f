# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and EFA devices on the PCI bus, also without their drivers. The boot hook loads this file on every node."""

from __future__ import annotations

import typing as t

from .host import Host

NVIDIA, AMAZON = "0x10de", "0x1d0f"
# PCI classes of a GPU: VGA controller and 3D controller; NVSwitches and audio functions have others.
_GPU_CLASSES = ("0x0300", "0x0302")
# All PCI device ids of EFA begin like this: EFA_PCI_PREFIX of the EFA installer is 1d0f:efa.
_EFA_DEVICES = ("0xefa",)
# A Host reads bytes that are not UTF-8 as the replacement character.
_ALL_ONES = "\ufffd" * 4


class Bus(t.NamedTuple):
    """The PCI addresses of NVIDIA GPUs and of EFA functions; readable: the bus lists any device at all."""

    readable: bool
    gpus: list[str]
    efa: list[str]


def look(host: Host, sysfs: str = "/sys") -> Bus:
    """Return what is on the bus, from one pass over it."""
    top = f"{sysfs}/bus/pci/devices"
    vendors = {address: (host.read_text(f"{top}/{address}/vendor") or "").strip() for address in host.listdir(top)}

    def of(vendor: str, file: str, starts: tuple[str, ...]) -> list[str]:
        own = [address for address, its in vendors.items() if its == vendor]
        return [address for address in own if (host.read_text(f"{top}/{address}/{file}") or "").startswith(starts)]

    return Bus(bool(vendors), of(NVIDIA, "class", _GPU_CLASSES), of(AMAZON, "device", _EFA_DEVICES))


def lost(host: Host, addresses: t.Iterable[str], sysfs: str = "/sys") -> list[str]:
    """Return the PCI addresses that answer every read with ones: the device fell off the bus."""
    top = f"{sysfs}/bus/pci/devices"
    return [address for address in addresses if (host.read_text(f"{top}/{address}/config") or "").startswith(_ALL_ONES)]
