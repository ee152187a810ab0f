# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.vm import cache
from tests.rig.vm.command import RigError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Builder:
    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, folder: Path) -> None:
        self.runs += 1
        (folder / "disk").write_text(f"contents {self.runs}")


@pytest.mark.parametrize("damage", ["cut", "lost", "manifest", "touched"])
def test_damaged_entry_is_built_again(damage: str) -> None:
    build = Builder()
    entry = cache.ensure("images", "key", build)
    if damage == "cut":
        (entry / "disk").write_text("")
    elif damage == "lost":
        (entry / "disk").unlink()
    elif damage == "manifest":
        (entry / cache.MANIFEST).write_text("{")
    else:
        os.utime(entry / "disk", ns=(1, 1))
    cache.ensure("images", "key", build)
    assert build.runs == 2
    assert (entry / "disk").read_text() == "contents 2"


def test_failed_build_leaves_nothing() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RigError("no")

    with pytest.raises(RigError, match="no"):
        cache.ensure("images", "key", fail)
    assert list((cache.root() / "images").iterdir()) == []


def test_leftovers_of_killed_builder_are_removed() -> None:
    left = cache.root() / "images" / ".new-key-abc"
    other = cache.root() / "images" / ".new-other-abc"
    left.mkdir(parents=True)
    other.mkdir()
    cache.ensure("images", "key", Builder())
    assert not left.exists()
    assert other.exists()


def test_unused_entries_are_removed_at_next_build() -> None:
    build = Builder()
    old, recent = (cache.ensure("images", key, build) for key in ("old", "recent"))
    os.utime(old / cache.MANIFEST, (1, 1))
    cache.ensure("images", "new", build)
    assert not old.exists()
    assert recent.exists()


def test_lock_keeps_another_process_out() -> None:
    program = (
        "from tests.rig.vm import cache\n"
        "try:\n"
        "    with cache.locked('x', 'a test', timeout=0): print('in')\n"
        "except cache.RigError as exc: print(exc)\n"
    )

    def other() -> str:
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    with cache.locked("x", "a test"):
        assert "holds the lock for a test without success" in other()
    assert other() == "in\n"


def test_discard_stays_inside_cache(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.mkdir()
    with pytest.raises(RigError, match="is not inside"):
        cache.discard(outside)
    assert outside.exists()
