# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a proof run on AWS: refusals, price, steps, and the deadline of the instance."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import plan

SETTINGS = {
    "region": "us-east-1", "type": "c5d.large", "image": "ami-0123456789abcdef0", "user": "ubuntu", "subnet": "",
    "ssh_cidr": "203.0.113.7/32", "address": "public", "minutes": 120, "max_dollars_an_hour": "",
    "confirm": "c5d.large", "variables": {"nvme_raid0_mount_point": "/data"}, "run": "prove-1",
    "folder": "/tmp/runs/prove-1",
}  # fmt: skip
FACTS = {"InstanceStorageSupported": True, "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}}
IMAGE = {"image_id": "ami-0123456789abcdef0", "architecture": "x86_64", "name": "ubuntu-24.04", "public": True}
LOOK = {
    "types": {"c5d.large": FACTS},
    "offered": {"us-east-1a": ["t3.micro"], "us-east-1b": ["c5d.large"]},
    "images": [IMAGE],
    "subnets": [
        {
            "subnet_id": f"subnet-{zone}",
            "vpc_id": "vpc-1",
            "availability_zone": f"us-east-1{zone}",
            "map_public_ip_on_launch": True,
        }
        for zone in "ba"
    ],
    "price": {"dollars": 0.096, "reason": ""},
    "taken": [],
    "recorded": False,
    "records": [],
}


def test_whole_plan_has_no_problem():
    found = plan.plan(SETTINGS, LOOK)
    assert (found["problem"], found["refusal"]) == ("", "")
    assert (found["subnet"], found["groups"], found["image"]) == ("subnet-b", ["instance_store"], "ubuntu-24.04")
    assert found["tags"] == {"mlcluster:made-by": "prove_on_aws", "mlcluster:prove": "prove-1", "Name": "prove-1"}
    assert "0.10 dollars an hour on demand, 0.19 for all of its 120 minutes" in found["lines"][1]
    assert "-e prove_on_aws_sweep=prove-1" in found["lines"][-1]


def test_runs_that_were_not_swept_are_shown():
    found = plan.plan(
        SETTINGS, {**LOOK, "records": ["/tmp/runs/prove-3/launched.json", "/tmp/runs/prove-2/launched.json"]}
    )
    assert found["lines"][-2:] == [
        "not swept, so its instance may still run: add -e prove_on_aws_sweep=prove-2",
        "not swept, so its instance may still run: add -e prove_on_aws_sweep=prove-3",
    ]


def test_without_look_only_settings_are_judged():
    assert plan.plan(SETTINGS) == {"problem": ""}


def test_steps_prove_after_reboot_and_stop_before_uninstall():
    names = [step["name"] for step in plan.STEPS]
    order = ["site", "verify", "reboot", "verify_after_reboot", "stop", "start", "verify_after_start", "uninstall"]
    assert [name for name in names if name in order] == order
    # The deadline on the node is checked first, at the first and at the second start.
    assert names[0] == "wait" and names[names.index("start") + 1] == "wait_after_start"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("region", ""), ("region", "us-east-1; id"), ("type", ""), ("type", None), ("type", "c5d"), ("image", "ubuntu"),
        ("user", "root; id"), ("subnet", "subnet-x"), ("run", "Prove"), ("run", "prove-*"), ("ssh_cidr", ""),
        ("ssh_cidr", "0.0.0.0/0"), ("ssh_cidr", "203.0.113.7"), ("ssh_cidr", "203.0.113.7/24"), ("ssh_cidr", "::/0"),
        ("address", "any"), ("minutes", 29), ("minutes", 721), ("minutes", 60.5), ("minutes", "soon"),
        ("minutes", True),
        ("max_dollars_an_hour", "much"), ("max_dollars_an_hour", 0), ("max_dollars_an_hour", "-1"),
        ("folder", "/tmp/a b"), ("folder", "/tmp/'x"), ("folder", "/tmp/%h"), ("variables", []),
    ],
)  # fmt: skip
def test_invalid_variable_is_rejected_by_name(name, value):
    found = plan.plan({**SETTINGS, name: value}, LOOK)["problem"]
    assert found.startswith(f"nothing was launched: prove_on_aws_{name} ")
    assert found.count(". ") == 0


def test_numeric_strings_are_numbers():
    assert plan.plan({**SETTINGS, "minutes": "90", "max_dollars_an_hour": "0.5"}, LOOK)["problem"] == ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"types": {}}, "us-east-1 offers no c5d.large"),
        ({"types": {"c5d.large": {**FACTS, "InstanceStorageSupported": False}}}, "has neither instance store nor"),
        ({"images": []}, "has no image ami-0123456789abcdef0"),
        ({"images": [{**IMAGE, "platform": "windows"}]}, "is a Windows image"),
        ({"images": [{**IMAGE, "architecture": "arm64"}]}, "is for arm64, and c5d.large supports x86_64"),
        ({"subnets": []}, "us-east-1 has no default subnet"),
        ({"offered": {}}, "no subnet is in a zone that offers c5d.large (their zones: us-east-1a, us-east-1b)"),
        (
            {"recorded": True},
            "/tmp/runs/prove-1 has the record of an earlier run, whose instance may still run; remove",
        ),
        ({"taken": [{"key_name": "prove-1"}]}, "has a key pair or a security group with the name prove-1"),
        ({"price": {"dollars": None, "reason": "AccessDenied"}}, "price of c5d.large is unknown (AccessDenied)"),
        ({"images": [{**IMAGE, "usage_operation": "RunInstances:0010"}]}, "the image has a price of its own"),
        ({"subnets": [{**LOOK["subnets"][0], "map_public_ip_on_launch": False}]}, "gives no public addresses"),
    ],
)
def test_missing_resource_is_one_sentence(change, sentence):
    found = plan.plan(SETTINGS, {**LOOK, **change})
    assert list(found) == ["problem"]
    assert sentence in found["problem"] and found["problem"].startswith("nothing was launched: ")


def test_price_above_limit_is_refused():
    found = plan.plan({**SETTINGS, "max_dollars_an_hour": 0.05}, LOOK)
    assert "costs 0.10 dollars an hour, more than prove_on_aws_max_dollars_an_hour (0.05)" in found["problem"]


def test_unknown_price_is_limited_by_user():
    found = plan.plan({**SETTINGS, "max_dollars_an_hour": 2}, {**LOOK, "price": {"dollars": None, "reason": "no"}})
    assert (found["problem"], found["lines"][1][:64]) == (
        "",
        "price unknown (no); at most 2.00 dollars an hour by your limit, ",
    )


@pytest.mark.parametrize("confirm", ["", "yes", "c5d.xlarge", True])
def test_only_instance_type_confirms(confirm):
    found = plan.plan({**SETTINGS, "confirm": confirm}, LOOK)
    assert "add -e prove_on_aws_confirm=c5d.large" in found["refusal"]


def test_nvidia_gpus_select_group():
    assert plan.groups({"GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA"}]}}) == ["gpu"]
    assert plan.groups({"GpuInfo": {"Gpus": [{"Manufacturer": "AMD"}]}}) == []


def test_private_images_keep_their_name():
    assert plan.image_name({**IMAGE, "public": False}) == "a private image"


def test_user_data_has_host_key_and_deadline():
    text = plan.user_data(1767225600, "PRIVATE", "PUBLIC")
    first, rest = text.split("\n", 1)
    document = json.loads(rest)
    assert first == "#cloud-config"
    assert document["ssh_keys"] == {"ed25519_private": "PRIVATE\n", "ed25519_public": "PUBLIC\n"}
    service, timer = (entry["content"] for entry in document["write_files"])
    assert "OnCalendar=2026-01-01 00:00:00 UTC\nPersistent=true\n" in timer and "WantedBy=timers.target" in timer
    assert "systemctl poweroff" in service
    assert ["systemctl", "enable", "--now", "mlcluster-prove-deadline.timer"] in document["runcmd"]


def test_inventory_accepts_host_key_only():
    found = plan.inventory(SETTINGS, ["gpu"], "198.51.100.4", "/tmp/run")["all"]
    host = found["hosts"]["prove-node"]
    assert found["children"] == {"gpu": {"hosts": {"prove-node": {}}}}
    assert (host["ansible_host"], host["nvme_raid0_mount_point"]) == ("198.51.100.4", "/data")
    for option in ("StrictHostKeyChecking=yes", "HostKeyAlias=prove-1", "UserKnownHostsFile=/tmp/run/known_hosts"):
        assert f"-o '{option}'" in host["ansible_ssh_common_args"]


def test_user_variables_do_not_change_connection():
    settings = {**SETTINGS, "variables": {"ansible_host": "192.0.2.1"}}
    assert plan.inventory(settings, [], "198.51.100.4", "/tmp/run")["all"]["hosts"]["prove-node"]["ansible_host"] != (
        "192.0.2.1"
    )
