# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entries that another user may plant where a data program will make a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLANTED = ("link", "dangling link", "directory", "pipe", "other owner")
SOMEBODY = 4242


def plant(place: Path, what: str, target: Path) -> None:
    """Plant an entry; links lead to ``target``, a dangling link to a missing name in the same folder."""
    if what == "link":
        place.symlink_to(target)
    elif what == "dangling link":
        place.symlink_to(target.with_name("absent"))
    elif what == "directory":
        place.mkdir()
    elif what == "pipe":
        os.mkfifo(place)
    elif what == "other owner":
        place.write_bytes(b"theirs")
        give_away(place)


def give_away(place: Path) -> None:
    """Make another user the owner."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(place, SOMEBODY, SOMEBODY)
