# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change a module in small ways and run its own unit tests against each: a change that no test notices is a gap.

    make mutants MODULE=plugins/module_utils/_node/nccl/table.py ARGS='--number 40 --seed 7'

Changes: a comparison, ``and``/``or``, ``not``, a constant, a returned value, a guard or statement that is deleted, a
set operation. All happens in a copy of the checkout. The tests are those of the module's folder in ``tests/unit``, or
those named with ``--tests``: first, in memory, those of its own files that run the changed line (``forks``);
then, from the import on, all. A change that is listed in ``equivalents`` does not count. Not part of a suite.
"""

from __future__ import annotations

import argparse
import ast
import copy
import dataclasses
import gc
import json
import math
import os
import random
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

# In memory before the first fork, which would load it again for each mutant.
import ansible.plugins.inventory  # pylint: disable=unused-import
import ansible.plugins.loader  # pylint: disable=unused-import
import ansible.template  # noqa: F401  # pylint: disable=unused-import
import hypothesis  # noqa: F401  # pylint: disable=unused-import
import pytest
import pytest_timeout  # noqa: F401  # pylint: disable=unused-import
import testinfra.plugin  # noqa: F401  # pylint: disable=unused-import
import xdist.plugin  # noqa: F401  # pylint: disable=unused-import
import yaml  # noqa: F401  # pylint: disable=unused-import

from tests.build import covering, equivalents, forks

CHECKOUT = Path(__file__).resolve().parents[2]
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SETS: dict[type[ast.operator], type[ast.operator]] = {
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Sub: ast.Add,
    ast.Add: ast.Sub,
}
# Files that the copy of the checkout leaves out.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".build", "__pycache__", ".collections", "output", "node_modules")

Change = Callable[[ast.AST], None]


def spots(tree: ast.AST) -> Iterator[tuple[int, int, str, Change]]:
    """Yield place in the walk of the tree, line, name and change of every mutant."""
    for place, node in enumerate(ast.walk(tree)):
        for name, change in _changes(node):
            yield place, getattr(node, "lineno", 0), name, change
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                for index, name in _deletable(block):
                    yield place, block[index].lineno, name, _deletion(field, index)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield "comparison", _swap_comparison
    elif isinstance(node, ast.BoolOp):
        yield "and/or", _swap_boolean
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", _drop_not
    elif isinstance(node, ast.BinOp) and type(node.op) in SETS and not _is_annotation(node):
        yield "operator", _swap_operator
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield "constant", _change_constant
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "returned value", _return_none


def _deletable(block: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    for index, statement in enumerate(block):
        if isinstance(statement, ast.If) and not statement.orelse:
            yield index, "guard deleted"
        elif isinstance(statement, (ast.Expr, ast.AugAssign)) and not _is_text(statement):
            yield index, "statement deleted"


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_annotation(node: ast.BinOp) -> bool:
    # ``str | None`` is not an operation that a test could notice.
    return isinstance(node.op, ast.BitOr) and (_is_none(node.right) or _is_none(node.left))


def _deletion(field: str, index: int) -> Change:
    def delete(node: ast.AST) -> None:
        block = getattr(node, field)
        block[index] = ast.copy_location(ast.Pass(), block[index])

    return delete


def _swap_comparison(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops[0] = COMPARISONS[type(node.ops[0])]()


def _swap_boolean(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _drop_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    # Twice "not" keeps the value a boolean.
    node.operand = ast.copy_location(ast.UnaryOp(ast.Not(), node.operand), node)


def _swap_operator(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp)
    node.op = SETS[type(node.op)]()


def _change_constant(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    value = node.value
    node.value = not value if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else value


def _return_none(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)


def mutant(tree: ast.Module, place: int, change: Change) -> ast.Module:
    """Return the tree of a module with one change: the lines stay those of the source."""
    changed = copy.deepcopy(tree)
    change(list(ast.walk(changed))[place])
    return ast.fix_missing_locations(changed)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A changed module: the line, the name of the change, the source, its code with the lines of the plain source.

    ``runs``: the lines that run with the change (None: unknown). ``excused``: why no test can notice the change, for
    what can be seen from the source.
    """

    line: int
    name: str
    text: str
    code: types.CodeType
    runs: range | None
    excused: str | None


def mutants(source: str, number: int | None, seed: int) -> list[Mutant]:
    """Return so many mutants (all without a number), picked by a seed."""
    tree = ast.parse(source)
    found, excused = list(spots(tree)), equivalents.of_places(tree)
    if number is not None and number < len(found):
        found = sorted(random.Random(seed).sample(found, number), key=lambda spot: spot[1])
    made = []
    for place, line, name, change in found:
        changed = mutant(tree, place, change)
        code = compile(changed, "module", "exec", dont_inherit=True)
        made.append(Mutant(line, name, ast.unparse(changed), code, _runs(tree, place, line), excused.get(place)))
    return made


def _runs(tree: ast.AST, place: int, line: int) -> range | None:
    around = covering.lines_of(tree, place)
    # A deleted statement lies inside of the node that is changed.
    return around if around is None or line in around else range(line, line + 1)


def own_tests(module: Path) -> tuple[list[Path], list[Path]]:
    """Return a module's own files of unit tests, and them with their folder. Raises ``SystemExit`` without any."""
    folder = Path("tests/unit") / module.parent
    own = sorted(
        path.relative_to(CHECKOUT)
        for path in (CHECKOUT / folder).glob("test_*.py")
        if f"{path.stem}_".startswith(f"test_{module.stem}_")
    )
    if not list((CHECKOUT / folder).glob("test_*.py")):
        sys.exit(f"{folder} has no tests of {module}: name some with --tests")
    return own or [folder], [*own, folder]


def run(copied: Path, tests: Sequence[Path], seconds: float, plugin: object = None) -> int:
    """Return the exit status of the tests in a copy of the checkout; 1 for tests that hang: they noticed the change.

    In a fork of this process, which has pytest in memory: to start it again takes longer than most tests.
    """
    # No fork then has to look through what this process has loaded.
    gc.freeze()
    child = os.fork()
    if not child:
        _test(copied, tests, plugin)
    return forks.wait(child, seconds)


def _test(copied: Path, tests: Sequence[Path], plugin: object) -> NoReturn:
    status = 1
    try:
        # A group of its own: what the tests have started ends with it.
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.chdir(copied)
        # This process has the packages of the checkout, and Python must not take the bytecode of the mutant before.
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        sys.path[:] = [str(copied), *(path for path in sys.path if path not in ("", str(CHECKOUT)))]
        sys.dont_write_bytecode = True
        words = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow", f"--basetemp={copied.parent}/tmp"]
        words += [str(test) for test in tests]
        status = int(pytest.main(words, plugins=[plugin] if plugin else []))
    finally:
        os._exit(status)


class Trial:
    """Runs the tests of a module against its mutants."""

    def __init__(
        self, copied: Path, module: Path, tests: tuple[Sequence[Path], Sequence[Path]], seconds: float
    ) -> None:
        self.copied, self.module, self.seconds = copied, module, seconds
        self.own, self.tests = tests

    def killed_in_memory(self, made: Sequence[Mutant]) -> set[int]:
        """Return the places of mutants that the own tests kill; raise ``SystemExit`` if they fail as they are."""
        target = self.copied.parent / "killed.json"
        tries = forks.Forks(self.copied, self.module, made, self.seconds, target)
        if run(self.copied, self.own, math.inf, tries):
            self._stop()
        return set(json.loads(target.read_text(encoding="utf-8")))

    def survivors(self, made: Sequence[Mutant]) -> Iterator[Mutant]:
        """Yield the mutants that no test notices; raise ``SystemExit`` if a test fails without a change."""
        killed = self.killed_in_memory(made)
        left = [one for place, one in enumerate(made) if place not in killed]
        if left and run(self.copied, self.tests, max(self.seconds, forks.RECORD_SECONDS)):
            self._stop()
        for one in left:
            # Effects of the import, shared fixtures and the other tests of the folder are judged here alone.
            forks.write(self.copied / self.module, one.text)
            if run(self.copied, self.tests, self.seconds) == 0:
                yield one

    def _stop(self) -> NoReturn:
        sys.exit(f"the tests of {self.module} do not pass as they are: repair them first")


def copy_checkout(folder: Path) -> Path:
    """Copy the checkout into a folder, with a collection of its own."""
    copied = folder / "checkout"
    shutil.copytree(CHECKOUT, copied, ignore=LEFT_OUT, symlinks=True)
    for kept in CHECKOUT.glob(".venv*"):
        (copied / kept.name).symlink_to(kept)
    collections = copied / ".collections/ansible_collections"
    for collection in (CHECKOUT / ".collections/ansible_collections").iterdir():
        if collection.name != "mlcluster":
            collections.mkdir(parents=True, exist_ok=True)
            (collections / collection.name).symlink_to(collection)
    (collections / "mlcluster").mkdir(parents=True)
    (collections / "mlcluster/aws").symlink_to(copied)
    return copied


def main() -> int:
    """Report each mutant that lived, and how many were killed; 1 if any lived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("module", type=Path, help="a Python file of the checkout")
    parser.add_argument("--number", type=int, help="so many mutants, picked by the seed (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300, help="limit of each run of the tests")
    parser.add_argument("--tests", type=Path, action="append", help="tests in place of those of the module's folder")
    args = parser.parse_args()
    module = args.module.resolve().relative_to(CHECKOUT) if args.module.is_absolute() else args.module
    source = (CHECKOUT / module).read_text(encoding="utf-8")
    tests = (args.tests, args.tests) if args.tests else own_tests(module)
    lines, lived = [line.strip() for line in source.splitlines()], 0
    made = mutants(source, args.number, args.seed)
    wanted = [one for one in made if not (one.excused or equivalents.why(str(module), one.name, lines[one.line - 1]))]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for one in Trial(copy_checkout(Path(folder)), module, tests, args.seconds).survivors(wanted):
            lived += 1
            print(f"{module}:{one.line}: {one.name}: {lines[one.line - 1][:90]}", flush=True)
    same, counted = len(made) - len(wanted), len(wanted)
    print(f"{module}: {counted - lived} of {counted} mutants killed, {same} equivalent (seed {args.seed})")
    return int(bool(lived))


if __name__ == "__main__":
    sys.exit(main())
