# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.build import mutants

SOURCE = '''
def f(a: "str | None", b):
    """Text."""
    if a is None:
        return None
    if not a and b == 1:
        g(a)
    return {1} & b
'''


def test_every_change_is_valid_module_that_differs():
    made = mutants.mutants(SOURCE, None, 0)
    plain = ast.unparse(ast.parse(SOURCE))
    assert {one.name for one in made} == {
        "comparison",
        "and/or",
        "not dropped",
        "operator",
        "constant",
        "returned value",
        "guard deleted",
        "statement deleted",
    }
    for one in made:
        compile(one.text, "mutant", "exec")
        assert one.text != plain
        assert one.runs is None or one.line in one.runs


def test_lines_are_those_of_source():
    lines = SOURCE.splitlines()
    named = {(one.name, lines[one.line - 1].strip()) for one in mutants.mutants(SOURCE, None, 0)}
    assert ("statement deleted", "g(a)") in named
    assert ("guard deleted", "if a is None:") in named
    assert ("returned value", "return {1} & b") in named
    assert not any("Text" in line for _name, line in named)


def test_seed_picks_same_mutants():
    first, again = (mutants.mutants(SOURCE, 4, 7) for _time in range(2))
    assert first == again
    assert len(first) == 4
    assert first != mutants.mutants(SOURCE, 4, 8)


def test_annotations_are_left_unchanged():
    made = mutants.mutants("def f(a: str | None) -> None | int: ...", None, 0)
    assert [one for one in made if one.name == "operator"] == []


def test_tests_of_module_come_before_its_folder():
    folder = Path("tests/unit/plugins/module_utils/_node/slurm")
    assert mutants.own_tests(Path("plugins/module_utils/_node/slurm/states.py")) == [folder / "test_states.py", folder]
    assert mutants.own_tests(Path("plugins/module_utils/_node/slurm/__init__.py")) == [folder]
    with pytest.raises(SystemExit, match="has no tests"):
        mutants.own_tests(Path("docs/none.py"))
