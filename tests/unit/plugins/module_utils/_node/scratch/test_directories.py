# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs' directories and what their users may try, for real: as root, with another user's processes."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what others may not do can only be tried as root")
USER, OTHER = 65534, 1


@pytest.fixture
def place():
    """A directory that everybody may enter, as pytest's own may not be."""
    with tempfile.TemporaryDirectory(prefix="mlcluster-scratch-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def base(place):
    """Where jobs' directories are to be, on a volume that is root's."""
    (place / "volume").mkdir(mode=0o755)
    return str(place / "volume/jobs")


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
    """What is left besides an empty trash."""
    return sorted(path.name for path in [*Path(base).glob("job-*"), *Path(base, ".trash").iterdir()])


def test_directory_is_its_users_alone(base):
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


def test_mask_changes_no_mode(base):
    before = os.umask(0o077)
    try:
        own = make(base)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (own, own.parent, Path(base))] == [0o700, 0o711, 0o711]


def test_base_that_is_there_keeps_its_mode(base):
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


def test_full_volume_is_emptied_and_takes_next_job(full):
    assert scratch.free_percent(full)["bytes"] == 0
    with pytest.raises(NodeError, match="No space left on device"):
        make(full, 8)
    assert (remove(full).complete, names(full)) == (True, [])
    assert make(full, 8).is_dir()


def test_one_that_is_missing_is_removed(base):
    make(base)
    assert remove(base, 8).complete
    assert names(base) == ["job-7"]


# What may stand where the jobs' directories are to be.


@pytest.mark.parametrize("path", ["relative", "/", "/tmp/../tmp/x", "/tmp/", "//tmp/x"])
def test_path_that_is_not_plain_is_refused(path):
    with pytest.raises(NodeError, match="give an absolute path without"):
        make(path)


def test_base_that_user_made_first_is_refused(base):
    volume = Path(base).parent
    volume.chmod(0o1777)
    as_user(f"mkdir {base}")
    with pytest.raises(NodeError, match="has owner 65534 and mode"):
        make(base)
    os.rmdir(base)
    as_user(f"ln -s /tmp {base}")
    with pytest.raises(NodeError, match="a link or a file is in the way"):
        make(base)
    os.unlink(base)
    assert make(base).is_dir()


@pytest.mark.parametrize(("mode", "owner"), [(0o777, 0), (0o775, 0), (0o755, USER)])
def test_volume_on_which_others_could_replace_base_is_refused(base, mode, owner):
    volume = Path(base).parent
    volume.chmod(mode)
    os.chown(volume, owner, 0)
    with pytest.raises(NodeError, match=r"so others than root could put something else in its place"):
        make(base)


def test_missing_volume_is_reported_and_never_made(base):
    with pytest.raises(NodeError, match="No such file or directory"):
        make(f"{base}/deeper")
    assert not os.path.exists(base)


# The same job again, and jobs that are no more.


def test_same_job_keeps_what_it_has_and_another_user_gets_new_one(base):
    own = make(base)
    (own / "result").touch()
    assert [path.name for path in make(base).iterdir()] == ["result"]
    assert list(make(base, uid=OTHER).iterdir()) == []
    assert own.stat().st_uid == OTHER


def test_after_reboot_it_is_new_one(base):
    (make(base) / "result").touch()
    assert list(make(base, host=OtherBoot()).iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "text", "link", "other"])
def test_what_this_did_not_make_is_put_aside_by_make_and_left_alone_by_sweep(base, damage):
    record = make(base).parent / "job.json"
    record.unlink()
    if damage == "text":
        record.write_text("[1, 2")
    elif damage == "link":
        record.symlink_to("/etc/passwd")
    elif damage == "other":
        record.write_text('{"job_id": 8, "uid": 0}')
    assert scratch.survey(base) == []
    (Path(base) / "job-7x").mkdir()
    assert list(make(base).iterdir()) == []
    assert (Path(base) / "job-7x").is_dir()


def sweep(base, live, known=None, **options):
    return scratch.sweep(Host(), base, known or scratch.survey(base), live, time.time(), **options)


def test_sweep_takes_what_no_job_has_any_more(base):
    for job in (1, 2, 3):
        make(base, job)
    swept = sweep(base, {2})
    assert (sorted(swept.taken), swept.kept, swept.problems) == ([1, 3], [], [])
    assert scratch.empty_trash(Host(), base, 60).complete
    assert names(base) == ["job-2"]


def test_without_slurms_word_only_earlier_boots_leftovers_go(base):
    make(base, 1, host=OtherBoot())
    make(base, 2)
    assert sweep(base, None).taken == [1]


def test_leftovers_are_kept_as_long_as_wanted_unless_space_runs_out_and_then_oldest_goes_first(base, monkeypatch):
    for job in (1, 2, 3):
        os.utime(make(base, job).parent / "job.json", (job, job))
    assert sorted(sweep(base, set(), keep_seconds=1e12).kept) == [1, 2, 3]
    free = iter([5.0, 50.0, 50.0])
    monkeypatch.setattr(scratch, "free_percent", lambda handle: {"bytes": next(free)})
    swept = sweep(base, set(), keep_seconds=1e12, least_percent=10)
    assert (swept.taken, swept.kept) == ([1], [2, 3])


@pytest.mark.parametrize(("keep", "taken", "kept"), [(0, [7], []), (3600, [], [7])])
def test_clock_that_was_set_back_keeps_nothing_longer_than_wanted_and_ends_nothing_early(base, keep, taken, kept):
    make(base)
    swept = scratch.sweep(Host(), base, scratch.survey(base), set(), time.time() - 86400, keep)
    assert (swept.taken, swept.kept) == (taken, kept)


@pytest.mark.parametrize("left", [b"", bytes(70)], ids=["empty", "zeros"])
def test_record_that_power_cut_emptied_is_leftover_of_earlier_boot(base, left):
    """The name was on the disk before the text, as XFS and ext4 may have it; nobody would ever sweep it otherwise."""
    (make(base, 1).parent / "job.json").write_bytes(left)
    make(base, 2)
    assert sweep(base, None).taken == [1]
    assert scratch.empty_trash(Host(), base, 60).complete
    assert names(base) == ["job-2"]


def test_job_that_came_back_since_look_keeps_its_directory(base):
    make(base)
    known = scratch.survey(base)
    make(base)
    assert sweep(base, set(), known).taken == []
    assert names(base) == ["job-7"]


def test_mount_in_place_of_jobs_directory_is_problem_that_is_named(base):
    own = make(base)
    subprocess.run(["mount", "--bind", own.parent, own.parent], check=True)
    try:
        assert sweep(base, set()).problems == [f"{base}/job-7: Device or resource busy"]
    finally:
        subprocess.run(["umount", own.parent], check=True)


def test_where_they_are_without_being_told():
    class Recorded(Host):
        document = '{"path": "/local/", "volumes": []}'

        def read_text(self, path):
            return self.document if path.endswith("local_storage.json") else None

    host = Recorded()
    assert scratch.default_base(host) == "/local/jobs"
    host.document = '{"path": null}'
    assert scratch.default_base(host) is None
