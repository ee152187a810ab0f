# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import parse as block_parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import SHAPES, Machine, fs_uuid
from tests.unit.fakes.recorded_host import FIXTURES


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("820c601f:8bb03248:1cd68a8d:a3b1d073", "820c601f8bb032481cd68a8da3b1d073"),
        ("820c601f-8bb0-3248-1cd6-8a8da3b1d073", "820c601f8bb032481cd68a8da3b1d073"),
        ("820C601F-8BB0-3248-1CD6-8A8DA3B1D073", "820c601f8bb032481cd68a8da3b1d073"),
        ("1A2B-3C4D", "1A2B-3C4D"),
        ("Yb1OsX-8dqv-tRG6-7bBL-fcMr-5t5b-fmmTmZ", "Yb1OsX-8dqv-tRG6-7bBL-fcMr-5t5b-fmmTmZ"),
        ("", None),
        (None, None),
    ],
)
def test_uuids_of_all_tools_get_one_spelling(given, normal):
    assert block_parse.normal_uuid(given) == normal


@pytest.mark.parametrize("shape", SHAPES)
def test_every_lsblk_gives_same_devices(shape):
    machine = Machine(shape)
    machine.root()
    machine.stores(2)
    machine.array("md127", ["nvme1n1", "nvme2n1"], "a" * 32)
    machine.sign("md127", "xfs", fs_uuid("data"), "data")
    machine.mount("md127", "/data")
    machine.ebs("nvme9n1").read_only = True
    devices = block_parse.parse_lsblk(machine.lsblk())
    assert sorted(devices) == ["md127", "nvme0n1", "nvme0n1p1", "nvme1n1", "nvme2n1", "nvme9n1"]
    array = devices["md127"]
    assert (array["parents"], array["mounts"], array["size"]) == (["nvme1n1", "nvme2n1"], ["/data"], 200 << 30)
    assert (array["fstype"], array["uuid"], array["label"]) == ("xfs", fs_uuid("data"), "data")
    assert devices["nvme1n1"]["children"] == ["md127"]
    assert (devices["nvme1n1"]["mounts"], devices["nvme1n1"]["swap"]) == ([], False)
    assert [kname for kname, device in devices.items() if device["read_only"]] == ["nvme9n1"]
    assert devices["nvme0n1"]["pttype"] == "gpt"


@pytest.mark.parametrize("shape", SHAPES)
def test_swap_is_no_mount_point(shape):
    machine = Machine(shape)
    machine.stores(1)
    machine.swap_on("/dev/nvme1n1")
    disk = block_parse.parse_lsblk(machine.lsblk())["nvme1n1"]
    assert (disk["swap"], disk["mounts"]) == (True, [])


def test_lsblk_reads_empty_zram_and_disk_with_two_mounts():
    devices = block_parse.parse_lsblk((FIXTURES / "lsblk-2.38-container.json").read_text())
    assert devices["zram0"]["size"] == 0
    assert devices["vda"]["mounts"] == ["/run/netns", "/"]


def test_device_mapper_path_is_kept_or_made_from_name():
    tree = {"blockdevices": [{"name": "vg-lv", "kname": "dm-0", "path": "/dev/mapper/vg-lv", "type": "lvm"}]}
    tree["blockdevices"].append({"name": "sda", "kname": "sda", "type": "disk"})
    devices = block_parse.parse_lsblk(json.dumps(tree))
    assert (devices["dm-0"]["path"], devices["sda"]["path"]) == ("/dev/mapper/vg-lv", "/dev/sda")


def test_no_lsblk_output_is_no_device():
    assert block_parse.parse_lsblk("") == {}


@pytest.mark.parametrize("text", ["lsblk: oops", '{"blockdevices": ['])
def test_broken_lsblk_output_is_one_sentence(text):
    with pytest.raises(NodeError, match="lsblk printed no valid JSON: run 'lsblk --json'"):
        block_parse.parse_lsblk(text)


def test_wipefs_as_recorded_from_util_linux_2_38():
    found = block_parse.parse_wipefs((FIXTURES / "wipefs-2.38-ext4-swap.json").read_text())
    assert [(entry["device"], entry["type"], entry["label"], entry["offset"]) for entry in found] == [
        ("ext4.img", "ext4", "keep", "0x438"),
        ("swap.img", "swap", "swap0", "0xff6"),
    ]


@pytest.mark.parametrize("text", ["", "  \n", '{"signatures": []}', '{"signatures": null}', "{}"])
def test_wipefs_without_signatures(text):
    assert block_parse.parse_wipefs(text) == []


def test_broken_wipefs_output_is_one_sentence():
    with pytest.raises(NodeError, match="wipefs printed no valid JSON: run 'wipefs --no-act --json DISK'"):
        block_parse.parse_wipefs("DEVICE OFFSET TYPE")


def test_signature_without_uuid_and_label_has_nulls():
    found = block_parse.parse_wipefs('{"signatures": [{"device": "nvme1n1", "offset": "0x1fe", "type": "PMBR"}]}')
    assert found == [{"device": "nvme1n1", "offset": "0x1fe", "type": "PMBR", "uuid": None, "label": None}]


def test_export_lines_keep_equal_signs_of_value_and_skip_rest():
    assert block_parse.parse_export("MD_NAME=any:a=b\nnoise\nMD_UUID=1\n") == {"MD_NAME": "any:a=b", "MD_UUID": "1"}


def test_lvm_rows_of_every_report():
    text = '{"report": [{"pv": [{"pv_name": "/dev/a"}]}, {"pv": [{"pv_name": "/dev/b"}], "lv": []}], "log": []}'
    assert [row["pv_name"] for row in block_parse.parse_lvm(text, "pv")] == ["/dev/a", "/dev/b"]
    assert block_parse.parse_lvm(text, "lv") == []


@pytest.mark.parametrize("text", ["", "no json", "{}"])
def test_broken_lvm_output_is_one_sentence(text):
    with pytest.raises(NodeError, match="LVM printed no valid JSON report"):
        block_parse.parse_lvm(text, "pv")


def nodes(text):
    queue = json.loads(text)["blockdevices"]
    for node in queue:
        queue += node.get("children", [])
    return queue


@pytest.mark.parametrize(("recording", "shape"), [("debian-13-raid0", "2.41"), ("lsblk-2.38-container", "2.38")])
def test_simulated_lsblk_matches_recorded_format(recording, shape):
    document = json.loads((FIXTURES / f"{recording}.json").read_text())
    text = document["commands"][0]["stdout"] if "commands" in document else json.dumps(document)
    machine = Machine(shape)
    machine.stores(2)
    recorded = {key: {type(node[key]) for node in nodes(text)} for key in nodes(text)[0]}
    made_up = nodes(machine.lsblk())[0]
    assert set(made_up) == set(recorded)
    assert all(type(value) in recorded[key] | {str} for key, value in made_up.items())
    free = [node["mountpoints"] for node in nodes(text) if not any(node["mountpoints"])]
    assert made_up["mountpoints"] in free


def test_simulated_wipefs_matches_recorded_format():
    recorded = json.loads((FIXTURES / "wipefs-2.38-ext4-swap.json").read_text())["signatures"]
    host = scene.node(1)
    host.machine.sign("nvme1n1", "ext4", fs_uuid("x"), "keep")
    made_up = json.loads(host.run(["wipefs", "--no-act", "--json", "/dev/nvme1n1"]).stdout)["signatures"]
    assert [sorted(entry) for entry in made_up] == [sorted(recorded[0])]
