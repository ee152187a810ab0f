# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Libraries of the dynamic linker."""

from __future__ import annotations

import re


def parse_ldconfig(text: str) -> dict[str, list[str]]:
    """Parse ``ldconfig -p`` into {library name: [paths]} in the order of preference."""
    libraries: dict[str, list[str]] = {}
    for name, path in re.findall(r"^[ \t]+(\S+) \(.*\) => (/.*\S)", text, re.MULTILINE):
        libraries.setdefault(name, []).append(path)
    return libraries
