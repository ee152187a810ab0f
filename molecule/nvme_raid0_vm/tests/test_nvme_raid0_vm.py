# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The volume as a user of the node finds it; run after the role and once more after a reboot."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

RECORD = "/var/lib/mlcluster/local_storage.json"


@pytest.fixture(scope="module")
def record(host: Host) -> dict:
    """Return local_storage.json of the node."""
    return json.loads(host.file(RECORD).content_string)


def test_volume_is_mounted(host: Host, record: dict) -> None:
    mount = host.mount_point("/data")
    assert mount.exists and mount.filesystem == "ext4"
    assert {"rw", "noatime", "data=ordered"} <= set(mount.options)
    assert host.check_output("findmnt -n -o UUID --mountpoint /data") == record["fs_uuid"]
    assert f"UUID={record['fs_uuid']} /data ext4 noatime,data=ordered,nofail," in host.file("/etc/fstab").content_string


def test_array_has_every_instance_store_disk(host: Host, record: dict) -> None:
    disks = json.loads(host.check_output("lsblk -J -d -o NAME,MODEL,SERIAL"))["blockdevices"]
    stores = {disk["name"]: disk["serial"] for disk in disks if disk["model"] == "Amazon EC2 NVMe Instance Storage"}
    assert len(stores) == 4
    device = host.mount_point("/data").device.rsplit("/", 1)[-1]
    assert set(host.file(f"/sys/class/block/{device}/slaves").listdir()) == set(stores)
    assert host.file(f"/sys/class/block/{device}/md/level").content_string == "raid0\n"
    assert sorted(record["serials"]) == sorted(stores.values())


@pytest.mark.parametrize(
    ("path", "mode"), [("", 0o755), ("scratch", 0o1777), ("cache", 0o755), ("hf", 0o755), ("checkpoints", 0o755)]
)
def test_directories(host: Host, path: str, mode: int) -> None:
    entry = host.file(f"/data/{path}")
    assert entry.is_directory and (entry.mode, entry.user, entry.group) == (mode, "root", "root")


def test_marker_file_states_ephemeral_volume(host: Host) -> None:
    assert "gone when the instance stops" in host.file("/data/EPHEMERAL.txt").content_string


def test_boot_unit(host: Host) -> None:
    assert host.service("mlcluster-storage").is_enabled
    # The guest has no manual pages, and systemd would miss the one that the unit names.
    verify = host.run("systemd-analyze verify --man=no /etc/systemd/system/mlcluster-storage.service")
    assert (verify.rc, verify.stderr) == (0, ""), verify
    assert host.service("fstrim.timer").is_enabled


def test_node_proves_its_own_volume(host: Host) -> None:
    report = host.run("mlcluster storage-info --json")
    assert report.rc == 0, report.stdout
    results = {entry["id"]: entry["status"] for entry in json.loads(report.stdout)["results"]}
    assert set(results.values()) == {"pass"} and "storage.members" in results


def test_nothing_has_failed(host: Host) -> None:
    assert host.run("systemctl is-system-running --wait").stdout == "running\n"
