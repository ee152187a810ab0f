# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pinned packages a node does not have in their version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def unlike_pinned(
    packages: Sequence[Mapping[str, Any]], installed: Mapping[str, str | None]
) -> list[Mapping[str, Any]]:
    """Those of ``packages`` (each with name and version) that ``installed`` (name to version) lacks or has otherwise.

    An epoch, as in 1:2.3-4, is not compared: module efa_info gives versions without it.
    """
    return [
        package
        for package in packages
        if installed.get(package["name"]) != re.sub(r"^\d+:", "", str(package["version"]))
    ]


def pinned_spec(package: Mapping[str, Any], joint: str) -> str:
    """How a package manager is asked for that version: name, joint (= for apt, - for dnf) and version."""
    return f"{package['name']}{joint}{package['version']}"
