# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every name that a data program makes, taken by another user before: no link is followed, and no program hangs.

The names are those of a recorded run, so that a new one is tried by itself. A name that differs from run to run cannot
be taken before.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.data.support.fake_s3 import _server, server
from tests.data.support.forked import FORK, watch_changes
from tests.data.support.planted import PLANTED, SOMEBODY, plant
from tests.data.support.programs import Program
from tests.data.test_killed import PROGRAMS, no_job, program

__all__ = ["_server", "no_job", "program", "server"]
# Far above what any of them takes; only one that waits for a pipe takes as long.
LONGEST = 20
# Those whose every run takes seconds.
LONG = {"preprocess", "train"}
LINKS = ("link to a file", "link to a directory")
KINDS = (*LINKS, *[what for what in PLANTED if what != "link"])


def made_anew(program: Program, folder: Path) -> Path:
    """Return the disk as it is before the program starts."""
    shutil.rmtree(folder, ignore_errors=True)
    disk = folder / "disk"
    disk.mkdir(parents=True)
    program.before(disk)
    return disk


def finished(program: Program, disk: Path, notes: Path | None = None) -> bool:
    """Whether the program ended in time, well or not; with `notes` it writes there what it is about to change."""

    def work():
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if notes:
            handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            watch_changes(lambda _change, paths: os.write(handle, "".join(f"{path}\n" for path in paths).encode()))
        try:
            program.run(disk, lambda _note: None)
        finally:
            os._exit(0)

    process = FORK.Process(target=work)
    process.start()
    process.join(LONGEST)
    alive = process.is_alive()
    process.kill()
    process.join()
    return not alive


def names(program: Program, folder: Path) -> list[str]:
    """Return the new entries that it makes below its disk, in every run."""
    found = []
    for run in range(2):
        disk, notes = made_anew(program, folder), folder.parent / f"notes{run}"
        assert finished(program, disk, notes)
        paths = {os.path.relpath(line, disk) for line in notes.read_text().splitlines() if line.startswith(f"{disk}/")}
        found.append(paths)
    disk = made_anew(program, folder)
    # The directory itself is what the user named, and over links if need be.
    return sorted(name for name in found[0] & found[1] if "/" in name and not os.path.lexists(disk / name))


def stands(victims: Path) -> bool:
    """Return whether what links lead to is as it was, and nothing beside it."""
    tree = sorted(path.relative_to(victims).as_posix() for path in victims.rglob("*"))
    return tree == ["file", "folder", "folder/file"] and all(
        (victims / name).read_bytes() == b"precious" for name in ("file", "folder/file")
    )


def taken(program: Program, folder: Path, name: str, what: str) -> str:
    """Return the problems after a name was taken before; empty if there are none."""
    disk, victims = made_anew(program, folder), folder / "victims"
    (victims / "folder").mkdir(parents=True)
    for path in (victims / "file", victims / "folder" / "file"):
        path.write_bytes(b"precious")
    place = disk / name
    place.parent.mkdir(parents=True, exist_ok=True)
    target = victims / ("folder" if what == "link to a directory" else "file")
    plant(place, "link" if what in LINKS else what, target)
    if what in LINKS and os.geteuid() == 0:
        os.chown(place, SOMEBODY, SOMEBODY, follow_symlinks=False)
    if not finished(program, disk):
        return f"waits for ever with a {what} under {name}"
    return "" if stands(victims) else f"follows a {what} under {name}"


def every_name(program: Program, folder: Path, least: int) -> None:
    made = names(program, folder / "work")
    assert len(made) >= least, made
    wrong = [taken(program, folder / "work", name, what) for name in made for what in KINDS]
    assert [text for text in wrong if text] == []


LEAST = {
    "checkpoints": 10, "checkpoints in S3": 0, "stage": 5, "collect": 5, "preprocess": 10, "push": 1, "restore": 3,
    "train": 15,
}  # fmt: skip


@pytest.mark.parametrize("program", sorted(set(PROGRAMS) - LONG), indirect=True)
def test_no_name_that_was_taken_before_is_followed(program, tmp_path, request):
    every_name(program, tmp_path, LEAST[request.node.callspec.params["program"]])


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(LONG), indirect=True)
def test_no_name_of_long_program_is_followed(program, tmp_path, request):
    every_name(program, tmp_path, LEAST[request.node.callspec.params["program"]])
