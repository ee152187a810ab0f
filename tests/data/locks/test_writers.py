# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two processes with the same directory: the second reports the owner in one message and touches nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints.directory import Manifest
from mlcluster_data.files import stage
from mlcluster_data.locks import directory as lock

from tests.data.support.fake_s3 import BUCKET, _server, server
from tests.data.support.processes import FILES, has, stands_still, stands_still_once

__all__ = ["_server", "server"]
# The environment of two programs of the same job; a third one is of another job.
JOB = {"SLURM_JOB_ID": "6", "SLURM_RESTART_COUNT": "0"}


@pytest.fixture(autouse=True)
def outside_of_jobs(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME"):
        monkeypatch.delenv(name, raising=False)


def here(folder):
    """Return everything below a folder except locks."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not backup._is_own(path.name)
    }


@pytest.fixture
def kept(tmp_path, server):
    """Return a backup in S3 of two files, one of them in a subfolder."""
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a").write_bytes(b"one")
    (source / "sub" / "b").write_bytes(b"two")
    assert backup.Backup(source, server.prefix()).push().ok
    return source


def refused(words, capsys, process, directory):
    """Return whether a command ends with 1 and one message with the process, its directory and the remedy."""
    capsys.readouterr()
    assert command.main([str(word) for word in words]) == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ERROR: ")]
    return error.startswith(f"ERROR: {directory} is in use by process {process.pid} ") and "wait for its end" in error


def restore_to(place, *options):
    return ["backup", "restore", f"s3://{BUCKET}/run", place, *options]


def test_second_restore_into_directory_is_rejected(kept, server, tmp_path, capsys):
    target = tmp_path / "target"

    def first(wait):
        prefix = server.prefix()
        fetch = prefix.fetch
        prefix.fetch = lambda *given: (wait(), fetch(*given))[1]
        return backup.Backup(target, prefix, workers=1).restore().ok

    with stands_still_once(first) as process:
        assert refused(restore_to(target, "--overwrite"), capsys, process, target)
        assert here(target) == {}
    assert here(target) == here(kept)
    assert command.main([str(word) for word in restore_to(target)]) == 0


@pytest.mark.parametrize("program", ["only_writer", lock.NAME, lock.JOB_NAME])
def test_restore_into_directory_in_use_is_rejected(kept, tmp_path, capsys, program):
    target = tmp_path / "target"
    with has(target, program) as process:
        assert refused(restore_to(target), capsys, process, target)
        assert here(target) == {}
    assert command.main([str(word) for word in restore_to(target)]) == 0
    assert here(target) == here(kept)


@pytest.mark.parametrize("program", [lock.NAME, lock.JOB_NAME])
def test_restore_above_directory_in_use_is_rejected(kept, tmp_path, capsys, program):
    target = tmp_path / "target"
    with has(target / "sub" / "deep", program) as process:
        assert refused(restore_to(target), capsys, process, target / "sub" / "deep")
        assert here(target) == {}
    assert command.main([str(word) for word in restore_to(target)]) == 0


def test_locks_of_dead_processes_below_do_not_block(kept, tmp_path):
    target = tmp_path / "target"
    gone = subprocess.Popen(["true"])
    gone.wait()
    for at in range(3):
        (target / str(at)).mkdir(parents=True)
        left = {**vars(lock.myself()), "pid": gone.pid, "token": "left"}
        (target / str(at) / lock.NAME).write_text(json.dumps(left))
    assert command.main([str(word) for word in restore_to(target)]) == 0
    assert not list(target.rglob(lock.NAME))


def test_lock_files_of_other_programs_do_not_block(kept, tmp_path):
    target = tmp_path / "target"
    (target / "environment").mkdir(parents=True)
    (target / "environment" / lock.NAME).touch()
    assert command.main([str(word) for word in restore_to(target)]) == 0
    assert (target / "environment" / lock.NAME).exists()


def test_job_restores_into_its_own_directory(kept, tmp_path, capsys, monkeypatch):
    target = tmp_path / "target"
    with has(target, lock.JOB_NAME, **JOB) as process:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        assert refused(restore_to(target), capsys, process, target)
        for name, value in JOB.items():
            monkeypatch.setenv(name, value)
        assert command.main([str(word) for word in restore_to(target)]) == 0
        # The job still has its lock.
        assert json.loads((target / lock.JOB_NAME).read_text())["pid"] == process.pid


@pytest.mark.parametrize("program", [lock.NAME, lock.JOB_NAME])
def test_programs_reject_directory_of_another_owner(tmp_path, capsys, program, shards):
    (tmp_path / "text.txt").write_text("text")
    target = tmp_path / "target"
    step = target / "step-00000001"
    step.mkdir(parents=True)
    (step / "complete").write_bytes(Manifest(1, 1, {}, {}).text())
    with has(target, program) as process:
        before = here(target)
        for words in (
            ["collect", tmp_path / "text.txt", "--inputs", "1", "--output", target],
            ["stage", tmp_path / "text.txt", "--to", target],
            ["checkpoint", "prune", target, "--keep", "1"],
        ):
            assert refused(words, capsys, process, target)
            assert here(target) == before
        # The lock is unchanged.
        assert json.loads((target / program).read_text())["pid"] == process.pid


def test_job_does_not_start_in_directory_being_staged(tmp_path):
    (tmp_path / "text.txt").write_text("text")
    target = tmp_path / "target"

    def staging(wait):
        room = stage._check_space
        stage._check_space = lambda *words: (wait(), room(*words))[1]
        return stage.stage(str(tmp_path / "text.txt"), target) == 1

    hold = [sys.executable, "-m", "mlcluster_data", "hold", str(target)]
    with stands_still(staging) as process:
        done = subprocess.run(hold, cwd=FILES, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"ERROR: {target} is in use by process {process.pid} ")
    done = subprocess.run(hold, cwd=FILES, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"holds {target}\n")
    assert stage.stage(str(tmp_path / "text.txt"), target) == 0


def test_shards_and_lock_of_whole_folder_exclude_each_other(kept, inputs, preprocess, tmp_path, capsys):
    out = tmp_path / "out"
    with has(out) as process:
        assert preprocess(inputs, out) == 1
        assert f"{out} is in use by process {process.pid} " in capsys.readouterr().err
        assert not list(out.glob("shard-*"))
    with has(out / ".locks" / "input-00001", lock.NAME) as process:
        assert refused(restore_to(out), capsys, process, out / ".locks" / "input-00001")
    assert preprocess(inputs, out) == 0


def test_tasks_with_same_shards_for_s3_exclude_each_other(server, inputs, preprocess, tmp_path, capsys, monkeypatch):
    """In S3 they would not collide, but both write partial files to the same folder of the node."""
    url = f"s3://{BUCKET}/shards"
    assert preprocess(inputs, url, "--spool", str(tmp_path)) == 0
    (spool,) = tmp_path.glob("shards-*")
    server.empty()
    with has(spool / ".locks" / "input-00000", lock.NAME) as process:
        assert preprocess(inputs, url, "--spool", str(tmp_path)) == 1
        assert f"is in use by process {process.pid} " in capsys.readouterr().err
    assert preprocess(inputs, url, "--spool", str(tmp_path)) == 0
