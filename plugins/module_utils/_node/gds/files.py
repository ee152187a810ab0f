# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role nvidia_gds writes on a node: their paths and their texts. Pure."""

from __future__ import annotations

import typing as t

MODULES_LOAD = "/etc/modules-load.d/mlcluster-nvidia-fs.conf"
MODPROBE = "/etc/modprobe.d/mlcluster-nvidia-gds.conf"
REVIEW = "/etc/mlcluster/nvidia-gds-boot.conf"
EXAMPLE = "/usr/local/share/mlcluster/torch_gds_example.py"
PATHS = (MODULES_LOAD, MODPROBE, REVIEW, EXAMPLE)

_HEADER = "# Written by mlcluster.aws (role nvidia_gds). Changes here are lost with the next run.\n"


def modules_load() -> str:
    """Return the list of modules that systemd loads at boot."""
    return f"{_HEADER}nvidia-fs\n"


def module_options(registry: t.Mapping[str, str], machine: str | None) -> str:
    """Return kernel module options for PCI peer-to-peer; x86 and unknown machines also need the driver's options."""
    driver = f'options nvidia NVreg_RegistryDwords="{registry_text(registry)}"\n' if machine in ("x86_64", None) else ""
    return f"{driver}options nvme_core multipath=N\n"


def registry_text(registry: t.Mapping[str, str]) -> str:
    """Return RegistryDwords in the driver's spelling."""
    return "".join(f"{name}={value};" for name, value in registry.items())


def modprobe(options: str) -> str:
    """Return the text of the file that sets the kernel module options."""
    return (
        f"{_HEADER}# For GPUDirect Storage by PCI peer-to-peer; in force after the initramfs was rebuilt and the node "
        f"booted again.\n{options}"
    )


def review(options: str, initramfs: t.Sequence[str], needs_iommu_off: bool) -> str:
    """Return the boot settings for review; options is empty if the mode needs none."""
    text = "# Written by mlcluster.aws (role nvidia_gds) for review. Nothing reads this file.\n"
    if options:
        text += (
            "#\n"
            "# Options of kernel modules for mode p2pdma. With nvidia_gds_safe_mode: false the role puts them into\n"
            f"# {MODPROBE} and rebuilds the initramfs ({' '.join(initramfs)}).\n{options}"
        )
    if needs_iommu_off:
        text += (
            "#\n"
            "# Kernel parameter: NVIDIA guarantees nothing while an IOMMU is on. It belongs into the boot loader's "
            "configuration of the\n"
            "# image (GRUB_CMDLINE_LINUX_DEFAULT), intel_iommu=off or amd_iommu=off by the machine's processor; the "
            "role never does it.\n"
        )
    return text
