# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try mutants in forks of one process that has collected the tests, for ``mutants``: no fork collects them again."""

from __future__ import annotations

import ast
import gc
import json
import os
import resource
import signal
import time
import types
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.build import covering, exchange

RECORD_SECONDS = 600
# Processor seconds of a fork: the first, and the second times what its tests took under the tracer.
MIN_SECONDS, TIMES = 10, 5


class Mutant(t.Protocol):
    """A changed module: its source, its code, and the lines that run with the change (None: the import)."""

    @property
    def text(self) -> str: ...
    @property
    def code(self) -> types.CodeType: ...
    @property
    def runs(self) -> range | None: ...


class Step(t.NamedTuple):
    """The work of one fork: the place of the mutant, its source, the new code of functions, and the tests."""

    place: int | None
    text: str
    codes: Mapping[types.CodeType, types.CodeType] | None
    tests: Sequence[covering.Covered]


def wait(child: int, seconds: float) -> int:
    """Return the exit status of a fork that leads its group; 1 if it hangs: then its group is killed."""
    deadline = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            _kill(child)
            os.waitpid(child, 0)
            return 1
        time.sleep(0.005)


def _kill(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        # It has not become the leader of a group yet.
        os.kill(child, signal.SIGKILL)


def write(path: Path, text: str) -> None:
    """Write a module and remove its bytecode: two mutants of one second may have the same size."""
    for old in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        old.unlink()
    path.write_text(text, encoding="utf-8")


class Forks:
    """A plugin of pytest that tries mutants in forks of the process that has collected the tests.

    A fork exchanges the code of live functions, then continues as a run of the tests that reach the changed lines.
    ``target`` receives the places of the mutants that died. Another may still die by an import or by another test.
    """

    def __init__(self, copied: Path, module: Path, made: Sequence[Mutant], seconds: float, target: Path) -> None:
        self.file, self.module, self.made = copied / module, module, made
        self.seconds, self.target = seconds, target

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Try all; return None in a fork, which then runs the items of its session."""
        if session.testsfailed:
            return None
        parent, source = os.getppid(), self.file.read_text(encoding="utf-8")
        live = exchange.functions(self.module)
        # No fork then has to look through what this process has loaded.
        gc.freeze()
        status = _fork(RECORD_SECONDS)
        if status is None:
            session.config.pluginmanager.register(covering.Recorder(self.module, self.target))
            return None
        if status:
            pytest.exit("the tests fail without a change", returncode=1)
        items, killed = {item.nodeid: item for item in session.items}, []
        for step in self._steps(source, live, covering.read(self.target)):
            write(self.file, step.text)
            status = _fork(self.seconds, step.tests)
            if status is None:
                session.items[:] = [items[test.name] for test in step.tests]
                if not exchange.put(live, step.codes or {}):
                    os._exit(0)
                return None
            if step.place is not None and status:
                killed.append(step.place)
            # Tests that fail in this order without a change prove nothing.
            elif status:
                break
            # The result of an orphan has no reader.
            if os.getppid() != parent:
                break
        write(self.file, source)
        self.target.write_text(json.dumps(killed), encoding="utf-8")
        return True

    def _steps(
        self, source: str, live: Sequence[types.FunctionType], covered: Sequence[covering.Covered]
    ) -> Iterator[Step]:
        """Yield the module as it is, then each mutant that can be tried in memory."""
        before = compile(source, "module", "exec", dont_inherit=True)
        same = {one.__code__: one.__code__ for one in live}
        yield Step(None, ast.unparse(ast.parse(source)), same, covering.quickest(covered))
        for place, one in enumerate(self.made):
            step = Step(place, one.text, exchange.pairs(before, one.code), covering.choose(covered, one.runs))
            if step.codes and step.tests:
                yield step


def _fork(seconds: float, tests: Sequence[covering.Covered] | None = None) -> int | None:
    """Return the exit status of a fork, None inside it; the tests limit its processor time."""
    child = os.fork()
    if child:
        return wait(child, seconds)
    # A group of its own: what the tests have started ends with it.
    os.setsid()
    if tests is not None:
        most = MIN_SECONDS + int(TIMES * sum(one.seconds for one in tests))
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    return None
