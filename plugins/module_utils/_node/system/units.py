# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Systemd units in the output of systemctl."""

from __future__ import annotations

import re


def parse_units(text: str) -> dict[str, dict[str, str]]:
    """Parse ``systemctl show`` of several units into {Id: {property: value}}; an empty line separates the blocks."""
    units = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id"):
            units[fields["Id"]] = fields
    return units
