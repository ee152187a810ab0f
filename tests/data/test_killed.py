# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SIGKILL at random moments: nothing is lost, and nothing incomplete counts as complete."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time

import pytest
from mlcluster_data.checkpoints import backup

from tests.data.support.fake_s3 import _server, server
from tests.data.support.forked import FORK
from tests.data.support.programs import (
    RESTORED,
    Checkpoints,
    Collect,
    Preprocess,
    Program,
    Push,
    Restore,
    S3Checkpoints,
    Stage,
    Train,
)

__all__ = ["_server", "server"]
SEED = 1


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(request, tmp_path):
    """Return the program of a name."""
    kind, need = PROGRAMS[request.param]
    if kind is Restore:
        server = request.getfixturevalue("server")
        for name, content in RESTORED.items():
            (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "source" / name).write_bytes(content)
        assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    about = request.getfixturevalue(need) if need else None
    return kind(about.path if kind is Train else about)


PROGRAMS = {
    "checkpoints": (Checkpoints, ""), "checkpoints in S3": (S3Checkpoints, "server"), "stage": (Stage, ""),
    "collect": (Collect, ""), "preprocess": (Preprocess, "few"), "push": (Push, "server"),
    "restore": (Restore, "server"), "train": (Train, "shards"),
}  # fmt: skip


def started(program: Program, disk, promised):
    """Start the program in a new process that writes its promises to a file."""
    shutil.rmtree(disk.parent, ignore_errors=True)
    disk.mkdir(parents=True)
    program.before(disk)
    promised.write_bytes(b"")

    def work():
        os.setsid()
        with open(promised, "a", buffering=1, encoding="utf-8") as notes:
            program.run(disk, lambda note: notes.write(f"{note}\n"))
            notes.flush()
        os._exit(0)

    process = FORK.Process(target=work)
    process.start()
    return process


def killed_at_random(program: Program, folder, times: int, rng: random.Random) -> int:
    """Check this many runs; return how many were killed before their end."""
    disk, promised = folder / "work" / "disk", folder / "promised"
    begin = time.monotonic()
    process = started(program, disk, promised)
    process.join()
    assert process.exitcode == 0
    longest = time.monotonic() - begin
    program.judge(disk, tuple(promised.read_text().split("\n")[:-1]))
    killed = 0
    for _run in range(times):
        process = started(program, disk, promised)
        time.sleep(rng.random() * longest)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        program.judge(disk, tuple(promised.read_text().split("\n")[:-1]))
    return killed


@pytest.mark.parametrize("program", PROGRAMS, indirect=True)
def test_few_kills_lose_nothing(program, tmp_path):
    killed_at_random(program, tmp_path, 4, random.Random(SEED))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, indirect=True)
def test_many_kills_lose_nothing(program, tmp_path):
    """Kills at least 500 runs in all."""
    killed, rng = 0, random.Random(SEED)
    while killed < 63:
        killed += killed_at_random(program, tmp_path, 20, rng)
