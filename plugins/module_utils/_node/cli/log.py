# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logging of the node runtime: ``/var/log/mlcluster/<verb>.log``, rotated, and standard error.

A log that cannot be written (full disk, read-only file system, no rights) never fails the caller: the boot unit must
mount the disks even without a log.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import logging.handlers
import os
import re
import stat
import sys
import time
from io import TextIOWrapper

LOG_DIR = "/var/log/mlcluster"
LOGGER_NAME = "mlcluster"
MAX_BYTES = 1024 * 1024
BACKUPS = 5


class _OneLine(logging.Formatter):
    """Messages only: the traceback is written to the log file alone."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage()


class _Utc(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class _QuietStream(logging.StreamHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignore the error: a closed standard error is not a failure."""


def open_log(path: str, mode: int, own: bool = False) -> TextIOWrapper:
    """Open a plain file to append to; the umask of a boot unit or a Slurm prolog does not decide who reads it.

    own: reject a file of another user, or with a second name, as in a directory where every user may write. Without
    it, such a file is accepted, and only its owner may change its mode. Raises OSError.
    """
    # Without blocking, since a pipe may never get another end, and a boot would wait for it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    state = os.fstat(descriptor)
    problem = "" if stat.S_ISREG(state.st_mode) else "not a plain file"
    if own and (state.st_uid not in (0, os.geteuid()) or state.st_nlink > 1):
        problem = problem or "a file of another user, or with a second name"
    if problem:
        os.close(descriptor)
        raise OSError(errno.EPERM, problem, path)
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, mode)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")


class _SafeFile(logging.handlers.RotatingFileHandler):
    """A rotating file of mode 0640 that reports only its first failure on standard error."""

    def __init__(self, path: str) -> None:
        self._reported = False
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace", delay=True)

    def _open(self) -> TextIOWrapper:
        return open_log(self.baseFilename, 0o640)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        error = sys.exc_info()[1]
        self._drop_stream()
        if self._reported:
            return
        self._reported = True
        _report(self.baseFilename, error)

    def _drop_stream(self) -> None:
        stream, self.stream = self.stream, None
        # Closing flushes, and on a full disk the flush fails again.
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.close()


def _report(path: str, error: BaseException | None) -> None:
    reason = getattr(error, "strerror", None) or error
    # Without a standard error there is no other place to report it.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"mlcluster: cannot write the log {path} ({reason}); messages go to standard error only\n")


def _make_directory(directory: str) -> None:
    if os.path.isdir(directory):
        return
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o755)  # noqa: S103


def setup(verb: str, directory: str = LOG_DIR) -> tuple[logging.Logger, str | None]:
    """Send the ``mlcluster`` logger to ``<directory>/<verb>.log`` and standard error.

    Returns the logger and the path of its file, None where there is none. Handlers of an earlier call
    are replaced. Never raises: a failed write is reported once on standard error, but not to an ordinary user, who may
    not write to that directory.
    """
    logger = logging.getLogger(LOGGER_NAME)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        # Closing writes buffered messages, which fails again on a full disk.
        with contextlib.suppress(OSError):
            handler.close()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    stream = _QuietStream()
    stream.setFormatter(_OneLine())
    logger.addHandler(stream)
    path = os.path.join(directory, "{}.log".format(re.sub(r"[^A-Za-z0-9_.-]", "_", verb)))
    try:
        _make_directory(directory)
        writable = os.access(directory, os.W_OK | os.X_OK)
    except OSError as exc:
        if os.geteuid() == 0:
            _report(path, exc)
        return logger, None
    if not writable and os.geteuid() != 0:
        return logger, None
    handler = _SafeFile(path)
    handler.setFormatter(_Utc("%(asctime)s %(levelname)s [%(process)d] %(message)s"))
    logger.addHandler(handler)
    return logger, path
