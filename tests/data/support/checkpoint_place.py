# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A directory for checkpoints with ranks that save and load them, and functions that inspect and damage them."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints import save as checkpoint
from mlcluster_data.checkpoints.directory import DirectoryStore
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.checkpoints.save import Checkpointer

from tests.data.support.forked import ranks


def empty() -> dict:
    return {"model": {"shared": torch.zeros(2000), "other": torch.zeros(3)}}


def filled(step: int) -> dict:
    return {"model": {"shared": torch.full((2000,), float(step)), "other": torch.arange(3) * float(step)}}


def own(step: int) -> dict:
    return {"place": checkpoint.pack({"rank": dist.get_rank(), "step": step}), "random": torch.get_rng_state()}


class Place:
    """A directory for checkpoints, a local disk, and ranks that use them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept = root / "kept"
        self.local = root / "local"

    def open(self, **options) -> Checkpointer:
        return Checkpointer(DirectoryStore(self.kept), self.local, **options)

    def save(self, *steps: int, count: int = 1, **options) -> list:
        def work(report):
            opened = self.open(**options)
            found = []
            for step in steps:
                found.append(opened.save(step, filled(step), own(step)))
            return [*found[1:], opened.close()]

        return ranks(count, work, self.root)

    def load(self, count: int = 1, **options) -> list:
        """Return for each rank (step, whether the state is that of the step, the rank's state), or None."""

        def work(report):
            opened = self.open(**options)
            return looked(opened)

        return ranks(count, work, self.root)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.kept.iterdir())


def looked(opened: Checkpointer):
    state = empty()
    loaded = opened.load(state)
    opened.close()
    if loaded is None:
        return None
    step = loaded.manifest.step
    same = all(torch.equal(state["model"][name], value) for name, value in filled(step)["model"].items())
    mine = loaded.rank_state
    return step, same, checkpoint.unpack(mine["place"]) if mine else None


def damage(path: Path, how: str) -> None:
    data = sorted(path.glob("*.distcp"), key=lambda entry: entry.stat().st_size)[-1]
    if how == "a byte":
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif how == "cut off":
        os.truncate(data, data.stat().st_size // 2)
    elif how == "no data":
        data.unlink()
    elif how == "no index":
        (path / ".metadata").unlink()
    elif how == "no JSON":
        (path / "complete").write_text("{")
    elif how == "index unlisted":
        manifest = DirectoryStore(path.parent).manifest(2)
        files = {name: of for name, of in manifest.files.items() if name != ".metadata"}
        (path / "complete").write_bytes(checkpoint_store.Manifest(2, 1, files, {}).text())


def in_s3(place: Place, server, function, count: int = 1, **options):
    def work(report):
        return function(Checkpointer(S3Store(server.prefix()), place.local, **options))

    return ranks(count, work, place.root)
