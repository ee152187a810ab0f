# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other processes that hold a directory's lock, or that stop in the middle of their work there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from tests.data.support.forked import FORK

FILES = Path(__file__).resolve().parents[3] / "roles" / "slurm_jobs" / "files"


@contextlib.contextmanager
def has(directory, program="only_writer", **environment):
    """Run a process that holds a directory as a data program does, or by a lock of the given name, during a block."""
    take = f"only_writer(Path({str(directory)!r}))"
    if program != "only_writer":
        take = f"contextlib.closing(Held(Path({str(directory)!r}), {program!r}))"
    lines = (
        "import contextlib, sys",
        "from pathlib import Path",
        "from mlcluster_data.locks.directory import Lock, only_writer",
        "class Held:",
        "    def __init__(self, place, name):",
        "        self.lock = Lock(place, name=name)",
        "        self.lock.acquire()",
        "    def close(self):",
        "        self.lock.release()",
        f"with {take}:",
        "    print(flush=True)",
        "    sys.stdin.read()",
    )
    directory.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=FILES, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == b"\n"
        try:
            yield process
        finally:
            process.stdin.close()
    assert process.returncode == 0


@contextlib.contextmanager
def stands_still(work):
    """Run ``work(wait)`` in a process that stops in ``wait()`` until the block ends without an error."""
    mine, theirs = FORK.Pipe()

    def child():
        def wait(*_words):
            theirs.send("waits")
            theirs.recv()

        theirs.send(work(wait))
        os._exit(0)

    process = FORK.Process(target=child)
    process.start()
    theirs.close()
    assert mine.recv() == "waits"
    try:
        yield process
        mine.send("go on")
        assert mine.recv() is True
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def stands_still_once(work):
    """Do the same as stands_still, but only the first call of ``wait()`` stops."""
    calls = []

    def once(wait):
        return work(lambda *words: None if calls else (calls.append(True), wait(*words)))

    with stands_still(once) as process:
        yield process
