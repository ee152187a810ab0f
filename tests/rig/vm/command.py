# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions by which the rig runs other programs and waits for conditions."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Optional, TypeVar, Union

PROGRESS_EVERY = 10.0
T = TypeVar("T")


class RigError(Exception):
    """An error whose message has what was tried, what was found and what to do next."""


class Result(NamedTuple):
    """A finished program: exit status, standard output, standard error."""

    rc: int
    out: str
    err: str


def progress(message: str) -> None:
    """Print one progress line on standard error, so that standard output stays machine-readable."""
    print(f"rig: {message}", file=sys.stderr, flush=True)


def tail(text: str, lines: int = 20) -> str:
    """Return the last ``lines`` lines of ``text``."""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def tail_of(path: Path, lines: int = 20) -> str:
    """Return the last lines of a log file, or a note that it does not exist."""
    try:
        return tail(path.read_text(encoding="utf-8", errors="replace").replace("\r", ""), lines)
    except FileNotFoundError:
        return f"({path} does not exist)"


def run(
    argv: Sequence[str],
    what: str,
    *,
    stdin: Optional[str] = None,
    timeout: float = 600.0,
    check: bool = True,
    cwd: Optional[Path] = None,
) -> Result:
    """Run ``argv`` to its end and return its Result; progress and error lines name it by ``what``.

    Raises RigError when the program is missing, runs longer than ``timeout`` seconds, or (with ``check``) fails.
    """
    started = time.monotonic()
    # Not a pipe: a repeated call of Popen.communicate() drops the input that is not sent yet.
    with tempfile.TemporaryFile() as source:
        source.write((stdin or "").encode())
        source.seek(0)
        try:
            process = subprocess.Popen(
                list(argv), stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd
            )
        except FileNotFoundError as exc:
            raise RigError(f"{what} needs the program {argv[0]}, which is not installed: run `make setup`.") from exc
    while True:
        spent = time.monotonic() - started
        try:
            out, err = process.communicate(timeout=max(0.1, min(PROGRESS_EVERY, timeout - spent)))
            break
        except subprocess.TimeoutExpired:
            spent = time.monotonic() - started
            if spent >= timeout:
                process.kill()
                process.communicate()
                raise RigError(f"{what} did not end within {timeout:.0f} s: {' '.join(argv)[:300]}") from None
            progress(f"{what}: {spent:.0f} s so far")
    result = Result(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    if check and result.rc:
        shown = tail(result.err) or tail(result.out) or "it printed nothing"
        raise RigError(f"{what} failed with exit status {result.rc}: {' '.join(argv)[:300]}\n{shown}")
    return result


def spawn(argv: Sequence[str], *, cwd: Path, stderr: Union[int, IO[bytes]]) -> subprocess.Popen[bytes]:
    """Start a program that outlives this one: in a new session, without input, with all output to ``stderr``."""
    return subprocess.Popen(
        list(argv), cwd=cwd, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, start_new_session=True
    )


def wait_for(what: str, probe: Callable[[], Optional[T]], *, timeout: float, poll: float = 0.5) -> T:
    """Call ``probe`` until it returns a value other than None, and return that; report progress every ten seconds.

    Raises RigError after ``timeout`` seconds. Exceptions of ``probe`` are passed on.
    """
    started = time.monotonic()
    reported = started
    while True:
        probed = time.monotonic()
        found = probe()
        if found is not None:
            return found
        now = time.monotonic()
        if now - started >= timeout:
            raise RigError(f"waited {timeout:.0f} s for {what} without success")
        # The next probe may take as long as this one, and no progress is reported before its end.
        if now - reported + (now - probed) >= PROGRESS_EVERY:
            reported = now
            progress(f"waiting for {what}: {now - started:.0f} s so far")
        time.sleep(poll)
