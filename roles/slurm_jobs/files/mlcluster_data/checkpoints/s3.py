# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints kept in S3, for clusters without a shared file system."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from ..files import s3
from ..files.durable import Directory, FileSum
from ..locks import s3 as lock_s3
from ..locks.s3 import S3Lock
from . import directory as checkpoint_store
from .directory import (
    COMPLETE,
    INDEX,
    LATEST,
    TORN,
    Guard,
    Manifest,
    StoreError,
    TornError,
    is_naming,
    naming,
    step_name,
    step_of,
)

LOGGER = logging.getLogger("mlcluster.data")


class S3Store:
    """A prefix in S3. There is no rename there: a checkpoint is published by the object ``complete``, written last."""

    in_place = False

    def __init__(self, prefix: s3.Prefix) -> None:
        self.prefix = prefix
        self.url = prefix.url

    def lock(self, stale_seconds: float | None = None) -> Guard:
        return S3Lock(self.prefix, stale_seconds or lock_s3.STALE_SECONDS)

    def prepare(self) -> None:
        self._remove_unpublished()
        self._name_newest()

    def _name_newest(self) -> None:
        steps = self.steps()
        named = self.prefix.get(LATEST)
        if not is_naming(named):
            LOGGER.warning("%s/%s is of another program, so it stays", self.url, LATEST)
        elif steps and named != naming(steps[0]):
            self.prefix.put(LATEST, naming(steps[0]))
        elif named and not steps:
            self.prefix.delete([LATEST])

    def put(self, step: int, token: str, source: Path) -> FileSum:
        name = step_name(step)
        # An unfinished checkpoint has no name of its own, so its files would replace those of a good one.
        if self.prefix.get(f"{name}/{COMPLETE}") is not None:
            raise StoreError(f"{self.url}/{name} is there already: resume from it, or give this run its own prefix")
        return self.prefix.put_file(f"{name}/{source.name}", source)[0]

    def publish(self, step: int, token: str, manifest: Manifest, index: Path) -> None:
        name = step_name(step)
        files = {**manifest.files, INDEX: self.put(step, token, index)}
        sizes = {entry: of.size for entry, of in self.prefix.list(f"{name}/").items()}
        other = [file for file, of in files.items() if sizes.get(f"{name}/{file}") != of.size]
        if other:
            raise StoreError(
                f"{self.url}/{name}/{other[0]} differs from what was sent: another run writes there, so end one of them"
            )
        self.prefix.put(f"{name}/{COMPLETE}", dataclasses.replace(manifest, files=files).text())
        if is_naming(self.prefix.get(LATEST)):
            self.prefix.put(LATEST, naming(step))

    def discard(self, step: int, token: str) -> None:
        name = step_name(step)
        entries = self.prefix.list(f"{name}/")
        if f"{name}/{COMPLETE}" not in entries:
            self.prefix.delete(entries)

    def steps(self) -> list[int]:
        found = (entry.rpartition("/") for entry in self.prefix.list("step-"))
        numbers = (step_of(folder) for folder, _sep, name in found if name == COMPLETE)
        return sorted((step for step in numbers if step is not None), reverse=True)

    def manifest(self, step: int) -> Manifest:
        name = step_name(step)
        text = self.prefix.get(f"{name}/{COMPLETE}")
        if text is None:
            raise TornError(f"{self.url}/{name}/{COMPLETE} is missing")
        return Manifest.parse(text, f"{self.url}/{name}", step)

    def check(self, step: int, files: Mapping[str, FileSum], copy_to: Path | None) -> list[str]:
        problems = []
        for name, wanted in files.items():
            key = f"{step_name(step)}/{name}"
            try:
                found = self._fetch(key, name, copy_to) if copy_to else self.prefix.measure(key)
            except s3.AbsentError as exc:
                problems.append(str(exc))
                continue
            if found != wanted:
                problems.append(f"{self.url}/{key} has other content than was written")
        return problems

    def _fetch(self, key: str, name: str, copy_to: Path) -> FileSum:
        with Directory.open(copy_to) as folder, folder.making(name, 0o600, sync=False) as file:
            return self.prefix.fetch(key, file, copy_to / name)

    def signature(self, step: int) -> object:
        return self.prefix.list(f"{step_name(step)}/")

    def has_torn(self) -> bool:
        return bool(self.prefix.list(TORN))

    def set_aside(self, step: int) -> None:
        # Without it the rest is not a checkpoint any more. It stays until forget_torn(), or the next save of its step.
        name = step_name(step)
        self.prefix.put(f"{TORN}{name}-{time.time_ns():x}/{COMPLETE}", self.prefix.get(f"{name}/{COMPLETE}") or b"")
        self.prefix.delete([f"{name}/{COMPLETE}"])
        self._name_newest()

    def _torn(self) -> dict[str, int]:
        """Return the step of each checkpoint that was set aside, by the name of its object."""
        steps = {entry: checkpoint_store.torn_step(entry.partition("/")[0]) for entry in self.prefix.list(TORN)}
        return {entry: step for entry, step in steps.items() if step is not None}

    def forget_torn(self, until: int) -> None:
        found = {entry: step for entry, step in self._torn().items() if step <= until}
        for step in sorted(set(found.values()).difference(self.steps())):
            self.prefix.delete(self.prefix.list(f"{step_name(step)}/"))
        self.prefix.delete(found)

    def remove(self, step: int) -> None:
        name = step_name(step)
        # Removed first: without this object the rest does not count as a checkpoint.
        self.prefix.delete([f"{name}/{COMPLETE}"])
        self.prefix.delete(self.prefix.list(f"{name}/"))

    def _remove_unpublished(self) -> None:
        entries = self.prefix.list("step-")
        published = {checkpoint_store.step_name(step) for step in self.steps()}
        kept = {step_name(step) for step in self._torn().values()}
        folders = {entry.partition("/")[0] for entry in entries}
        for folder in sorted(folders - published - kept):
            if step_of(folder) is not None:
                self.prefix.delete(s3.names_of(list(entries), folder))
