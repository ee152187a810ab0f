# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a role's files have to be written, and which have to go."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError


def file_drift(files: Sequence[Mapping[str, Any]], sums: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """What differs from ``sums`` (path to sha256): name, path, and text, mode, backup or ``state: absent`` for each.

    Each of ``files`` has name, paths, wanted, text, and kept (true for a path that others may have written too: it is
    written with a backup, and never removed). The text of one that is not wanted is not looked at. Raises
    AnsibleFilterError.
    """
    found: list[dict[str, Any]] = []
    for entry in files:
        kept = bool(entry.get("kept"))
        for path in entry["paths"]:
            if path not in sums:
                raise AnsibleFilterError(f"file_drift: {path} was not looked at; give it to the module's option files")
            if entry["wanted"]:
                text = str(entry["text"])
                if hashlib.sha256(text.encode()).hexdigest() != sums[path]:
                    found.append({"name": entry["name"], "path": path, "text": text, "backup": kept})
            elif sums[path] is not None and not kept:
                found.append({"name": entry["name"], "path": path, "state": "absent"})
    return found


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"file_drift": file_drift}
