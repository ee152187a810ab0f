# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs one program within a time limit and within memory, however much it prints: what ``Host``.run stands on."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
import typing as t

# How long a program that was killed may take to end; one that sleeps in the kernel, as nvidia-smi does over a GPU that
# fell off the bus, cannot be killed and is left behind.
KILL_SECONDS = 5
# Far above what any program prints that is asked here: scontrol tells of a node in a KiB.
OUTPUT_LIMIT = 32 << 20
# What is kept of the beginning and of the end of what is longer.
ENDS = 2048
_GAP = "\n[... %d %s left out ...]\n"
_EVENTS = (selectors.EVENT_WRITE, selectors.EVENT_READ, selectors.EVENT_READ)
_PIECE = 1 << 16
# What a pipe takes without making the writer wait, once it is ready at all (POSIX, PIPE_BUF).
_WRITE = 512


class Output:
    """What one stream printed: all of it, or its ends where that is more than OUTPUT_LIMIT bytes."""

    def __init__(self) -> None:
        self.total = 0
        self._kept = bytearray()

    @property
    def cut(self) -> bool:
        """Whether something is left out."""
        return self.total > OUTPUT_LIMIT

    def add(self, piece: bytes) -> bool:
        """Take what was printed next; whether it was anything."""
        self.total += len(piece)
        self._kept += piece
        if self.cut:
            del self._kept[ENDS:-ENDS]
        return bool(piece)

    def text(self) -> str:
        """It as text, with line ends as Python has them; how much is left out is said in its place."""
        if not self.cut:
            return _decoded(self._kept)
        missing = _GAP % (self.total - 2 * ENDS, "bytes")
        return _decoded(self._kept[:ENDS]) + missing + _decoded(self._kept[-ENDS:])


class Ended(t.NamedTuple):
    """rc is None where the time was over first."""

    rc: int | None
    stdout: Output
    stderr: Output


def start(argv: t.Sequence[str], env: t.Mapping[str, str], **options: t.Any) -> subprocess.Popen[bytes]:
    """Start argv without a shell and return it at once, to be watched by the caller. Raises OSError."""
    return subprocess.Popen(list(argv), env=env, **options)  # pylint: disable=ansible-bad-function


def shortened(text: str) -> str:
    """A text, or its ends where it is too long for a sentence."""
    missing = len(text) - 2 * ENDS
    return text if missing <= 0 else f"{text[:ENDS]}{_GAP % (missing, 'characters')}{text[-ENDS:]}"


def run(argv: t.Sequence[str], env: t.Mapping[str, str], stdin: str, timeout: float) -> Ended:
    """Run argv to its end, or for timeout seconds and KILL_SECONDS, also where it cannot be killed. Raises OSError."""
    # The boot runtime has no AnsibleModule whose run_command it could use.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
        list(argv), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    streams = [t.cast("t.IO[bytes]", stream) for stream in (process.stdin, process.stdout, process.stderr)]
    outputs = Output(), Output()
    rc: int | None = None
    try:
        rc = _converse(process, streams, outputs, stdin.encode("utf-8", "replace"), timeout)
    finally:
        if rc is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_SECONDS)
        for stream in streams:
            stream.close()
    return Ended(rc, *outputs)


def _converse(
    process: subprocess.Popen[bytes],
    streams: t.Sequence[t.IO[bytes]],
    outputs: t.Sequence[Output],
    given: bytes,
    timeout: float,
) -> int | None:
    """Write what is given and read what is printed until the process ends; its status, None when the time is over."""
    ends, left = time.monotonic() + timeout, memoryview(given)
    with selectors.DefaultSelector() as selector:
        for stream, events, output in zip(streams, _EVENTS, (None, *outputs)):
            selector.register(stream, events, output)
        while selector.get_map():
            for key, _events in selector.select(max(0.0, ends - time.monotonic())):
                if key.data is None:
                    left = _written(key.fd, left)
                    more = bool(left)
                else:
                    more = key.data.add(os.read(key.fd, _PIECE))
                if not more:
                    selector.unregister(key.fileobj)
                    t.cast("t.IO[bytes]", key.fileobj).close()
            # One that prints without end always has something to read.
            if time.monotonic() >= ends and selector.get_map():
                return None
    try:
        return process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _written(handle: int, left: memoryview) -> memoryview:
    """What is left after one write that does not wait; nothing where nobody reads it any more."""
    try:
        return left[os.write(handle, left[:_WRITE]) :] if left else left
    except BrokenPipeError:
        return left[:0]


def _decoded(printed: bytearray) -> str:
    return printed.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
