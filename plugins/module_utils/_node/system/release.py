# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operating system of this machine, in the words that Ansible has for it."""

from __future__ import annotations

import re
import typing as t

from .host import Host
from .packages import package_manager

OS_RELEASE = "/etc/os-release"
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


def parse_release(text: str) -> dict[str, str]:
    """os-release(5) as a mapping; quotes are taken off."""
    return dict(re.findall(r"""^([A-Z_]+)=["']?([^"'\n]*)["']?$""", text, re.MULTILINE))


def system_facts(host: Host) -> dict[str, t.Any]:
    """distribution, distribution_major_version, os_family, pkg_mgr and kernel; None where that cannot be read."""
    found = parse_release(host.read_text(OS_RELEASE) or "")
    identity = found.get("ID", "")
    relatives = [identity, *found.get("ID_LIKE", "").split()]
    family = None
    if "debian" in relatives or "ubuntu" in relatives:
        family = "Debian"
    elif {"rhel", "fedora", "centos", "amzn"} & set(relatives):
        family = "RedHat"
    return {
        "distribution": NAMES.get(identity, identity.capitalize() or None),
        "distribution_major_version": found.get("VERSION_ID", "").partition(".")[0] or None,
        "os_family": family,
        "pkg_mgr": package_manager(host),
        "kernel": (host.read_text("/proc/sys/kernel/osrelease") or "").strip() or None,
    }
