# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role fsx_lustre writes on a node: paths and contents."""

from __future__ import annotations

import typing as t

from .config import CONFIG_PATH

RUNTIME_PATH = "/usr/local/lib/mlcluster/mlcluster.pyz"
COMMAND_PATH = "/usr/local/bin/mlcluster"
BOOT_UNIT = "mlcluster-lustre.service"
UNIT_PATH = f"/etc/systemd/system/{BOOT_UNIT}"
ENABLED = f"/etc/systemd/system/multi-user.target.wants/{BOOT_UNIT}"
MODPROBE_PATH = "/etc/modprobe.d/mlcluster-lustre.conf"
# File of AWS's repository, by the family of the distribution.
REPOSITORY_PATHS = {
    "Debian": "/etc/apt/sources.list.d/fsx-lustre-client.sources",
    "RedHat": "/etc/yum.repos.d/fsx-lustre-client.repo",
}
# Client and kernel must match: packages to hold unless fsx_lustre_hold_packages lists others.
HELD = {
    "Debian": ("lustre-client-*", "linux-aws", "linux-aws-*", "linux-image-*", "linux-headers-aws*"),
    "RedHat": ("kernel", "kernel-core", "kernel-modules", "kernel6*", "kmod-lustre-client", "lustre-client"),
}
# The service that AWS's set-up of EFA clients installs (FSx for Lustre User Guide, Configuring EFA clients).
EFA_SERVICE = "configure-efa-fsx-lustre-client.service"
# An option of the role's own lines in fstab; mount ignores options that begin with x- (mount(8)).
OWN_LINE = "x-mlcluster"


def files_to_read(family: str | None) -> tuple[str, ...]:
    """Return the files whose checksum, mode and owner the plan needs."""
    repository = REPOSITORY_PATHS.get(family or "")
    own = (CONFIG_PATH, UNIT_PATH, ENABLED, MODPROBE_PATH, RUNTIME_PATH, COMMAND_PATH)
    return (*own, repository) if repository else own


def mount_options(options: t.Iterable[str], efa: bool) -> str:
    """Return the options of the role's own line in fstab; with EFA the mount waits for the set-up of EFA.

    A file system that is mounted earlier uses TCP until it is mounted again.
    """
    after = [f"x-systemd.after={EFA_SERVICE}"] if efa else []
    return ",".join([*options, *after, OWN_LINE])


def boot_unit(mount_units: t.Iterable[str], efa: bool) -> str:
    """Return the unit that sets the client's parameters after every mount and, with EFA, proves that data uses it."""
    after = ["network-online.target", "remote-fs.target", *mount_units, *([EFA_SERVICE] if efa else [])]
    proof = [f"ExecStart={RUNTIME_PATH} lustre-info --only lustre.network"] if efa else []
    lines = [
        "# Written by mlcluster.aws (role fsx_lustre). Changes here are lost with the next run.",
        "[Unit]",
        "Description=Client tuning of Lustre, which every mount starts without",
        "Wants=network-online.target",
        f"After={' '.join(after)}",
        "Before=slurmd.service",
        f"ConditionPathExists={CONFIG_PATH}",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        f"ExecStart={RUNTIME_PATH} lustre-tune",
        *proof,
        "# Longer than all bounded steps together; a boot never waits for ever.",
        "TimeoutStartSec=600",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"
