# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the values that determine the result of a Jinja expression, so that equal hosts share one evaluation.

ansible-core compiles an expression again for each host, which is most of the cost of a constructed inventory.
Three instance types have three results for any number of hosts. Nothing is evaluated here: an expression is only
parsed, and uncertain cases are left to ansible-core, host by host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from jinja2 import Environment, TemplateSyntaxError, nodes

Step = Union[str, int]
Path = tuple[Step, ...]

# Excluded: filters that run a test or filter by name (select, map), or depend on more than their input.
_PURE_FILTERS = frozenset(
    "abs basename bool capitalize count d default dict2items difference dirname first flatten float int intersect "
    "items2dict join last length list lower max min regex_escape regex_findall regex_replace regex_search replace "
    "reverse round sort split splitext string sum ternary title trim truncate union unique upper".split()
)
_PURE_TESTS = frozenset(
    "boolean contains defined divisibleby eq equalto even false falsy float ge gt in integer iterable le lower lt "
    "mapping match ne none number odd regex search sequence string subset superset true truthy undefined upper "
    "version".split()
)
_PURE_METHODS = frozenset(
    "capitalize endswith find format get isdigit items join keys lower lstrip partition replace rpartition rsplit "
    "rstrip split startswith strip title upper values".split()
)
_OPERATORS = (
    nodes.Add,
    nodes.And,
    nodes.Compare,
    nodes.Concat,
    nodes.CondExpr,
    nodes.Const,
    nodes.Dict,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Keyword,
    nodes.List,
    nodes.Mod,
    nodes.Mul,
    nodes.Neg,
    nodes.Not,
    nodes.Operand,
    nodes.Or,
    nodes.Pair,
    nodes.Pos,
    nodes.Pow,
    nodes.Slice,
    nodes.Sub,
    nodes.Tuple,
)
_ENVIRONMENT = Environment(autoescape=False)  # noqa: S701 - it parses and never renders


class ExpressionError(ValueError):
    """Not an expression; the message states what is wrong."""


class _UnknownPathsError(Exception):
    pass


@dataclass(frozen=True)
class ExpressionInputs:
    """The inputs of an expression.

    ``path`` is set if it only names a value. ``inputs`` are the paths whose values determine the result, None if
    unknown. ``roots`` are the variables that these paths start from.
    """

    path: Path | None
    inputs: tuple[Path, ...] | None

    @property
    def roots(self) -> frozenset[Step]:
        """The variables that the inputs start from."""
        return frozenset(path[0] for path in self.inputs or ())


def _path(node: nodes.Node) -> Path | None:
    if isinstance(node, nodes.Name):
        return (node.name,)
    if isinstance(node, nodes.Getattr):
        base = _path(node.node)
        return None if base is None else (*base, node.attr)
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        step = node.arg.value
        base = _path(node.node)
        if base is not None and isinstance(step, (str, int)) and not isinstance(step, bool):
            return (*base, step)
    return None


def _short(name: str) -> str:
    return name.removeprefix("ansible.builtin.")


def _inputs(node: nodes.Node) -> Iterable[Path]:
    path = _path(node)
    if path is not None:
        yield path
        return
    children: Iterable[nodes.Node] = node.iter_child_nodes()
    if isinstance(node, nodes.Call):
        method = node.node
        if not isinstance(method, nodes.Getattr) or method.attr not in _PURE_METHODS:
            raise _UnknownPathsError
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise _UnknownPathsError
        children = [method.node, *node.args, *node.kwargs]
    elif isinstance(node, nodes.Filter):
        if _short(node.name) not in _PURE_FILTERS:
            raise _UnknownPathsError
    elif isinstance(node, nodes.Test):
        if _short(node.name) not in _PURE_TESTS:
            raise _UnknownPathsError
    elif not isinstance(node, (*_OPERATORS, nodes.Getitem, nodes.Getattr)):
        raise _UnknownPathsError
    for child in children:
        yield from _inputs(child)


def parse_expression(text: str) -> ExpressionInputs:
    """Return the inputs of one expression. Raises ExpressionError if Jinja cannot parse it."""
    try:
        body = _ENVIRONMENT.parse("{{ " + text + " }}").body
    except TemplateSyntaxError as exc:
        raise ExpressionError(str(exc.message)) from exc
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return ExpressionInputs(None, None)
    node = body[0].nodes[0]
    path = _path(node)
    try:
        inputs = tuple(dict.fromkeys(_inputs(node)))
    except _UnknownPathsError:
        return ExpressionInputs(None, None)
    return ExpressionInputs(path, inputs)


_MISSING = "missing"


def _follow(path: Path, variables: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the value at the end of the path, or the last value that was reached, and whether the end was reached."""
    value: Any = variables[path[0]]  # type: ignore[index]
    for step in path[1:]:
        if isinstance(value, dict) and step in value and not hasattr(value, str(step)):
            value = value[step]
        elif isinstance(value, dict) and step not in value and not hasattr(value, str(step)):
            return _MISSING, False
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            value = value[step]
        else:
            return value, False
    return value, True


def lookup(path: Path, variables: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the value of a plain path and True, or None and False if ansible-core has to evaluate it."""
    value, ended = _follow(path, variables)
    return (value, True) if ended else (None, False)


def fingerprint(inputs: ExpressionInputs, variables: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key that is equal for two hosts only if all inputs are equal. ``inputs.inputs`` must be known."""
    result: list[Any] = []
    for path in inputs.inputs or ():
        value, ended = _follow(path, variables)
        shape = json.dumps(value) if isinstance(value, (dict, list)) else value
        result.append((ended, type(value).__name__, shape))
    return tuple(result)
