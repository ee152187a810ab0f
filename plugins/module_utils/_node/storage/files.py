# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""System files that the role nvme_raid0 writes, besides the volume: paths and texts."""

from __future__ import annotations

import typing as t

from .config import CONFIG_PATH

RUNTIME_PATH = "/usr/local/lib/mlcluster/mlcluster.pyz"
COMMAND_PATH = "/usr/local/bin/mlcluster"
BOOT_UNIT = "mlcluster-storage.service"
UNIT_PATH = f"/etc/systemd/system/{BOOT_UNIT}"
FSTRIM_TIMER = "fstrim.timer"
FSTRIM_LINK = f"/etc/systemd/system/timers.target.wants/{FSTRIM_TIMER}"
# Files whose checksum and state a look reads.
PATHS = (RUNTIME_PATH, COMMAND_PATH, CONFIG_PATH, UNIT_PATH, FSTRIM_LINK)


def boot_unit(mount_units: t.Sequence[str]) -> str:
    """Return the text of the boot unit, which starts after these mount units."""
    return f"""\
# Written by mlcluster.aws (role nvme_raid0). Changes here are lost with the next run.
[Unit]
Description=Local NVMe volume on EC2 instance store
Documentation=man:mdadm(8)
# fstab's own attempt comes first: after a reboot it mounts the volume, after a stop and start it times out in seconds,
# and in both cases no other program uses the disks when this unit begins.
After=local-fs.target {" ".join(mount_units)}
After=setup-ephemeral.service dlami-nvme.service
Before=slurmd.service docker.service containerd.service
ConditionPathExists={CONFIG_PATH}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={RUNTIME_PATH} storage-boot
# Longer than all bounded steps together; a boot never waits for ever.
TimeoutStartSec=1200

[Install]
WantedBy=multi-user.target
"""
