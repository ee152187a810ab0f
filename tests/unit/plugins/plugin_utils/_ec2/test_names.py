# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import names as _ec2_names
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.names import Preference, Source
from hypothesis import given, settings
from hypothesis import strategies as st

NAME = [Preference(Source("tag", "Name"))]


def record(number, name=None, **more):
    tags = {} if name is None else {"Name": name}
    return {"instance_id": f"i-{number}", "private_ip_address": None, "tags": tags, **more}


def test_preferences_in_both_spellings():
    assert _ec2_names.check(["tag:a:b", "private-ip-address", "private_dns"]) == [
        Preference(Source("tag", "a:b")),
        Preference(Source("field", "private_ip_address")),
        Preference(Source("field", "private_dns_name")),
    ]


@pytest.mark.parametrize("entry", ["tag:", "tag", "dns", "", "{{ x }}", "literal:"])
def test_unknown_preference_is_named(entry):
    with pytest.raises(_ec2_names.NamingError, match=re.escape(f"'{entry}' is not known")):
        _ec2_names.check([entry])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.text(max_size=6) | st.sampled_from(["Compute", "all", "gpu", "localhost"]), max_size=9))
def test_names_are_unique_safe_and_independent_of_order(given_names):
    records = [record(number, name) for number, name in enumerate(given_names)]
    preferences = NAME
    names, clashes = _ec2_names.assign(records, preferences, {"gpu"}, {})
    assert len(set(names)) == len(records)
    for name in names:
        assert not re.search(r"[\s\[\]{}:,!&'\"$`;|<>%]|^[.-]", name)
        assert name not in {"all", "gpu", "localhost"}
    backwards, _clashes = _ec2_names.assign(records[::-1], preferences, {"gpu"}, {})
    assert backwards[::-1] == names
    assert bool(clashes) == any(name.endswith(f"-{one['instance_id']}") for name, one in zip(names, records))


def test_name_is_cut_to_resolver_limit():
    assert len(_ec2_names.safe(300 * "a")) == 253


def test_changed_name_may_equal_another_tag():
    records = [record(1, "x"), record(2, "x"), record(3, "x-i-1")]
    names, clashes = _ec2_names.assign(records, NAME, set(), {})
    assert names == ["x-i-1", "x-i-2", "x-i-1-i-3"]
    assert clashes == ["x", "x-i-1"]


def test_name_used_by_another_inventory_is_changed():
    owners = {"x": "i-9", "y": "i-2"}
    names, clashes = _ec2_names.assign([record(1, "x"), record(2, "y")], NAME, set(), owners)
    assert (names, clashes) == (["x-i-1", "y"], ["x"])


@pytest.mark.parametrize("text", ["..", ".", ".ssh", "-oProxyCommand=x", "../x", "~/x", "/etc", "!all", "&gpu", "a,b"])
def test_name_is_safe_for_files_shell_and_patterns(text):
    assert re.fullmatch(r"[\w][\w.-]*", _ec2_names.safe(text)), _ec2_names.safe(text)


def test_four_colliding_tags_are_four_hosts():
    records = [record(1, "x"), record(2, "x"), record(3, "x-i-1"), record(4, "x-i-1-i-3")]
    names, _clashes = _ec2_names.assign(records, NAME, set(), {})
    assert len(set(names)) == 4
    assert all(name.endswith(entry["instance_id"]) for name, entry in zip(names, records))


@pytest.mark.parametrize("entry", ["tag:Name=x", "tag:Name=a,Name=b", "tag:Name | lower", "tag:Name|lower"])
def test_forms_of_other_plugins_are_rejected_with_hint(entry):
    with pytest.raises(_ec2_names.NamingError, match=r"is more than the key of a tag; write tag:Name, select"):
        _ec2_names.check([entry])


def test_name_may_have_prefix():
    given = {"name": "private_ip", "prefix": "tag:Name", "separator": "-"}
    preferences = _ec2_names.check([given, {"name": "literal:node", "prefix": "instance_id"}])
    names, _clashes = _ec2_names.assign(
        [
            record(1, "a", private_ip_address="10.0.0.1"),
            record(2, private_ip_address="10.0.0.2"),
            record(3, "c"),
        ],
        preferences,
        set(),
        {},
    )
    assert names == ["a-10.0.0.1", "10.0.0.2", "i-3_node"]
    assert _ec2_names.fields(preferences) == {"private_ip_address", "instance_id"}
    assert _ec2_names.tags(preferences) == {"Name"}


@pytest.mark.parametrize("entry", [{"prefix": "tag:a"}, {"name": "instance_id", "suffix": "x"}, {}])
def test_other_mapping_is_rejected(entry):
    with pytest.raises(_ec2_names.NamingError, match="must have a name"):
        _ec2_names.check([entry])


def test_same_literal_gets_instance_ids():
    names, _clashes = _ec2_names.assign([record(1), record(2)], _ec2_names.check(["literal:node"]), set(), {})
    assert names == ["node-i-1", "node-i-2"]
