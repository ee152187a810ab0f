# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run programs that may be missing, hang or fail, and return the reason of a failure."""

from __future__ import annotations

import argparse
import re
import typing as t

from .host import CommandError, Host


def ask(host: Host, argv: t.Sequence[str], timeout: float = 30) -> tuple[str, str | None]:
    """Return standard output and, if it is not reliable, the reason in one sentence: the program is missing, gave no
    answer in time, or ended with an error.
    """
    try:
        completed = host.run(argv, timeout=timeout, check=False)
    except CommandError as exc:
        return "", str(exc)
    if completed.rc == 0:
        return completed.stdout, None
    output = " ".join(f"{completed.stdout} {completed.stderr}".split())[:300]
    return completed.stdout, f"{' '.join(argv)} ended with status {completed.rc}: {output or 'no output'}"


def reliable(host: Host, argv: t.Sequence[str]) -> str:
    """Return standard output; empty if it is not reliable: text beside an error status proves nothing."""
    output, problem = ask(host, argv)
    return "" if problem else output


def number(text: str | None) -> int | None:
    """Return the whole number in a file of the kernel."""
    word = (text or "").strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) < 19 else None


def whole_number(minimum: int, maximum: int) -> t.Callable[[str], int]:
    """Return the type of an option of the command: a number within bounds."""

    def convert(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {minimum} to {maximum}")
        return value

    # argparse prints this name if the text is not a number.
    convert.__name__ = "number"
    return convert


def line(host: Host, path: str) -> str | None:
    """Return the single line of a file of the kernel, None if it is missing or empty."""
    return (host.read_text(path) or "").strip() or None


def first_number(text: str | None) -> int:
    """Return the leading number of a text, 0 without one: sysfs shows "8 (4)" while an array is reshaped."""
    match = re.match(r"\s*([0-9]+)", text or "")
    return int(match.group(1)) if match else 0
