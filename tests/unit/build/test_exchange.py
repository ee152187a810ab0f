# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import types
from pathlib import Path

import pytest

from tests.build import exchange

SOURCE = """\
import functools
LIMIT = 5
def plain(a, b=1):
    return [a + one for one in (b, LIMIT)]
@functools.lru_cache
def cached(a):
    return a < LIMIT
class C:
    field = 3
    @property
    def size(self):
        return self.field + 1
    @staticmethod
    def made(a):
        return a and LIMIT
def outer(a):
    def inner():
        return a + 1
    return inner
kept = outer(1)
pick = lambda a: a + 1
two = (lambda a: a), (lambda a: a)
"""
MODULE = Path("some/small.py")


@pytest.fixture
def loaded():
    module = types.ModuleType("small")
    exec(compile(SOURCE, f"/copy/{MODULE}", "exec"), module.__dict__)  # noqa: S102
    return module


def exchanged(old, new):
    """Return whether the functions of the loaded module have taken a changed source."""
    before, after = (compile(text, "module", "exec") for text in (SOURCE, SOURCE.replace(old, new)))
    codes = exchange.pairs(before, after)
    return codes is not None and exchange.put(exchange.functions(MODULE), codes)


def second(module):
    return [one(1) for one in module.two]


@pytest.mark.parametrize(
    ("old", "new", "call", "value"),
    [
        ("a + one", "a - one", lambda module: module.plain(1), [0, -4]),
        ("a < LIMIT", "a <= LIMIT", lambda module: module.cached(5), True),
        ("self.field + 1", "self.field + 2", lambda module: module.C().size, 5),
        ("a and LIMIT", "a or LIMIT", lambda module: module.C.made(0), 5),
        ("        return a + 1", "        return a + 2", lambda module: module.kept(), 3),
        ("pick = lambda a: a + 1", "pick = lambda a: a + 2", lambda module: module.pick(1), 3),
        # The code of two functions on one line differs by its columns.
        ("two = (lambda a: a), (lambda a: a)", "two = (lambda a: a), (lambda a: not a)", second, [1, False]),
    ],
)
def test_live_function_takes_changed_code(loaded, old, new, call, value):
    assert exchanged(old, new)
    assert call(loaded) == value


def test_every_name_of_function_runs_changed_code(loaded):
    imported, bound = loaded.plain, functools.partial(loaded.plain, 1)
    assert exchanged("a + one", "a - one")
    assert imported(1) == bound() == [0, -4]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 5", "LIMIT = 6"),
        ("b=1", "b=2"),
        ("field = 3", "field = 4"),
        ("@functools.lru_cache", "@functools.lru_cache(maxsize=3)"),
        # Not a closure any more.
        ("        return a + 1", "        return None"),
        # No function is live.
        ("kept = outer(1)", "kept = outer(2)"),
    ],
)
def test_change_that_needs_import_is_not_exchanged(loaded, old, new):
    assert not exchanged(old, new)


def test_functions_of_another_module_are_not_taken(loaded):
    names = {one.__name__ for one in exchange.functions(MODULE) if one.__globals__ is loaded.__dict__}
    assert names >= {"plain", "cached", "size", "made", "inner"}
    assert exchange.functions(Path("other/small.py")) == []
