# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the options of jobs: the check of a value, and its name in messages. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import posixpath
import re
import typing as t

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Characters of an #SBATCH line. Slurm, not a shell, splits it: blanks, quotes, # and \ have a meaning there.
PLAIN = re.compile(r"[A-Za-z0-9_./%@:,+=&|*!()\[\]-]+")
# nccl-tests accepts a number of bytes with one of these units (its common.cu, parsesize).
SIZE_PATTERN = re.compile(r"[1-9][0-9]{0,17}[KMGT]?")
# Names of buckets (Amazon S3 User Guide, bucket naming rules), and keys without characters special to a shell or S3.
BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*()=-]+)*")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:?\d\d)", re.ASCII)
LAYOUTS = ("all", "single", "pairs", "bisect")
MAX_VALUE = 10**15


@dataclasses.dataclass(frozen=True)
class Type:
    """``accepts(value)`` returns whether a value is of this type, ``wanted`` ends the "use ..." of a message."""

    accepts: t.Callable[[t.Any], bool]
    wanted: str


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a job kind: its type, its default, and whether a job must set it."""

    type: Type
    default: t.Any = ""
    required: bool = False


def whole(value: t.Any, minimum: int = 1) -> bool:
    """Return whether ``value`` is an integer from ``minimum`` on that a shell can calculate with."""
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= MAX_VALUE


def is_path(value: t.Any) -> bool:
    """Return whether ``value`` is an absolute path that is safe in an #SBATCH line and in a shell."""
    return (
        isinstance(value, str)
        and posixpath.isabs(value)
        and posixpath.normpath(value) == value != "/"
        and bool(PLAIN.fullmatch(value))
        and "%" not in value
    )


def is_size(value: t.Any) -> bool:
    """Return whether ``value`` is a number of bytes such as 8, 64K or 1G."""
    return (whole(value) or isinstance(value, str)) and bool(SIZE_PATTERN.fullmatch(str(value)))


def size_bytes(text: t.Any) -> int:
    """Return the bytes of a size such as 8, 64K or 1G."""
    number, unit = re.fullmatch(r"(\d+)([KMGT]?)", str(text)).groups()  # type: ignore[union-attr]
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]


def is_time(value: t.Any) -> bool:
    """Return whether ``value`` is a time such as 2026-12-01T11:30:00Z."""
    if not isinstance(value, str) or not TIME.fullmatch(value):
        return False
    try:
        datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return False
    return True


def is_word(value: t.Any) -> bool:
    """Return whether ``value`` can be one argument of a program."""
    return isinstance(value, (str, int)) and not isinstance(value, bool) and "\0" not in str(value)


def one_of(*words: str) -> t.Callable[[t.Any], bool]:
    """Return a check for one of these strings."""
    return lambda value: isinstance(value, str) and value in words


def match(pattern: re.Pattern[str]) -> t.Callable[[t.Any], bool]:
    """Return a check for a string that matches as a whole."""
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


def list_of(check: t.Callable[[t.Any], bool], minimum: int = 0) -> t.Callable[[t.Any], bool]:
    """Return a check for a list of at least ``minimum`` values that pass ``check``."""
    return lambda value: isinstance(value, list) and len(value) >= minimum and all(check(each) for each in value)


def choice(*words: str) -> Type:
    """Return the type of an option with these values."""
    return Type(one_of(*words), f"one of {', '.join(words)}")


def choices(*words: str, minimum: int = 0, wanted: str = "") -> Type:
    """Return the type of a list of these values."""
    return Type(list_of(one_of(*words), minimum), wanted or f"a list of {', '.join(words)}")


def _number(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


COUNT = Type(whole, "an integer from 1")
COUNT_OR_NONE = Type(lambda value: whole(value, 0), "an integer from 0")
SECONDS = Type(whole, "an integer (seconds)")
MINUTES = Type(whole, "an integer (minutes)")
SIZE = Type(is_size, "bytes, such as 8, 64K, 1M or 16G")
PATH = Type(is_path, "an absolute path")
PATHS = Type(list_of(is_path), "a list of absolute paths")
WORDS = Type(list_of(is_word), "a list of words")
MIB_PER_SECOND = Type(lambda value: whole(value, 0), "an integer (MiB/s), 0 where it is not known")
GIB_PER_SECOND = Type(_number, "GiB/s, 0 where it is not known")
LAYOUT = choice(*LAYOUTS)
NODES = Type(lambda value: one_of("all")(value) or whole(value), "an integer, or all")
END_TIME = Type(
    lambda value: one_of("", "never")(value) or is_time(value), "a time such as 2026-12-01T11:30:00Z, or never"
)
