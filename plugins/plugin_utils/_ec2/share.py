# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equal texts of many hosts as one object.

ansible-core makes an object of its own of every text that a plugin sets, with a note of where it came from, and takes
such an object as it is when it is set again. Ten thousand hosts are in two regions and of five types.
"""

from __future__ import annotations

from typing import Any

# Fields of a record that no two hosts have in common, which are not worth remembering.
UNIQUE = frozenset(
    {"instance_id", "private_ip_address", "public_ip_address", "private_dns_name", "slurm_node_name", "instance"}
)


class Texts:
    """The texts that ansible-core has stored so far."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def shared(self, value: Any) -> Any:
        """``value``, with every text in it that is known as the object that is known."""
        if isinstance(value, str):
            return self._known.get(value, value)
        if isinstance(value, dict):
            return {key: self.shared(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.shared(item) for item in value]
        return value

    def learn(self, stored: Any) -> None:
        """Remember the texts of a value that ansible-core has stored."""
        if isinstance(stored, str):
            self._known.setdefault(stored, stored)
        elif isinstance(stored, dict):
            for item in stored.values():
                self.learn(item)
        elif isinstance(stored, list):
            for item in stored:
                self.learn(item)
