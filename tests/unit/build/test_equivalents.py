# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast

import pytest

from tests.build import equivalents, mutants
from tests.unit.checkout import CHECKOUT


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = f'{text[:80]}'", [80]),
        ("x = f'{text[-60:]!r} {5}'", [60]),
        # A bound that decides, a position, and a figure.
        ("x = text[:80]", []),
        ("x = f'{text[:2]}'", []),
        ("x = f'{80}'", []),
    ],
)
def test_length_of_excerpt_in_message(source, found):
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    assert [nodes[place].value for place in sorted(equivalents.excerpts(tree))] == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("run(argv, timeout=60)", [60]),
        ("def look(host, timeout=60, tries=30): ...", [60]),
        ("def look(host, seconds=60, tries=30): ...", [60]),
        # A time that a test can wait for, one that is chosen elsewhere, and another number.
        ("run(argv, timeout=5)", []),
        ("run(argv, timeout=LONG + 1)", []),
        ("run(argv, tries=60)", []),
        ("run(argv, timeout=True)", []),
    ],
)
def test_time_limit_of_program(source, found):
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    assert [nodes[place].value for place in sorted(equivalents.timeouts(tree))] == found
    assert list(equivalents.of_places(tree).values()) == [equivalents.SECOND_MORE] * len(found)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("@dataclasses.dataclass(frozen=True)\nclass A: ...", [True]),
        ("@dataclass(order=True, frozen=True)\nclass A: ...", [True]),
        ("@dataclasses.dataclass(order=True)\nclass A: ...", []),
        ("made = thing(frozen=True)", []),
    ],
)
def test_frozen_class(source, found):
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    assert [nodes[place].value for place in sorted(equivalents.frozen(tree))] == found
    assert list(equivalents.of_places(tree).values()) == [equivalents.FROZEN] * len(found)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def look(a: A | B) -> C | D: ...", ["A", "B", "C", "D"]),
        ("x: dict[A, B | C] = {}", ["dict", "A", "B", "C"]),
        # An alias is evaluated.
        ("X = A | B", []),
    ],
)
def test_annotation_is_not_evaluated(source, found):
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    places = equivalents.annotations(tree)
    names = [nodes[place] for place in places]
    assert sorted(node.id for node in names if isinstance(node, ast.Name)) == sorted(found)
    assert set(equivalents.of_places(tree).values()) == ({equivalents.ANNOTATION} if found else set())


@pytest.mark.parametrize(("module", "name", "line"), sorted(equivalents.EQUIVALENT))
def test_excused_change_exists(module, name, line):
    source = (CHECKOUT / module).read_text(encoding="utf-8")
    lines = source.splitlines()
    made = {(what, lines[number - 1].strip()) for _place, number, what, _change in mutants.spots(ast.parse(source))}
    assert (name, line) in made, f"{module} has no such line any more: correct EQUIVALENT in tests/build/equivalents.py"
    assert equivalents.why(module, name, f"  {line}") and equivalents.why(module, "another", line) is None
