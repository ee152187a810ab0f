# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import expression

VARIABLES = {"tags": {"a": "x", "items": "y"}, "list": [1, {"b": 2}], "number": 1, "text": "abc"}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("tags", ("tags",)),
        ("tags.a", ("tags", "a")),
        ("tags['a b']", ("tags", "a b")),
        ("list[1].b", ("list", 1, "b")),
        ("tags[other]", None),
        ("tags.a | upper", None),
        ("'text'", None),
    ],
)
def test_plain_paths_are_recognized(text, path):
    assert expression.parse_expression(text).path == path


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("tags['a'] | default('none')", {("tags", "a")}),
        ("'p' in tags.a and number > 1", {("tags", "a"), ("number",)}),
        ("tags.get('a').startswith(('p', 'g'))", {("tags",)}),
        ("tags[text]", {("tags",), ("text",)}),
        ("text[0:2] ~ number", {("text",), ("number",)}),
        ("'literal'", set()),
        ("[tags.a, {'k': number}]", {("tags", "a"), ("number",)}),
        ("text is ansible.builtin.match('a')", {("text",)}),
    ],
)
def test_inputs_of_expression_are_found(text, inputs):
    assert set(expression.parse_expression(text).inputs) == inputs


@pytest.mark.parametrize(
    "text",
    [
        "lookup('ansible.builtin.env', text)",
        "query('x')",
        "now()",
        "range(3)",
        "text | random",
        "text | password_hash('sha512')",
        "list | map('random')",
        "list | select('ansible.builtin.exists')",
        "text is ansible.builtin.exists",
        "tags.pop('a')",
        "tags.get(*list)",
        "a }}{{ b",
        "a }} text",
    ],
)
def test_uncertain_expression_is_left_to_ansible_core(text):
    assert expression.parse_expression(text).inputs is None


@pytest.mark.parametrize("text", ["a b", "a |", "'", "a.["])
def test_wrong_expression_is_reported(text):
    with pytest.raises(expression.ExpressionError):
        expression.parse_expression(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tags.a", ("x", True)),
        ("list[1].b", (2, True)),
        ("tags.absent", (None, False)),
        ("tags.items", (None, False)),
        ("tags['items']", (None, False)),
        ("list[7]", (None, False)),
        ("text[0]", (None, False)),
    ],
)
def test_only_certain_values_are_looked_up(text, expected):
    assert expression.lookup(expression.parse_expression(text).path, VARIABLES) == expected


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("tags.a | upper", {"tags": {"a": "X"}}),
        ("tags.a | upper", {"tags": {}}),
        ("number | string", {"number": True}),
        ("number | string", {"number": 1.0}),
        ("number | string", {"number": "1"}),
        ("tags | length", {"tags": {"items": "y", "a": "x"}}),
        ("list[0] | string", {"list": "1"}),
    ],
)
def test_hosts_that_may_differ_have_different_fingerprints(text, change):
    inputs = expression.parse_expression(text)
    assert expression.fingerprint(inputs, VARIABLES) != expression.fingerprint(inputs, {**VARIABLES, **change})


def test_unnamed_variables_do_not_change_fingerprint():
    inputs = expression.parse_expression("tags.a | default('x') ~ number")
    other = {**VARIABLES, "text": "other", "tags": {"a": "x", "b": "new"}}
    assert expression.fingerprint(inputs, VARIABLES) == expression.fingerprint(inputs, other)
