# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Linux distribution of this machine, from /etc/os-release (os-release(5))."""

from __future__ import annotations

import re
import typing as t

from .host import Host

OS_RELEASE = "/etc/os-release"
DEBIAN, REDHAT = "Debian", "RedHat"
# Families by identifier of os-release; ID_LIKE is read in the same way.
FAMILIES = {
    "debian": DEBIAN,
    "ubuntu": DEBIAN,
    "amzn": REDHAT,
    "rhel": REDHAT,
    "centos": REDHAT,
    "fedora": REDHAT,
    "rocky": REDHAT,
    "almalinux": REDHAT,
}
# Reasons against unsupported distributions, by identifier and major version.
UNSUPPORTED = {
    ("amzn", "2"): (
        "Amazon Linux 2 is not supported: its Python 3.7 is too old for this collection and AWS ended its support on "
        "2026-06-30; use Amazon Linux 2023, Ubuntu 22.04 or newer, or RHEL 9"
    ),
}


def read_distribution(host: Host) -> dict[str, str]:
    """Return id, version, major, name, title and family (Debian, RedHat or empty); unknown values are empty."""
    return parse_os_release(host.read_text(OS_RELEASE) or "")


def parse_os_release(text: str) -> dict[str, str]:
    """Return the result of ``read_distribution`` for the text of an os-release file."""
    values = dict(re.findall(r'^(\w+)=["\']?([^"\'\n]*)["\']?$', text, re.MULTILINE))
    known = [values.get("ID", ""), *values.get("ID_LIKE", "").split()]
    version = values.get("VERSION_ID", "")
    return {
        "id": values.get("ID", ""),
        "version": version,
        "major": version.partition(".")[0],
        "name": values.get("NAME", ""),
        "title": values.get("PRETTY_NAME", ""),
        "family": next((FAMILIES[name] for name in known if name in FAMILIES), ""),
    }


def distribution_problems(distribution: t.Mapping[str, str]) -> list[str]:
    """Return why no role can work on this distribution, a sentence each; unknown distributions are not refused."""
    found = UNSUPPORTED.get((distribution["id"], distribution["major"]))
    return [found] if found else []
