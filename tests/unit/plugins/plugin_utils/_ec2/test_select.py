# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import select as _ec2_select
from hypothesis import given, settings
from hypothesis import strategies as st


def total(filters):
    return sum(len(one["Values"]) for one in filters)


def test_filters_combine_all_options():
    assert _ec2_select.filters({"tag:a": True, "vpc-id": ["v1", "v1", 2]}, ["c"], "cluster", ["running"]) == [
        {"Name": "instance-state-name", "Values": ["running"]},
        {"Name": "tag:a", "Values": ["true"]},
        {"Name": "tag:cluster", "Values": ["c"]},
        {"Name": "vpc-id", "Values": ["v1", "2"]},
    ]


def test_filters_must_be_mapping():
    with pytest.raises(_ec2_select.SelectionError, match="must map names of EC2 filters to values, found list"):
        _ec2_select.filters(["a"], [], "cluster", ["running"])


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(0, 900), min_size=1, max_size=500), min_size=1))
def test_split_requests_match_same_within_limit(sizes):
    whole = [{"Name": name, "Values": sorted(map(str, values))} for name, values in sizes.items()]
    parts = _ec2_select.requests(whole)
    asked = set()
    for part in parts:
        assert total(part) <= _ec2_select.MAX_FILTER_VALUES
        assert [one["Name"] for one in part] == list(sizes)
        first, *rest = part
        asked |= {(value, tuple(len(one["Values"]) > 0 for one in rest)) for value in first["Values"]}
    assert {value for value, _rest in asked} == set(whole[0]["Values"])
    combinations = 1
    for one in whole:
        combinations *= len(one["Values"])
    covered = 0
    for part in parts:
        product = 1
        for one in part:
            product *= len(one["Values"])
        covered += product
    assert covered == combinations


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("tags.a == '1'", ["x"]),
        ("tags.a", ["x", "y"]),
        ("number", ["x", "y", "z"]),
        ("missing", []),
        ("tags.b", ["y"]),
        ("contains(name, 'z')", ["z"]),
    ],
)
def test_include_and_exclude_are_opposites(text, kept):
    records = [
        {"instance_id": "x", "name": "x", "number": 0, "tags": {"a": "1", "b": ""}},
        {"instance_id": "y", "name": "y", "number": 0, "tags": {"a": "2", "b": "c"}},
        {"instance_id": "z", "name": "z", "number": 0, "tags": {}},
    ]
    expression = _ec2_select.expression("include", text)
    included = [record["name"] for record in _ec2_select.keep(records, expression, None)]
    excluded = [record["name"] for record in _ec2_select.keep(records, None, expression)]
    assert included == kept
    assert sorted(included + excluded) == ["x", "y", "z"]
