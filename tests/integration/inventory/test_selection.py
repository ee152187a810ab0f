# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selection of instances: regions, filters, states, expressions, pages, extra vars."""

from __future__ import annotations

import os

import pytest

from tests.rig.ec2 import Fleet, Region

STATES = ("pending", "running", "shutting-down", "terminated", "stopping", "stopped")


def ids(endpoint, region="us-east-1", **wanted):
    """Return the ids of the hosts whose fleet has these values."""
    return {h.id for h in endpoint.hosts(region) if all(getattr(h.fleet, k) == v for k, v in wanted.items())}


def test_real_command_reads_inventory(play, inventory, cluster):
    endpoint = play(*cluster)
    path = inventory.file(inventory.options(endpoint))
    listed = inventory.command(endpoint, path, "--graph")
    assert (listed.status, listed.stderr) == (0, "")
    assert all(f"--{name}" in listed.out for name in ids(endpoint))


def test_amazon_aws_875_only_default_region_is_queried(play, inventory):
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1", (Fleet(),)))
    assert set(inventory(endpoint).hosts) == ids(endpoint)
    assert endpoint.count("DescribeInstances") == 1
    assert endpoint.count("DescribeRegions") == 0


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_default_region_comes_from_environment(play, inventory, name):
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1", (Fleet(),)))
    inventory.environment = {name: "eu-west-1"}
    assert set(inventory(endpoint).hosts) == ids(endpoint, "eu-west-1")


def test_default_region_comes_from_profile(play, inventory):
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1", (Fleet(),)))
    config = inventory.folder / "config"
    config.write_text("[profile far]\nregion = eu-west-1\n", encoding="utf-8")
    keys = inventory.folder / "credentials"
    keys.write_text("[far]\naws_access_key_id = AKIARIGMAIN\naws_secret_access_key = x\n", encoding="utf-8")
    inventory.environment = {}
    path = inventory.file(inventory.options(endpoint, profile="far"))
    files = {"AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": str(keys)}
    assert set(inventory.read(path, **files).hosts) == ids(endpoint, "eu-west-1")


def test_default_region_comes_from_metadata_service(play, inventory):
    endpoint = play(Region("us-east-1", (Fleet(),)), Region("eu-west-1", (Fleet(),)), home_region="eu-west-1")
    inventory.environment = {}
    assert set(inventory(endpoint).hosts) == ids(endpoint, "eu-west-1")


def test_several_or_all_regions_are_queried(play, inventory):
    names = ("us-east-1", "eu-west-1", "ap-south-1")
    endpoint = play(*(Region(name, (Fleet(count=2),)) for name in names))
    assert {host["ec2_region"] for host in inventory(endpoint, regions=list(names[:2])).hosts.values()} == {*names[:2]}
    assert {host["ec2_region"] for host in inventory(endpoint, regions=["all"]).hosts.values()} == set(names)
    assert endpoint.count("DescribeRegions") == 1


def test_pages_are_put_together(play, inventory):
    endpoint = play(Fleet(count=23, type="c6i.4xlarge", per_reservation=4), page_size=10)
    assert set(inventory(endpoint).hosts) == ids(endpoint)
    asked = [call.parameters for call in endpoint.calls if call.operation == "DescribeInstances"]
    assert len(asked) == 3 and all(1 <= int(one["MaxResults"]) <= 1000 for one in asked)


def test_more_filter_values_than_call_may_have(play, inventory):
    endpoint = play(Fleet(count=250, type="c6i.4xlarge", interfaces=1), Fleet(count=3, type="m7g.xlarge"))
    wanted = sorted(ids(endpoint, type="c6i.4xlarge"))
    assert set(inventory(endpoint, filters={"instance-id": wanted}).hosts) == set(wanted)
    assert endpoint.count("DescribeInstances") == 2


def test_ansible_12233_only_running_instances_by_default(play, inventory):
    endpoint = play(*(Fleet(state=state, type="c6i.4xlarge") for state in STATES))
    assert set(inventory(endpoint).hosts) == ids(endpoint, state="running")
    chosen = inventory(endpoint, states=["running", "stopped", "terminated"])
    assert sorted(host["ec2_state"] for host in chosen.hosts.values()) == ["running", "stopped", "terminated"]
    assert set(inventory(endpoint, filters={"instance-state-name": "pending"}).hosts) == ids(endpoint, state="pending")


def test_cluster_name_is_enough_for_parallelcluster(play, inventory, cluster):
    endpoint = play(*cluster, Fleet(cluster="other", queue="gpu", compute_resource="p5"), Fleet(name="plain"))
    assert set(inventory(endpoint, cluster_name="train").hosts) == ids(endpoint, cluster="train")
    both = inventory(endpoint, cluster_name=["train", "other"])
    assert set(both.hosts) == ids(endpoint, cluster="train") | ids(endpoint, cluster="other")


def test_amazon_aws_452_filters_all_have_to_match(play, inventory):
    endpoint = play(
        Fleet(tags={"Team": "ml"}, name="a"),
        Fleet(tags={"Team": "ml"}, name="b", state="stopped"),
        Fleet(tags={"Team": "web"}, name="a"),
    )
    listed = inventory(endpoint, filters={"tag:Team": "ml", "tag:Name": ["a", "b"]})
    assert set(listed.hosts) == {endpoint.hosts()[0].id}


def test_amazon_aws_457_filter_without_match_gives_no_hosts(play, inventory):
    endpoint = play(Fleet(count=3))
    assert inventory(endpoint, filters={"tag:Name": "no such"}).hosts == {}


def test_amazon_aws_2708_exclusion_is_judged_on_same_answer(play, inventory):
    # The excluding tag appears after the first request, so a second request would give another answer.
    endpoint = play(Fleet(tags={"Keep": "no"}, tags_later={"Keep": "yes"}), Fleet(tags={"Keep": "yes"}))
    listed = inventory(endpoint, exclude="tags.Keep == 'no'")
    assert set(listed.hosts) == {endpoint.hosts()[1].id}
    assert endpoint.count("DescribeInstances") == 1


def test_amazon_aws_182_exclude_and_include_over_record(play, inventory, cluster):
    endpoint = play(*cluster)
    heads = ids(endpoint, role="HeadNode")
    assert set(inventory(endpoint, exclude="node_type == 'head'").hosts) == ids(endpoint) - heads
    gpus = inventory(endpoint, include="accelerators.kind == 'gpu' && accelerators.count >= `8`")
    assert set(gpus.hosts) == ids(endpoint, type="p5.48xlarge")
    healthy = inventory(endpoint, enrich=["ssm"], include="ssm_ping_status == 'Online'")
    assert set(healthy.hosts) == ids(endpoint)


def test_wrong_expression_is_one_sentence(play, inventory):
    listed = inventory(play(Fleet()), include="tags.[")
    assert "include: not a JMESPath expression" in listed.stderr
    assert "Traceback" not in listed.stderr


def test_amazon_aws_2673_extra_vars_in_every_kind_of_option(play, inventory, cluster):
    endpoint = play(Region("us-east-1"), Region("eu-west-1", cluster))
    listed = inventory(
        endpoint,
        *("-e", '{"env": "train", "where": ["eu-west-1"], "team": "p5", "how": "ssm", "no": "head"}'),
        regions="{{ where }}",
        cluster_name="{{ env }}",
        filters={"tag:parallelcluster:compute-resource-name": ["{{ team }}", "x"]},
        connection="{{ how }}",
        exclude="node_type == '{{ no }}'",
        hostnames=["tag:{{ 'Na' ~ 'me' }}"],
    )
    assert {host["ec2_compute_resource_name"] for host in listed.hosts.values()} == {"p5"}
    assert len(listed.hosts) == 3 and all(name.startswith("Compute-i-") for name in listed.hosts)
    assert {host["ansible_connection"] for host in listed.hosts.values()} == {"amazon.aws.aws_ssm"}


def test_amazon_aws_127_option_may_be_omitted_by_its_template(play, inventory):
    endpoint = play(Fleet())
    listed = inventory(endpoint, profile="{{ lookup('env', 'NO_SUCH_THING') or omit }}")
    assert set(listed.hosts) == ids(endpoint)


def test_undefined_variable_in_option_is_named(play, inventory):
    listed = inventory(play(Fleet()), cluster_name="{{ nowhere }}")
    assert listed.hosts == {} and "nowhere" in listed.stderr and "cluster_name" in listed.stderr


def test_amazon_aws_912_misnamed_file_is_reported(play, inventory):
    endpoint = play(Fleet())
    path = inventory.file(inventory.options(endpoint), name="cluster.yml")
    listed = inventory.read(path, **endpoint.environment())
    assert "does not end with ec2_nodes.yml" in listed.stderr
    for name in ("ec2_nodes.yml", "a.ec2_nodes.yaml"):
        path = inventory.file(inventory.options(endpoint), name=name)
        assert set(inventory.read(path, **endpoint.environment()).hosts) == ids(endpoint)


def test_ten_regions_need_one_call_each_and_types_once(play, inventory):
    names = [f"us-east-{number}" for number in range(1, 11)]
    endpoint = play(*(Region(name, (Fleet(count=2),)) for name in names))
    assert len(inventory(endpoint, regions=names).hosts) == 20
    assert endpoint.count("DescribeInstances") == 10 and endpoint.count("DescribeInstanceTypes") == 1
    assert endpoint.count() == 11
    assert os.path.isdir(inventory.environment["XDG_CACHE_HOME"])
    inventory(endpoint, regions=names)
    assert endpoint.count("DescribeInstanceTypes") == 1


def test_extra_vars_reach_options_of_every_type(play, inventory):
    endpoint = play(
        Region("us-east-1", (Fleet(), Fleet(state="stopped"))), Region("eu-west-1", (), opt_in="not-opted-in")
    )
    variables = (
        '{"state": "stopped", "extra": ["health"], "yes": true, "tries": 2, "name": "node_", "far": "eu-west-1"}'
    )
    options = {
        "states": ["{{ state }}"],
        "enrich": "{{ extra }}",
        "full_record": "{{ yes }}",
        "max_attempts": "{{ tries }}",
        "hostvars_prefix": "{{ name }}",
    }
    host = inventory(endpoint, "-e", variables, **options).only()
    assert (host["node_state"], host["node_health"]["system"]) == ("stopped", "not-applicable")
    assert host["node_instance"]["InstanceId"] == host["node_instance_id"]
    strict = {"regions": ["us-east-1", "{{ far }}"], "strict_regions": "{{ yes }}"}
    assert inventory(endpoint, "-e", variables, **strict).hosts == {}


def test_two_inventories_are_merged(play, inventory):
    endpoint = play(
        Fleet(cluster="a", role="HeadNode", type="c6i.4xlarge"), Fleet(cluster="b", queue="q", compute_resource="c")
    )
    first, second = (
        inventory.file(inventory.options(endpoint, cluster_name=name), f"{name}.ec2_nodes.yml") for name in ("a", "b")
    )
    listed = inventory.read(first, "-i", str(second), **endpoint.environment())
    assert set(listed.hosts) == ids(endpoint) and listed.groups["gpu"] == ids(endpoint, cluster="b")
