# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.modules import md_array

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid
from tests.unit.fakes.fake_storage_host import SimulatedHost

FRAGMENT = "/etc/mdadm/mdadm.conf.d/mlcluster.conf"
DISKS = ["/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1"]


class Module:
    """Runs md_array on a simulated node and returns what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def run(self, host: SimulatedHost, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        self.monkeypatch.setattr(md_array, "Host", lambda: host)
        host.calls.clear()
        arguments = {**options, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            md_array.main()
        result = json.loads(self.capsys.readouterr().out)
        assert bool(ended.value.code) == result.get("failed", False)
        return result

    def refused(self, host: SimulatedHost, **options: t.Any) -> str:
        result = self.run(host, **options)
        assert result["failed"]
        assert host.changes() == []
        return result["msg"]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Module:
    return Module(monkeypatch, capsys)


def kinds(result: dict[str, t.Any]) -> list[str]:
    return [action["action"] for action in result["actions"]]


def test_array_is_created_and_described(module):
    host = scene.node(4)
    result = module.run(host, chunk_kib=256)
    assert result["changed"]
    assert kinds(result) == ["create_array", "write_array_config"]
    assert (result["before"], result["device"]) == (None, "/dev/md127")
    assert len(result["uuid"]) == 32
    after = result["after"]
    assert (after["uuid"], after["level"], after["chunk_kib"]) == (result["uuid"], "raid0", 256)
    assert after["members"] == scene.store_names(host)
    create = next(call for call in host.calls if call[:2] == ["mdadm", "--create"])
    assert {"--level=0", "--metadata=1.2", "--homehost=any", "--chunk=256", "--raid-devices=4"} <= set(create)
    assert create[-4:] == DISKS
    spelled = next(word for word in create if word.startswith("--uuid="))[7:]
    assert spelled.replace(":", "") == result["uuid"]
    assert f"ARRAY /dev/md/mlcluster metadata=1.2 UUID={spelled}\n" in host.machine.files[FRAGMENT]
    assert host.locks == ["/run/mlcluster/storage.lock"]


def test_second_run_changes_nothing(module):
    host = scene.node(4)
    first = module.run(host)
    second = module.run(host)
    assert (second["changed"], second["actions"], host.changes()) == (False, [], [])
    assert (second["uuid"], second["device"]) == (first["uuid"], first["device"])
    assert second["before"] == second["after"] == first["after"]
    assert second["diff"]["before"] == second["diff"]["after"]


def test_check_mode_reports_actions_and_changes_nothing(module):
    host = scene.node(4)
    planned = module.run(host, check=True)
    assert (planned["changed"], planned["after"], planned["uuid"]) == (True, None, None)
    assert host.changes() == []
    assert host.machine.files.keys() == scene.node(4).machine.files.keys()
    assert planned["diff"] == {"before": "", "after": "- create array mlcluster\n- write array config mlcluster\n"}
    assert module.run(host)["actions"] == planned["actions"]


def test_diff_shows_array(module):
    after = json.loads(module.run(scene.node(2))["diff"]["after"])
    assert (after["path"], after["level"], after["members"]) == ("/dev/md127", "raid0", ["nvme1n1", "nvme2n1"])


def test_stopped_array_is_assembled(module):
    host = scene.node(4)
    made = module.run(host)
    host.run(["mdadm", "--stop", "/dev/md127"])
    result = module.run(host)
    assert kinds(result) == ["assemble_array"]
    assert (result["before"], result["uuid"], result["device"]) == (None, made["uuid"], "/dev/md127")
    assert module.run(host)["changed"] is False


def test_only_named_disks_are_used(module):
    host = scene.node(4)
    result = module.run(host, devices=["/dev/nvme4n1", "/dev/nvme1n1"], name="pair")
    assert result["after"]["members"] == ["nvme1n1", "nvme4n1"]
    assert host.machine.devices["nvme2n1"].signatures == []


def test_foreign_data_is_rejected(module):
    host = scene.node(4)
    host.machine.sign("nvme3n1", "ext4", fs_uuid("theirs"), "theirs")
    text = module.refused(host)
    assert "/dev/nvme3n1 (AWS0003) carries an ext4 signature (label theirs" in text
    assert "nothing was touched; set safe_mode: false" in text


@pytest.mark.parametrize("check", [False, True])
def test_diff_names_uninspected_data(module, check):
    host = scene.node(2)
    host.machine.stopped_array(["nvme1n1", "nvme2n1"], scene.FOREIGN_ARRAY, name="host:old")
    before = module.run(host, check=check, safe_mode=False)["diff"]["before"].splitlines()
    assert before[0].startswith(
        "destroyed: /dev/nvme1n1 (AWS0001) carries a linux_raid_member signature (label host:old"
    )
    assert before[2:] == [
        "destroyed: the array host:old does not run, so its content could not be inspected",
    ]


def test_foreign_data_is_destroyed_with_consent(module):
    host = scene.node(4)
    scene.foreign_array(host)
    result = module.run(host, safe_mode=False)
    assert kinds(result)[-2:] == ["create_array", "write_array_config"]
    assert result["before"]["uuid"] == scene.FOREIGN_ARRAY
    assert result["after"]["uuid"] == result["uuid"] != scene.FOREIGN_ARRAY
    assert not [call for call in host.calls if "--force" in call]


def test_refusal_shows_findings(module):
    host = scene.node(4)
    scene.foreign_array(host)
    result = module.run(host)
    assert (result["actions"], result["before"]["uuid"]) == ([], scene.FOREIGN_ARRAY)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"chunk_kib": 500}, "chunk_kib is 500: md needs a power of two"),
        ({"name": "my array"}, "array_name is 'my array': use 1 to 32 letters"),
        ({"devices": ["/dev/nvme0n1"], "safe_mode": False}, "names /dev/nvme0n1, which is an EBS volume"),
        ({"devices": ["/dev/nvme1n1"]}, "found 1 instance-store disks: an array needs at least 2"),
        ({"state": "gone"}, "value of state must be one of: present, absent, got: gone"),
    ],
)
def test_invalid_options_are_one_sentence(module, options, text):
    assert text in module.refused(scene.node(4), **options)


def test_node_without_lsblk(module):
    host = scene.node(2)
    host.programs -= {"lsblk"}
    assert module.refused(host) == "looked for lsblk and did not find it: install util-linux, then run again"


def test_failing_mdadm_is_reported_with_output(module):
    host = scene.node(2)
    host.failures["mdadm --create"] = (1, "mdadm: Defined array cannot be started: no such level")
    result = module.run(host)
    assert result["failed"]
    assert result["msg"].startswith("create array mlcluster failed: mdadm --create /dev/md/mlcluster")
    assert result["msg"].endswith("failed with status 1: mdadm: Defined array cannot be started: no such level")
    assert FRAGMENT not in host.machine.files


def test_absent_removes_array(module):
    host = scene.node(4)
    made = module.run(host)
    assert "set safe_mode: false to destroy" in module.refused(host, state="absent")
    result = module.run(host, state="absent", safe_mode=False)
    assert kinds(result) == ["stop_array", "wipe", "wipe", "wipe", "wipe", "remove_array_config"]
    assert (result["before"]["uuid"], result["after"], result["uuid"]) == (made["uuid"], None, None)
    assert FRAGMENT not in host.machine.files
    assert [host.machine.devices[name].signatures for name in scene.store_names(host)] == [[], [], [], []]
    again = module.run(host, state="absent", safe_mode=False)
    assert (again["changed"], host.changes()) == (False, [])


def test_absent_in_check_mode_keeps_array(module):
    host = scene.node(4)
    made = module.run(host)
    planned = module.run(host, check=True, state="absent", safe_mode=False)
    assert (planned["changed"], host.changes()) == (True, [])
    assert planned["after"]["uuid"] == planned["uuid"] == made["uuid"]


def test_absent_rejects_array_in_use(module):
    host = scene.node(4)
    scene.foreign_array(host)
    text = module.refused(host, name="theirs", state="absent", safe_mode=False)
    assert text == "/dev/md127 is in use (/mnt/theirs): unmount it or take it apart, then run again"


@pytest.mark.parametrize("check", [False, True])
def test_data_without_signature_is_rejected(module, check):
    host = scene.node(4)
    host.machine.write("nvme2n1", [(1 << 30, 50 << 30)])
    result = module.run(host, check)
    assert result["failed"]
    assert "/dev/nvme2n1 (AWS0002) is not proved blank (the byte at offset 0x" in result["msg"]
    assert "nothing was touched; set safe_mode: false to destroy the content of these disks" in result["msg"]
    assert host.changes() == []
    assert kinds(module.run(host, safe_mode=False)) == ["create_array", "write_array_config"]


def test_disks_are_checked_again_before_creation(module):
    host = scene.node(4)
    real = host.read_text

    def taken(path):
        if path == "/proc/mdstat":
            host.machine.add("dm-3", "crypt", parents=["nvme3n1"], name="secret")
        return real(path)

    host.read_text = taken
    result = module.run(host)
    assert "/dev/nvme3n1 has been taken by another program (dm-3) since the look: nothing was removed" in result["msg"]
    assert [call[0] for call in host.changes()] == []
