# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import gc
import weakref

import pytest
from ansible.errors import AnsibleParserError

from tests.rig.ec2 import Fleet, Region

EAST = "us-east-1"
# Of the plugin; conftest.py replaces it for the length of a test.
UNFREEZE = gc.unfreeze


def cluster(count=3, **more):
    return (
        Fleet(type="c6i.4xlarge", cluster="train", role="HeadNode", public=True),
        Fleet(count=count, cluster="train", queue="gpu", compute_resource="p5", **more),
    )


def test_cluster_has_its_groups_without_any_option(play, load, warnings):
    play(Region("us-east-1", cluster()))
    inventory = load(regions=["us-east-1"])
    assert warnings == []
    head, compute = inventory.group("head"), inventory.group("compute")
    assert (len(head), len(compute)) == (1, 3)
    assert inventory.groups == {
        "head": head,
        "compute": compute,
        "cluster_train": sorted(head + compute),
        "queue_gpu": compute,
        "compute_resource_p5": compute,
        "type_c6i_4xlarge": head,
        "type_p5_48xlarge": compute,
        "az_use1_az1": sorted(head + compute),
        "gpu": compute,
        "efa": compute,
        "instance_store": compute,
    }


def test_host_has_lean_variables(play, load):
    endpoint = play(Region("us-east-1", cluster(reservation="cr-1", placement_group="pg")))
    inventory = load(regions=["us-east-1"])
    (host,) = [one for one in endpoint.hosts() if one.number == 0 and one.fleet.queue]
    variables = inventory.vars(host.id)
    own = {name: value for name, value in variables.items() if name.startswith("ec2_")}
    assert own.pop("ec2_tags")["parallelcluster:queue-name"] == "gpu"
    facts = own.pop("ec2_accelerators")
    assert len(own) < 25
    assert (facts["kind"], facts["name"], facts["count"], facts["memory_mib"]) == ("gpu", "H100", 8, 81920)
    assert (facts["efa_max"], facts["efa_attached"]) == (32, 32)
    assert (facts["instance_store_count"], facts["instance_store_gb"], facts["source"]) == (8, 30400, "api")
    assert (facts["vcpus"], facts["ram_mib"], facts["network_gbps"]) == (192, 2097152, 3200)
    assert variables["ansible_host"] == own["ec2_private_ip_address"] == host.ip
    assert own["ec2_network_interfaces"] == 32
    assert own["ec2_availability_zone"] == "us-east-1a"
    assert own["ec2_availability_zone_id"] == "use1-az1"
    assert own["ec2_capacity_reservation_id"] == "cr-1"
    assert own["ec2_placement_group"] == "pg"
    assert own["ec2_launch_time"].endswith("+00:00")
    assert own["ec2_cluster_name"] == "train"


def test_hosts_share_equal_strings(play, manage):
    play(Region(EAST, (Fleet(count=2, cluster="train"),)))
    inventory = manage(f"plugin: mlcluster.aws.ec2_nodes\nregions: [{EAST}]\n")
    first, second = (inventory.data.hosts[name].vars for name in inventory.hosts)
    assert first["ec2_region"] is second["ec2_region"]
    assert first["ec2_tags"] is not second["ec2_tags"]
    assert first["ec2_tags"]["parallelcluster:cluster-name"] is second["ec2_tags"]["parallelcluster:cluster-name"]


def test_garbage_collector_state_is_restored(play, load):
    play(Region(EAST, (Fleet(),)))
    assert gc.isenabled()
    load(regions=EAST)
    assert gc.isenabled()
    gc.disable()
    try:
        load(regions=EAST)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_replaced_inventory_can_be_collected(play, load, monkeypatch):
    monkeypatch.setattr(gc, "unfreeze", UNFREEZE)
    play(Region(EAST, (Fleet(),)))
    gone = weakref.ref(load(regions=EAST).data.groups["all"])
    load(regions=EAST)
    gc.collect()
    assert gone() is None


def test_host_variables_can_be_chosen_added_and_renamed(play, load):
    play(Region("us-east-1", (Fleet(),)))
    few = load(regions="us-east-1", variables=["instance_type", "key_name", "security_groups"])
    (host,) = few.hosts
    assert {name for name in few.vars(host) if name.startswith("ec2_")} == {
        "ec2_instance_id",
        "ec2_instance_type",
        "ec2_key_name",
        "ec2_security_groups",
    }
    assert few.vars(host)["ec2_key_name"] == "ml-key"
    assert few.vars(host)["ec2_security_groups"][0]["name"] == "nodes"
    usual = load(regions="us-east-1").vars(host)
    changed = load(
        regions="us-east-1",
        variables={"accelerators": "gpus", "tags": False, "architecture": True, "block_devices": True},
        compose={"count": "gpus.count"},
        keyed_groups=[{"key": "gpus.kind", "prefix": "kind"}],
    )
    found = changed.vars(host)
    assert found["gpus"] == usual["ec2_accelerators"] and "ec2_accelerators" not in found
    # Before ansible-core 2.19 a template returns a string.
    assert int(found["count"]) == usual["ec2_accelerators"]["count"]
    assert changed.group(f"kind_{found['gpus']['kind']}") == [host]
    assert "ec2_tags" not in found and found["ec2_architecture"] == "x86_64"
    assert found["ec2_block_devices"][0]["device_name"] == "/dev/sda1"


def test_omitted_variables_are_usable_in_names_and_filters(play, load):
    play(Region("us-east-1", (Fleet(cluster="train", queue="q", name="n"),)))
    names = {"regions": "us-east-1", "hostnames": ["tag:Name"]}
    usual = load(**names)
    few = load(**names, variables=["state"], include='tags."parallelcluster:node-type" && vpc_id')
    assert usual.hosts and (few.hosts, few.groups) == (usual.hosts, usual.groups)
    assert load(**names, variables=["state"]).hosts == usual.hosts
    assert set(few.vars(few.hosts[0])) & {"ec2_tags", "ec2_vpc_id", "ec2_accelerators"} == set()


def test_cached_answer_has_what_variables_need(play, load, tmp_path):
    endpoint = play(Region("us-east-1", (Fleet(),)))
    cache = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(tmp_path / "cache")}
    load(regions="us-east-1", **cache)
    (host,) = load(regions="us-east-1", **cache).hosts
    assert endpoint.count("DescribeInstances") == 1
    found = load(regions="us-east-1", exclude="architecture == 'arm64'", **cache).vars(host)
    assert endpoint.count("DescribeInstances") == 2
    assert "ec2_architecture" not in found
    load(regions="us-east-1", exclude="architecture == 'x86_64'", **cache)
    assert endpoint.count("DescribeInstances") == 2


def test_names_may_use_omitted_fields(play, load):
    play(Region("us-east-1", (Fleet(),)))
    (host,) = load(regions="us-east-1", hostnames=[{"name": "public_dns", "prefix": "literal:p"}, "private_ip"]).hosts
    assert host.startswith(("p_ec2-", "10."))


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("include_filters", "use filters with several values, or include"),
        ("iam_role_arn", "use assume_role_arn"),
        ("use_ssm_inventory", "use enrich"),
        ("hostvars_suffix", "use variables"),
        ("regionss", "did you mean regions"),
    ],
)
def test_option_of_aws_ec2_is_rejected_with_own_name(play, load, option, hint):
    play(Region("us-east-1"))
    with pytest.raises(AnsibleParserError, match=hint):
        load(regions="us-east-1", **{option: "x"})
