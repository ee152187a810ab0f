# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible.errors import AnsibleError
from ansible_collections.mlcluster.aws.plugins.filter import common
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types


def found(value, **option):
    return list(argument_types.problems({"it": value}, {"it": option}))


@pytest.mark.parametrize(
    ("value", "option"),
    [
        ("a", {}),
        (5, {"type": "str"}),
        ("8443", {"type": "int"}),
        (0, {"type": "int"}),
        (-1, {"type": "int", "least": -1}),
        ("-1", {"type": "int", "least": -1}),
        ("yes", {"type": "bool"}),
        (True, {"type": "bool"}),
        (1, {"type": "bool"}),
        (2.5, {"type": "float"}),
        ({"a": 1}, {"type": "dict"}),
        (["a", 5], {"type": "list", "elements": "str"}),
        ([{}, "s3://a"], {"type": "list"}),
        ([{}], {"type": "list", "elements": "dict"}),
        (["a"], {"type": "raw"}),
        (None, {"type": "dict"}),
        ({"a": "5"}, {"type": "dict", "options": {"a": {"type": "int"}}}),
    ],
)
def test_coercible_value_is_accepted(value, option):
    assert found(value, **option) == []


@pytest.mark.parametrize(
    ("value", "option", "sentence"),
    [
        (["a"], {}, "it is '['a']', a list; use a string"),
        (True, {"type": "str"}, "it is 'True', a boolean; use a string"),
        ("soon", {"type": "int"}, "it is 'soon', a string; use an integer"),
        ("٣", {"type": "int"}, "it is '٣', a string; use an integer"),
        (-1, {"type": "int"}, "it is '-1', a number; use an integer"),
        (True, {"type": "int"}, "it is 'True', a boolean; use an integer"),
        ("0", {"type": "int", "least": 1}, "it is '0'; use an integer, 1 at least"),
        (-2, {"type": "int", "least": -1}, "it is '-2'; use an integer, -1 at least"),
        ("-1", {"type": "int"}, "it is '-1', a string; use an integer"),
        ("perhaps", {"type": "bool"}, "it is 'perhaps', a string; use true or false"),
        (2, {"type": "bool"}, "it is '2', a number; use true or false"),
        ("a=b", {"type": "dict"}, "it is 'a=b', a string; use a dictionary"),
        ([], {"type": "dict", "options": {"b": {}, "a": {}}}, "it is '[]', a list; use a dictionary with a, b"),
        ("a,b", {"type": "list", "elements": "path"}, "it is 'a,b', a string; use a list of strings"),
        ([["a"]], {"type": "list", "elements": "str"}, "it is '[['a']]', a list; use a list of strings"),
        (["a"], {"type": "list", "elements": "dict"}, "it is '['a']', a list; use a list of dictionaries"),
        (7, {"type": "list"}, "it is '7', a number; use a list"),
        ("one\ntwo", {"type": "int"}, "it is 'one two', a string; use an integer"),
        ("x" * 90, {"type": "dict"}, f"it is '{'x' * 80}…', a string; use a dictionary"),
    ],
)
def test_wrong_type_is_reported_with_found_and_wanted(value, option, sentence):
    assert found(value, **option) == [sentence]


def test_keys_of_mapping_are_judged_too():
    spec = {"of": {"type": "dict", "options": {"seconds": {"type": "int"}, "mounts": {"type": "list"}}}}
    given = {"of": {"seconds": "x", "mount": []}, "another": 5}
    assert list(argument_types.problems(given, spec)) == [
        "of has the key 'mount', which does not exist; those that do are mounts, seconds",
        "of.seconds is 'x', a string; use an integer",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "meant"),
    [
        ("an integer", "8443", 8443),
        ("an integer", "8.5", "8.5"),
        ("true or false", "off", False),
        ("true or false", "maybe", "maybe"),
        ("a string", 5, "5"),
        ("a string", True, True),
    ],
)
def test_string_of_number_is_coerced(kind, value, meant):
    assert argument_types.coerce(kind, value) == meant


def test_variable_that_cannot_be_read_is_not_judged():
    class Variables(dict):
        def get(self, name, default=None):
            if name == "broken":
                raise AnsibleError("it is made of one that is not there")
            return super().get(name, default)

    spec = {"broken": {"type": "int"}, "it": {"type": "int"}}
    assert common.argument_type_errors(Variables(it="x"), spec) == ["it is 'x', a string; use an integer"]


@dataclasses.dataclass(frozen=True)
class Options:
    """A configuration with a field of each type."""

    name: str = "a"
    size: int | None = None
    on: bool = True
    words: tuple[str, ...] = ("x",)
    rows: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    values: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    part: pytest.MonkeyPatch | None = None


SPEC = {
    "name": {"type": "str", "default": "a", "choices": ["a", "b"]},
    "size": {"type": "int", "least": -1},
    "on": {"type": "bool", "default": True},
    "words": {"type": "list", "elements": "str", "default": ["x"]},
    "rows": {"type": "list", "elements": "dict", "default": []},
    "values": {"type": "dict", "default": {}},
}


def test_fields_of_class_are_options():
    assert argument_types.spec_of(Options, name={"choices": ["a", "b"]}, size={"least": -1}) == SPEC


def test_null_and_unknown_options_are_not_given():
    given = argument_types.given({"words": ["y"], "on": None, "size": 3, "other": 1}, SPEC)
    assert Options(**given) == Options(words=("y",), size=3)
