# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs' directories and attacks of their users, as root with processes of another user."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what others may not do can only be tried as root")
USER, OTHER = 65534, 1


class OtherBoot(Host):
    """The same machine after a reboot."""

    def read_text(self, path):
        return "another boot\n" if path.endswith("boot_id") else super().read_text(path)


def as_user(script, uid=USER, **options):
    return subprocess.run(["sh", "-c", script], user=uid, group=uid, extra_groups=[], check=True, **options)


def make(base, job=7, uid=USER, host=None):
    return Path(scratch.make(host or Host(), base, job, uid, uid))


def remove(base, job=7, seconds=60):
    return scratch.remove(Host(), base, job, seconds)


def names(base):
    """Return the jobs' directories and the content of the trash."""
    return sorted(path.name for path in [*Path(base).glob("job-*"), *Path(base, ".trash").iterdir()])


def test_directory_is_closed_to_other_users(base):
    own = make(base)
    as_user(f"touch {own}/mine")
    assert (stat.S_IMODE(own.stat().st_mode), own.stat().st_uid) == (0o700, USER)
    assert (stat.S_IMODE(os.stat(base).st_mode), os.stat(base).st_uid) == (0o711, 0)
    for attempt in (f"ls {base}", f"mkdir {base}/x", f"mv {own} {own}2", f"rm -rf {own} && ln -s / {own}"):
        with pytest.raises(subprocess.CalledProcessError):
            as_user(attempt, stderr=subprocess.DEVNULL)
    with pytest.raises(subprocess.CalledProcessError):
        as_user(f"ls {own}", OTHER, stderr=subprocess.DEVNULL)
    assert remove(base).complete
    assert names(base) == []


def test_umask_does_not_change_modes(base):
    before = os.umask(0o077)
    try:
        own = make(base)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (own, own.parent, Path(base))] == [0o700, 0o711, 0o711]


def test_existing_base_keeps_its_mode(base):
    os.mkdir(base, 0o755)
    make(base)
    assert stat.S_IMODE(os.stat(base).st_mode) == 0o755


@pytest.fixture
def full(place):
    """A volume that its user has filled to the last byte."""
    volume = place / "small"
    volume.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0755", "tmpfs", volume], check=True)
    try:
        own = make(f"{volume}/jobs")
        with pytest.raises(subprocess.CalledProcessError):
            as_user(f"cat /dev/zero > {own}/big", stderr=subprocess.DEVNULL)
        yield f"{volume}/jobs"
    finally:
        subprocess.run(["umount", volume], check=True)


def test_full_volume_is_emptied_for_next_job(full):
    assert scratch.free_percent(full)["bytes"] == 0
    with pytest.raises(NodeError, match="No space left on device"):
        make(full, 8)
    assert (remove(full).complete, names(full)) == (True, [])
    assert make(full, 8).is_dir()


def test_missing_directory_counts_as_removed(base):
    make(base)
    assert remove(base, 8).complete
    assert names(base) == ["job-7"]


# Other files at the path of the jobs' directories.


@pytest.mark.parametrize("path", ["relative", "/", "/tmp/../tmp/x", "/tmp/", "//tmp/x"])
def test_unnormalized_path_is_rejected(path):
    with pytest.raises(NodeError, match="use an absolute path without"):
        make(path)


def test_base_of_user_is_rejected(base):
    volume = Path(base).parent
    volume.chmod(0o1777)
    as_user(f"mkdir {base}")
    with pytest.raises(NodeError, match="has owner 65534 and mode"):
        make(base)
    os.rmdir(base)
    as_user(f"ln -s /tmp {base}")
    with pytest.raises(NodeError, match="a link or a file is in its place"):
        make(base)
    os.unlink(base)
    assert make(base).is_dir()


@pytest.mark.parametrize(("mode", "owner"), [(0o777, 0), (0o775, 0), (0o755, USER)])
def test_volume_writable_by_others_is_rejected(base, mode, owner):
    volume = Path(base).parent
    volume.chmod(mode)
    os.chown(volume, owner, 0)
    with pytest.raises(NodeError, match=r"so users other than root could replace it"):
        make(base)


def test_missing_volume_is_reported_and_never_created(base):
    with pytest.raises(NodeError, match="No such file or directory"):
        make(f"{base}/deeper")
    assert not os.path.exists(base)


# The same job again, and ended jobs.


def test_same_job_keeps_files_and_other_user_gets_new_directory(base):
    own = make(base)
    (own / "result").touch()
    assert [path.name for path in make(base).iterdir()] == ["result"]
    assert list(make(base, uid=OTHER).iterdir()) == []
    assert own.stat().st_uid == OTHER


def test_job_gets_new_directory_after_reboot(base):
    (make(base) / "result").touch()
    assert list(make(base, host=OtherBoot()).iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "text", "link", "other"])
def test_foreign_directory_is_kept(base, damage):
    """A site may have used such names before."""
    (make(base) / "precious").touch()
    record = Path(base) / "job-7" / "job.json"
    good = record.rename(record.with_name("good"))
    if damage == "text":
        record.write_text("[1, 2")
    elif damage == "link":
        record.symlink_to(good)
    elif damage == "other":
        record.write_text('{"job_id": 8, "uid": 0}')
    assert scratch.survey(base) == []
    (Path(base) / "job-7x").mkdir()
    assert scratch.remove(Host(), base, 7, 60).complete
    assert list(make(base).iterdir()) == []
    (kept,) = Path(base).glob("foreign-job-7-*")
    assert (kept / "tmp" / "precious").exists()
    assert (Path(base) / "job-7x").is_dir()


def sweep(base, live, known=None, **options):
    return scratch.sweep(Host(), base, known or scratch.survey(base), live, time.time(), **options)


def test_sweep_removes_directories_of_ended_jobs(base):
    for job in (1, 2, 3):
        make(base, job)
    swept = sweep(base, {2})
    assert (sorted(swept.taken), swept.kept, swept.problems) == ([1, 3], [], [])
    assert scratch.empty_trash(Host(), base, 60).complete
    assert names(base) == ["job-2"]


def test_unknown_boot_sweeps_nothing(base):
    class NoProc(Host):
        def read_text(self, path):
            return None if path.endswith("boot_id") else super().read_text(path)

    make(base, 1)
    with pytest.raises(NodeError, match="found no boot id"):
        scratch.sweep(NoProc(), base, scratch.survey(base), {1}, time.time())
    assert names(base) == ["job-1"]


def test_unknown_jobs_sweep_only_earlier_boots(base):
    make(base, 1, host=OtherBoot())
    make(base, 2)
    assert sweep(base, None).taken == [1]


def test_scarce_space_removes_oldest_kept_leftover_first(base, monkeypatch):
    for job in (1, 2, 3):
        os.utime(make(base, job).parent / "job.json", (job, job))
    assert sorted(sweep(base, set(), keep_seconds=1e12).kept) == [1, 2, 3]
    free = iter([5.0, 50.0, 50.0])
    monkeypatch.setattr(scratch, "free_percent", lambda handle: {"bytes": next(free)})
    swept = sweep(base, set(), keep_seconds=1e12, least_percent=10)
    assert (swept.taken, swept.kept) == ([1], [2, 3])


def test_filesystem_without_size_has_no_free_share(monkeypatch):
    blank = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255))
    monkeypatch.setattr(scratch.os, "statvfs", lambda where: blank)
    with pytest.raises(NodeError, match="reports a size of 0"):
        scratch.free_percent("/")


@pytest.mark.parametrize(("keep", "taken", "kept"), [(0, [7], []), (3600, [], [7])])
def test_clock_set_back_does_not_change_retention(base, keep, taken, kept):
    make(base)
    swept = scratch.sweep(Host(), base, scratch.survey(base), set(), time.time() - 86400, keep)
    assert (swept.taken, swept.kept) == (taken, kept)


@pytest.mark.parametrize("left", [b"", bytes(70)], ids=["empty", "zeros"])
def test_record_emptied_by_power_cut_is_swept(base, left):
    """XFS and ext4 may store the name before the content; otherwise no sweep would ever remove it."""
    (make(base, 1).parent / "job.json").write_bytes(left)
    make(base, 2)
    assert sweep(base, None).taken == [1]
    assert scratch.empty_trash(Host(), base, 60).complete
    assert names(base) == ["job-2"]


def test_returned_job_keeps_its_directory(base):
    make(base)
    known = scratch.survey(base)
    make(base)
    assert sweep(base, set(), known).taken == []
    assert names(base) == ["job-7"]


def test_mount_on_job_directory_is_reported(base):
    own = make(base)
    subprocess.run(["mount", "--bind", own.parent, own.parent], check=True)
    try:
        assert sweep(base, set()).problems == [f"{base}/job-7: Device or resource busy"]
    finally:
        subprocess.run(["umount", own.parent], check=True)


def test_default_base_is_on_recorded_volume():
    class Recorded(Host):
        document = '{"path": "/local/", "volumes": []}'

        def read_text(self, path):
            return self.document if path.endswith("local_storage.json") else None

    host = Recorded()
    assert scratch.default_base(host) == "/local/jobs"
    host.document = '{"path": null}'
    assert scratch.default_base(host) is None
