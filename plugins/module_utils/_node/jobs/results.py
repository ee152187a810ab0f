# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results, exit status and output of a job, and those of earlier jobs with its number.

Every user may write into the directory above them, and job numbers are predictable. So nothing is written through links
or files that other users made under these names.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import pwd
import secrets
import shutil
import typing as t

from ..system import files
from .work import JobError

STDOUT = 1


class Results:
    """The paths of one job: ``directory`` for results, ``status_file`` and ``output`` beside it."""

    def __init__(self, name: str, directory: str) -> None:
        self.name = name
        self.directory = directory
        self.status_file = f"{directory}.exit"
        self.output = f"{directory}.out"
        self._kept: t.Optional[int] = None

    def keep_status(self, status: int) -> None:
        """Write the exit status for users and programs that ask for it later; on a full disk it is missing."""
        if status != self._kept:
            self._kept = status
            with contextlib.suppress(OSError):
                files.replace_file(self.status_file, f"{status}\n".encode())

    def make(self) -> None:
        """Make the directory. Raises ``JobError``."""
        try:
            os.mkdir(self.directory)
        except OSError as exc:
            above = posixpath.dirname(self.directory)
            raise JobError(
                f"{self.directory} could not be made ({exc.strerror}): check that {above} exists, which the role "
                f"slurm_jobs makes, and that {_user(os.geteuid())} may write there"
            ) from None

    def take(self) -> None:
        """Use the directory of an earlier start, or make one. Raises ``JobError`` if another user owns it."""
        if not os.path.isdir(self.directory):
            self.make()
        if os.path.islink(self.directory) or os.lstat(self.directory).st_uid != os.geteuid():
            user = _user(os.geteuid())
            raise JobError(f"{self.directory} is not of {user}: let it be moved away, and submit again")

    def set_earlier_aside(self, again: bool) -> str:
        """Rename the files of earlier jobs with this number; return the line to print, or an empty string.

        A cluster with a new head node counts its jobs from 1 again. ``again``: this is a later start of the same job,
        which continues with its results. Raises ``JobError``.
        """
        if again:
            # If this start is killed, the status of the earlier one would count as its own.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.status_file)
        elif os.path.lexists(self.directory) or os.path.lexists(self.status_file):
            return self._set_aside()
        if _size(self.output) and _is_stdout(self.output):
            # From an earlier job that left nothing else, or from a program of the site that runs before a script.
            return "the lines above are from before this job began"
        return ""

    def _set_aside(self) -> str:
        earlier = 1
        while any(os.path.lexists(f"{self.directory}.earlier-{earlier}{end}") for end in ("", ".exit", ".out")):
            earlier += 1
        target = f"{self.directory}.earlier-{earlier}"
        owner = _owner(self.directory, self.status_file)
        try:
            for path, end in ((self.status_file, ".exit"), (self.directory, "")):
                if os.path.lexists(path):
                    os.rename(path, f"{target}{end}")
            if _size(self.output):
                self._keep_output(f"{target}.out")
        except OSError:
            raise JobError(
                f"{self.directory} is of an earlier job, of {owner}, and could not be renamed: let them "
                "move it away, and submit again"
            ) from None
        return f"what an earlier job of this number left is kept in {target}"

    def _keep_output(self, target: str) -> None:
        """Copy the existing output and empty the file: Slurm has it open and appends this job's output to it."""
        if not _is_stdout(self.output):
            os.rename(self.output, target)
            return
        fresh = f"{target}.{secrets.token_hex(8)}"
        with open(self.output, "rb") as source, os.fdopen(files.open_new(fresh), "wb") as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fchmod(copy.fileno(), 0o644)
            os.fsync(copy.fileno())
        os.rename(fresh, target)
        # The original is removed after the copy is synced.
        files.sync_directory(posixpath.dirname(target) or ".")
        os.ftruncate(STDOUT, 0)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _is_stdout(path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(STDOUT), os.stat(path))
    except OSError:
        return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owner(*paths: str) -> t.Optional[str]:
    for path in paths:
        with contextlib.suppress(OSError):
            return _user(os.lstat(path).st_uid)
    return None
