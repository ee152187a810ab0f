# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions as comparable numbers."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)")


def version_key(text: object) -> tuple[int, ...]:
    """Return the leading numbers of a version: (580, 159, 4) for v580.159.04; empty without any.

    An empty key is older than every version, so that an unknown version never counts as a new one.
    """
    matched = _NUMBERS.match(text) if isinstance(text, str) else None
    return tuple(int(part) for part in matched.group(1).split(".")) if matched else ()


def is_version(text: object) -> bool:
    """Return whether a string begins with a version's numbers, not with words such as ``N/A``."""
    return bool(version_key(text))


def at_least(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a version is not older; 1.26 is as good as 1.26.0, an unknown one is not."""
    length = max(len(found), len(wanted))
    padded = [part + (0,) * (length - len(part)) for part in (found, wanted)]
    return bool(found) and padded[0] >= padded[1]
