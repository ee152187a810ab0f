# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.build import forks, mutants

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
    folder, module = Path("tests/unit/plugins/module_utils/_node/gds"), Path("plugins/module_utils/_node/gds")
    own = [folder / "test_probe.py", folder / "test_probe_child.py", folder / "test_probe_outcome.py"]
    assert mutants.own_tests(module / "probe.py") == (own, [*own, folder])
    assert mutants.own_tests(module / "parse.py")[0] == [folder / "test_parse.py"]
    assert mutants.own_tests(module / "__init__.py") == ([folder], [folder])
    with pytest.raises(SystemExit, match="has no tests"):
        mutants.own_tests(Path("docs/none.py"))


SMALL = Path("small_library/small.py")
FILES = {
    "pyproject.toml": """\
[tool.pytest.ini_options]
pythonpath = ["."]
addopts = ["--import-mode=importlib"]
""",
    f"{SMALL}": """\
LIMIT = 5

def is_low(value):
    return value < LIMIT

def is_positive(value):
    return value > 0

def counted(value):
    while value:
        value -= 1
    return value
""",
    "small_library/other.py": "from small_library.small import is_low as low\n",
    "tests/unit/small_library/test_small.py": """\
from small_library.other import low
from small_library.small import counted, is_positive

def test_low():
    assert low(4) and not low(5)

def test_positive():
    assert is_positive(2)

def test_counted():
    assert counted(3) == 0
""",
    "tests/unit/small_library/test_other.py": """\
from small_library.small import is_positive

def test_one():
    assert is_positive(1)
""",
}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return a checkout of a small library; a mutant that hangs has one second."""
    for name, text in FILES.items():
        path = tmp_path / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "small/.collections/ansible_collections").mkdir(parents=True)
    monkeypatch.setattr(mutants, "CHECKOUT", tmp_path / "small")
    monkeypatch.setattr(forks, "MIN_SECONDS", 1)
    monkeypatch.setattr(sys, "argv", ["mutants", str(SMALL)])
    return tmp_path / "small"


@pytest.fixture
def trial(small):
    return mutants.Trial(mutants.copy_checkout(small.parent / "copy"), SMALL, mutants.own_tests(SMALL), 60)


def named(made):
    return [(one.name, FILES[str(SMALL)].splitlines()[one.line - 1].strip()) for one in made]


def test_tests_of_line_kill_mutant_in_memory(trial):
    made = mutants.mutants(FILES[str(SMALL)], None, 0)
    killed = named(made[place] for place in sorted(trial.killed_in_memory(made)))
    assert sorted(killed) == [
        # Imported by another name in another module.
        ("comparison", "return value < LIMIT"),
        # It hangs.
        ("constant", "value -= 1"),
        ("returned value", "return value"),
        ("returned value", "return value < LIMIT"),
        ("returned value", "return value > 0"),
        ("statement deleted", "value -= 1"),
    ]


def test_import_and_tests_of_folder_judge_what_is_left(small, capsys):
    assert mutants.main() == 1
    printed = capsys.readouterr().out.splitlines()
    # Neither the changed LIMIT nor the changed 0, which another test of the folder notices.
    assert printed == [
        f"{SMALL}:7: comparison: return value > 0",
        f"{SMALL}: 8 of 9 mutants killed, 0 equivalent (seed 1)",
    ]
    assert (small / SMALL).read_text() == FILES[str(SMALL)]


@pytest.mark.parametrize("name", ["test_small.py", "test_other.py"])
def test_tests_that_fail_without_change_stop_the_run(small, name):
    with (small / "tests/unit/small_library" / name).open("a") as file:
        file.write("\ndef test_red():\n    assert False\n")
    with pytest.raises(SystemExit, match="do not pass as they are: repair them first"):
        mutants.main()


def test_tests_that_need_their_order_kill_nothing_in_memory(small, trial):
    tests = trial.copied / "tests/unit/small_library/test_small.py"
    # Only the first, which is the slowest, makes the second pass.
    tests.write_text(
        "from small_library.small import is_low, is_positive\nfound = []\n"
        "def test_first():\n    found.append([is_low(one) for one in range(20_000)])\n"
        "def test_second():\n    assert found and is_positive(2)\n"
    )
    made = mutants.mutants(FILES[str(SMALL)], None, 0)
    assert trial.killed_in_memory(made) == set()
