# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A restore does not trust names and types in a manifest, and entries that other users planted in its target."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup
from mlcluster_data.files import durable, s3

from tests.data.support.fake_s3 import _server, server
from tests.data.support.planted import PLANTED, plant

__all__ = ["_server", "server"]


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"one")
    (folder / "sub" / "b").write_bytes(b"two")
    return folder


@pytest.mark.parametrize("what", PLANTED)
def test_planted_names_are_replaced_or_rejected(source, server, tmp_path, what):
    """Covers every name that a restore makes, and those of locks and partial files."""
    backup.Backup(source, server.prefix()).push()
    assert backup.Backup(tmp_path / "first", server.prefix()).restore().ok
    names = [path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*")]
    assert {str(name) for name in names} >= {"a", "sub", "sub/b"}
    # Earlier versions derived a partial file's name from the file's.
    names += [Path(".lock"), Path(".job-lock"), Path(f".{hashlib.sha256(b'a').hexdigest()[:16]}.part")]
    (tmp_path / "victims").mkdir()
    victim = tmp_path / "victims" / "file"
    for at, name in enumerate(names):
        target = tmp_path / f"target{at}"
        (target / name).parent.mkdir(parents=True)
        victim.write_bytes(b"precious")
        plant(target / name, what, victim.parent if str(name) == "sub" else victim)
        for options in ((), ("--overwrite",)):
            command.main(["backup", "restore", server.prefix().url, str(target), *options])
            assert victim.read_bytes() == b"precious" and os.listdir(victim.parent) == ["file"], name
            assert not (tmp_path / "absent").exists()


def test_unfinished_files_of_killed_restore_are_removed(source, server, tmp_path):
    backup.Backup(source, server.prefix()).push()
    target = tmp_path / "target"
    assert backup.Backup(target, server.prefix()).restore().ok
    name = next(path for path in sorted(target.rglob("*")) if path.is_file() and not path.name.startswith("."))
    digits = "0123456789abcdef"
    left = name.with_name(f".{name.name}.{digits}.part")
    own = [name.with_name(f".other.{digits}.part"), name.with_name(f".{name.name}.mine.part"), tmp_path / left.name]
    link = name.with_name(f".{name.name}.{digits[::-1]}.part")
    link.symlink_to(name)
    for path in (left, *own):
        path.write_text("x")
    assert backup.Backup(target, server.prefix()).restore().ok
    assert not left.exists() and all(path.exists() for path in (*own, link))


def test_unfinished_file_of_long_name_is_removed(source, server, tmp_path):
    """Its own name has only the beginning of that of the file."""
    name, target = "é" * 120, tmp_path / "target"
    (source / name).write_text("x")
    backup.Backup(source, server.prefix()).push()
    target.mkdir()
    left = target / durable.aside_of(name)
    left.write_text("x")
    assert backup.Backup(target, server.prefix()).restore().ok
    assert (target / name).exists() and not left.exists()


def test_link_below_target_is_reported_and_not_followed(source, server, tmp_path, capsys):
    backup.Backup(source, server.prefix()).push()
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "sub").symlink_to(tmp_path / "elsewhere")
    assert command.main(["backup", "restore", server.prefix().url, str(target), "--overwrite"]) == 1
    assert f"ERROR: {target}/sub: is a symbolic link, which is not followed" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("size", "1"), ("size", None), ("sha256", 1), ("etag", []), ("mode", "755"), ("mode", True), ("changed", 1.5)],
)
def test_manifest_with_another_type_is_rejected(server, tmp_path, key, value):
    entry = {"size": 1, "sha256": "", "etag": "", "mode": 420, "changed": 0, key: value}
    server.prefix().put(backup.MANIFEST, json.dumps({"schema": backup.SCHEMA, "files": {"a": entry}}).encode())
    with pytest.raises(backup.BackupError, match="is not a manifest of a backup"):
        backup.Backup(tmp_path, server.prefix()).restore()


def test_repeatedly_changed_manifest_is_failure(source, server, capsys, monkeypatch):
    """Sent files that are not in the manifest are not a backup."""
    for verb in ("create", "replace"):
        monkeypatch.setattr(backup.s3.Prefix, verb, lambda *_given: None)
    assert command.main(["backup", "push", str(source), server.prefix().url]) == 1
    assert f"was changed by others {backup.MANIFEST_TRIES} times in a row: back up again" in capsys.readouterr().err


def test_nothing_is_restored_above_a_lock_that_is_held(source, server, tmp_path):
    backup.Backup(source, server.prefix()).push()
    target = tmp_path / "target"
    (target / "sub").mkdir(parents=True)
    lock = backup.Lock(target / "sub")
    lock.acquire()
    try:
        with pytest.raises(backup.LockedError, match=f"{target}/sub is in use by process {os.getpid()}"):
            backup.Backup(target, server.prefix()).restore()
    finally:
        lock.release()
    assert os.listdir(target) == ["sub"] and os.listdir(target / "sub") == []


def test_file_that_goes_while_it_is_restored_is_problem(source, server, tmp_path, monkeypatch):
    """Another program removed the folder that it was made in: it is not there, so the restore is not complete."""
    prefix = server.prefix()
    assert backup.Backup(source, prefix).push().ok

    def vanish(self, _name, _file, where):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(where))

    monkeypatch.setattr(s3.Prefix, "fetch", vanish)
    report = backup.Backup(tmp_path / "target", prefix).restore()
    assert not report.ok and report.gone == [] and "No such file or directory" in report.problems[0]
