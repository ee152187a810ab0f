# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Emptying the directory of an ended job with any content."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch.trash import empty
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.unit.plugins.module_utils._node.scratch.test_directories import USER, as_user, make, names, remove

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what others may not do can only be tried as root")


FOREVER = 3600


@pytest.fixture
def home(place):
    """The user's persistent data, on the same filesystem."""
    home = place / "home"
    home.mkdir()
    (home / "thesis").write_text("years of work")
    for path in (home, home / "thesis"):
        os.chown(path, USER, USER)
    return home


@pytest.mark.parametrize(
    "attack",
    [
        "ln -s {home} {own}/link; ln -s {home}/thesis {own}/file",
        "ln {home}/thesis {own}/hard",
        "mkdir {own}/a; ln -s ../../../../../home {own}/a/up; mkfifo {own}/a/pipe; chmod 0 {own}/a",
        "touch '{own}/-rf' '{own}/a b' \"$(printf '{own}/new\\nline')\" \"$(printf '{own}/\\377')\"",
        "cd {own}; for n in $(seq 200); do mkdir deep; cd deep; done; touch bottom",
        "cd {own}; mkdir a b; for n in $(seq 3000); do : > a/$n; done",
    ],
)
def test_hostile_trees_leave_outside_files_unchanged(base, home, attack):
    own = make(base)
    as_user(attack.format(home=home, own=own))
    result = remove(base)
    assert (result.complete, result.problems, names(base)) == (True, [], [])
    assert (home / "thesis").read_text() == "years of work"
    assert ((home / "thesis").stat().st_uid, (home / "thesis").stat().st_nlink) == (USER, 1)


def test_very_deep_tree_is_removed(base):
    own = make(base)
    # No path can have so many levels, and no process can hold a descriptor of each.
    here = os.open(own, os.O_RDONLY)
    for _level in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert remove(base).complete
    assert names(base) == []


def test_concurrent_moves_leave_outside_files_unchanged(base, home):
    own = make(base)
    (home / "keep").mkdir()
    os.chown(home / "keep", USER, USER)
    fill = f"cd {own}; for n in $(seq 30); do mkdir -p $n/x; for m in $(seq 30); do : > $n/x/$m; done; done"
    as_user(fill)
    # Replaces directories with links to the user's home and back, as fast as possible, from inside.
    turn = f"mv $n/x $n/y && ln -s {home} $n/x; rm -f $n/x; mv $n/y $n/x"
    race = f"while :; do for n in $(seq 30); do {turn}; done; done"
    # An attacker that starts too late to enter would end at once.
    attacker = subprocess.Popen(
        ["sh", "-c", f"cd {own} && {turn.replace('$n', '1')} && echo inside && {race}"],
        user=USER, group=USER, extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert attacker.stdout.readline() == b"inside\n"
        for _attempt in range(20):
            if remove(base).complete and names(base) == []:
                break
        else:
            pytest.fail(f"{names(base)} is left")
        assert attacker.poll() is None
    finally:
        attacker.kill()
        attacker.communicate()
    assert ((home / "thesis").read_text(), (home / "keep").is_dir()) == ("years of work", True)


def test_mount_inside_is_kept_and_rest_removed(base, place):
    own = make(base)
    data = place / "data"
    data.mkdir()
    (data / "file").write_text("kept")
    (own / "mnt").mkdir()
    (own / "junk").write_text("x")
    subprocess.run(["mount", "--bind", data, own / "mnt"], check=True)
    try:
        result = remove(base)
        assert (result.complete, len(result.problems)) == (False, 1)
        assert "something is mounted on it" in result.problems[0]
        assert (data / "file").read_text() == "kept"
        left = list(Path(base, ".trash").rglob("*"))
        assert not any(path.name == "junk" for path in left)
    finally:
        mounted = next(Path(base, ".trash").rglob("mnt"))
        subprocess.run(["umount", mounted], check=True)
    assert scratch.empty_trash(Host(), base, 60).complete
    assert (names(base), (data / "file").read_text()) == ([], "kept")


def test_expired_time_leaves_rest_for_next_run(base):
    own = make(base)
    for number in range(50):
        (own / str(number)).write_text("x")
    result = remove(base, seconds=0)
    assert (result.complete, result.removed, len(names(base))) == (False, 0, 1)
    # The name is free at once.
    assert list(make(base).iterdir()) == []
    assert scratch.empty_trash(Host(), base, 60).complete
    assert names(base) == ["job-7"]


def test_deadline_stops_inside_a_directory(base):
    own = make(base)
    for number in range(50):
        (own / str(number)).write_text("x")
    remove(base, seconds=0)
    ticks = iter(range(1000))
    trash = os.open(f"{base}/.trash", os.O_RDONLY)
    try:
        result = empty(trash, 20, lambda: next(ticks))
    finally:
        os.close(trash)
    assert (result.complete, 0 < result.removed < 50) == (False, True)


def test_directory_filled_meanwhile_is_skipped(base):
    own = make(base)
    (own / "d").mkdir()
    (own / "d/0").touch()
    handle = os.open(own / "d", os.O_RDONLY)
    stop = threading.Event()

    def fill():
        number = 0
        while not stop.is_set():
            number += 1
            # After its removal no file can be created in the directory.
            with contextlib.suppress(FileNotFoundError):
                os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=handle))

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        result = remove(base, seconds=FOREVER)
    finally:
        stop.set()
        thread.join()
        os.close(handle)
    assert result.complete or result.problems
    assert scratch.empty_trash(Host(), base, 60).complete


def test_concurrent_removals_do_not_conflict(base):
    for job in range(20):
        own = make(base, job + 1)
        for number in range(20):
            (own / str(number)).mkdir()
            (own / f"{number}/x").touch()
    results = []
    threads = [
        threading.Thread(target=lambda job=job: results.append(remove(base, job + 1, FOREVER))) for job in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scratch.empty_trash(Host(), base, 60).complete
    assert (len(results), names(base), [one.problems for one in results if one.problems]) == (20, [], [])


def test_link_in_trash_goes_and_its_target_stays(place, home):
    """A directory of the trash can have been exchanged for a link after it was listed."""
    (place / "trash").mkdir()
    (place / "trash" / "job").symlink_to(home)
    trash = os.open(place / "trash", os.O_RDONLY)
    try:
        assert empty(trash, FOREVER, lambda: 0.0).complete
    finally:
        os.close(trash)
    assert list((place / "trash").iterdir()) == []
    assert (home / "thesis").read_text() == "years of work"
