# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of single values: all other bytes stay, the result parses, a second change does nothing."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_edit import (
    find_path,
    leaves,
    new_text,
    remove_value,
    same,
    set_value,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from hypothesis import given
from hypothesis import strategies as st

# In the shape of NVIDIA's file, its mixture of tabs and spaces included; the words are ours.
SHIPPED = """{
    // a note on top
    // and another

            "logging": {
                            // where the log goes
                            //"dir": "/home/<xxxx>",

                            "level": "ERROR"
            },

            "execution" : {
                    "max_io_queue_depth": 128,
                    // threads
                    "max_io_threads" : 4,
\t\t    "max_request_parallelism" : 4
            },

            "fs": {
\t\t    "beegfs" : {
                            "posix_gds_min_kb" : 0

                            // for one mount
                            //"rdma_dev_addr_list" : []
\t\t    },
                    "lustre": { "posix_gds_min_kb" : 0 } // small reads
            },
            "denylist": { /* nothing */ }
}
"""

NAMES = ["a", "b", "c", "d.e", "f g"]
gaps = st.lists(
    st.sampled_from([" ", "\t", "NL", "// note NL", "/* one */", '/* "a": { NL */', '// "b": 1, } NL']), max_size=3
).map("".join)
scalars = st.sampled_from(
    ["1", "true", "false", "null", '"x"', '"// no comment"', "[ 1 , 2 ]", "[]", "-2.5e3", '"\\""']
)


@st.composite
def objects(draw, depth=0):
    """Return the text of an object with all kinds of comments and white space between its parts; NL is a line end."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    parts = []
    for name in names:
        value = draw(objects(depth + 1)) if depth < 2 and draw(st.booleans()) else draw(scalars)
        parts.append(f"{draw(gaps)}{json.dumps(name)}{draw(gaps)}:{draw(gaps)}{value}{draw(gaps)}")
    return "{" + ",".join(parts) + draw(gaps) + "}"


@st.composite
def documents(draw):
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return (draw(gaps) + draw(objects()) + draw(gaps)).replace("NL", newline)


paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(tuple)
values = st.sampled_from([1, 0, True, False, "x", "", [1, 2], [], {}, "// no comment", 'é\\"', 1.5])


def comments(text):
    """Return all comments in order, by an independent parser."""
    pattern = r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)'
    return [found.group(1) for found in re.finditer(pattern, text, re.DOTALL) if found.group(1)]


def is_subsequence(short, long):
    rest = iter(long)
    return all(character in rest for character in short)


def lookup(document, path):
    for name in path:
        document = document[name]
    return document


def without(document, path):
    """Return the document as a list of (path, value) without one path and the empty objects above it."""
    return [(key, value) for key, value in leaves(document) if key[: len(path)] != path and path[: len(key)] != key]


def strictly(pairs):
    return [(path, json.dumps(value)) for path, value in pairs]


@given(documents(), paths, values)
def test_only_value_asked_for_changes(text, path, value):
    before = parse(text, "f").value
    try:
        merged = set_value(text, path, value, "f")
    except NodeError as exc:
        assert "has a value that is not an object at" in str(exc)
        return
    after = parse(merged, "f").value
    assert lookup(after, path) == value or (value == {} and isinstance(lookup(after, path), dict))
    assert strictly(without(after, path)) == strictly(without(before, path))
    assert set_value(merged, path, value, "f") == merged
    is_new = not any(key[: len(path)] == path for key, below in leaves(before))
    if is_new:
        assert comments(merged) == comments(text)
        # An empty object with only white space is opened over several lines; otherwise every character stays.
        assert is_subsequence("".join(text.split()), merged)
        if not re.search(r"\{[ \t\r\n]*\}", text):
            assert is_subsequence(text, merged)
    assert ("\r\n" in merged) == ("\r\n" in text) or "\n" not in text


@given(documents(), st.data())
def test_replaced_value_leaves_all_before_and_behind_it(text, data):
    there = [path for path, value in leaves(parse(text, "f").value)]
    if not there:
        return
    path, value = data.draw(st.sampled_from(there)), data.draw(values)
    node = parse(text, "f")
    for name in path:
        node = node.member(name).value
    merged = set_value(text, path, value, "f")
    assert merged.startswith(text[: node.start])
    assert merged.endswith(text[node.end :])


@given(documents(), paths)
def test_remove_value_keeps_other_members(text, path):
    before = parse(text, "f").value
    shorter = remove_value(text, path, "f")
    after = parse(shorter, "f").value
    assert not any(key[: len(path)] == path for key, value in leaves(after))
    assert strictly(without(after, path)) == strictly(without(before, path))
    assert remove_value(shorter, path, "f") == shorter
    if before == after:
        assert shorter == text
    assert is_subsequence(shorter, text)


@given(documents(), st.sampled_from(NAMES), values)
def test_set_and_removed_value_leaves_text_unchanged(text, name, value):
    root = parse(text, "f")
    if not root.value or name in root.value:
        return
    assert remove_value(set_value(text, (name,), value, "f"), (name,), "f") == text


@given(documents(), st.lists(st.tuples(paths, values), max_size=4))
def test_many_changes_one_after_other_still_parse(text, changes):
    for path, value in changes:
        try:
            text = set_value(text, path, value, "f")
        except NodeError:
            text = remove_value(text, path[:1], "f")
    parse(text, "f")


def test_value_of_shipped_file_is_replaced_in_its_place():
    assert set_value(SHIPPED, ("execution", "max_io_threads"), 8, "f") == SHIPPED.replace(" : 4,", " : 8,")


def test_new_setting_goes_behind_last_and_below_its_comment():
    merged = set_value(SHIPPED, ("fs", "beegfs", "use_pci_p2pdma"), True, "f")
    old = '"posix_gds_min_kb" : 0\n\n'
    new = '"posix_gds_min_kb" : 0,\n                            "use_pci_p2pdma": true\n\n'
    assert merged == SHIPPED.replace(old, new)
    merged = set_value(SHIPPED, ("fs", "weka", "rdma_write_support"), False, "f")
    assert '} }, // small reads\n                    "weka": {\n' in merged.replace("0 }, // small", "0 } }, // small")


def test_new_section_is_indented_as_file_is():
    merged = set_value('{\r\n  "a": 1\r\n}\r\n', ("block", "nvme", "use_pci_p2pdma"), True, "f")
    assert merged == (
        '{\r\n  "a": 1,\r\n  "block": {\r\n    "nvme": {\r\n      "use_pci_p2pdma": true\r\n    }\r\n  }\r\n}\r\n'
    )


def test_object_on_one_line_stays_on_one_line():
    merged = set_value('{"a": {"b": 1 /* c */ }}', ("a", "d"), [1, 2], "f")
    assert merged == '{"a": {"b": 1, /* c */ "d": [1, 2] }}'
    assert set_value("{ /* c */ }", ("a",), 1, "f") == '{ /* c */ "a": 1 }'
    assert set_value("{}", ("a",), {"b": 1}, "f") == '{\n    "a": {\n        "b": 1\n    }\n}'


def test_member_takes_its_line_along_and_leaves_comments():
    gone = remove_value(SHIPPED, ("execution", "max_io_threads"), "f")
    assert gone == SHIPPED.replace('                    "max_io_threads" : 4,\n', "")
    gone = remove_value(SHIPPED, ("execution", "max_request_parallelism"), "f")
    assert gone == SHIPPED.replace(
        '"max_io_threads" : 4,\n\t\t    "max_request_parallelism" : 4\n', '"max_io_threads" : 4\n'
    )
    assert remove_value('{"a": 1, "b": 2}', ("b",), "f") == '{"a": 1}'
    assert remove_value('{"a": 1, "b": 2}', ("a",), "f") == '{"b": 2}'


def test_value_in_way_is_named():
    with pytest.raises(NodeError, match=r"^f has a value that is not an object at a\.b, so a\.b\.c\.d cannot be set"):
        set_value('{"a": {"b": 1}}', ("a", "b", "c", "d"), 1, "f")


def test_types_count():
    assert [same(1, True), same(1, 1.0), same([1], [True]), same({"a": 1, "b": 2}, {"b": 2, "a": 1})] == [
        False,
        False,
        False,
        True,
    ]
    assert set_value('{"a": 1}', ("a",), True, "f") == '{"a": true}'


def test_dots_in_names_are_found():
    root = parse(
        '{"fs": {"lustre": {"mount_table": {"/a.b": {"c": 1}, "/a": {"b": 1}}}}, "x.y": 1, "x": {"y": 2}}', "f"
    )
    assert find_path(root, "fs.lustre.mount_table./a.b.c") == ("fs", "lustre", "mount_table", "/a.b", "c")
    assert find_path(root, "fs.lustre.mount_table./a.b") == ("fs", "lustre", "mount_table", "/a.b")
    assert find_path(root, "x.y") == ("x.y",)
    assert (find_path(root, "fs.nfs"), find_path(root, "fs."), find_path(root, "")) == (None, None, None)


def test_new_file_is_what_was_asked_for():
    assert parse(new_text({"a": {"b": [1]}}), "f").value == {"a": {"b": [1]}}
