# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of arguments for argparse. All raise ArgumentTypeError, which is wrong usage."""

from __future__ import annotations

import argparse
from pathlib import Path


def place(text: str) -> str:
    """A path or URL. An empty one, of a variable that a script never set, would be the working directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "it is empty: name a path, and see whether a variable is set that was to say it"
        )
    return text


def path(text: str) -> Path:
    """A path of the file system."""
    return Path(place(text))


def at_least_one(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number of 1 or more")
    return int(text)
