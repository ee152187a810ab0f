# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own bandwidths: ``mlcluster.nccl_baseline/1``, by tool, instance type, nodes, collective and size.

``{"schema": ..., "entries": [{"tool", "instance_type", "nodes", "collective", "size", "busbw", "ranks", "recorded"}]}``
"""

from __future__ import annotations

import json
import posixpath
import typing as t

from ..system.host import Host, NodeError

SCHEMA = "mlcluster.nccl_baseline/1"
# GB/s; no link comes near it.
MAX_BUSBW = 1_000_000
# Far above the time to read and write the file. Any user who may write it may record next.
LOCK_SECONDS = 60
LOCK_MODE = 0o666
_KEY = ("tool", "instance_type", "nodes", "ranks", "collective", "size")
_TYPES: dict[str, t.Any] = {
    "tool": str,
    "instance_type": str,
    "nodes": int,
    "collective": str,
    "size": int,
    "busbw": (int, float),
    "ranks": int,
    "recorded": str,
}

Entry = dict[str, t.Any]


def _valid(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == set(_TYPES)
        and all(isinstance(entry[name], kind) and not isinstance(entry[name], bool) for name, kind in _TYPES.items())
        and 0 < entry["busbw"] < MAX_BUSBW
        and entry["nodes"] > 0
        and entry["ranks"] > 0
        and entry["size"] > 0
    )


def load(host: Host, path: str, missing_ok: bool = False) -> list[Entry]:
    """Return the entries of a baseline file. Raises ``NodeError`` if it is missing (unless missing_ok) or invalid."""
    text = host.read_text(path)
    if text is None:
        if missing_ok and not host.exists(path):
            return []
        raise NodeError(f"looked for the baseline {path} and could not read it: record one with a good run")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise NodeError(f"the baseline {path} is not valid JSON ({exc}): repair it, or record a new one") from None
    entries = document.get("entries") if isinstance(document, dict) and document.get("schema") == SCHEMA else None
    if not isinstance(entries, list) or not all(map(_valid, entries)):
        raise NodeError(f"{path} is not a baseline of the kind {SCHEMA}: use the file that a good run was recorded in")
    return entries


def figures(
    entries: t.Iterable[Entry],
    tool: str,
    instance_type: str | None,
    nodes: int | None,
    ranks: int | None,
    collective: str | None,
) -> dict[int, float]:
    """Return {size: bus bandwidth} of the entries for exactly this."""
    wanted = (tool, instance_type, nodes, ranks, collective)
    return {
        entry["size"]: float(entry["busbw"]) for entry in entries if tuple(entry[name] for name in _KEY[:5]) == wanted
    }


def record(host: Host, path: str, fresh: t.Sequence[Entry], write: bool = True) -> bool:
    """Write entries into a baseline file, replacing those for the same run; return whether the file changed.

    Recording the same figures again changes nothing. Concurrent recordings are merged. Raises ``NodeError`` if the file
    is not a baseline.
    """
    changed = _merged(host, path, fresh)[1]
    if not (changed and write):
        return changed
    real = host.realpath(path)
    # The lock is beside the file, because each recording replaces the file, and with it a lock on it.
    lock = posixpath.join(posixpath.dirname(real), f".{posixpath.basename(real)}.lock")
    try:
        with host.locked(lock, LOCK_SECONDS, LOCK_MODE):
            entries, changed = _merged(host, path, fresh)
            if changed:
                document = {"schema": SCHEMA, "entries": entries}
                host.write_text(real, json.dumps(document, indent=1, sort_keys=True) + "\n")
            return changed
    except OSError as exc:
        raise NodeError(
            f"could not write the baseline {path} ({exc.strerror}): use a path in a directory that can be written, of "
            "a file system that has locks"
        ) from exc


def _merged(host: Host, path: str, fresh: t.Sequence[Entry]) -> tuple[list[Entry], bool]:
    """Return the entries of the file merged with the fresh ones, and whether that changes them."""
    merged = {tuple(entry[name] for name in _KEY): entry for entry in load(host, path, missing_ok=True)}
    changed = False
    for entry in fresh:
        key = tuple(entry[name] for name in _KEY)
        old = merged.get(key)
        if old is None or old["busbw"] != entry["busbw"]:
            merged[key], changed = entry, True
    return [merged[key] for key in sorted(merged)], changed
