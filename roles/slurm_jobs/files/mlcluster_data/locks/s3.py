# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock for one writer at a time below a prefix in S3: that of a directory, as an object.

Conditional writes create, renew and take over the lock (Amazon S3 user guide, "How to prevent object overwrites with
conditional writes"): If-None-Match: * creates it only if it is missing, and If-Match with its entity tag replaces only
the known object. The owner rewrites it as a sign of life, which changes the entity tag; clocks are not compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import threading
import time

from ..files import s3
from . import directory as lock
from .directory import LockedError, Owner

LOGGER = logging.getLogger("mlcluster.data")
# A request may be retried for a while before it succeeds, and each sign of life costs money.
STALE_SECONDS = 90.0


class S3Lock:
    """The lock of a prefix, with the methods of locks.directory.Lock."""

    def __init__(self, prefix: s3.Prefix, stale_seconds: float = STALE_SECONDS, name: str = lock.NAME) -> None:
        self.prefix, self.name, self.stale_seconds = prefix, name, stale_seconds
        self.owner = lock.myself()
        self._etag = ""
        self._beats = 0
        self._released = threading.Event()
        self._renewer: threading.Thread | None = None

    def acquire(self) -> Owner | None:
        """Take the lock; return the ended owner that it was taken from, if any.

        Raises S3Error, and LockedError if another living process holds it. If the server or boto3 has no conditional
        writes, nothing is locked and a warning is logged.
        """
        before = None
        try:
            while not self._make():
                found = self._read()
                if found is None:
                    continue
                owner, etag = found
                alive = self.owner.is_running(owner)
                if self._is_renewed(owner, etag) if alive is None else alive:
                    raise LockedError(
                        f"{self.prefix.url} is in use by {owner}: wait for its end, or use a prefix of this run alone"
                    )
                if self._replace(etag):
                    before = owner
                    break
            else:
                # A server that does not know the condition would let every process make it.
                if self.prefix.create(self.name, self._content()) is not None:
                    raise s3.ConditionError("the server ignores If-None-Match")
        except s3.ConditionError as exc:
            LOGGER.warning("%s is not locked (%s): check that no other training uses it", self.prefix.url, exc)
            self._etag = ""
            return None
        self._renewer = threading.Thread(target=self._renew_repeatedly, name="checkpoint-lock", daemon=True)
        self._renewer.start()
        return before

    def ours(self) -> bool:
        """Return whether it is still held; true also if nothing is locked. Raises S3Error."""
        if not self._renewer:
            return True
        found = self._read()
        return found is not None and found[0].token == self.owner.token

    def release(self) -> None:
        """Release the lock if it is still ours; otherwise it counts as abandoned soon."""
        self._released.set()
        if not self._renewer:
            return
        self._renewer.join()
        try:
            if self.ours():
                self.prefix.delete([self.name])
        except s3.S3Error as exc:
            LOGGER.warning("%s: its lock was not released (%s)", self.prefix.url, exc)

    def _content(self) -> bytes:
        self._beats += 1
        return json.dumps({**dataclasses.asdict(self.owner), "beats": self._beats}).encode()

    def _make(self) -> bool:
        self._etag = self.prefix.create(self.name, self._content()) or self._own()
        return bool(self._etag)

    def _replace(self, etag: str) -> bool:
        self._etag = self.prefix.replace(self.name, self._content(), etag) or self._own()
        return bool(self._etag)

    def _own(self) -> str:
        """Return the entity tag if the lock is ours: a request may have arrived although its answer did not."""
        found = self._read()
        return found[1] if found is not None and found[0].token == self.owner.token else ""

    def _read(self) -> tuple[Owner, str] | None:
        found = self.prefix.get_tagged(self.name)
        if found is None:
            return None
        try:
            return Owner(**{key: value for key, value in json.loads(found[0]).items() if key != "beats"}), found[1]
        except (ValueError, TypeError, AttributeError) as exc:
            where = self.prefix.url_of(self.name)
            raise LockedError(f"{where} is not a lock of this program: see what it is, and move it away") from exc

    def _is_renewed(self, owner: Owner, etag: str) -> bool:
        """Return whether the owner renews the lock within the time after which it counts as abandoned."""
        deadline = time.monotonic() + self.stale_seconds
        while time.monotonic() < deadline:
            time.sleep(min(1.0, self.stale_seconds / 20))
            found = self._read()
            if found is None or found[1] != etag:
                return found is not None and found[0] == owner
        return False

    def _renew_repeatedly(self) -> None:
        while not self._released.wait(self.stale_seconds / 6):
            # The signs of life continue even if the server does not answer for a while.
            with contextlib.suppress(s3.S3Error):
                if not self._replace(self._etag):
                    return
