# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import RECORD_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.verify import verify

from tests.unit.fakes import fake_storage_scene as scene

ENABLED = "/etc/systemd/system/multi-user.target.wants/mlcluster-storage.service"


def ready(disks=4, **options):
    host = scene.converged(disks, **options)
    host.machine.files[ENABLED] = ""
    return host


def judged(host, probe=True, **options):
    config = scene.config(**options)
    facts, plan = storage.survey(host, config)
    return verify(host, facts, plan, config, storage.context_for(facts), probe)


def statuses(results):
    return {result.id: result.status for result in results}


def one(results, check):
    (found,) = [result for result in results if result.id == check]
    return found


def test_intact_volume_passes_everything():
    results = judged(ready())
    assert statuses(results) == dict.fromkeys(
        [
            "storage.disks",
            "storage.blank",
            "storage.mounted",
            "storage.size",
            "storage.members",
            "storage.write_read",
            "storage.boot_unit",
        ],
        "pass",
    )
    assert one(results, "storage.mounted").found == "/dev/md127 on /data (ext4)"
    assert one(results, "storage.write_read").found == 1 << 20
    assert one(results, "storage.members").scope.device == "/dev/md127"


def test_blank_proof_is_reported_before_and_after_creation():
    host = scene.node(2)
    words = "AWS0001: sampled reads are zero; AWS0002: sampled reads are zero"
    assert one(judged(host), "storage.blank").found == words
    scene.run(host)
    assert one(judged(host), "storage.blank").found == words
    record = json.loads(host.machine.files[RECORD_PATH])
    assert record["blank_proofs"] == {"AWS0001": "zeros", "AWS0002": "zeros"}
    # An older record has no such key.
    del record["blank_proofs"]
    host.machine.files[RECORD_PATH] = json.dumps(record)
    assert "storage.blank" not in statuses(judged(host))


@pytest.mark.parametrize(
    "proofs", [{"AWS0001": None}, {"AWS0001": "zeros", "AWS0002": "looked at"}, {"A": []}, "zeros"]
)
def test_blankness_of_unknown_proof_is_undeterminable(proofs):
    host = ready()
    record = json.loads(host.machine.files[RECORD_PATH])
    host.machine.files[RECORD_PATH] = json.dumps({**record, "blank_proofs": proofs})
    assert one(judged(host), "storage.blank").status == "undeterminable"


def test_disk_that_is_not_proved_blank_is_no_pass():
    host = scene.node(2)
    host.machine.write("nvme2n1", [(0, 1)])
    assert statuses(judged(host)) == {"storage.plan": "fail"}


def test_each_filesystem_of_per_disk_is_judged():
    results = judged(ready(2, layout="per_disk"), layout="per_disk")
    assert [result.id for result in results].count("storage.mounted") == 2
    assert "storage.members" not in statuses(results)


def test_without_probe_write_test_is_not_reported():
    assert "storage.write_read" not in statuses(judged(ready(), probe=False))


@pytest.mark.parametrize(
    ("disks", "options", "reason"),
    [(0, {}, "this node has no instance-store disks"), (2, {"layout": "none"}, "the layout is none")],
)
def test_node_without_volume_is_not_applicable(disks, options, reason):
    (result,) = judged(scene.node(disks), **options)
    assert (result.id, result.status, result.reason) == ("storage.plan", "not_applicable", reason)


def test_each_refusal_is_failure_that_isolates_node():
    host = scene.node(2)
    scene.foreign_array(host)
    (result,) = judged(host)
    assert (result.id, result.status, result.severity) == ("storage.plan", "fail", "isolate")
    assert "was not made by this role" in result.message


@pytest.mark.parametrize(
    ("expected", "status", "severity"), [(None, "pass", "none"), (4, "pass", "none"), (3, "undeterminable", "none")]
)
def test_count_of_disks(expected, status, severity):
    result = one(judged(ready(), expected_disks=expected), "storage.disks")
    assert (result.status, result.severity, result.found, result.expected) == (status, severity, 4, expected or 4)


def test_too_few_disks_beside_whole_volume_fail():
    result = one(judged(ready(), expected_disks=8), "storage.disks")
    assert (result.status, result.severity, result.expected) == ("fail", "isolate", 8)


def test_unknown_disk_count_is_undeterminable():
    host = scene.node(2)
    result = one(judged(host), "storage.disks")
    assert (result.status, result.found, result.hint) == ("undeterminable", 2, "set nvme_raid0_expected_disks")


def test_named_disks_are_as_many_as_their_list_names():
    host = scene.converged(2, devices=["/dev/nvme1n1", "/dev/nvme2n1"])
    result = one(judged(host, devices=["/dev/nvme1n1", "/dev/nvme2n1"]), "storage.disks")
    assert (result.status, result.expected, result.source) == ("pass", 2, "nvme_raid0_devices")


def test_unmounted_volume_fails_without_further_verdicts():
    host = ready()
    host.machine.unmount("/data")
    results = judged(host)
    mounted = one(results, "storage.mounted")
    assert (mounted.status, mounted.severity) == ("fail", "reset")
    assert mounted.message == "/data does not carry the local volume: found nothing mounted"
    assert not {"storage.size", "storage.members", "storage.write_read"} & set(statuses(results))


def test_fresh_node_has_not_passed():
    assert statuses(judged(scene.node(2)))["storage.mounted"] == "fail"


def test_another_filesystem_over_volume_is_no_pass():
    host = ready()
    host.machine.ebs("nvme9n1")
    host.machine.mount("nvme9n1", "/data")
    (result,) = judged(host)
    assert result.status == "fail"
    assert "/data already carries /dev/nvme9n1 (ext4)" in result.message


def test_volume_that_went_read_only_fails():
    host = ready()
    host.machine.mounts[-1]["options"] = "ro,noatime"
    result = one(judged(host), "storage.mounted")
    assert (result.status, result.severity) == ("fail", "isolate")
    assert "mounted read-only, as ext4 and XFS do after an I/O error" in result.message


@pytest.mark.parametrize(
    ("size", "status"),
    [(400 << 30, "pass"), (360 << 30, "pass"), ((360 << 30) - 1, "fail"), ((400 << 30) + 1, "fail"), (None, "????")],
)
def test_size_is_that_of_disks_less_tolerance(size, status):
    host = ready()
    host.filesystem_size = lambda path: size
    result = one(judged(host), "storage.size")
    assert result.status == {"????": "undeterminable"}.get(status, status)


def test_tolerance_is_setting():
    host = ready()
    host.filesystem_size = lambda path: 390 << 30
    assert one(judged(host, size_tolerance_percent=1), "storage.size").status == "fail"


def test_array_without_all_its_disks_fails():
    host = ready()
    config = scene.config()
    facts, plan = storage.survey(host, config)
    facts["arrays"][0]["members"].pop()
    results = verify(host, facts, plan, config, storage.context_for(facts))
    members = one(results, "storage.members")
    assert (members.status, members.severity, members.expected, members.found) == ("fail", "isolate", 4, 3)


def test_disk_that_does_not_take_bytes_fails():
    host = ready()
    host.write_errno = errno.EIO
    result = one(judged(host), "storage.write_read")
    assert (result.status, result.severity) == ("fail", "isolate")
    assert result.message == "writing and reading back 1 MiB on /data failed: Input/output error"


def test_boot_unit_that_is_not_enabled_fails():
    host = ready()
    del host.machine.files[ENABLED]
    result = one(judged(host), "storage.boot_unit")
    assert (result.status, result.hint) == ("fail", "run the role again")


def test_image_whose_service_has_not_run_is_not_mounted_yet():
    host = scene.node(2)
    host.machine.unit(scene.PCLUSTER_UNIT)
    result = one(judged(host), "storage.mounted")
    assert result.message == "nothing is mounted yet: run the role without check mode"


def test_adopted_volume_is_judged_where_it_is_bound():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
    scene.run(host)
    results = judged(host)
    assert one(results, "storage.mounted").found == "/dev/mapper/vg.01-lv_ephemeral on /data (ext4)"
    assert one(results, "storage.size").status == "pass"
