# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import look as accelerator
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import look as efa
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import light as health_light
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import made
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.drain import vanished
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, NodeError

from tests.unit.fakes.fake_training_host import TrainingHost, efa_device, firmware, good_node

RECORD = "/var/lib/mlcluster/local_storage.json"
CONFIG = "/etc/mlcluster/storage.json"
BOOT = "/proc/sys/kernel/random/boot_id"
CHIPS = accelerator.Options()
FABRIC = efa.Options(units=())


def gpu_node(offered=8):
    """A good node with what the driver shows below /proc; the addresses are those of its PCI bus."""
    host = good_node()
    for number in range(offered):
        host.files[f"/proc/driver/nvidia/gpus/0000:{number + 80:02x}:00.0/information"] = "Model: NVIDIA H100\n"
    return host


def verdict(results):
    return [(one.id, one.status, one.severity) for one in results]


# A host that runs no programs.


def test_light_host_runs_only_named_programs():
    host = good_node()
    light = health_light.running_only(host, "journalctl")
    assert light.run(["journalctl", "-k"]).rc == 0
    with pytest.raises(CommandError, match="left out of a light check"):
        light.run(["nvidia-smi", "-q", "-x"])
    assert (light.which("nvidia-smi"), host.which("nvidia-smi")) == (None, "/usr/bin/nvidia-smi")
    assert light.read_text("/proc/4711/comm") == "slurmd\n"


def test_light_checks_run_only_kernel_log_reader():
    host = gpu_node()
    health_light.check_efa(host, FABRIC)
    health_light.check_accelerators(host, CHIPS)
    health_light.check_storage(host)
    assert host.calls == []
    health_light.check_xids(host, CHIPS)
    assert {call.split()[0] for call in host.calls} <= {"journalctl", "dmesg"}


# EFA


@pytest.mark.parametrize(
    ("devices", "options", "expected"),
    [
        (32, FABRIC, ("efa.devices", "pass", "none")),
        (31, FABRIC, ("efa.devices", "fail", "isolate")),
        (31, efa.Options(expected_devices=31, units=()), ("efa.devices", "pass", "none")),
    ],
)
def test_efa_devices_are_counted(devices, options, expected):
    assert verdict(health_light.check_efa(good_node(devices), options)) == [expected]


def test_device_without_driver_fails():
    host = good_node(31)
    efa_device(host, 31, bound=False)
    found = health_light.check_efa(host, FABRIC)[0]
    assert (found.status, found.severity) == ("fail", "reboot")


# Accelerators


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (lambda host: None, "pass", None),
        (lambda host: host.files.pop("/proc/driver/nvidia/version"), "fail", "the NVIDIA driver is not loaded"),
        (
            lambda host: host.files.pop("/proc/driver/nvidia/gpus/0000:57:00.0/information"),
            "fail",
            "the driver does not offer all GPUs",
        ),
        (
            lambda host: host.files.update({"/sys/bus/pci/devices/0000:51:00.0/config": "\ufffd" * 64}),
            "fail",
            "0000:51:00.0 gives no answer on the PCI bus",
        ),
        (
            lambda host: host.files.pop("/sys/bus/pci/devices/0000:57:00.0/vendor"),
            "fail",
            "GPUs are missing from the PCI bus",
        ),
        (
            lambda host: host.files.update({"/sys/class/dmi/id/product_name": "p99.48xlarge\n"}),
            "undeterminable",
            None,
        ),
    ],
)
def test_gpus_are_counted_without_nvidia_smi(change, status, message):
    host = gpu_node()
    change(host)
    found = health_light.check_accelerators(host, CHIPS)[0]
    assert (found.id, found.status, found.message) == ("gpu.count", status, message)


@pytest.mark.parametrize(("nodes", "status"), [(16, "pass"), (15, "fail"), (17, "undeterminable")])
def test_neuron_devices_are_counted(nodes, status):
    host = TrainingHost()
    firmware(host, "trn2.48xlarge")
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    for number in range(nodes):
        host.files[f"/dev/neuron{number}"] = ""
    found = {one.id: one.status for one in health_light.check_accelerators(host, CHIPS)}
    assert found == {"neuron.driver": "pass", "neuron.count": status, "gpu.count": "not_applicable"}
    assert health_light.check_xids(host, CHIPS)[0].status == "not_applicable"


def test_neuron_driver_on_unknown_machine():
    host = TrainingHost()
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    assert health_light.check_accelerators(host, CHIPS)[1].status == "undeterminable"


def test_xids_of_unreadable_pci_bus_are_undeterminable():
    found = health_light.check_xids(TrainingHost(), CHIPS)
    assert [(one.id, one.status) for one in found] == [("gpu.xid", "undeterminable")]
    assert "the PCI bus cannot be seen" in found[0].reason


def test_no_accelerators_is_not_applicable():
    host = TrainingHost()
    efa_device(host, 0)
    assert verdict(health_light.check_accelerators(host, CHIPS)) == [("gpu.count", "not_applicable", "none")]
    assert verdict(health_light.check_xids(host, CHIPS)) == [("gpu.xid", "not_applicable", "none")]


def test_xids_since_boot():
    host = gpu_node()
    assert health_light.check_xids(host, CHIPS)[0].status == "pass"
    host.commands["journalctl -k"] = (
        "2026-01-31T11:00:00+0000 n1 kernel: NVRM: Xid (PCI:0000:81:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    found = health_light.check_xids(host, CHIPS)[0]
    assert (found.id, found.status) == ("gpu.xid", "fail")
    host.commands.pop("journalctl -k")
    assert health_light.check_xids(host, CHIPS)[0].status == "undeterminable"


# The local storage


def volume_node(state="intact", options="rw", boot="this\n", **changes):
    host = TrainingHost()
    volume = {"path": "/local", "fs_uuid": "1-2", "device": "/dev/md127", "label": "x", "serials": ["A", "B"]}
    record = {
        "state": state,
        "boot_id": "this",
        "layout": "raid0",
        "array_uuid": "0123456789abcdef0123456789abcdef",
        "path": "/local",
        "serials": ["A", "B"],
        "filesystem_uuids": ["1-2"],
        "volumes": [volume],
        **changes,
    }
    host.files = {
        BOOT: boot,
        CONFIG: "{}",
        RECORD: json.dumps(record),
        "/proc/self/mountinfo": f"30 1 9:127 / /local {options} - xfs /dev/md127 {options}\n",
        "/dev/disk/by-uuid/1-2": "",
    }
    host.links = {"/dev/disk/by-uuid/1-2": "/dev/md127"}
    return host


def test_mounted_volume_passes():
    assert verdict(health_light.check_storage(volume_node())) == [
        ("storage.record", "pass", "none"),
        ("storage.mounted", "pass", "none"),
    ]


@pytest.mark.parametrize(
    ("host", "last"),
    [
        (volume_node("lost", reason="a disk failed"), ("storage.record", "fail", "isolate")),
        (volume_node("foreign"), ("storage.record", "fail", "isolate")),
        (volume_node("failed"), ("storage.record", "fail", "isolate")),
        (volume_node(options="ro"), ("storage.mounted", "fail", "isolate")),
    ],
)
def test_record_state_decides_verdict(host, last):
    assert verdict(health_light.check_storage(host))[-1] == last


ROOT = "29 1 8:1 / / rw - ext4 /dev/root rw\n"


def test_old_record_still_checks_volume():
    """The record is from the previous boot, and an open gate passes undeterminable verdicts."""
    host = volume_node(boot="another\n")
    unknown = ("storage.record", "undeterminable", "none")
    assert verdict(health_light.check_storage(host)) == [unknown, ("storage.mounted", "pass", "none")]
    host.files["/proc/self/mountinfo"] = ROOT
    assert verdict(health_light.check_storage(host)) == [unknown, ("storage.mounted", "fail", "reset")]


def test_volume_that_was_taken_off_is_not_required():
    host = volume_node("none")
    host.files["/proc/self/mountinfo"] = ""
    assert verdict(health_light.check_storage(host)) == [("storage.record", "not_applicable", "none")]


def test_record_of_no_volume_ends_drain_of_missing_record():
    """The boot unit writes it once it has proved that no disk is missing."""
    host = volume_node("none")
    host.files.update({RECORD: '{"state": "none", "boot_id": "this", "volumes": []}', "/proc/self/mountinfo": ""})
    assert verdict(health_light.check_storage(host)) == [("storage.record", "pass", "none")]
    assert vanished(["storage.record"], health_light.check_storage(host)) == []
    host.files[BOOT] = "another\n"
    assert verdict(health_light.check_storage(host)) == [("storage.record", "undeterminable", "none")]


@pytest.mark.parametrize(
    ("changes", "last"),
    [
        ({"/proc/self/mountinfo": ROOT}, ("storage.mounted", "fail", "reset")),
        ({"/proc/self/mountinfo": ""}, ("storage.mounted", "undeterminable", "none")),
        ({"/proc/self/mountinfo": f"{ROOT}what\n"}, ("storage.mounted", "undeterminable", "none")),
        (
            {"/proc/self/mountinfo": "30 1 8:1 / /local rw - ext4 /dev/sda1 rw\n"},
            ("storage.mounted", "fail", "isolate"),
        ),
        ({RECORD: '{"state": "intact", "serials": ["A"]}'}, ("storage.record", "undeterminable", "none")),
        ({RECORD: "{"}, ("storage.record", "undeterminable", "none")),
        ({RECORD: '{"state": "none", "boot_id": "this"}'}, ("storage.record", "pass", "none")),
        # A volume that is intact has a name.
        ({RECORD: '{"state": "intact", "boot_id": "this"}'}, ("storage.record", "undeterminable", "none")),
        ({RECORD: '{"state": "recreated", "boot_id": "this"}'}, ("storage.record", "undeterminable", "none")),
        ({RECORD: None}, ("storage.record", "fail", "reset")),
        ({RECORD: None, CONFIG: None}, ("storage.record", "not_applicable", "none")),
    ],
)
def test_missing_or_wrong_volume_fails(changes, last):
    host = volume_node()
    host.files.update({path: text for path, text in changes.items() if text is not None})
    for path in (path for path, text in changes.items() if text is None):
        del host.files[path]
    assert verdict(health_light.check_storage(host))[-1] == last


# The jobs' directories


class Disk(TrainingHost):
    def __init__(self, problem=None):
        super().__init__()
        self.problem = problem

    def exists(self, path):
        return path == "/local" or super().exists(path)

    def write_probe(self, directory, size=1 << 20):
        self.calls.append(f"probe {directory} {size}")
        if self.problem:
            raise self.problem


def volume(host, base="/local/jobs"):
    """The verdicts on the volume; without a record that on the last job does not apply."""
    *found, last = health_light.check_scratch(host, base)
    assert (last.id, last.status) == ("scratch.make", "not_applicable")
    return found


@pytest.fixture
def space(monkeypatch):
    """Return space(bytes, inodes), which sets the free percentages."""

    def have(blocks, inodes):
        monkeypatch.setattr(scratch, "opened_base", lambda base, or_above: contextlib.nullcontext(3))
        monkeypatch.setattr(scratch, "free_percent", lambda handle: {"bytes": blocks, "inodes": inodes})

    return have


def test_enough_space_and_readable_probe_pass(space):
    space(60, 70)
    host = Disk()
    found = volume(host)
    assert verdict(found) == [("scratch.space", "pass", "none"), ("scratch.write", "pass", "none")]
    # The directory itself is made for the first job.
    assert host.calls == ["probe /local 4096"]


@pytest.mark.parametrize(("blocks", "inodes", "which"), [(4.9, 90, "bytes"), (90, 0, "inodes")])
def test_low_space_fails_without_write(space, blocks, inodes, which):
    space(blocks, inodes)
    host = Disk()
    found = volume(host)
    assert (verdict(found), found[0].message) == ([("scratch.space", "fail", "reset")], f"free {which} are running out")
    assert host.calls == []


def test_probe_that_reads_back_wrong_fails(space):
    space(60, 70)
    found = volume(Disk(OSError(5, "Input/output error")))
    assert verdict(found)[1] == ("scratch.write", "fail", "isolate")


def test_missing_and_unusable_volume(monkeypatch):
    assert health_light.check_scratch(TrainingHost(), None)[0].status == "not_applicable"

    def refuse(base, or_above):
        raise NodeError("a link is in the way")

    monkeypatch.setattr(scratch, "opened_base", refuse)
    assert verdict(volume(Disk())) == [("scratch.space", "fail", "reset")]


def test_other_user_checks_space_without_write(space):
    space(60, 70)
    host = Disk()
    host.is_root = lambda: False
    assert verdict(volume(host)) == [("scratch.space", "pass", "none")]
    assert host.calls == []


def test_space_of_root_disk_is_not_that_of_volume(space):
    space(60, 70)
    host = Disk()
    record = {"state": "intact", "layout": "single", "path": "/local", "boot_id": "this", "serials": ["A"]}
    record.update(filesystem_uuids=["u"], volumes=[{"path": "/local", "fs_uuid": "u", "serials": ["A"]}])
    host.files[RECORD] = json.dumps(record)
    (one,) = volume(host, None)
    assert (one.id, one.status, one.severity) == ("scratch.space", "fail", "reset")
    assert one.message.startswith("the local volume is not mounted on /local")
    host.files["/proc/self/mountinfo"] += "30 29 259:1 / /local rw - ext4 /dev/nvme1n1 rw\n"
    assert verdict(volume(host, None))[0] == ("scratch.space", "pass", "none")
    host.files["/proc/self/mountinfo"] = "?\n"
    assert verdict(volume(host, None)) == [("scratch.space", "undeterminable", "none")]


def test_damaged_record_leaves_space_undeterminable(space):
    space(60, 70)
    host = Disk()
    host.files[RECORD] = "{"
    assert verdict(health_light.check_scratch(host, None)) == [("scratch.space", "undeterminable", "none")]
    assert verdict(volume(host)) == [("scratch.space", "undeterminable", "none")]


def test_last_job_without_directory_fails_beside_good_volume(space):
    space(60, 70)
    host = Disk()
    record = {"schema": made.SCHEMA, "base": "/local/jobs", "job_id": 4711, "status": "fail", "text": "no user"}
    host.files[made.RECORD] = json.dumps(record)
    *good, last = health_light.check_scratch(host, "/local/jobs")
    assert [one.status for one in good] == ["pass", "pass"]
    assert (last.id, last.status, last.severity) == ("scratch.make", "fail", "monitor")


@pytest.mark.parametrize("path", [RECORD, CONFIG])
def test_unreadable_storage_settings_are_undeterminable(path):
    host = TrainingHost()
    host.links[path] = "/root/storage.json"
    (one,) = health_light.check_storage(host)
    assert (one.id, one.status) == ("storage.record", "undeterminable")
    assert one.reason.startswith(f"{path} is there and could not be read")


def test_lost_volume_fails_and_unconfigured_one_does_not():
    host = TrainingHost()
    found = health_light.check_scratch(host, "/local/jobs")[0]
    assert (found.status, found.reason) == (
        "not_applicable",
        "there is no /local for the jobs' directories, and this node is to have no local storage",
    )
    host.files[CONFIG] = "{}"
    assert health_light.check_scratch(host, "/nowhere/mlcluster/jobs")[0].status == "fail"


@pytest.mark.skipif(os.geteuid() != 0, reason="the jobs' directories are root's")
def test_real_filesystem(tmp_path, monkeypatch):
    monkeypatch.setattr(made, "RECORD", str(tmp_path / "none"))
    tmp_path.chmod(0o755)
    found = health_light.check_scratch(health_light.Host(), str(tmp_path / "jobs"), 0)
    assert [one.status for one in found] == ["pass", "pass", "not_applicable"]
    assert list(tmp_path.iterdir()) == []


def test_more_gpus_than_expected_are_undeterminable():
    found = health_light.check_accelerators(gpu_node(9), CHIPS)[0]
    assert (found.id, found.status, found.found) == ("gpu.count", "undeterminable", 9)


def test_volume_without_uuid_link_is_undeterminable():
    host = volume_node()
    del host.files["/dev/disk/by-uuid/1-2"]
    host.links.clear()
    found = health_light.check_storage(host)[-1]
    assert (found.id, found.status) == ("storage.mounted", "undeterminable")
    assert found.reason.startswith("the device with the volume's file system is not known: /dev/disk/by-uuid/1-2")


def test_volume_with_unknown_options_is_undeterminable():
    found = health_light.check_storage(volume_node(options="nosuid"))[-1]
    assert (found.id, found.status) == ("storage.mounted", "undeterminable")
    assert found.reason == "it is not known to be writable: its options are 'nosuid,nosuid'"


def test_missing_boot_ids_do_not_match():
    host = volume_node(boot="", boot_id="")
    assert verdict(health_light.check_storage(host))[0] == ("storage.record", "undeterminable", "none")


def test_unreadable_space_is_undeterminable(monkeypatch):
    def refuse(base, or_above):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(scratch, "opened_base", refuse)
    (one,) = volume(Disk())
    assert (one.status, one.reason, one.hint) == ("undeterminable", "/local/jobs: Permission denied", "run as root")


@pytest.mark.parametrize(("free", "status"), [(5, "pass"), (5.9, "pass"), (4.99, "fail")])
def test_free_space_at_threshold_passes(space, free, status):
    space(60, free)
    one = health_light.check_scratch(Disk(), "/local/jobs")[0]
    assert (one.status, one.expected, one.found, one.unit) == (status, 5, free, "% free")


def test_other_user_checks_parent_directory(monkeypatch):
    asked = []
    monkeypatch.setattr(scratch, "free_percent", lambda path: asked.append(path) or {"bytes": 9, "inodes": 9})
    monkeypatch.setattr(scratch, "no_volume", lambda host, base: "")
    host = Disk()
    host.is_root = lambda: False
    for base in ("/local/jobs", "/jobs"):
        assert health_light.check_scratch(host, base)[0].scope.device == base
    assert asked == ["/local", "/"]


def test_jobs_directory_is_opened_with_parents(monkeypatch):
    asked = []
    monkeypatch.setattr(
        scratch, "opened_base", lambda base, or_above: asked.append((base, or_above)) or contextlib.nullcontext(3)
    )
    monkeypatch.setattr(scratch, "free_percent", lambda handle: {"bytes": 9, "inodes": 9})
    health_light.check_scratch(Disk(), "/local/jobs")
    assert asked == [("/local/jobs", True)]


def test_default_directory_is_on_volume(space, monkeypatch):
    space(60, 70)
    monkeypatch.setattr(scratch, "default_base", lambda host: "/local/jobs")
    monkeypatch.setattr(scratch, "no_volume", lambda host, base: "")
    assert health_light.check_scratch(Disk(), None)[0].scope.device == "/local/jobs"
    assert health_light.check_scratch(Disk(), "/other/jobs")[0].scope.device == "/other/jobs"


def test_probe_is_written_to_jobs_directory(space, monkeypatch):
    space(60, 70)
    monkeypatch.setattr(scratch, "no_volume", lambda host, base: "")
    host = Disk()
    host.files["/local/jobs"] = ""
    moments = iter([1.0, 3.25049])
    host.monotonic = lambda: next(moments)
    written = health_light.check_scratch(host, "/local/jobs")[1]
    assert (written.seconds, written.found, written.unit) == (2.25, 4096, "bytes")
    health_light.check_scratch(Disk(), "/jobs")
    assert host.calls == ["probe /local/jobs 4096"]
    above = Disk()
    health_light.check_scratch(above, "/jobs")
    assert above.calls == ["probe / 4096"]


@pytest.mark.parametrize(
    ("problem", "words"),
    [(OSError(5, "Input/output error"), "Input/output error"), (OSError("it differs"), "it differs")],
)
def test_failed_write_reports_reason(space, problem, words):
    space(60, 70)
    one = health_light.check_scratch(Disk(problem), "/local/jobs")[1]
    assert one.message == f"writing and reading back 4 KiB failed: {words}"


def test_record_state_shows_reason():
    lost = health_light.check_storage(volume_node("lost", reason="a disk failed"))[-1]
    assert (lost.message, lost.found) == ("the local storage is lost: a disk failed", "lost")
    assert health_light.check_storage(volume_node("foreign"))[-1].message.endswith(": no reason is given")


def test_old_record_without_volume_is_undeterminable():
    host = volume_node("none", boot="another\n")
    assert verdict(health_light.check_storage(host)) == [("storage.record", "undeterminable", "none")]


def test_last_mount_of_path_counts():
    host = volume_node()
    below = host.files["/proc/self/mountinfo"]
    over = "31 30 0:50 / /local rw - tmpfs tmpfs rw\n"
    host.files["/proc/self/mountinfo"] = below + over
    one = health_light.check_storage(host)[-1]
    assert (one.status, one.severity, one.expected, one.found) == ("fail", "isolate", "/dev/md127", "tmpfs")
    host.files["/proc/self/mountinfo"] = over + below
    one = health_light.check_storage(host)[-1]
    assert (one.status, one.found, one.scope.device) == ("pass", "/dev/md127 (xfs)", "/local")


def test_counts_report_expected_and_source():
    good = health_light.check_accelerators(gpu_node(), CHIPS)[0]
    assert (good.expected, good.found, good.unit) == (8, 8, "GPUs") and "EC2" in good.source
    host = gpu_node()
    host.files["/sys/class/dmi/id/product_name"] = "p99.48xlarge\n"
    unknown = health_light.check_accelerators(host, CHIPS)[0]
    assert (unknown.status, unknown.source, unknown.expected) == ("undeterminable", "the PCI bus", 8)
    assert unknown.reason == "the expected number of GPUs is not known"
    del host.files["/proc/driver/nvidia/gpus/0000:57:00.0/information"]
    short = health_light.check_accelerators(host, CHIPS)[0]
    assert (short.status, short.severity, short.expected, short.found) == ("fail", "isolate", 8, 7)
    del host.files["/proc/driver/nvidia/version"]
    assert health_light.check_accelerators(host, CHIPS)[0].severity == "reset"


@pytest.mark.parametrize("known", [True, False])
def test_neuron_driver_hides_no_lost_gpu(known):
    host = gpu_node(7)
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    if not known:
        del host.files["/sys/class/dmi/id/product_name"]
    (count,) = health_light.check_accelerators(host, CHIPS)
    assert (count.id, count.status, count.expected, count.found) == ("gpu.count", "fail", 8, 7)
    assert health_light.check_xids(host, CHIPS)[0].status == "pass"


def neuron_count(nodes):
    host = TrainingHost()
    firmware(host, "trn2.48xlarge")
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    host.files.update({f"/dev/neuron{number}": "" for number in range(nodes)})
    return health_light.check_accelerators(host, CHIPS)[1]


def test_missing_neuron_devices_isolate_node():
    good, short = neuron_count(16), neuron_count(15)
    assert (good.expected, good.found, good.unit) == (16, 16, "devices") and "EC2" in good.source
    assert (short.severity, short.message) == ("isolate", "device nodes are missing from /dev")


XID = "2026-01-31T11:00:00+0000 n1 kernel: NVRM: Xid (PCI:0000:81:00): {}, pid=1, x.\n"


@pytest.mark.parametrize(
    ("codes", "allowed", "status", "counts"),
    [
        ([], (), "pass", {"total": 0}),
        ([79, 31, 31], (), "fail", {"79": 1, "31": 2, "total": 3}),
        ([79], (79,), "pass", {"79": 1, "total": 1}),
        ([79], (31,), "fail", {"79": 1, "total": 1}),
    ],
)
def test_allowed_xids_are_counted_and_not_judged(codes, allowed, status, counts):
    host = gpu_node()
    host.commands["journalctl -k"] += "".join(map(XID.format, codes))
    found = {one.id: one for one in health_light.check_xids(host, CHIPS, allowed)}
    assert {name: one.status for name, one in found.items()} == {"gpu.xid": status, "gpu.xid_count": "pass"}
    assert (found["gpu.xid_count"].found, found["gpu.xid_count"].unit) == (counts, "Xids")


def test_partial_log_has_no_count():
    facts = accelerator.look(gpu_node(), CHIPS)
    for change in ({"problem": "no answer"}, {"partial": True}):
        log = {**facts["kernel_log"], **change}
        ids = [one.id for one in health_light.judge_accelerators({**facts, "kernel_log": log})]
        assert "gpu.xid" in ids and "gpu.xid_count" not in ids
    assert "gpu.xid_count" in [one.id for one in health_light.judge_accelerators(facts)]
    without = {**accelerator.look(TrainingHost(), CHIPS), "kernel_log": facts["kernel_log"]}
    for log in (None, facts["kernel_log"]):
        (one,) = health_light.judge_accelerators({**without, "kernel_log": log})
        assert one.id == "gpu.count"


def test_mig_fails_unless_expected():
    facts = accelerator.look(gpu_node(), CHIPS)
    judged = {mig: health_light.judge_accelerators(facts, mig=mig) for mig in (True, False)}
    found = {mig: next(one.status for one in results if one.id == "gpu.mig") for mig, results in judged.items()}
    assert found == {True: "fail", False: "pass"}
    assert [one.status for one in health_light.judge_accelerators(facts) if one.id == "gpu.mig"] == ["pass"]


@pytest.mark.parametrize("on_bus", [{}, None])
def test_unknown_type_without_gpus_is_undeterminable(on_bus):
    facts = {
        "pci_gpus": on_bus, "expected": None, "expected_source": None, "kernel_module": {"version": "580.159.04"}
    }  # fmt: skip
    one = health_light._gpu_count(TrainingHost(), facts)
    assert (one.status, one.expected, one.found) == ("undeterminable", 0, 0)
