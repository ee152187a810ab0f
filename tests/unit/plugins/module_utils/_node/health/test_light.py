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
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import light as health_checks
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, NodeError

from tests.unit.fakes.fake_training_host import TrainingHost, efa_device, firmware, good_node

RECORD = "/var/lib/mlcluster/local_storage.json"
CONFIG = "/etc/mlcluster/storage.json"
BOOT = "/proc/sys/kernel/random/boot_id"
CHIPS = accelerator.Wishes()
FABRIC = efa.Wishes(units=())


def gpu_node(offered=8):
    """A good node with what the driver shows below /proc; the addresses are those of its PCI bus."""
    host = good_node()
    for number in range(offered):
        host.files[f"/proc/driver/nvidia/gpus/0000:{number + 80:02x}:00.0/information"] = "Model: NVIDIA H100\n"
    return host


def verdict(results):
    return [(one.id, one.status, one.severity) for one in results]


# A host that runs no programs.


def test_a_light_host_runs_only_what_is_named():
    host = good_node()
    light = health_checks.running_only(host, "journalctl")
    assert light.run(["journalctl", "-k"]).rc == 0
    with pytest.raises(CommandError, match="left out of a light check"):
        light.run(["nvidia-smi", "-q", "-x"])
    assert (light.which("nvidia-smi"), host.which("nvidia-smi")) == (None, "/usr/bin/nvidia-smi")
    assert light.read_text("/proc/4711/comm") == "slurmd\n"


def test_the_light_checks_start_nothing_but_the_reader_of_the_kernel_log():
    host = gpu_node()
    health_checks.check_efa(host, FABRIC)
    health_checks.check_accelerators(host, CHIPS)
    health_checks.check_storage(host)
    assert host.calls == []
    health_checks.check_xids(host, CHIPS)
    assert {call.split()[0] for call in host.calls} <= {"journalctl", "dmesg"}


# EFA


@pytest.mark.parametrize(
    ("devices", "wishes", "expected"),
    [
        (32, FABRIC, ("efa.devices", "pass", "none")),
        (31, FABRIC, ("efa.devices", "fail", "isolate")),
        (31, efa.Wishes(expected_devices=31, units=()), ("efa.devices", "pass", "none")),
    ],
)
def test_efa_devices_are_counted(devices, wishes, expected):
    assert verdict(health_checks.check_efa(good_node(devices), wishes)) == [expected]


def test_a_device_without_its_driver_fails():
    host = good_node(31)
    efa_device(host, 31, bound=False)
    found = health_checks.check_efa(host, FABRIC)[0]
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
    found = health_checks.check_accelerators(host, CHIPS)[0]
    assert (found.id, found.status, found.message) == ("gpu.count", status, message)


@pytest.mark.parametrize(("nodes", "status"), [(16, "pass"), (15, "fail"), (17, "undeterminable")])
def test_neuron_devices_are_counted(nodes, status):
    host = TrainingHost()
    firmware(host, "trn2.48xlarge")
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    for number in range(nodes):
        host.files[f"/dev/neuron{number}"] = ""
    found = {one.id: one.status for one in health_checks.check_accelerators(host, CHIPS)}
    assert found == {"neuron.driver": "pass", "neuron.count": status}
    assert health_checks.check_xids(host, CHIPS)[0].status == "not_applicable"


def test_a_neuron_driver_on_an_unknown_machine():
    host = TrainingHost()
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    assert health_checks.check_accelerators(host, CHIPS)[1].status == "undeterminable"


def test_a_node_without_accelerators():
    host = TrainingHost()
    efa_device(host, 0)
    assert verdict(health_checks.check_accelerators(host, CHIPS)) == [("gpu.count", "not_applicable", "none")]
    assert verdict(health_checks.check_xids(host, CHIPS)) == [("gpu.xid", "not_applicable", "none")]


def test_xids_since_the_boot():
    host = gpu_node()
    assert health_checks.check_xids(host, CHIPS)[0].status == "pass"
    host.commands["journalctl -k"] = (
        "2026-01-31T11:00:00+0000 n1 kernel: NVRM: Xid (PCI:0000:81:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    found = health_checks.check_xids(host, CHIPS)[0]
    assert (found.id, found.status) == ("gpu.xid", "fail")
    host.commands.pop("journalctl -k")
    assert health_checks.check_xids(host, CHIPS)[0].status == "undeterminable"


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


def test_a_volume_that_is_there():
    assert verdict(health_checks.check_storage(volume_node())) == [
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
def test_what_the_boot_unit_found_and_what_became_of_it(host, last):
    assert verdict(health_checks.check_storage(host))[-1] == last


ROOT = "29 1 8:1 / / rw - ext4 /dev/root rw\n"


def test_a_boot_unit_that_was_ended_early_leaves_nobody_in_doubt_whether_the_volume_is_there():
    """Its record is still that of the boot before, and a gate that is open lets pass what is only not known."""
    host = volume_node(boot="another\n")
    unknown = ("storage.record", "undeterminable", "none")
    assert verdict(health_checks.check_storage(host)) == [unknown, ("storage.mounted", "pass", "none")]
    host.files["/proc/self/mountinfo"] = ROOT
    assert verdict(health_checks.check_storage(host)) == [unknown, ("storage.mounted", "fail", "reset")]


def test_a_volume_that_nobody_wants_any_more_is_not_missed():
    host = volume_node("none")
    host.files["/proc/self/mountinfo"] = ""
    assert verdict(health_checks.check_storage(host)) == [("storage.record", "not_applicable", "none")]


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
        ({RECORD: '{"state": "none", "boot_id": "this"}'}, ("storage.record", "not_applicable", "none")),
        # A volume that is intact has a name.
        ({RECORD: '{"state": "intact", "boot_id": "this"}'}, ("storage.record", "undeterminable", "none")),
        ({RECORD: '{"state": "recreated", "boot_id": "this"}'}, ("storage.record", "undeterminable", "none")),
        ({RECORD: None}, ("storage.record", "fail", "reset")),
        ({RECORD: None, CONFIG: None}, ("storage.record", "not_applicable", "none")),
    ],
)
def test_a_volume_that_is_not_there(changes, last):
    host = volume_node()
    host.files.update({path: text for path, text in changes.items() if text is not None})
    for path in (path for path, text in changes.items() if text is None):
        del host.files[path]
    assert verdict(health_checks.check_storage(host))[-1] == last


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


@pytest.fixture
def space(monkeypatch):
    """space(bytes, inodes) says how many percent of each are free."""

    def have(blocks, inodes):
        monkeypatch.setattr(scratch, "opened_base", lambda base, or_above: contextlib.nullcontext(3))
        monkeypatch.setattr(scratch, "free_percent", lambda handle: {"bytes": blocks, "inodes": inodes})

    return have


def test_space_and_a_write_that_comes_back(space):
    space(60, 70)
    host = Disk()
    found = health_checks.check_scratch(host, "/local/jobs")
    assert verdict(found) == [("scratch.space", "pass", "none"), ("scratch.write", "pass", "none")]
    # The directory itself is made for the first job.
    assert host.calls == ["probe /local 4096"]


@pytest.mark.parametrize(("blocks", "inodes", "which"), [(4.9, 90, "bytes"), (90, 0, "inodes")])
def test_too_little_space_fails_and_nothing_is_written(space, blocks, inodes, which):
    space(blocks, inodes)
    host = Disk()
    found = health_checks.check_scratch(host, "/local/jobs")
    assert (verdict(found), found[0].message) == ([("scratch.space", "fail", "reset")], f"free {which} run out")
    assert host.calls == []


def test_a_disk_that_does_not_give_back_what_it_took(space):
    space(60, 70)
    found = health_checks.check_scratch(Disk(OSError(5, "Input/output error")), "/local/jobs")
    assert verdict(found)[1] == ("scratch.write", "fail", "isolate")


def test_no_volume_and_one_that_cannot_be_used(monkeypatch):
    assert health_checks.check_scratch(TrainingHost(), None)[0].status == "not_applicable"

    def refuse(base, or_above):
        raise NodeError("a link is in the way")

    monkeypatch.setattr(scratch, "opened_base", refuse)
    assert verdict(health_checks.check_scratch(Disk(), "/local/jobs")) == [("scratch.space", "fail", "reset")]


def test_who_is_not_root_sees_the_space_and_writes_nothing(space):
    space(60, 70)
    host = Disk()
    host.is_root = lambda: False
    assert verdict(health_checks.check_scratch(host, "/local/jobs")) == [("scratch.space", "pass", "none")]
    assert host.calls == []


def test_a_node_that_is_to_have_no_volume_is_not_kept_from_its_jobs_and_one_that_lost_it_is():
    host = TrainingHost()
    found = health_checks.check_scratch(host, "/local/jobs")[0]
    assert (found.status, found.reason) == (
        "not_applicable",
        "there is no /local for the jobs' directories, and this node is to have no local storage",
    )
    host.files[CONFIG] = "{}"
    assert health_checks.check_scratch(host, "/nowhere/mlcluster/jobs")[0].status == "fail"


@pytest.mark.skipif(os.geteuid() != 0, reason="the jobs' directories are root's")
def test_on_a_real_filesystem(tmp_path):
    tmp_path.chmod(0o755)
    found = health_checks.check_scratch(health_checks.Host(), str(tmp_path / "jobs"), 0)
    assert [one.status for one in found] == ["pass", "pass"]
    assert list(tmp_path.iterdir()) == []


def test_more_gpus_than_expected_are_no_pass():
    found = health_checks.check_accelerators(gpu_node(9), CHIPS)[0]
    assert (found.id, found.status, found.found) == ("gpu.count", "undeterminable", 9)


def test_volume_without_a_link_to_its_file_system_is_not_recognised():
    host = volume_node()
    del host.files["/dev/disk/by-uuid/1-2"]
    host.links.clear()
    found = health_checks.check_storage(host)[-1]
    assert (found.id, found.status) == ("storage.mounted", "undeterminable")
    assert found.reason.startswith("which device has the volume's file system is not known: /dev/disk/by-uuid/1-2")


def test_volume_of_unknown_options_is_not_known_to_take_writes():
    found = health_checks.check_storage(volume_node(options="nosuid"))[-1]
    assert (found.id, found.status) == ("storage.mounted", "undeterminable")
    assert found.reason == "whether it takes writes is not known: its options read 'nosuid,nosuid'"


def test_record_of_no_boot_says_nothing_of_an_unread_one():
    host = volume_node(boot="", boot_id="")
    assert verdict(health_checks.check_storage(host))[0] == ("storage.record", "undeterminable", "none")


def test_space_that_cannot_be_asked_for_is_not_known(monkeypatch):
    def refuse(base, or_above):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(scratch, "opened_base", refuse)
    (one,) = health_checks.check_scratch(Disk(), "/local/jobs")
    assert (one.status, one.reason, one.hint) == ("undeterminable", "/local/jobs: Permission denied", "run as root")
