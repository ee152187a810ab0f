# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other processes that have a directory, or are in the middle of their work there."""

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
    """A process that has a directory as a program of this package has it, or by a lock of the name that is given."""
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
    """A process that does work(wait) and stands still where that calls wait(), until the block ends well."""
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
    """As stands_still, but only the first call of wait() waits."""
    calls = []

    def once(wait):
        return work(lambda *words: None if calls else (calls.append(True), wait(*words)))

    with stands_still(once) as process:
        yield process
