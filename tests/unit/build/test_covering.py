# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.build import covering
from tests.build.covering import Covered

SOURCE = """\
LIMIT = 5


def f(a, b=1):
    if (
        a
    ):
        g(a,
          2)
    return b


class C:
    field = 3
"""
TREE = ast.parse(SOURCE)


def place(text, line):
    """Return the place of the first node that is written so, on this line."""
    return next(
        number
        for number, node in enumerate(ast.walk(TREE))
        if getattr(node, "lineno", 0) == line and ast.unparse(node) == text
    )


@pytest.mark.parametrize(
    ("text", "line", "lines"),
    [
        ("5", 1, None),
        ("3", 14, None),
        ("1", 4, range(4, 5)),
        ("a", 6, range(5, 8)),
        ("2", 9, range(8, 10)),
        ("b", 10, range(10, 11)),
    ],
)
def test_lines_that_run_with_syntax_node(text, line, lines):
    assert covering.lines_of(TREE, place(text, line)) == lines


def test_tests_of_line_are_quickest_first():
    covered = [Covered("a", frozenset({5}), 3), Covered("b", frozenset({6, 9}), 1), Covered("c", frozenset({9}), 0)]
    assert covering.choose(covered, range(5, 8)) == [covered[1], covered[0]]
    assert covering.choose(covered, None) == covering.choose(covered, range(1, 3)) == []
    assert covering.quickest(covered) == covered[::-1]


def test_recorder_writes_lines_of_each_test(recorded):
    found = {one.name.partition("::")[2]: one.lines for one in recorded}
    assert found == {
        "test_two": {1, 2},
        "test_thread": {1, 2},
        "test_none": set(),
    }


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Return what a recorder wrote of the tests of a small module, which pytest runs in this process."""
    (tmp_path / "small_module.py").write_text("def double(value):\n    return value * 2\n")
    tests = tmp_path / "test_small.py"
    tests.write_text(
        "import threading\nfrom small_module import double\n"
        "def test_two():\n    assert double(1) == 2\n"
        "def test_thread():\n"
        "    one = threading.Thread(target=double, args=(2,))\n    one.start()\n    one.join()\n"
        "def test_none():\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "small_module", raising=False)
    target = tmp_path / "covered.json"
    words = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={tmp_path}", str(tests)]
    assert pytest.main(words, plugins=[covering.Recorder(Path("small_module.py"), target)]) == 0
    return covering.read(target)
