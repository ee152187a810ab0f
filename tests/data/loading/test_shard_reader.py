# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cache of shards frees space by removing its own files only."""

from __future__ import annotations

import hashlib
import os

from mlcluster_data.corpus.manifest import Shard
from mlcluster_data.loading import shard_reader


def shard_of(content: bytes) -> Shard:
    return Shard("shard-00000-00000.tar", 1, 1, 1, len(content), hashlib.sha256(content).hexdigest(), 0)


def test_cache_keeps_files_of_others(tmp_path):
    """The folder has files of others, as /data has, and a partial shard of a killed run."""
    (tmp_path / "folder").mkdir()
    for name in ("weights.bin", "shard-00000-00000.tar", ".hidden", f"{'0' * 23}-x"):
        (tmp_path / name).write_bytes(b"x" * 5000)
        os.utime(tmp_path / name, (1, 1))
    mine = sorted(path.name for path in tmp_path.iterdir())
    first, second = b"1" * 4000, b"2" * 4000
    (tmp_path / f".{shard_of(first).sha256[:24]}-abc.part").write_bytes(b"half")
    cache = shard_reader.Cache(tmp_path, max_bytes=4000)
    for content in (first, second):
        cache.keep(shard_of(content), content)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*mine, cache.path(shard_of(second)).name])


def test_shard_with_removed_partial_file_is_not_cached(tmp_path, monkeypatch):
    cache, content = shard_reader.Cache(tmp_path), b"1" * 4000

    def gone(*names, **handles):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(shard_reader.os, "replace", gone)
    cache.keep(shard_of(content), content)
    assert not cache.path(shard_of(content)).exists() and not cache.full


def test_planted_link_in_cache_is_not_touched(tmp_path):
    """The link may lead to the right content; its time of use would change."""
    content = b"1" * 4000
    victim = tmp_path / "victim"
    victim.write_bytes(content)
    os.utime(victim, (1, 1))
    cache = shard_reader.Cache(tmp_path / "cache")
    cache.path(shard_of(content)).symlink_to(victim)
    assert cache.read(shard_of(content)) == content
    assert victim.stat().st_mtime == 1
    cache.keep(shard_of(content), content)
    assert not cache.path(shard_of(content)).is_symlink() and victim.stat().st_mtime == 1
