# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another user has planted an entry at every name that a data program makes: no link is followed, no program hangs.

The names come from a recorded run, so that new ones are tested automatically. Random names cannot be planted.
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
# Far more seconds than any program needs; only a program that waits for a pipe takes as long.
LONGEST = 20
# Programs of which each run takes seconds.
LONG = {"preprocess", "train"}
LINKS = ("link to a file", "link to a directory")
KINDS = (*LINKS, *[what for what in PLANTED if what != "link"])


def made_again(program: Program, folder: Path) -> Path:
    """Make the program's disk and return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    disk = folder / "disk"
    disk.mkdir(parents=True)
    program.before(disk)
    return disk


def finished(program: Program, disk: Path, notes: Path | None = None) -> bool:
    """Return whether the program ended in time; with ``notes`` it records its changes in that file."""

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
    """Return the entries that the program makes below its disk in every run."""
    found = []
    for run in range(2):
        disk, notes = made_again(program, folder), folder.parent / f"notes{run}"
        assert finished(program, disk, notes)
        paths = {os.path.relpath(line, disk) for line in notes.read_text().splitlines() if line.startswith(f"{disk}/")}
        found.append(paths)
    disk = made_again(program, folder)
    # The program's own directory is left out: the user may name it by a link.
    return sorted(name for name in found[0] & found[1] if "/" in name and not os.path.lexists(disk / name))


def stands(victims: Path) -> bool:
    """Return whether the targets of links are unchanged and nothing was added beside them."""
    tree = sorted(path.relative_to(victims).as_posix() for path in victims.rglob("*"))
    return tree == ["file", "folder", "folder/file"] and all(
        (victims / name).read_bytes() == b"precious" for name in ("file", "folder/file")
    )


def taken(program: Program, folder: Path, name: str, what: str) -> str:
    """Run the program with a planted name; return the problem, or an empty string."""
    disk, victims = made_again(program, folder), folder / "victims"
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
def test_planted_names_are_not_followed(program, tmp_path, request):
    every_name(program, tmp_path, LEAST[request.node.callspec.params["program"]])


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(LONG), indirect=True)
def test_planted_names_of_long_program_are_not_followed(program, tmp_path, request):
    every_name(program, tmp_path, LEAST[request.node.callspec.params["program"]])
