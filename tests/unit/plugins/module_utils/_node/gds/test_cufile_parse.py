# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parser for JSON with comments: accepts what libcufile accepts, else one sentence with the line."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_parse import (
    MAX_BYTES,
    MAX_DEPTH,
    decode,
    parse,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner),
    max_leaves=12,
)


def error(text: str) -> str:
    with pytest.raises(NodeError) as refused:
        parse(text, "cufile.json")
    return str(refused.value)


@given(st.dictionaries(texts, json_values), st.sampled_from([None, 1, "\t"]))
def test_every_json_document_has_same_value(document, indent):
    for ascii_only in (True, False):
        text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
        node = parse(text, "f")
        assert node.value == document
        assert (node.start, node.end) == (0, len(text))


def test_comments_stand_wherever_white_space_may():
    text = '// a\n/* b\n c */ { /**/ "x" /*"*/ : // y\r\n 1 /* , */ , "z" : [ 1 /*]*/ , "//" ] } // end'
    assert parse(text, "f").value == {"x": 1, "z": [1, "//"]}


def test_every_value_knows_where_it_stands():
    text = ' { "a" : [1, {"b": 2}] , "c":"d"}'
    root = parse(text, "f")
    first, second = root.members
    assert text[first.start : first.value.end] == '"a" : [1, {"b": 2}]'
    assert text[first.comma] == ","
    assert text[second.start : second.value.end] == '"c":"d"'
    assert second.comma is None
    assert (root.member("c").value.value, root.member("x")) == ("d", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "in line 1 the end stands where a value has to be"),
        ("[1]", "in line 1 the outermost value is not an object in braces"),
        ("{} {}", "in line 1 there is something behind the closing brace"),
        (
            '{\n"a": 1,\n}',
            "in line 2 a comma stands behind the last value, with which libcufile refuses",
        ),
        ('{"a": [1,]}', "in line 1 a comma stands behind the last value"),
        ('{"a": 1,\n\n "a": 2}', 'in line 3 the name "a" stands for the second time in its object'),
        ('{"a": 1, "\\u0061": 2}', 'the name "a" stands for the second time'),
        ('{\n/* never closed "a": 1}', "in line 2 a comment is opened that is never closed"),
        ('{"a": 1}\n/*', "in line 2 a comment is opened that is never closed"),
        ('{"a": "x\n"}', "a string is not closed, or holds a control character"),
        ('{"a": "x', "a string is not closed"),
        ('{"a": "\\x"}', "a string holds a backslash that JSON does not know"),
        ('{"a": "\\ud800"}', "a string holds half of a surrogate pair"),
        ('{"a": True}', "True stands where a value has to be"),
        ('{"a": NaN}', "NaN stands where a value has to be"),
        ('{"a": -}', '"-" stands where a value has to be'),
        ('{"a": 01}', "neither a comma nor the closing } follows a value"),
        ('{"a": 1e999}', "a number is larger than a computer can hold"),
        ('{"a": ' + "9" * 5000 + "}", "a number has more than 64 characters"),
        ('{"a" 1}', 'no colon follows the name "a"'),
        ("{'a': 1}", "something else stands where a name in quotes or a closing brace has to be"),
        ("{", "something else stands where a name in quotes"),
        ('{"a": 1', "neither a comma nor the closing } follows a value"),
        ('{"a": [1', "neither a comma nor the closing ] follows a value"),
        ('{"a": \x00}', '"\\u0000" stands where a value has to be'),
        ("\ufeff{}", "it begins with a byte order mark, with which libcufile refuses it as a whole"),
        ('{"a": ' + "[" * (MAX_DEPTH + 1), f"values are nested more than {MAX_DEPTH} deep"),
        ('{"a": ' + '{"a": ' * 100000, f"values are nested more than {MAX_DEPTH} deep"),
    ],
)
def test_invalid_json_is_rejected_with_its_line(text, words):
    sentence = error(text)
    assert words in sentence
    assert re.fullmatch(r"cufile\.json cannot be read .*: correct it by hand and run again", sentence, re.DOTALL)
    assert "\n" not in sentence


@given(st.text(max_size=60) | st.text(st.sampled_from(list('{}[]:,"/*\\ \n\r\ta1-.eE0truefalsn')), max_size=60))
def test_any_text_is_read_or_refused_with_one_sentence(text):
    try:
        parse(text, "f")
    except NodeError as exc:
        assert str(exc).endswith(": correct it by hand and run again")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
        (b'{\n"a": "\xff"}', "line 2 holds a byte that is not UTF-8"),
        (b" " * (MAX_BYTES + 1), "it has more than 256 KiB"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data, words):
    with pytest.raises(NodeError, match=re.escape(f"cufile.json cannot be read as JSON with comments, since {words}")):
        decode(data, "cufile.json")


def test_bytes_are_read_without_any_translation():
    assert decode(b'{"a": 1}\r\n// \xc3\xa9\r', "f") == '{"a": 1}\r\n// \xe9\r'
