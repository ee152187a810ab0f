# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Systemd units in the output of systemctl."""

from __future__ import annotations

import re

from .host import Host

UNITS = "/etc/systemd/system"
WANTS = f"{UNITS}/multi-user.target.wants"
_MASK = "/dev/null"


def parse_units(text: str) -> dict[str, dict[str, str]]:
    """Parse ``systemctl show`` of several units into {Id: {property: value}}; an empty line separates the blocks."""
    units = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id"):
            units[fields["Id"]] = fields
    return units


def starts_at_boot(host: Host, unit: str) -> bool:
    """Return whether systemd starts a unit at boot: multi-user.target wants it, it is there, and it is not masked.

    The link of the target outlasts a removed unit, and a mask changes nothing but the unit's own file.
    """
    link = f"{WANTS}/{unit}"
    return host.exists(link) and _MASK not in (host.realpath(link), host.realpath(f"{UNITS}/{unit}"))
