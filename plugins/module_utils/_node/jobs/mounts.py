# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts of a container: the configured ones, and those for every path of its job. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from ..system.host import NodeError


@dataclasses.dataclass(frozen=True)
class Path:
    """A path that must be the same directory inside and outside of the container, and the option that has it."""

    option: str
    path: str
    written: bool


def container_mounts(paths: Iterable[Path], configured: Sequence[str]) -> list[str]:
    """Return SOURCE:TARGET[:FLAGS] for ``srun --container-mounts``, each directory before those below it.

    Raises NodeError if a configured mount shows another directory under one of the paths, or forbids to write.
    """
    # Enroot mounts in this order, and a later mount hides an earlier one at or below its target.
    configured = sorted(configured, key=lambda mount: len(_target(mount)))
    added: list[str] = []
    for one in sorted(paths, key=lambda entry: entry.path):
        if re.search(r"[,:\s]", one.path):
            raise NodeError(
                f"{one.option} is {one.path!r}, and a list of mounts is split at commas, colons and blanks: use a "
                "path without them"
            )
        cover = next((mount for mount in reversed(configured) if _below(one.path, _target(mount))), None)
        if cover is not None:
            _check(one, cover)
        elif not any(_below(one.path, path) for path in added):
            added.append(one.path)
    return [f"{path}:{path}" for path in added] + configured


def _target(mount: str) -> str:
    return mount.split(":")[1].rstrip("/") or "/"


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _check(one: Path, mount: str) -> None:
    source, _target_of, *flags = mount.split(":")
    target = _target(mount)
    seen = source.rstrip("/") + one.path[len(target.rstrip("/")) :]
    if seen != one.path:
        raise NodeError(
            f"{one.option} is {one.path}, and with {mount} in container_mounts that is {seen or '/'} inside of the "
            f"container: mount it under its own path, or choose another {one.option}"
        )
    if one.written and any("ro" in flag.replace("+", ",").split(",") for flag in flags):
        raise NodeError(f"{one.option} is {one.path}, and {mount} in container_mounts is read-only: leave ro out")
