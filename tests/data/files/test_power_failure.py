# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power failures at any moment: the data programs lose nothing, and each fsync in the code is needed.

Every program is recorded once. For each moment, the test makes the possible contents of the disk after a power failure,
checks them, and runs the program again there. Then it removes each fsync in turn, and one of the checks has to fail.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from mlcluster_data.checkpoints import backup
from mlcluster_data.files import durable

from tests.data.support.crash import Recorder, lay_out, states
from tests.data.support.fake_s3 import _server, server
from tests.data.support.forked import ranks
from tests.data.support.programs import RESTORED, SIMPLE, LostError, Preprocess, Program, Restore, RestoreOver

__all__ = ["_server", "server"]
PROGRAMS = Path(durable.__file__).parents[1]
SYNCS = {"fsync", "sync", "sync_directory"}
SEED = 1


def fsyncs() -> list[tuple[str, int]]:
    """Return file and line of every fsync call in the programs."""
    found = []
    for path in sorted(PROGRAMS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SYNCS:
                found.append((str(path), node.lineno))
    return found


# The program that first detects a missing fsync in a file; the others are tried after it.
FIRST = {"collect.py": "collect", "stage.py": "stage", "directory.py": "checkpoints", "backup.py": "restore over"}


def judged(program: Program, folder: Path, skip=(), mixed: int = 3) -> int:
    """Record a program and check every state; return the number of states. Raises LostError."""
    disk = folder / "recorded" / "disk"
    disk.mkdir(parents=True)
    program.before(disk)

    def record(_report):
        recorder = Recorder(disk, set(skip))
        recorder.start()
        program.run(disk, recorder.note)
        return recorder.moments

    (moments,) = ranks(0, record, folder)
    count = 0
    for moment, tree in states(moments, SEED, mixed):
        place = folder / f"{count:05d}" / "disk"
        lay_out(tree, place)
        try:
            program.judge(place, moment.notes)
        except Exception as exc:
            raise LostError(
                f"after {moment.what} ({moment.notes}): {type(exc).__name__}: {exc}; there was {sorted(tree)}"
            ) from exc
        shutil.rmtree(place.parent)
        count += 1
    return count


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", SIMPLE)
def test_nothing_is_lost(tmp_path, name):
    assert judged(SIMPLE[name](None), tmp_path) > 3


def test_no_shards_are_lost(tmp_path, few):
    assert judged(Preprocess(few), tmp_path, mixed=1) > 20


def test_restore_loses_nothing(tmp_path, server):
    for name, content in RESTORED.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(content)
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    assert judged(Restore(server), tmp_path) > 3


def test_restore_over_another_checkpoint_never_mixes(tmp_path, server):
    assert judged(RestoreOver(server), tmp_path) > 3


def test_each_fsync_is_needed(tmp_path, server):
    """Removing a single fsync makes a check fail, so the checks prove what they claim."""
    found = fsyncs()
    assert len(found) >= 10
    programs = {**{name: program(None) for name, program in SIMPLE.items()}, "restore over": RestoreOver(server)}
    unneeded = []
    for at, (path, line) in enumerate(found):
        first = FIRST.get(Path(path).name, "write")
        for name in sorted(programs, key=lambda one: one != first):
            try:
                judged(programs[name], tmp_path / f"{at}-{name}", {(path, line)})
            except LostError:
                break
        else:
            unneeded.append(f"{path}:{line}")
    assert unneeded == []
