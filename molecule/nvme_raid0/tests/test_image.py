# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that builds an image: everything is installed, and a machine without disks is not changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from testinfra.host import Host

GALAXY = Path(__file__).parents[3] / "galaxy.yml"
UNIT = "mlcluster-storage.service"
MAIL_SERVERS = ("exim4-base", "postfix", "nullmailer", "msmtp-mta", "dma")


@pytest.mark.parametrize("package", ["mdadm", "xfsprogs"])
def test_package_is_installed(host: Host, package: str) -> None:
    assert host.package(package).is_installed


def test_mdadm_brought_no_mail_server(host: Host) -> None:
    assert [name for name in MAIL_SERVERS if host.package(name).is_installed] == []


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("/etc/mlcluster/storage.json", 0o644),
        (f"/etc/systemd/system/{UNIT}", 0o644),
        ("/usr/local/lib/mlcluster/mlcluster.pyz", 0o755),
    ],
)
def test_file_is_writable_by_root_only(host: Host, path: str, mode: int) -> None:
    file = host.file(path)
    assert (file.user, file.group, file.mode) == ("root", "root", mode)


def test_configuration_is_what_was_set(host: Host) -> None:
    config = json.loads(host.file("/etc/mlcluster/storage.json").content_string)
    assert config["schema"] == "mlcluster.storage_config/1"
    assert (config["layout"], config["mount_point"], config["fstype"]) == ("raid0", "/data", "xfs")
    assert config["users"] == ["researcher"]
    assert config["mount_options"] == ["noatime", "nofail", "x-systemd.device-timeout=15s"]
    assert (config["devices"], config["expected_disks"]) == (None, None)
    assert [(entry["path"], entry["mode"]) for entry in config["directories"]][:2] == [
        ("scratch", "1777"),
        ("cache", "0755"),
    ]


def test_unit_is_sound_and_enabled(host: Host) -> None:
    checked = host.run("systemd-analyze --man=no verify /etc/systemd/system/%s", UNIT)
    assert (checked.rc, checked.stdout, checked.stderr) == (0, "", "")
    assert host.service(UNIT).is_enabled


def test_unit_starts_before_users_of_volume(host: Host) -> None:
    before = host.check_output("systemctl show --property=Before --value %s", UNIT).split()
    assert {"slurmd.service", "docker.service", "containerd.service"} <= set(before)


def test_version_is_that_of_collection(host: Host) -> None:
    version = yaml.safe_load(GALAXY.read_text(encoding="utf-8"))["version"]
    assert host.check_output("mlcluster version").startswith(f"mlcluster {version} (Python 3.")


def test_storage_info_reports_missing_disks(host: Host) -> None:
    shown = host.run("mlcluster storage-info")
    assert shown.rc == 0
    assert "this node has no instance-store disks" in shown.stdout


def test_storage_info_prints_json_report(host: Host) -> None:
    report = json.loads(host.check_output("mlcluster storage-info --json"))
    assert report["schema"] == "mlcluster.report/1"
    assert [(entry["id"], entry["status"]) for entry in report["results"]] == [("storage.plan", "not_applicable")]


def test_boot_unit_ends_well_and_makes_no_volume(host: Host) -> None:
    started = host.run("systemctl restart %s", UNIT)
    assert (started.rc, started.stderr) == (0, "")
    assert host.check_output("systemctl show --property=Result --value %s", UNIT) == "success"
    # The output of a unit reaches the journal shortly after its end.
    journal = host.check_output("journalctl --sync && journalctl --unit=%s --no-pager --output=cat", UNIT)
    assert "storage-boot: none: no volume" in journal
    assert not host.mount_point("/data").exists
    assert "/data" not in host.file("/etc/fstab").content_string


def test_manual_boot_reports_same_and_is_logged(host: Host) -> None:
    run = host.run("mlcluster storage-boot")
    assert run.rc == 0
    assert "storage-boot: none: no volume" in run.stdout + run.stderr
    assert "storage-boot: none: no volume" in host.file("/var/log/mlcluster/storage-boot.log").content_string


def test_record_has_no_volume(host: Host) -> None:
    host.check_output("mlcluster storage-boot")
    record = json.loads(host.file("/var/lib/mlcluster/local_storage.json").content_string)
    assert (record["state"], record["owner"], record["path"], record["disks"]) == ("none", "none", None, [])


def test_usage_errors_have_own_status(host: Host) -> None:
    assert host.run("mlcluster storage-nothing").rc == 3
    missing = host.run("mlcluster storage-info --config /nowhere.json")
    assert missing.rc == 2
    assert "run the role nvme_raid0 on this node first" in missing.stdout + missing.stderr
