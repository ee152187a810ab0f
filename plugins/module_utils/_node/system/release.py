# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operating system of this machine, in Ansible's terms."""

from __future__ import annotations

import typing as t

from .distribution import read_distribution
from .host import Host
from .packages import package_manager

# ID of os-release(5): the fact distribution of Ansible.
NAMES = {
    "amzn": "Amazon",
    "ubuntu": "Ubuntu",
    "debian": "Debian",
    "rhel": "RedHat",
    "rocky": "Rocky",
    "almalinux": "AlmaLinux",
    "centos": "CentOS",
    "fedora": "Fedora",
    "ol": "OracleLinux",
}


def system_facts(host: Host) -> dict[str, t.Any]:
    """Return distribution, distribution_major_version, os_family, pkg_mgr and kernel; None if unreadable."""
    found = read_distribution(host)
    return {
        "distribution": NAMES.get(found["id"], found["id"].capitalize() or None),
        "distribution_major_version": found["major"] or None,
        "os_family": found["family"] or None,
        "pkg_mgr": package_manager(host),
        "kernel": (host.read_text("/proc/sys/kernel/osrelease") or "").strip() or None,
    }
