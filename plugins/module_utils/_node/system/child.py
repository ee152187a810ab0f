# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a Python process of its own, which opens code of others: that may print, crash, hang or end the process.

The answer takes another way than standard output, so nothing that a library prints can be taken for it, and no code of
a library runs after it. Only an answer with every key, each of its type, counts.
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
    """No answer: ``problem`` says how the process ended; ``started`` is False where it could not be tried."""

    def __init__(self, problem: str, started: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.started = problem, started


def a_text(value: object) -> bool:
    """Return whether a value of an answer is a text."""
    return isinstance(value, str)


def a_truth(value: object) -> bool:
    """Return whether a value of an answer is true or false."""
    return isinstance(value, bool)


def a_number(value: object) -> bool:
    """Return whether a value of an answer is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def texts(value: object) -> bool:
    """Return whether a value of an answer is a list of texts."""
    return isinstance(value, list) and all(map(a_text, value))


def text_by_name(value: object) -> bool:
    """Return whether a value of an answer maps names to texts."""
    return isinstance(value, dict) and all(map(a_text, value.values()))


def or_none(check: Check) -> Check:
    """Return a check that takes nothing, too."""
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
    """Return what a program gave to its function ``answer``: a mapping with just these keys, each of its type.

    ``python`` is the interpreter with its options (default: this one, isolated), ``without`` the variables that the
    process does not get. Raises ChildError.
    """
    # env: the loader reads the environment anew, and nothing of this process's own start counts.
    unset = [word for name in without for word in ("-u", name)]
    argv = ["env", *unset, *(python or (sys.executable or "python3", "-I")), "-c", _PREAMBLE + source, *arguments]
    try:
        done = host.run(argv, timeout=timeout, check=False)
    except CommandError as exc:
        # Without the command line, which holds the whole program.
        words = f": {exc.stderr.strip()}" if exc.stderr.strip() else ""
        raise ChildError(f"{exc.problem}{words}", started=False) from None
    try:
        found = json.loads(done.stdout) if done.rc == 0 else None
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.keys() == keys.keys() and all(keys[key](found[key]) for key in keys):
        return found
    how = f"was ended by signal {-done.rc}" if done.rc < 0 else f"ended with status {done.rc}"
    last = done.stderr.strip().splitlines()[-1:]
    raise ChildError(f"{how} and gave no answer{': ' + last[0] if last else ''}")
