# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests run which lines of a module, for ``mutants``: a changed line is tried by those tests alone."""

from __future__ import annotations

import ast
import dataclasses
import json
import sys
import threading
import time
import types
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest


@dataclasses.dataclass(frozen=True)
class Covered:
    """The name of a test, the lines of the module that it runs, and its seconds."""

    name: str
    lines: frozenset[int]
    seconds: float


class Recorder:
    """A plugin of pytest that writes ``Covered`` of every test into a file."""

    def __init__(self, module: Path, target: Path) -> None:
        self.end, self.target = f"/{module}", target
        self.ours: dict[str, bool] = {}
        self.found: list[tuple[str, list[int], float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        lines: set[int] = set()

        def trace(frame: types.FrameType, _event: str, _arg: object) -> t.Any:
            path = frame.f_code.co_filename
            if path not in self.ours:
                self.ours[path] = path.endswith(self.end)
            if not self.ours[path]:
                return None
            lines.add(frame.f_lineno)
            return trace

        began, before = time.monotonic(), sys.gettrace()
        sys.settrace(trace)
        threading.settrace(trace)
        try:
            return (yield)
        finally:
            sys.settrace(before)
            threading.settrace(t.cast("t.Any", None))
            self.found.append((item.nodeid, sorted(lines), time.monotonic() - began))

    def pytest_sessionfinish(self) -> None:
        self.target.write_text(json.dumps(self.found), encoding="utf-8")


def read(path: Path) -> list[Covered]:
    """Return what a ``Recorder`` wrote."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return [Covered(name, frozenset(lines), seconds) for name, lines, seconds in entries]


def lines_of(tree: ast.AST, place: int) -> range | None:
    """Return the lines that run with the node at a place of the walk; None for what runs when the module is imported.

    They are those of the smallest statement around it, without the statements inside of that.
    """
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    node = list(ast.walk(tree))[place]
    while not isinstance(node, ast.stmt):
        if node not in parents:
            return None
        node = parents[node]
    around = parents.get(node)
    while around is not None and not isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
        around = parents.get(around)
    if around is None and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    body = getattr(node, "body", None)
    end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(node.lineno, max(end, node.lineno) + 1)


def choose(covered: t.Sequence[Covered], lines: range | None) -> list[Covered]:
    """Return the tests that run one of these lines, the quickest first."""
    wanted = set(lines or ())
    return quickest(one for one in covered if one.lines & wanted)


def quickest(covered: t.Iterable[Covered]) -> list[Covered]:
    """Return the tests, the quickest first."""
    return sorted(covered, key=lambda one: one.seconds)
