# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions in dotted numbers: their order."""

from __future__ import annotations

import re


def version_key(text: object) -> tuple[int, ...] | None:
    """The numbers at the beginning of a version, v580.159.04 as (580, 159, 4); None where it begins with none."""
    matched = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", text) if isinstance(text, str) else None
    return tuple(int(part) for part in matched.group(1).split(".")) if matched else None


def at_least(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether one version is not older; 1.26 is as good as 1.26.0."""
    length = max(len(found), len(wanted))
    padded = [part + (0,) * (length - len(part)) for part in (found, wanted)]
    return padded[0] >= padded[1]


def version_tuple(text: str | None) -> tuple[int, ...]:
    """The leading numbers of a version, () without any: "6.8.0-1021-aws" gives (6, 8, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return tuple(int(part) for part in found.group().split(".")) if found else ()
