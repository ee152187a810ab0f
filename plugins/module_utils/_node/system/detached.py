# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command that continues while its caller disconnects and returns, in a directory of its own.

``begin`` starts a keeper, a process that runs the command, keeps its output and exit status, and ends it if no caller
has asked for it in PATIENCE seconds. ``read`` returns the output since then. The keeper and the command hold a lock,
so that their end is always detected.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import subprocess
import tempfile
import time
import typing as t

from . import files

PREFIX = "mlcluster-detached-"
PATIENCE = 600.0
# Seconds between two checks of the keeper for a caller.
KEEPER_POLL = 30.0
READ_POLL = 0.1
MAX_BYTES = 1 << 20
MAX_ERRORS = 1 << 16
INPUT, OUTPUT, ERRORS, STATUS, LOCK = "input", "output", "errors", "status", "lock"


@dataclasses.dataclass(frozen=True)
class Seen:
    """Result of a look: complete lines since ``offset``, the offset of the next look, and the end if it was reached.

    ``rc`` is the exit status, None while the command runs or if it left none (then ``over`` is true).
    """

    text: str
    offset: int
    over: bool
    rc: int | None
    errors: str


def begin(argv: t.Callable[[str], t.Sequence[str]], keeper: t.Sequence[str], stdin: str = "") -> str:
    """Start a command under a keeper and return its directory.

    ``argv(directory)`` is the command, ``keeper`` the command that calls ``keep``.
    """
    directory = tempfile.mkdtemp(prefix=PREFIX)
    path = {name: os.path.join(directory, name) for name in (INPUT, OUTPUT, ERRORS, LOCK)}
    files.write_new(path[INPUT], stdin.encode(), sync=False)
    with contextlib.ExitStack() as opened:
        output, errors, lock = (
            opened.enter_context(os.fdopen(files.open_new(path[name]), "wb")) for name in (OUTPUT, ERRORS, LOCK)
        )
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        subprocess.Popen(
            [*keeper, directory, "--", *argv(directory)],
            stdin=opened.enter_context(open(path[INPUT], "rb")),
            stdout=output,
            stderr=errors,
            start_new_session=True,
            pass_fds=[lock.fileno()],
            cwd="/",
        )
    return directory


def keep(directory: str, argv: t.Sequence[str], patience: float = PATIENCE, poll: float = KEEPER_POLL) -> int:
    """Run a command to its end and keep its exit status; end it if no caller asks for it any more."""
    # Streams and the lock of the keeper are inherited.
    child = subprocess.Popen(argv, close_fds=False)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            rc = child.wait(poll)
            break
        if time.time() - _asked_at(os.path.join(directory, INPUT)) > patience:
            child.terminate()
    files.replace_file(os.path.join(directory, STATUS), f"{rc}\n".encode(), sync=False)
    return 0


def _asked_at(path: str) -> float:
    """Return the time of a caller's last request, in seconds since 1970; 0 for a missing directory."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def read(directory: str, offset: int, seconds: float) -> Seen:
    """Return the output after ``offset``, as soon as there is any or the command ends."""
    deadline = time.monotonic() + seconds
    os.utime(os.path.join(directory, INPUT))
    while True:
        # In this order: output from before the end is read after the end was detected.
        over = _free(os.path.join(directory, LOCK))
        seen = _look(directory, offset, over)
        if seen.text or over or time.monotonic() >= deadline:
            return seen
        time.sleep(READ_POLL)


def _look(directory: str, offset: int, over: bool) -> Seen:
    with open(os.path.join(directory, OUTPUT), "rb") as stream:
        stream.seek(offset)
        data = stream.read(MAX_BYTES)
    whole = len(data) == MAX_BYTES or over
    lines = data if whole else data[: data.rfind(b"\n") + 1]
    # More output than one look returns: a later look reports the end.
    over = over and len(data) < MAX_BYTES
    rc: int | None = None
    errors = ""
    if over:
        with (
            contextlib.suppress(OSError, ValueError),
            open(os.path.join(directory, STATUS), encoding="ascii") as status,
        ):
            rc = int(status.read())
        with open(os.path.join(directory, ERRORS), "rb") as log:
            log.seek(max(os.fstat(log.fileno()).st_size - MAX_ERRORS, 0))
            errors = log.read().decode("utf-8", "replace")
    return Seen(lines.decode("utf-8", "replace"), offset + len(lines), over, rc, errors)


def _free(path: str) -> bool:
    with open(path, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def is_ours(directory: str) -> bool:
    """Return whether ``begin`` has made this directory for this user."""
    above, name = os.path.split(directory)
    if os.path.realpath(above) != os.path.realpath(tempfile.gettempdir()) or not name.startswith(PREFIX):
        return False
    return os.path.isdir(directory) and not os.path.islink(directory) and os.lstat(directory).st_uid == os.geteuid()


def forget(directory: str) -> None:
    """Remove the directory of a command that is over."""
    if is_ours(directory):
        files.discard_directory(directory)
