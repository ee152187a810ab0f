# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The regions that are asked, and the selected instances."""

from __future__ import annotations

import re

import pytest
from ansible.errors import AnsibleParserError

from tests.rig.ec2 import Fault, Fleet, Region

EAST, WEST = "us-east-1", "us-west-2"


def test_amazon_aws_875_only_region_of_environment_is_asked(play, load, monkeypatch):
    endpoint = play(Region(EAST, (Fleet(),)), Region(WEST, (Fleet(),)))
    monkeypatch.setenv("AWS_REGION", EAST)
    assert len(load().hosts) == 1
    assert endpoint.count("DescribeInstances") == endpoint.count("DescribeInstances", EAST) == 1


def test_region_of_profile_is_asked(play, load, monkeypatch, tmp_path):
    endpoint = play(Region(EAST, (Fleet(),)), Region(WEST, (Fleet(),)))
    (tmp_path / "aws-config").write_text("[profile lab]\nregion = us-west-2\n")
    (tmp_path / "aws-credentials").write_text(
        "[lab]\naws_access_key_id = AKIARIGMAIN\naws_secret_access_key = not-a-secret\n"
    )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    load(profile="lab")
    assert {call.region for call in endpoint.calls if call.service == "ec2"} == {WEST}


def test_region_of_own_instance_is_asked(play, load, monkeypatch):
    endpoint = play(Region(EAST), Region(WEST, (Fleet(),)), home_region=WEST)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    assert len(load().hosts) == 1
    assert endpoint.count("DescribeInstances", WEST) == 1


def test_no_region_is_one_sentence(play, load):
    play(Region(EAST))
    with pytest.raises(AnsibleParserError, match=r"no region is known .*; set the option regions"):
        load()


def test_all_regions_are_enabled_ones_on_request(play, load, warnings):
    endpoint = play(Region(EAST, (Fleet(),)), Region(WEST, (Fleet(),)), Region("ap-east-1", opt_in="not-opted-in"))
    assert len(load(regions=["all"]).hosts) == 2
    assert endpoint.count("DescribeInstances", "ap-east-1") == 0
    assert warnings == []


def test_invalid_region_is_rejected_before_any_request(play, load):
    endpoint = play(Region(EAST))
    with pytest.raises(AnsibleParserError, match=r"regions: 'evil\.example/' is not the name of a region"):
        load(regions=["evil.example/"])
    assert endpoint.calls == []


def test_cluster_name_selects_by_tag_of_parallelcluster(play, load):
    play(Region(EAST, (Fleet(cluster="one", queue="q"), Fleet(cluster="two", queue="q"))))
    inventory = load(regions=EAST, cluster_name="two")
    assert inventory.group("cluster_two") == inventory.hosts
    assert len(inventory.hosts) == 1


def test_amazon_aws_2673_extra_vars_in_every_option(play, load):
    play(Region(EAST, (Fleet(tags={"env": "dev"}), Fleet(tags={"env": "prod"}), Fleet(tags={"env": "test"}))))
    inventory = load(
        extra_vars={"places": [EAST], "env": ["dev", "test"], "attempts": 2, "sure": True, "skip": "test"},
        regions="{{ places }}",
        filters={"tag:env": "{{ env }}"},
        max_attempts="{{ attempts }}",
        strict_regions="{{ sure }}",
        exclude="tags.env == '{{ skip }}'",
    )
    assert [inventory.vars(host)["ec2_tags"]["env"] for host in inventory.hosts] == ["dev"]


def test_missing_extra_var_is_reported_with_option(play, load):
    play(Region(EAST))
    with pytest.raises(AnsibleParserError, match=r"option cluster_name cannot be evaluated: .*cluster.* is undefined"):
        load(regions=EAST, cluster_name="{{ cluster }}")


def test_amazon_aws_127_profile_from_lookup_may_be_empty(play, load):
    play(Region(EAST, (Fleet(),)))
    inventory = load(regions=EAST, profile="{{ lookup('ansible.builtin.env', 'NO_SUCH_PROFILE_VARIABLE') }}")
    assert len(inventory.hosts) == 1


def test_ansible_12233_only_running_instances(play, load):
    states = ("pending", "running", "shutting-down", "terminated", "stopping", "stopped")
    play(Region(EAST, tuple(Fleet(state=state) for state in states)))
    inventory = load(regions=EAST)
    assert [inventory.vars(host)["ec2_state"] for host in inventory.hosts] == ["running"]
    assert len(load(regions=EAST, states=["running", "pending"]).hosts) == 2
    assert len(load(regions=EAST, filters={"instance-state-name": "stopped"}).hosts) == 1


def test_amazon_aws_2708_exclusion_is_judged_on_same_answer(play, load):
    endpoint = play(Region(EAST, (Fleet(tags={"skip": "no"}, tags_later={"skip": "yes"}), Fleet(tags={"skip": "yes"}))))
    inventory = load(regions=EAST, exclude="tags.skip == 'yes'")
    assert [inventory.vars(host)["ec2_tags"]["skip"] for host in inventory.hosts] == ["no"]
    assert endpoint.count("DescribeInstances") == 1


def test_amazon_aws_182_include_and_exclude_see_every_fact(play, load):
    play(Region(EAST, (Fleet(type="p5.48xlarge", efa=1), Fleet(type="p5.48xlarge"), Fleet(type="c6i.4xlarge"))))
    inventory = load(
        regions=EAST,
        include="accelerators.count > `0`",
        exclude="accelerators.efa_attached < accelerators.efa_max",
    )
    assert [inventory.vars(host)["ec2_network_interfaces"] for host in inventory.hosts] == [32]


def test_amazon_aws_452_state_and_tag_must_both_match(play, load):
    play(Region(EAST, (Fleet(state="stopped", tags={"a": "b"}), Fleet(tags={"a": "b"}), Fleet())))
    assert len(load(regions=EAST, filters={"tag:a": "b", "instance-state-name": ["running"]}).hosts) == 1


def test_amazon_aws_457_filter_without_match_is_reported(play, load, warnings):
    play(Region(EAST, (Fleet(),)))
    assert load(regions=EAST, filters={"tag:a": "b"}).hosts == []
    (warning,) = warnings
    assert warning == (
        "mlcluster.aws.ec2_nodes: no instance in us-east-1 of account 111122223333 has "
        "instance-state-name = running; tag:a = b"
    )


def test_amazon_aws_2574_empty_result_of_exclude_is_reported(play, load, warnings):
    play(Region(EAST, (Fleet(count=2),)))
    assert load(regions=EAST, exclude="`true`").hosts == []
    assert "include and exclude leave none of the 2 instances" in warnings[0]


def test_many_filter_values_are_split_over_requests(play, load):
    endpoint = play(Region(EAST, (Fleet(count=350, type="c6i.4xlarge"),)), page_size=100)
    wanted = [host.id for host in endpoint.hosts()[:301]]
    inventory = load(regions=EAST, filters={"instance-id": wanted})
    assert inventory.hosts == sorted(wanted)


def test_all_pages_are_read(play, load):
    endpoint = play(Region(EAST, (Fleet(count=350, type="c6i.4xlarge", per_reservation=7),)), page_size=40)
    assert len(load(regions=EAST).hosts) == 350
    assert endpoint.count("DescribeInstances") == 9


def test_failed_page_fails_its_region(play, load, warnings):
    play(
        Region(EAST, (Fleet(count=30),), faults=(Fault("DescribeInstances", "InternalError", page=2),)),
        Region(WEST, (Fleet(),)),
        page_size=10,
    )
    assert len(load(regions=[EAST, WEST], max_attempts=1).hosts) == 1
    (warning,) = warnings
    assert warning == (
        "mlcluster.aws.ec2_nodes: DescribeInstances failed in us-east-1: InternalError: An internal error has "
        "occurred; its hosts are missing from the inventory"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include": "tags.["}, "include: not a JMESPath expression"),
        ({"exclude": "unknown_function(tags)"}, "exclude: cannot be evaluated for i-.*unknown_function"),
        ({"filters": {"tag:a": []}}, "filters: 'tag:a' has an empty list"),
        ({"filters": {"tag:a": {"b": 1}}}, "filters: the value of 'tag:a' must be text"),
        ({"filters": {"tag:parallelcluster:cluster-name": "a"}, "cluster_name": "b"}, "set only one of them"),
        ({"filters": {"instance-state-name": "asleep"}}, "asleep is not a state of an instance"),
        ({"states": []}, "states: is empty, which would match nothing"),
        ({"cluster_name": ""}, "cluster_name: is empty; name a cluster"),
        ({"cluster_name": ["a", ""]}, "cluster_name: is empty; name a cluster"),
        ({"hostnames": ["name"]}, "hostnames: 'name' is not known; use instance_id"),
        ({"hostvars_prefix": "x"}, "hostvars_prefix: 'x' must be"),
        ({"tag_keys": {"clusters": "a"}}, "tag_keys: clusters is not known; use cluster, node_type"),
        ({"assume_role_arn": "admin"}, "assume_role_arn: 'admin' is not the ARN of a role"),
        ({"max_attempts": 0}, "max_attempts: 0 is too small"),
        ({"bastion_user": "-oProxyCommand=x"}, "bastion_user: .* is not a user name"),
        ({"bastion_host": "a b"}, "bastion_host: 'a b' is neither"),
        ({"bastion_port": 70000}, "bastion_port: 70000 is not a port"),
        ({"compose": {"x": "a ||| b"}}, "compose: the expression of 'x' is wrong"),
        ({"groups": {"x": "a and"}}, "groups: the expression of 'x' is wrong"),
        ({"keyed_groups": [{"key": "a[", "prefix": "p"}]}, "keyed_groups: the expression of 'p' is wrong"),
    ],
)
def test_bad_option_is_one_sentence(play, load, options, message):
    play(Region(EAST, (Fleet(),)))
    with pytest.raises(AnsibleParserError, match=message) as caught:
        load(regions=EAST, **options)
    assert "\n" not in str(caught.value)


def test_misspelt_option_does_not_select_everything(play, load):
    endpoint = play(Region(EAST, (Fleet(),)))
    with pytest.raises(AnsibleParserError) as caught:
        load(regions=EAST, cluster_nmae="train", colour="red")
    assert "no such option: cluster_nmae (did you mean cluster_name?), colour;" in str(caught.value)
    assert str(caught.value).endswith("; see ansible-doc -t inventory mlcluster.aws.ec2_nodes")
    assert endpoint.calls == []


def test_unknown_enrichment_is_refused(play, load):
    play(Region(EAST))
    with pytest.raises(Exception, match="weather"):
        load(regions=EAST, enrich=["weather"])


def test_amazon_aws_912_misnamed_file_is_reported(load, tmp_path, warnings):
    from ansible.plugins.loader import inventory_loader

    path = tmp_path / "nodes.yml"
    path.write_text("plugin: mlcluster.aws.ec2_nodes\n")
    other = tmp_path / "other.yml"
    other.write_text("plugin: amazon.aws.aws_ec2\n")
    plugin = inventory_loader.get("mlcluster.aws.ec2_nodes")
    assert not plugin.verify_file(str(path))
    assert not plugin.verify_file(str(other))
    assert not plugin.verify_file(str(tmp_path / "absent.ec2_nodes.yml"))
    assert len(warnings) == 1
    assert warnings[0].endswith("its name does not end with ec2_nodes.yml; rename it")


@pytest.mark.parametrize("value", [None, [], [None], "", [""], " ", ["a", ""], "{{ none_there | default([]) }}"])
def test_empty_cluster_name_is_rejected_before_any_request(play, load, value):
    endpoint = play(Region(EAST, (Fleet(cluster="one", queue="q"), Fleet(cluster="two", queue="q"))))
    with pytest.raises(AnsibleParserError, match="cluster_name: is empty; name a cluster, or leave the option out"):
        load(regions=EAST, cluster_name=value)
    assert endpoint.calls == []


def test_without_cluster_name_filters_select(play, load):
    play(Region(EAST, (Fleet(cluster="one", queue="q"), Fleet(cluster="two", queue="q"))))
    assert len(load(regions=EAST).hosts) == 2


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("ec2_tags.Name == 'x'", "instances have no 'ec2_tags'; did you mean tags?"),
        ("tag.Name == 'x'", "instances have no 'tag'; did you mean tags?"),
        ("tags.a == 'b' && !states", "instances have no 'states'; did you mean state?"),
        ("contains(instance_typ, 'p5')", "instances have no 'instance_typ'; did you mean instance_type?"),
        ("network_interface[?id == 'x'] | [0]", "instances have no 'network_interface'"),
    ],
)
@pytest.mark.parametrize("option", ["include", "exclude"])
def test_expression_with_unknown_name_is_refused(play, load, option, expression, words):
    endpoint = play(Region(EAST, (Fleet(),)))
    with pytest.raises(AnsibleParserError, match=re.escape(f"{option}: {words}")):
        load(regions=EAST, **{option: expression})
    assert endpoint.calls == []


@pytest.mark.parametrize(
    "expression",
    [
        "tags.Name != 'x'",
        'tags."aws:x" || instance_type',
        "network_interfaces[?a == 'b'].c | [0]",
        "length(tags) > `0`",
    ],
)
def test_expression_with_known_names_is_accepted(play, load, expression):
    play(Region(EAST, (Fleet(),)))
    load(regions=EAST, include=expression)


@pytest.mark.parametrize(("option", "value"), [("strict_regions", "ture"), ("cache", "maybe"), ("full_record", "2")])
def test_invalid_boolean_is_rejected(play, load, option, value):
    play(Region(EAST))
    with pytest.raises(AnsibleParserError, match=f"{option} is '{value}'; use true or false"):
        load(regions=EAST, **{option: value})


def test_ansible_78749_number_or_boolean_key_makes_group(play, load):
    play(Region(EAST, (Fleet(tags={"rack": "7"}),)))
    keyed = [{"key": "ec2_tags.rack | int", "prefix": "rack"}, {"key": "ec2_tags.rack == '7'", "prefix": "seven"}]
    inventory = load(regions=EAST, keyed_groups=keyed)
    assert inventory.group("rack_7") == inventory.group("seven_true") == inventory.hosts
