# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import share as _ec2_share
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Stored(str):
    """A string as ansible-core stores it."""

    __slots__ = ()


def stored(value):
    if isinstance(value, str):
        return Stored(value)
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items()}
    return [stored(item) for item in value] if isinstance(value, list) else value


def test_stored_string_is_reused_everywhere():
    texts = _ec2_share.StringPool()
    first = stored({"a": ["x", {"b": "y"}], "c": 1, "d": None})
    assert texts.pooled("x") == "x"
    texts.add(first)
    again = texts.pooled({"e": "x", "f": [["y"], 1, None, "new"]})
    assert again == {"e": "x", "f": [["y"], 1, None, "new"]}
    assert again["e"] is first["a"][0] and again["f"][0][0] is first["a"][1]["b"]


def test_first_of_two_equal_strings_is_kept():
    texts = _ec2_share.StringPool()
    first, second = Stored("x"), Stored("x")
    texts.add(first)
    texts.add(second)
    assert texts.pooled("x") is first


@given(VALUES, VALUES)
def test_only_identity_of_strings_changes(known, value):
    texts = _ec2_share.StringPool()
    texts.add(stored(known))
    given_back = texts.pooled(value)
    assert given_back == value
    # True and 1 are equal but not the same value.
    assert repr(given_back) == repr(value)
