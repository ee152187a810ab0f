# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware in the inventory against what roles found."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.hardware import (
    Hardware,
    known_hardware,
    missing,
    missing_hardware,
    missing_slurm,
    unknown_efa,
)

P5 = {"ec2_instance_type": "p5.48xlarge"}
WHOLE = Hardware("the inventory lists the node as a p5.48xlarge", disks=8, gpus=8, efa=32, efa_known=True)


def answer(concerned=False, devices=None):
    results = [] if devices is None else [{"id": "efa.devices", "found": devices}]
    return {"plan": {"concerned": concerned, "reason": ""}, "results": results}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (P5, Hardware("the inventory lists the node as a p5.48xlarge", 8, 8, 1, True)),
        ({**P5, "efa_attached": 32}, WHOLE),
        (
            {"instance_type": "p5.48xlarge", "accelerators": {"efa_attached": 16}},
            Hardware("the inventory lists the node as a p5.48xlarge", 8, 8, 16, True),
        ),
        (
            {"ec2_instance_type": "trn1.32xlarge"},
            Hardware("the inventory lists the node as a trn1.32xlarge", 4, 0, 1, True),
        ),
        ({"ec2_instance_type": "m5.large"}, Hardware("the inventory lists the node as a m5.large", 0, 0, 0, False)),
        (
            {
                "ec2_instance_type": "zz9.metal",
                "ec2_accelerators": {"kind": "gpu", "count": 4, "instance_store_count": 2, "efa_attached": 0},
            },
            Hardware("the inventory lists the node as a zz9.metal", 2, 4, 0, True),
        ),
        (
            {"ec2_instance_type": ["p5"], "ec2_accelerators": "8", "efa_attached": True},
            Hardware("the inventory lists the node as an instance"),
        ),
        ({}, Hardware("the inventory lists the node as an instance")),
    ],
)
def test_hardware_comes_from_inventory_variables(variables, found):
    assert known_hardware(variables) == found


@pytest.mark.parametrize(
    ("role", "given", "expected"),
    [
        ("nvme_raid0", answer(), ("inventory.disks", 8, 0)),
        ("nvidia_gds", answer(), ("inventory.gpus", 8, 0)),
        ("efa_nccl", answer(), ("inventory.efa", 32, 0)),
        ("efa_nccl", answer(True, 31), ("inventory.efa", 32, 31)),
    ],
)
def test_less_than_in_inventory_is_failure(role, given, expected):
    (found,) = missing_hardware(role, given, {}, WHOLE)
    assert (found.id, found.expected, found.found) == expected and found.status == "fail"
    assert "the inventory lists the node as a p5.48xlarge" in found.line()


@pytest.mark.parametrize(
    ("role", "given", "options"),
    [
        ("nvme_raid0", answer(True), {}),
        ("nvme_raid0", answer(), {"layout": "none"}),
        ("nvme_raid0", answer(), {"expected_disks": 0}),
        ("nvme_raid0", answer(), {"devices": []}),
        ("nvidia_gds", answer(True), {}),
        ("efa_nccl", answer(True, 32), {}),
        ("efa_nccl", answer(True), {}),
        ("efa_nccl", answer(), {"expected_devices": 0}),
        ("fsx_lustre", answer(), {}),
    ],
)
def test_present_or_waived_hardware_is_no_failure(role, given, options):
    assert missing_hardware(role, given, options, WHOLE) == []


@pytest.mark.parametrize("role", ["nvme_raid0", "nvidia_gds", "efa_nccl"])
def test_empty_inventory_expects_nothing(role):
    assert missing_hardware(role, answer(), {}, Hardware()) == []


def no_device(reason="no EFA device, and how many there should be is not known on this machine", results=()):
    return {"plan": {"concerned": False, "reason": reason}, "results": list(results)}


def test_group_efa_without_type_and_device_is_undeterminable():
    (found,) = missing("efa_nccl", no_device(), {}, {"group_names": ["compute", "efa"], "ec2_instance_type": "zz9.x"})
    assert (found.id, found.status, found.reason) == ("inventory.efa", "undeterminable", "unknown_type")
    assert "in the group efa, its instance type is unknown, and no EFA device was found" in found.line()
    assert "efa_nccl_expected_devices (0 for none)" in found.hint


@pytest.mark.parametrize(
    ("role", "given", "variables"),
    [
        ("efa_nccl", no_device(), {"group_names": ["compute"]}),
        ("efa_nccl", no_device("no EFA device, and none is expected on m5.large"), {"group_names": ["efa"]}),
        ("efa_nccl", no_device(), {"group_names": ["efa"], "ec2_efa_attached": 0}),
        ("efa_nccl", no_device(), {"group_names": ["efa"], "ec2_accelerators": {"efa_attached": 0}}),
        ("efa_nccl", no_device(), {"group_names": ["efa"], "ec2_instance_type": "g4dn.xlarge"}),
        ("efa_nccl", no_device(results=[{"id": "efa.devices", "found": 0}]), {"group_names": ["efa"]}),
        ("efa_nccl", {**no_device(), "plan": {"concerned": True, "reason": ""}}, {"group_names": ["efa"]}),
        ("nvidia_gds", no_device(), {"group_names": ["efa"]}),
    ],
)
def test_known_absence_of_efa_has_no_verdict(role, given, variables):
    assert missing(role, given, {}, variables) == []
    assert unknown_efa(role, no_device(), {}, Hardware(efa_known=True), ["efa"]) == []
    assert unknown_efa(role, no_device(), {"expected_devices": 0}, Hardware(), ["efa"]) == []


NO_CONTAINERS = "there is no Slurm on this node, so nothing would start a container"
NO_JOBS = "this machine has no Slurm"


def without_slurm(reason, concerned=False):
    return {"plan": {"concerned": concerned, "reason": reason}, "results": []}


@pytest.mark.parametrize(
    ("role", "reason", "groups", "group"),
    [
        ("enroot_pyxis", NO_CONTAINERS, ["compute", "gpu"], "compute"),
        ("enroot_pyxis", NO_CONTAINERS, ["login"], "login"),
        ("slurm_jobs", NO_JOBS, ["compute", "head"], "head"),
    ],
)
def test_node_of_cluster_without_slurm_is_failure(role, reason, groups, group):
    (found,) = missing_slurm(role, without_slurm(reason), {"slurm_prefix": "/opt/slurm"}, groups, True)
    assert (found.id, found.status) == ("inventory.slurm", "fail")
    assert f"this is a {group} node of a cluster, and no Slurm was found on it" in found.line()
    assert f"/opt/slurm, is mounted; {role}_slurm_prefix sets another" in found.hint


@pytest.mark.parametrize(
    ("given", "options", "groups", "has_head"),
    [
        (without_slurm(NO_CONTAINERS), {}, ["gpu"], True),
        (without_slurm(NO_CONTAINERS), {}, ["compute"], False),
        (without_slurm(NO_CONTAINERS), {"slurm_prefix": "/nonexistent"}, ["compute"], True),
        (without_slurm("", True), {}, ["compute"], True),
        (without_slurm("no volume"), {}, ["compute"], True),
    ],
)
def test_no_slurm_is_no_failure_where_none_is_expected(given, options, groups, has_head):
    assert missing_slurm("enroot_pyxis", given, options, groups, has_head) == []


@pytest.mark.parametrize(
    ("role", "given", "variables", "ids"),
    [
        # As the boot hook passes them: without groups, and EFA unknown.
        ("nvme_raid0", answer(), {"ec2_instance_type": "p5.48xlarge", "ec2_efa_attached": 0}, ["inventory.disks"]),
        ("efa_nccl", answer(), {"ec2_instance_type": "p5.48xlarge", "ec2_efa_attached": 0}, []),
        ("enroot_pyxis", without_slurm(NO_CONTAINERS), {"configure_node_kind": "compute"}, ["inventory.slurm"]),
        ("enroot_pyxis", without_slurm(NO_CONTAINERS), {"configure_node_kind": "standalone"}, []),
        ("enroot_pyxis", without_slurm(NO_CONTAINERS), {}, []),
        (
            "enroot_pyxis",
            without_slurm(NO_CONTAINERS),
            {"group_names": ["login"], "groups": {"head": ["h1"]}},
            ["inventory.slurm"],
        ),
    ],
)
def test_node_is_compared_with_its_own_variables(role, given, variables, ids):
    assert [found.id for found in missing(role, given, {}, variables)] == ids


def test_boot_names_the_type_and_no_inventory():
    (found,) = missing("nvidia_gds", answer(), {}, {"ec2_instance_type": "g5.xlarge", "configure_node_kind": "compute"})
    assert "this node is a g5.xlarge with 1 GPUs" in found.line()
