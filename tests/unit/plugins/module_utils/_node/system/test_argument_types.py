# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleError
from ansible_collections.mlcluster.aws.plugins.filter import common
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types as _kinds


def found(value, **option):
    return list(_kinds.problems({"it": value}, {"it": option}))


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
        (["a"], {}, "it is '['a']', a list; give a text"),
        (True, {"type": "str"}, "it is 'True', a truth value; give a text"),
        ("soon", {"type": "int"}, "it is 'soon', a text; give a whole number"),
        ("٣", {"type": "int"}, "it is '٣', a text; give a whole number"),
        (-1, {"type": "int"}, "it is '-1', a number; give a whole number"),
        (True, {"type": "int"}, "it is 'True', a truth value; give a whole number"),
        ("0", {"type": "int", "least": 1}, "it is '0'; give a whole number, 1 at least"),
        (-2, {"type": "int", "least": -1}, "it is '-2'; give a whole number, -1 at least"),
        ("-1", {"type": "int"}, "it is '-1', a text; give a whole number"),
        ("perhaps", {"type": "bool"}, "it is 'perhaps', a text; give true or false"),
        (2, {"type": "bool"}, "it is '2', a number; give true or false"),
        ("a=b", {"type": "dict"}, "it is 'a=b', a text; give a mapping"),
        ([], {"type": "dict", "options": {"b": {}, "a": {}}}, "it is '[]', a list; give a mapping with a, b"),
        ("a,b", {"type": "list", "elements": "path"}, "it is 'a,b', a text; give a list of texts"),
        ([["a"]], {"type": "list", "elements": "str"}, "it is '[['a']]', a list; give a list of texts"),
        (["a"], {"type": "list", "elements": "dict"}, "it is '['a']', a list; give a list of mappings"),
        (7, {"type": "list"}, "it is '7', a number; give a list"),
        ("one\ntwo", {"type": "int"}, "it is 'one two', a text; give a whole number"),
        ("x" * 90, {"type": "dict"}, f"it is '{'x' * 80}…', a text; give a mapping"),
    ],
)
def test_wrong_type_is_reported_with_found_and_wanted(value, option, sentence):
    assert found(value, **option) == [sentence]


def test_keys_of_mapping_are_judged_too():
    spec = {"of": {"type": "dict", "options": {"seconds": {"type": "int"}, "mounts": {"type": "list"}}}}
    given = {"of": {"seconds": "x", "mount": []}, "another": 5}
    assert list(_kinds.problems(given, spec)) == [
        "of has the key 'mount', which does not exist; those that do are mounts, seconds",
        "of.seconds is 'x', a text; give a whole number",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "meant"),
    [
        ("a whole number", "8443", 8443),
        ("a whole number", "8.5", "8.5"),
        ("true or false", "off", False),
        ("true or false", "maybe", "maybe"),
        ("a text", 5, "5"),
        ("a text", True, True),
    ],
)
def test_string_of_number_is_coerced(kind, value, meant):
    assert _kinds.coerce(kind, value) == meant


def test_variable_that_cannot_be_read_is_not_judged():
    class Variables(dict):
        def get(self, name, default=None):
            if name == "broken":
                raise AnsibleError("it is made of one that is not there")
            return super().get(name, default)

    spec = {"broken": {"type": "int"}, "it": {"type": "int"}}
    assert common.kind_problems(Variables(it="x"), spec) == ["it is 'x', a text; give a whole number"]
