# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import options

from tests.unit.checkout import CHECKOUT


def documented():
    """Return the documented options of the plugin, with their defaults."""
    found = {}
    for path, name in (("inventory/ec2_nodes.py", "DOCUMENTATION"), ("doc_fragments/_ec2.py", "DOCUMENTATION")):
        text = (CHECKOUT / "plugins" / path).read_text(encoding="utf-8")
        block = text.split(f'{name} = r"""', 1)[1].split('"""', 1)[0]
        found.update({key: option.get("default") for key, option in yaml.safe_load(block)["options"].items()})
    return found


DEFAULTS = documented()


def read(**given):
    values = {**DEFAULTS, **given}
    return options.read(lambda name: values[name], set(given))


def test_defaults_ask_for_running_instances():
    found = read()
    assert (found.question.regions, found.question.enrich, found.access.roles) == ([], (), ())
    assert found.filters == [{"Name": "instance-state-name", "Values": ["running"]}]
    assert found.question.tag_keys == options.TAG_KEYS
    assert (found.connection.kind, found.hardware_cache_seconds) == ("ssh", 2592000)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"cluster_name": ""}, "cluster_name: is empty; name a cluster"),
        ({"cluster_name": None}, "cluster_name: is empty; name a cluster"),
        ({"cluster_name": []}, "cluster_name: is empty; name a cluster"),
        ({"cluster_name": ["a", ""]}, "cluster_name: is empty; name a cluster"),
        ({"cluster_name": [" "]}, "cluster_name: is empty; name a cluster"),
        ({"max_attempts": 0}, "max_attempts: 0 is too small; use 1 or more"),
        ({"connect_timeout": 0}, "connect_timeout: 0 is too small"),
        ({"read_timeout": -1}, "read_timeout: -1 is too small"),
        ({"hardware_cache_timeout": -1}, "hardware_cache_timeout: -1 is too small; use 0 or more"),
        ({"assume_role_arn": ["role/x"]}, "assume_role_arn: 'role/x' is not the ARN of a role"),
        ({"profiles": ["a", "b"], "profile": "c"}, "profiles: several profiles and profile cannot be used together"),
        (
            {"profiles": ["a"], "assume_role_arn": ["arn:aws:iam::111122223333:role/x"]},
            "profiles: several profiles and assume_role_arn cannot be used together",
        ),
        ({"profiles": ["a", "b"], "connection": "ssm"}, "connection: ssm supports one profile"),
        ({"region": "us-east-1.evil"}, "regions: 'us-east-1.evil' is not the name of a region"),
        ({"regions": ["all", "east"]}, "regions: 'east' is not the name of a region"),
        ({"tag_keys": ["x"]}, "tag_keys: must map cluster, node_type, queue, compute_resource to tags, found list"),
        ({"tag_keys": {"colour": "x"}}, "tag_keys: colour is not known; use cluster, node_type"),
        ({"enrich": ["health", "weather"]}, "enrich: 'weather' is not known; use health, topology"),
    ],
)
def test_unusable_option_is_one_sentence(given, sentence):
    with pytest.raises(options.OptionError) as caught:
        read(**given)
    assert str(caught.value).startswith(sentence)


def test_one_profile_in_list_is_that_profile():
    one, two = read(profiles=["lab", "lab"]), read(profiles=["lab", "prod"])
    assert (one.access.profile, one.access.profiles, one.connection.profile) == ("lab", (), "lab")
    assert (two.access.profile, two.access.profiles) == (None, ("lab", "prod"))


def test_without_cluster_name_only_filters_select():
    values = {**DEFAULTS, "cluster_name": None}
    assert options.read(lambda name: values[name], set()).filters == read().filters
    named = read(cluster_name=["a", "b"]).filters
    assert {"Name": "tag:parallelcluster:cluster-name", "Values": ["a", "b"]} in named


@pytest.mark.parametrize(
    ("given", "found"), [(None, []), ("", []), ("a", ["a"]), (["a", ["b", [5]], None, ""], ["a", "b", "5"]), (0, ["0"])]
)
def test_template_results_become_list_of_strings(given, found):
    assert options.flat(given) == found


def test_own_tags_replace_those_of_parallelcluster_each():
    found = read(tag_keys={"cluster": "team:cluster"}, cluster_name="a")
    assert found.question.tag_keys == {**options.TAG_KEYS, "cluster": "team:cluster"}
    assert {"Name": "tag:team:cluster", "Values": ["a"]} in found.filters


def test_variables_of_enrichment_come_with_it():
    assert "health" not in read().variables
    found = read(enrich=["health", ["topology"], "health"])
    assert found.question.enrich == ("health", "topology")
    assert {"health", "network_nodes", "topology_path"} <= set(found.variables)
    assert "instance" in read(full_record=True).variables


def test_cache_key_has_request_and_no_secret():
    one, other = (read(assume_role_external_id=secret).cache_inputs("/x") for secret in ("s1", "s2"))
    assert one == other and "s1" not in str(one)
    for change in (
        {"regions": ["us-west-2"]},
        {"profile": "lab"},
        {"profiles": ["a", "b"]},
        {"full_record": True},
        {"states": ["stopped"]},
    ):
        assert read(**change).cache_inputs("/x") != one


def test_only_used_tags_are_asked_for():
    assert read().question.tags is None or set(options.TAG_KEYS.values()) <= set(read().question.tags)
    few = read(variables={"tags": False}, hostnames=["tag:Name"]).question.tags
    assert few == tuple(sorted({*options.TAG_KEYS.values(), "Name"}))


def test_no_option_is_also_one_of_another_plugin():
    assert not set(options.FOREIGN_OPTIONS) & set(DEFAULTS)
