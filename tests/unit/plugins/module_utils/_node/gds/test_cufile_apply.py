# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes with real files, links, locks and killed processes: either the old file or the new one remains."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import cufile_apply as cufile_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_apply import FileHost, Request, change
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

CHECKOUT = Path(__file__).parents[6]
OLD = b'{\r\n  // compat \xc3\xa9\r\n  "properties": {\r\n    "allow_compat_mode": false\r\n  }\r\n}\r\n'
NEW = OLD.replace(b"false", b"true")
ALLOW = {"properties": {"allow_compat_mode": True}}


@pytest.fixture
def file(tmp_path):
    """A cufile.json as on Ubuntu: a link to a link of the alternatives, that to the file of one CUDA release."""
    target = tmp_path / "cuda-13.0" / "gds" / "cufile.json"
    target.parent.mkdir(parents=True)
    target.write_bytes(OLD)
    target.chmod(0o640)
    (tmp_path / "alternatives").symlink_to(target)
    (tmp_path / "cufile.json").symlink_to("alternatives")
    return tmp_path / "cufile.json"


def target_of(file):
    return file.parent / "cuda-13.0" / "gds" / "cufile.json"


def names(file):
    return sorted(path.name for path in target_of(file).parent.iterdir())


def run(file, dry_run=False, **request):
    return change(
        FileHost(), Request(**{"path": str(file), "settings": ALLOW, **request}), dry_run, str(file.parent / "lock")
    )


def refused(file, **request):
    with pytest.raises(NodeError) as error:
        run(file, **request)
    return str(error.value)


def test_link_is_followed_and_stays(file):
    outcome = run(file)
    assert outcome.target == str(target_of(file))
    assert target_of(file).read_bytes() == NEW
    assert (os.readlink(file), os.readlink(file.parent / "alternatives")) == ("alternatives", str(target_of(file)))
    assert (outcome.before.encode(), outcome.after.encode()) == (OLD, NEW)
    assert outcome.config == {"properties": {"allow_compat_mode": True}}


def test_owner_mode_and_attributes_stay(file):
    target = target_of(file)
    if os.geteuid() == 0:
        os.chown(target, 1234, 2345)
    has_attributes = True
    try:
        os.setxattr(target, "user.note", b"ours")
    except OSError:
        has_attributes = False
    before = target.stat()
    run(file)
    after = target.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert after.st_ino != before.st_ino
    if has_attributes:
        assert os.getxattr(target, "user.note") == b"ours"


def test_one_copy_for_each_change_with_mode_of_original(file):
    first = run(file)
    copy = Path(first.backup_file)
    assert copy.parent == target_of(file).parent
    assert (copy.read_bytes(), copy.stat().st_mode & 0o7777) == (OLD, 0o640)
    assert run(file).backup_file is None
    second = run(file, settings={"properties": {"allow_compat_mode": False}})
    assert Path(second.backup_file).read_bytes() == NEW
    assert len(names(file)) == 3
    assert run(file, backup=False).backup_file is None
    assert len(names(file)) == 3


def written(file):
    """The attributes of a file that change when it is written, not when it is read."""
    seen = target_of(file).stat()
    return seen.st_ino, seen.st_ctime_ns, seen.st_mtime_ns, seen.st_size


def test_second_run_writes_nothing_and_needs_no_lock(file):
    run(file, backup=False)
    before = written(file)
    (file.parent / "lock").unlink()
    assert run(file).changes == []
    assert written(file) == before
    assert not (file.parent / "lock").exists()


def test_dry_run_reports_same_and_writes_nothing(file):
    outcome = run(file, dry_run=True)
    assert (outcome.after.encode(), len(outcome.changes), outcome.backup_file) == (NEW, 1, None)
    assert target_of(file).read_bytes() == OLD
    assert sorted(path.name for path in file.parent.iterdir()) == ["alternatives", "cuda-13.0", "cufile.json"]


def test_keys_are_taken_out(file):
    outcome = run(file, settings={}, keys=["properties.allow_compat_mode", "denylist"])
    assert [(item.key, item.before, item.after) for item in outcome.changes] == [
        ("properties.allow_compat_mode", False, None)
    ]
    assert target_of(file).read_bytes() == OLD.replace(b'    "allow_compat_mode": false\r\n', b"")


def test_missing_file_is_made_only_on_request(file):
    target_of(file).unlink()
    assert refused(file) == (
        f"{file} does not exist (it leads to {target_of(file)}): install libcufile, which contains it, or set create "
        "to true"
    )
    outcome = run(file, create=True)
    assert (outcome.before, outcome.backup_file) == ("", None)
    assert target_of(file).read_text() == '{\n    "properties": {\n        "allow_compat_mode": true\n    }\n}\n'
    assert target_of(file).stat().st_mode & 0o7777 == 0o644
    assert file.is_symlink()
    assert run(file, create=True).changes == []


def test_missing_file_needs_no_removal(file):
    target_of(file).unlink()
    assert run(file, settings={}, keys=["denylist"]).changes == []
    assert not target_of(file).exists()


def test_missing_directory_is_rejected(file):
    target_of(file).unlink()
    target_of(file).parent.rmdir()
    assert f"since {target_of(file).parent} does not exist: create it first" in refused(file, create=True)


@pytest.mark.parametrize("what", ["directory", "pipe", "circle"])
def test_other_file_types_are_rejected(file, what):
    target = target_of(file)
    target.unlink()
    if what == "directory":
        target.mkdir()
    elif what == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to(file)
    assert ("a circular link" if what == "circle" else "not a plain file") in refused(file)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": 1, "a": 2}',
        b"{ /* }",
        b"\xef\xbb\xbf{}",
        b'{"a": "\x00"}',
        b'{"a": ' + b"[" * 5000,
        b" " * 300000 + b"{}",
        b'{"properties": 5}',
        b'{"properties": {"allow_compat_mode": false,}}',
        b"\xff\xfe{\x00}\x00",
    ],
)
def test_hostile_file_is_left_unchanged(file, data):
    target_of(file).write_bytes(data)
    sentence = refused(file)
    assert sentence.startswith(f"{file} ")
    assert "\n" not in sentence
    assert target_of(file).read_bytes() == data
    assert names(file) == ["cufile.json"]


def test_invalid_setting_is_rejected_before_file_is_read(file):
    target_of(file).write_bytes(b"{")
    assert refused(file, settings={"x": {"y": 1}}).startswith("x.y is a setting that libcufile does not know")


def test_missing_log_directory_is_rejected_except_in_dry_run(file):
    settings = {"logging": {"dir": str(file.parent / "log")}}
    assert "logging.dir names" in refused(file, settings=settings)
    assert names(file) == ["cufile.json"]
    assert len(run(file, settings=settings, dry_run=True).changes) == 1
    (file.parent / "log").mkdir()
    assert run(file, settings=settings).config["logging"] == {"dir": str(file.parent / "log")}


def test_full_filesystem_leaves_old_file(file, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cufile_file.os, "fsync", full)
    assert f"{target_of(file)} could not be replaced (No space left on device) and is unchanged" in refused(
        file, backup=False
    )
    assert (target_of(file).read_bytes(), names(file)) == (OLD, ["cufile.json"])


def test_concurrent_write_is_not_overwritten(file):
    class Racing(FileHost):
        def copy_beside(self, path, data):
            Path(path).write_bytes(b'{"theirs": 1}')
            return super().copy_beside(path, data)

    request = Request(path=str(file), settings=ALLOW)
    with pytest.raises(
        NodeError, match="was changed by another program at the same time and was not written: run again"
    ):
        change(Racing(), request, lock=str(file.parent / "lock"))
    assert target_of(file).read_bytes() == b'{"theirs": 1}'


def test_lock_timeout_is_reported_in_one_sentence(file, monkeypatch):
    monkeypatch.setattr(cufile_file, "LOCK_SECONDS", 0.3)
    with (file.parent / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert refused(file) == (
            f"{file} was not changed, since another run has held {file.parent}/lock for 0.3 seconds: let it end (ps "
            "shows it) and run again"
        )
        assert target_of(file).read_bytes() == OLD
    assert len(run(file).changes) == 1


def test_unopenable_lock_is_named(file):
    (file.parent / "lock").mkdir()
    assert f"could not open the lock {file.parent}/lock" in refused(file)


def script(file, body, number=4):
    """A process that changes the file after body has been run in it."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
            import os, signal, sys
            from tests.unit.plugins.inventory import finder
            finder.install()
            from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import cufile_apply as cufile_file
            file, lock, number = sys.argv[1:]
            """)
            + textwrap.dedent(body)
            + textwrap.dedent("""
            settings = {"properties": {"allow_compat_mode": True}, "fs": {"lustre": {"posix_gds_min_kb": int(number)}}}
            cufile_file.change(cufile_file.FileHost(), cufile_file.Request(path=file, settings=settings), lock=lock)
            """),
            str(file),
            str(file.parent / "lock"),
            str(number),
        ],
        cwd=CHECKOUT,
    )


@pytest.mark.parametrize(
    ("moment", "is_new"),
    [
        ("os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)", False),
        ("os.fchmod = lambda *_: os.kill(os.getpid(), signal.SIGKILL)", False),
        ("os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)", False),
        ("r = os.replace; os.replace = lambda *a, **b: (r(*a, **b), os.kill(os.getpid(), signal.SIGKILL))", True),
    ],
)
def test_killed_run_leaves_old_or_new_file(file, moment, is_new):
    assert script(file, moment).wait() == -signal.SIGKILL
    found = target_of(file).read_bytes()
    assert found.startswith(NEW[:60]) if is_new else found == OLD
    assert run(file).config["properties"] == {"allow_compat_mode": True}


def test_runs_at_same_time_lose_nothing(file):
    others = [script(file, "", number) for number in (4, 8, 12)]
    assert [other.wait() for other in others] == [0, 0, 0]
    config = run(file).config
    assert config["properties"] == {"allow_compat_mode": True}
    assert config["fs"]["lustre"]["posix_gds_min_kb"] in (4, 8, 12)
    assert not [name for name in names(file) if name.startswith(".")]


def test_half_copy_on_full_filesystem_does_not_stay(file, monkeypatch):
    target = file.resolve()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cufile_file.os, "fsync", full)
    with pytest.raises(NodeError, match=r"No space left on device.*is unchanged"):
        change(FileHost(), Request(path=str(file), settings=ALLOW), lock=str(file.parent / "lock"))
    assert ([path.name for path in target.parent.iterdir()], target.read_bytes()) == (["cufile.json"], OLD)


def test_failed_replace_leaves_no_copy(file, monkeypatch):
    target = file.resolve()

    def busy(one, other, **_more):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(cufile_file.os, "replace", busy)
    with pytest.raises(NodeError, match=r"Device or resource busy.*the file itself is not a mount"):
        change(FileHost(), Request(path=str(file), settings=ALLOW), lock=str(file.parent / "lock"))
    assert ([path.name for path in target.parent.iterdir()], target.read_bytes()) == (["cufile.json"], OLD)


def test_copy_is_on_disk_before_file_is_replaced(file, synced):
    copy = run(file).backup_file
    folder = str(target_of(file).parent)
    assert synced[:2] == [copy, folder] and synced[-1] == folder and len(synced) == 4
