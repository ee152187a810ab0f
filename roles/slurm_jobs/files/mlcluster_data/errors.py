# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors with messages for users, and the exit statuses of every command."""

from __future__ import annotations

PASS, FAIL, UNDETERMINABLE, USAGE = 0, 1, 2, 3


class DataError(Exception):
    """A failure with a message of one sentence for the user: what was tried, what was found, what to do next."""


class CorruptError(DataError):
    """A file whose content differs from its manifest; the message names the file."""


def one_line(text: str) -> str:
    """Return a text with escapes for what cannot be printed, such as a line feed in the name of a file."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
