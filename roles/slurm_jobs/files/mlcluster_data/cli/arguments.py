# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of arguments for argparse. All raise ArgumentTypeError, which is wrong usage."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

# Numbers up to this never overflow 64 bits in a calculation.
MAX_VALUE = 10**15
DIGITS = 19
# Processes or threads of one program: more than any EC2 instance has cores.
WORKERS_MOST = 2048
# Of the 255 that a file system allows; the rest is for a prefix and a suffix.
NAME_BYTES = 150


def place(text: str) -> str:
    """Return a path or URL. Rejects an empty one, such as an unset variable, which would be the working directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "it is empty: set a path, and check that the variable that should contain it is set"
        )
    return text


def path(text: str) -> Path:
    """Return a path of the file system."""
    return Path(place(text))


def name(text: str) -> str:
    """Return a file name without its folder, short enough for a prefix and a suffix."""
    if text in ("", ".", "..") or "/" in text or "\0" in text or len(text.encode()) > NAME_BYTES:
        raise argparse.ArgumentTypeError(
            f"{text[:60]!r} is not a name for a file: use one of 1 to {NAME_BYTES} bytes without a slash"
        )
    return text


def between(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return a type of argument: an integer from ``minimum`` to ``maximum``."""

    def number(text: str) -> int:
        # Python rejects strings of some thousand digits.
        if not text.isdecimal() or len(text) > DIGITS or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"{text[:60]} is not an integer from {minimum} to {maximum}")
        return int(text)

    return number


at_least_one = between(1, MAX_VALUE)
workers = between(1, WORKERS_MOST)
