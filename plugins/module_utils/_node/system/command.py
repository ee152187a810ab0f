# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one program within a time and memory limit, with any amount of output: the base of ``Host``.run."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
import typing as t

# Time limit for the end of a killed program; one that sleeps in the kernel, such as nvidia-smi with a GPU that fell off
# the bus, cannot be killed and is left behind.
KILL_SECONDS = 5
# Far above the output of any program used here: scontrol prints a KiB for a node.
OUTPUT_LIMIT = 32 << 20
# Length of the beginning and of the end that are kept of longer output.
ENDS = 2048
_GAP = "\n[... %d %s left out ...]\n"
_EVENTS = (selectors.EVENT_WRITE, selectors.EVENT_READ, selectors.EVENT_READ)
_PIECE = 1 << 16
# Bytes that a ready pipe accepts without blocking (POSIX, PIPE_BUF).
_WRITE = 512


class Output:
    """The output of one stream: all of it, or its ends if it is longer than OUTPUT_LIMIT bytes."""

    def __init__(self) -> None:
        self.total = 0
        self._kept = bytearray()

    @property
    def cut(self) -> bool:
        """Whether output was left out."""
        return self.total > OUTPUT_LIMIT

    def add(self, piece: bytes) -> bool:
        """Add the next output; return whether it was not empty."""
        self.total += len(piece)
        self._kept += piece
        if self.cut:
            del self._kept[ENDS:-ENDS]
        return bool(piece)

    def text(self) -> str:
        """Return the text with Python's line ends; a note replaces the omitted part."""
        if not self.cut:
            return _decoded(self._kept)
        missing = _GAP % (self.total - 2 * ENDS, "bytes")
        return _decoded(self._kept[:ENDS]) + missing + _decoded(self._kept[-ENDS:])


class Ended(t.NamedTuple):
    """Result of a program; rc is None if it ran out of time."""

    rc: int | None
    stdout: Output
    stderr: Output


def start(argv: t.Sequence[str], env: t.Mapping[str, str], **options: t.Any) -> subprocess.Popen[bytes]:
    """Start argv without a shell and return it at once, to be watched by the caller. Raises OSError."""
    return subprocess.Popen(list(argv), env=env, **options)  # pylint: disable=ansible-bad-function


def shortened(text: str) -> str:
    """Return a text, or its ends if it is too long for a sentence."""
    missing = len(text) - 2 * ENDS
    return text if missing <= 0 else f"{text[:ENDS]}{_GAP % (missing, 'characters')}{text[-ENDS:]}"


def run(argv: t.Sequence[str], env: t.Mapping[str, str], stdin: str, timeout: float) -> Ended:
    """Run argv to its end, at most timeout seconds and KILL_SECONDS, even if it cannot be killed. Raises OSError."""
    # The boot runtime has no AnsibleModule with run_command.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
        list(argv), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    streams = [t.cast("t.IO[bytes]", stream) for stream in (process.stdin, process.stdout, process.stderr)]
    outputs = Output(), Output()
    rc: int | None = None
    try:
        rc = _exchange(process, streams, outputs, stdin.encode("utf-8", "replace"), timeout)
    finally:
        if rc is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_SECONDS)
        for stream in streams:
            stream.close()
    return Ended(rc, *outputs)


def _exchange(
    process: subprocess.Popen[bytes],
    streams: t.Sequence[t.IO[bytes]],
    outputs: t.Sequence[Output],
    given: bytes,
    timeout: float,
) -> int | None:
    """Write the input and read the output until the process ends; return its status, None after the time limit."""
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
            # A program that prints endlessly always has output to read.
            if time.monotonic() >= ends and selector.get_map():
                return None
    try:
        return process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _written(handle: int, left: memoryview) -> memoryview:
    """Return the rest after one write that does not block; empty if the reader is gone."""
    try:
        return left[os.write(handle, left[:_WRITE]) :] if left else left
    except BrokenPipeError:
        return left[:0]


def _decoded(printed: bytearray) -> str:
    return printed.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
