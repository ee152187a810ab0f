# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share equal strings of many hosts as one object.

ansible-core makes a tagged object of every string that a plugin sets, and reuses such an object if it is set again. Ten
thousand hosts are in two regions and of five types.
"""

from __future__ import annotations

from typing import Any

# Fields of a record that differ for each host, and are not remembered.
UNIQUE = frozenset(
    {"instance_id", "private_ip_address", "public_ip_address", "private_dns_name", "slurm_node_name", "instance"}
)


class StringPool:
    """The strings that ansible-core has stored so far."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def pooled(self, value: Any) -> Any:
        """Return ``value`` with its known strings replaced by the stored objects."""
        if isinstance(value, str):
            return self._known.get(value, value)
        if isinstance(value, dict):
            return {key: self.pooled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.pooled(item) for item in value]
        return value

    def add(self, stored: Any) -> None:
        """Remember the strings of a value that ansible-core has stored."""
        if isinstance(stored, str):
            self._known.setdefault(stored, stored)
        elif isinstance(stored, dict):
            for item in stored.values():
                self.add(item)
        elif isinstance(stored, list):
            for item in stored:
                self.add(item)
