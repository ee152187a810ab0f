# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import json
import logging

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import storage as storage_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import (
    CONFIG_PATH,
    config_text,
    load_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.first_boot import SEEN_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import INTENT_PATH, RECORD_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import INSTANCE_STORE


def configured(host, **options):
    host.machine.files[CONFIG_PATH] = config_text(scene.config(**options))
    return host


def boot(host, wait=30.0):
    return storage_cli.storage_boot(argparse.Namespace(config=CONFIG_PATH, wait=wait), host)


def info(host, as_json=False):
    return storage_cli.storage_info(argparse.Namespace(config=CONFIG_PATH, json=as_json, runtime_version="0.1.0"), host)


@pytest.fixture(autouse=True)
def everything_logged(caplog):
    caplog.set_level(logging.INFO, "mlcluster")


def test_boot_creates_keeps_and_recreates_volume(caplog):
    host = configured(scene.node(2))
    assert boot(host) == 0
    assert "storage-boot: recreated: /data (ext4), 11 actions: every disk is proved blank" in caplog.text
    host.machine.reboot()
    assert boot(host) == 0
    assert "storage-boot: intact: /data (ext4)" in caplog.text
    host.machine.stop_start()
    assert boot(host) == 0
    assert json.loads(host.machine.files[RECORD_PATH])["state"] == "recreated"


def noisy(host):
    """Disks whose unwritten blocks do not read as zeros."""
    for device in host.machine.devices.values():
        if device.model == INSTANCE_STORE:
            device.content = [(0, device.size)]
    return host


def test_boot_after_stop_uses_unwritten_disks(capsys):
    host = configured(scene.node(2))
    assert boot(host) == 0
    host.machine.stop_start()
    assert boot(noisy(host)) == 0
    info(host)
    output = capsys.readouterr().out
    assert "AWS0001b: never written since the instance started; AWS0002b: never written since" in output


def test_boot_after_reboot_rejects_unwritten_disks(caplog):
    host = configured(scene.node(2))
    assert boot(host) == 0
    host.machine.stop_start()
    host.failures["mdadm --create"] = (1, "no")
    assert boot(host) == 2
    host.failures.clear()
    host.machine.reboot()
    del host.machine.files[INTENT_PATH]
    assert boot(noisy(host)) == 1
    assert "/dev/nvme1n1 (AWS0001b) is not proved blank (the byte at offset 0x0 is not zero" in caplog.text


@pytest.mark.parametrize("text", [None, "{"])
def test_boot_records_disks_before_failure(text):
    host = scene.node(2)
    if text:
        host.machine.files[CONFIG_PATH] = text
    assert boot(host) == 2
    assert json.loads(host.machine.files[SEEN_PATH]) == {
        "schema": "mlcluster.disks_seen/1",
        "unit": {"boot_id": "boot-1", "serials": ["AWS0001", "AWS0002"], "volumes": ["vol0root"]},
        "earlier_unit": None,
        "first_boot": {"AWS0001": "boot-1", "AWS0002": "boot-1"},
    }


def test_boot_continues_without_recorded_disks():
    host = configured(scene.node(2))
    write = host.write_text

    def full(path, text, mode=0o644):
        if path == SEEN_PATH:
            raise OSError(28, "No space left on device")
        write(path, text, mode)

    host.write_text = full
    assert boot(host) == 0


def test_node_without_disks_boots(caplog):
    assert boot(configured(scene.node(0))) == 0
    assert "storage-boot: none: no volume, 0 actions" in caplog.text


def test_foreign_node_exits_with_1_unchanged(caplog):
    host = configured(scene.node(2), **scene.CONSENT)
    scene.foreign_array(host)
    assert boot(host) == 1
    assert "storage-boot: foreign: /dev/nvme1n1 (AWS0001) is mounted on /mnt/theirs" in caplog.text
    assert host.changes() == [["write", RECORD_PATH]]


def test_lost_disk_exits_with_1(caplog):
    host = configured(scene.converged(4))
    host.machine.unmount("/data")
    host.machine.devices.pop("md127")
    host.machine.devices.pop("nvme3n1")
    assert boot(host, wait=1) == 1
    assert "storage-boot: lost: this node's volume was made of 4 disks" in caplog.text


def test_failed_action_exits_with_2(caplog):
    host = configured(scene.node(2))
    host.failures["mkfs.ext4"] = (1, "Input/output error")
    assert boot(host) == 2
    assert "make filesystem failed" in caplog.text
    record = json.loads(host.machine.files[RECORD_PATH])
    assert (record["state"], "make filesystem failed" in record["reason"]) == ("failed", True)


def test_failed_boot_is_recorded_and_volume_known_later(caplog):
    host = configured(scene.converged(4))
    host.machine.unmount("/data")
    host.failures["mount"] = (32, "Structure needs cleaning")
    assert boot(host) == 2
    assert json.loads(host.machine.files[RECORD_PATH])["state"] == "failed"
    host.failures.clear()
    assert boot(host) == 0
    assert json.loads(host.machine.files[RECORD_PATH])["state"] == "intact"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, f"looked for {CONFIG_PATH} and did not find it: run the role nvme_raid0 on this node first"),
        ("{", f"{CONFIG_PATH} is not valid JSON"),
        ("[]", f"{CONFIG_PATH} holds no JSON object"),
        ('{"chunk_kib": "512"}', "chunk_kib is '512': it must be an integer"),
        ('{"size": 1}', "the storage configuration has unknown keys: size"),
    ],
)
@pytest.mark.parametrize("verb", [boot, info])
def test_invalid_configuration_exits_with_2(text, message, verb, caplog):
    host = scene.node(2)
    if text is not None:
        host.machine.files[CONFIG_PATH] = text
    assert verb(host) == 2
    (record,) = caplog.records
    assert message in record.getMessage()
    assert host.changes() == ([["write", RECORD_PATH]] if verb is boot else [])


def late(host, after):
    """The last disk appears after so many seconds."""
    gone = host.machine.devices.pop("nvme4n1")
    sleep = host.sleep

    def wait(seconds):
        sleep(seconds)
        if host.clock >= after:
            host.machine.devices["nvme4n1"] = gone

    host.sleep = wait
    return host


def test_boot_waits_for_late_recorded_disk():
    host = configured(scene.converged(4))
    host.machine.unmount("/data")
    host.run(["mdadm", "--stop", "/dev/md127"])
    assert boot(late(host, 3)) == 0
    assert host.clock == 3


def test_first_boot_waits_for_disks_of_type():
    host = configured(scene.node(4))
    host.machine.files["/sys/class/dmi/id/product_name"] = "g6.48xlarge\n"
    host.machine.stores(4, first=5)
    assert boot(late(host, 3)) == 0
    assert host.clock == 3


def test_boot_wait_has_limit():
    host = late(configured(scene.node(4), expected_disks=4), 100)
    assert boot(host, wait=10) == 1
    assert host.clock == 10


@pytest.mark.parametrize("record", ["", "[]", "{", '{"serials": 3}'])
def test_broken_record_causes_no_wait(record):
    host = configured(scene.node(2))
    host.machine.files[RECORD_PATH] = record
    assert boot(host) == 0
    assert host.clock == 0


def test_hidden_paths_are_not_counted():
    host = scene.node(2)
    host.machine.add("nvme1c1n1", "disk", model=INSTANCE_STORE, serial="AWS0001", hidden=True)
    assert storage_cli.count_instance_store(host) == 2


def test_good_node_passes_info(capsys):
    host = configured(scene.converged(2))
    host.machine.files["/etc/systemd/system/multi-user.target.wants/mlcluster-storage.service"] = ""
    assert info(host) == 0
    out = capsys.readouterr().out
    assert "PASS storage.mounted (/dev/md127): found /dev/md127 on /data (ext4)" in out
    assert host.changes() == []


def test_info_as_json_and_its_exit_code(capsys):
    host = configured(scene.node(2))
    scene.foreign_array(host)
    assert info(host, as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["versions"]) == ("mlcluster.report/1", {"mlcluster.aws": "0.1.0"})
    assert [result["status"] for result in document["results"]] == ["fail"]


def test_failed_info_exits_with_2(caplog):
    host = configured(scene.node(2))
    host.programs.discard("lsblk")
    assert info(host) == 2
    assert "looked for lsblk" in caplog.text


def test_verbs_are_registered(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(storage_cli, "storage_boot", lambda args: seen.append((args.config, args.wait)) or 0)
    monkeypatch.setattr(storage_cli, "storage_info", lambda args: seen.append((args.config, args.json)) or 2)
    assert cli.main(["storage-boot", "--wait", "3"], log_dir=str(tmp_path)) == 0
    assert cli.main(["storage-info", "--json", "--config", "/x"], log_dir=str(tmp_path)) == 2
    assert seen == [(CONFIG_PATH, 3.0), ("/x", True)]


def test_configuration_matches_modules():
    host = configured(scene.node(0), fstype="xfs", layout="per_disk")
    assert load_config(host, CONFIG_PATH) == scene.config(fstype="xfs", layout="per_disk")
    with pytest.raises(NodeError):
        load_config(host, "/nowhere")
