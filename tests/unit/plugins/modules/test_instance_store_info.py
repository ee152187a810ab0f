# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result
from ansible_collections.mlcluster.aws.plugins.modules import instance_store, instance_store_info

from tests.unit.fakes import fake_storage_scene as scene


@pytest.fixture
def look(run_module):
    return lambda host, **options: run_module(instance_store_info, host, **options)


def test_fresh_node(look):
    host = scene.node(2)
    result = look(host)
    assert not result["changed"]
    assert [(disk["path"], disk["usable"], disk["reasons"]) for disk in result["disks"]] == [
        ("/dev/nvme1n1", True, []),
        ("/dev/nvme2n1", True, []),
    ]
    assert (result["plan"]["situation"], result["local_storage"], result["instance_type"]) == (
        "fresh",
        None,
        "x9.unknown",
    )
    assert host.changes() == []


def test_plan_equals_plan_of_instance_store(look, run_module):
    host = scene.node(4)
    plan = look(host, fstype="xfs", directories=[{"path": "scratch", "mode": "1777"}])["plan"]
    done = run_module(instance_store, host, fstype="xfs", directories=[{"path": "scratch", "mode": "1777"}])
    assert plan["actions"] == done["actions"]


def test_refusal_is_reported_without_failure(look):
    host = scene.node(2)
    scene.foreign_array(host)
    result = look(host, existing="fail")
    assert result["plan"]["situation"] == "refused"
    assert [disk["owner"] for disk in result["disks"]] == ["foreign", "foreign"]
    assert [Result.from_dict(entry).status for entry in result["results"]] == ["fail"]
    assert result["problems"] == result["lines"]


@pytest.mark.parametrize(("probe", "check", "expected"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_probe_runs_on_request_except_in_check_mode(look, probe, check, expected):
    host = scene.converged(2)
    probed = []
    host.write_probe = lambda directory, size: probed.append(directory)
    result = look(host, probe=probe, check=check)
    assert probed == ["/data"] * expected
    assert ("storage.write_read" in [entry["id"] for entry in result["results"]]) == bool(expected)


def test_verdicts_are_returned_in_all_forms(look):
    host = scene.converged(2)
    result = look(host)
    assert [Result.from_dict(entry).line() for entry in result["results"]] == result["lines"]
    assert [line.split()[:2] for line in result["problems"]] == [["FAIL", "storage.boot_unit:"]]
    assert result["boot_unit_enabled"] is False
    host.machine.files["/etc/systemd/system/multi-user.target.wants/mlcluster-storage.service"] = ""
    result = look(host)
    assert (result["boot_unit_enabled"], result["problems"]) == (True, [])


def test_other_facts_of_role_are_returned(look):
    host = scene.node(2)
    host.machine.files["/etc/fstab"] = (
        "# comment\nUUID=1 /data ext4 noatime,nofail 0 0\nLABEL=x / ext4 defaults\nbroken\n"
    )
    result = look(host, mount_point="/local/nvme", layout="per_disk")
    assert result["fstab"] == [
        {"src": "UUID=1", "path": "/data", "fstype": "ext4", "opts": "noatime,nofail", "dump": "0", "passno": "0"},
        {"src": "LABEL=x", "path": "/", "fstype": "ext4", "opts": "defaults", "dump": "0", "passno": "0"},
    ]
    assert result["own_fstab"] == []
    assert (result["tools"]["mdadm"], sorted(result["units"])) == (
        "/usr/sbin/mdadm",
        ["dlami-nvme.service", "setup-ephemeral.service"],
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"chunk_kib": 500}, "chunk_kib is 500: md needs a power of two"), ({"mount_point": "/"}, "mount_point is /: ")],
)
def test_invalid_option_fails_with_one_sentence(look, options, message):
    result = look(scene.node(2), **options)
    assert result["failed"]
    assert result["msg"].startswith(message)


def test_unreadable_node_fails(look):
    host = scene.node(2)
    host.programs.discard("wipefs")
    assert look(host)["msg"] == "looked for wipefs and did not find it: install util-linux, then run again"
