# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a role's files have to be written, and which have to go."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

MODE = "0644"
# What a file is called of which only that differs: nobody has to read it again once it is put right.
OUTSIDE = " (mode or owner)"


def file_drift(
    files: Sequence[Mapping[str, Any]],
    sums: Mapping[str, str | None],
    states: Mapping[str, Mapping[str, Any] | None],
) -> list[dict[str, Any]]:
    """What differs from ``sums`` (path to sha256) and ``states`` (path to mode, uid and is_link): for each name, path,
    and text, mode and backup, or ``state: absent``.

    Each of ``files`` has name, paths, wanted, text, mode (0644 if it is left out), and kept (true for a path that
    others may have written too: it is written with a backup, and never removed). Files belong to root. The text of one
    that is not wanted is not looked at. Raises AnsibleFilterError.
    """
    found: list[dict[str, Any]] = []
    for entry in files:
        kept = bool(entry.get("kept"))
        for path in entry["paths"]:
            if path not in sums or path not in states:
                raise AnsibleFilterError(
                    f"file_drift: {path} was not looked at; give it to the module's options files and paths"
                )
            if entry["wanted"]:
                found += _written(entry, path, sums[path], states[path])
            elif sums[path] is not None and not kept:
                found.append({"name": entry["name"], "path": path, "state": "absent"})
    return found


def _written(
    entry: Mapping[str, Any], path: str, checksum: str | None, state: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The file as it has to be written, or nothing where it is as wanted."""
    text, mode = str(entry["text"]), str(entry.get("mode", MODE))
    is_other = hashlib.sha256(text.encode()).hexdigest() != checksum
    is_link = bool(state and state["is_link"])
    if not is_other and not (state and (is_link or state["mode"] != mode or state["uid"] != 0)):
        return []
    return [
        {
            "name": entry["name"] if is_other else entry["name"] + OUTSIDE,
            "path": path,
            "text": text,
            "mode": mode,
            "backup": bool(entry.get("kept")) and (is_other or is_link),
        }
    ]
