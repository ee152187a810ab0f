# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a separate Python process that loads foreign code, which may print, crash, hang or end the process.

The answer does not use standard output, so no output of a library can be mistaken for it, and no code of a library runs
after it. Only an answer with every key, each of its type, counts.
"""

from __future__ import annotations

import json
import sys
import typing as t

from .host import CommandError, Host

Check = t.Callable[[t.Any], bool]

# In front of the program: what it prints goes to standard error, and ``answer`` writes to what was standard output.
_PREAMBLE = """
import json, os, sys
_way = os.dup(1)
os.dup2(2, 1)
def answer(found):
    rest = json.dumps(found).encode()
    while rest:
        rest = rest[os.write(_way, rest):]
    os._exit(0)
"""


class ChildError(Exception):
    """No answer: ``problem`` is how the process ended; ``started`` is False if it did not start."""

    def __init__(self, problem: str, started: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.started = problem, started


def is_string(value: object) -> bool:
    """Return whether a value of an answer is a string."""
    return isinstance(value, str)


def is_boolean(value: object) -> bool:
    """Return whether a value of an answer is true or false."""
    return isinstance(value, bool)


def is_string_list(value: object) -> bool:
    """Return whether a value of an answer is a list of strings."""
    return isinstance(value, list) and all(map(is_string, value))


def is_string_dict(value: object) -> bool:
    """Return whether a value of an answer maps names to strings."""
    return isinstance(value, dict) and all(map(is_string, value.values()))


def or_none(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda value: value is None or check(value)


def ask_child(
    host: Host,
    source: str,
    arguments: t.Sequence[str],
    keys: t.Mapping[str, Check],
    timeout: float,
    python: t.Sequence[str] = (),
    without: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the argument of a program's call of ``answer``: a mapping with exactly these keys, each of its type.

    ``python`` is the interpreter with its options (default: this one, isolated), ``without`` the variables that are
    removed from its environment. Raises ChildError.
    """
    # env: the loader reads the environment again, without the state of this process's start.
    unset = [word for name in without for word in ("-u", name)]
    argv = ["env", *unset, *(python or (sys.executable or "python3", "-I")), "-c", _PREAMBLE + source, *arguments]
    try:
        completed = host.run(argv, timeout=timeout, check=False)
    except CommandError as exc:
        # Without the command line, which contains the whole program.
        words = f": {exc.stderr.strip()}" if exc.stderr.strip() else ""
        raise ChildError(f"{exc.problem}{words}", started=False) from None
    try:
        found = json.loads(completed.stdout) if completed.rc == 0 else None
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.keys() == keys.keys() and all(keys[key](found[key]) for key in keys):
        return found
    how = f"was ended by signal {-completed.rc}" if completed.rc < 0 else f"ended with status {completed.rc}"
    last = completed.stderr.strip().splitlines()[-1:]
    raise ChildError(f"{how} and gave no answer{': ' + last[0] if last else ''}")
