# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the functions of a loaded module the code of a changed source, for ``mutants``: nothing is imported again.

A function is the same object under every name that another module has imported, so that all of them run the new code.
"""

from __future__ import annotations

import gc
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

Code = types.CodeType


def functions(module: Path) -> list[types.FunctionType]:
    """Return every function whose code comes from a module, under whatever name that is loaded."""
    end = f"/{module}"
    return [
        one
        for one in gc.get_objects()
        # Not isinstance: it runs code of proxies.
        if type(one) is types.FunctionType  # pylint: disable=unidiomatic-typecheck
        and one.__code__.co_filename.endswith(end)
    ]


def pairs(before: Code, after: Code) -> dict[Code, Code] | None:
    """Return the new code of each function that differs; None if what the import does itself differs."""
    every = list(_pairs(before, after))
    if any(not _is_function(old) and _shape(old) != _shape(new) for old, new in every):
        return None
    return {old: new for old, new in every if _is_function(old) and old != new}


def put(live: Sequence[types.FunctionType], codes: Mapping[Code, Code]) -> bool:
    """Exchange the code of live functions; False if none has such code, or one cannot take it."""
    chosen = [(one, codes[one.__code__]) for one in live if one.__code__ in codes]
    try:
        for one, code in chosen:
            one.__code__ = code
    except ValueError:
        # The new code uses another number of variables of the function around it.
        return False
    return bool(chosen)


def _pairs(before: Code, after: Code) -> Iterator[tuple[Code, Code]]:
    yield before, after
    inner, others = _inner(before), _inner(after)
    for key, codes in inner.items():
        if len(codes) == len(others.get(key, ())):
            for old, new in zip(codes, others[key]):
                yield from _pairs(old, new)


def _inner(code: Code) -> dict[tuple[str, int], list[Code]]:
    found: dict[tuple[str, int], list[Code]] = {}
    for one in code.co_consts:
        if isinstance(one, Code):
            found.setdefault((one.co_name, one.co_firstlineno), []).append(one)
    return found


def _is_function(code: Code) -> bool:
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def _shape(code: Code) -> tuple[object, ...]:
    """Return what the body of a module or class does itself, without its functions."""
    return code.co_code, code.co_names, [None if isinstance(one, Code) else one for one in code.co_consts]
