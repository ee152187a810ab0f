# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks of each profile."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles as health
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import drain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    failed,
    not_applicable,
    passed,
    undeterminable,
)

from tests.unit.fakes.fake_imex_host import TYPE, FakeImexHost
from tests.unit.fakes.fake_training_host import TrainingHost, firmware, good_node, hanging


def names(profile, host, tmp_path, **options):
    chosen = health.Options(marker=str(tmp_path / "none"), **options)
    return {one.id: one.status for one in health.run_profile(host, profile, chosen, 60, str(tmp_path))}


def test_prolog_profile(tmp_path):
    host = good_node()
    for number in range(8):
        host.files[f"/proc/driver/nvidia/gpus/{number}/information"] = ""
    assert names("prolog", host, tmp_path) == {
        "node.drain_marker": "pass",
        "storage.record": "not_applicable",
        "scratch.space": "not_applicable",
        "gpu.count": "pass",
        "gpu.xid": "pass",
        "gpu.xid_count": "pass",
        "efa.devices": "pass",
        "imex.service": "not_applicable",
    }


def test_full_profile_includes_all_parts(tmp_path):
    found = names("full", good_node(), tmp_path)
    assert found["efa.provider"] == found["gpu.ecc"] == found["gpu.nvlink"] == "pass"
    assert {"gds.driver", "gds.mode", "storage.plan", "efa.plugin", "gpu.topology"} <= set(found)
    assert {"node.clock", "node.service", "node.root_space", "mounts.answer", "enroot.config"} <= set(found)
    assert {"pcluster.diag", "dcgm.fields", "slurm.controller", "node.kernel", "gpu.xid_count"} <= set(found)
    assert not {name for name in found if name.startswith(("expect.", "s3.", "container."))}
    # A node without a record has no volume; GPUDirect Storage is checked for its root.
    assert found["storage.plan"] == "not_applicable"


@pytest.mark.parametrize(
    ("expectations", "mig", "nvlink"),
    [({}, "pass", "pass"), ({"mig": True}, "fail", "not_applicable"), ({"mig": False}, "pass", "pass")],
)
def test_full_profile_expects_mig_of_site(expectations, mig, nvlink):
    chips, _fabric = health._device_options(health.Options(), health.health_expect.resolve({}, None))
    found = health._accelerators(good_node(), chips, health.health_expect.resolve(expectations, None))
    states = {one.id: one.status for one in found}
    assert (states["gpu.mig"], states["gpu.nvlink"]) == (mig, nvlink)


def test_damaged_record_leaves_path_to_gpus_unknown(tmp_path):
    host = good_node()
    host.files["/var/lib/mlcluster/local_storage.json"] = "{"
    found = names("full", host, tmp_path)
    assert (found["gds.mode"], found["storage.record"], found["scratch.space"]) == ("undeterminable",) * 3


def test_package_manager_is_asked_once_for_everything(tmp_path):
    host = good_node()
    asked = tmp_path / "asked"

    def run(argv, *more, **options):
        with asked.open("a") as stream:
            stream.write(" ".join(argv) + "\n")
        return type(host).run(host, argv, *more, **options)

    host.run = run
    options = health.Options(
        marker=str(tmp_path / "none"), expectations={"held": ["libnccl2"], "versions": {"os": "*"}}
    )
    results, versions = health.split(health.run_profile(host, "full", options, 60, str(tmp_path)))
    assert (versions["package libnccl2"], versions["gpu_firmware"]) == ("2.28.9-1+cuda13.0", "96.00.DA.00.0C")
    assert health.VERSIONS not in {one.id for one in results}
    lines = [line for line in asked.read_text().splitlines() if line.startswith("dpkg-query -W")]
    assert len(lines) == 1
    assert {one.id: one.status for one in results}["expect.held"] == "pass"


def test_gpu_off_bus_fails_in_prolog_and_full(tmp_path):
    """nvidia-smi ends with an error then, and alone would prove nothing."""
    host = good_node()
    for number in range(8):
        top = f"/sys/bus/pci/devices/0000:5{number}:00.0"
        lost = "\ufffd" * 64 if number == 3 else "\ufffd\x10"
        host.files.update({f"{top}/vendor": "0x10de\n", f"{top}/class": "0x030200\n", f"{top}/config": lost})
    host.commands["nvidia-smi -q -x"] = CommandResult(15, "", "GPU 0000:53:00.0: GPU is lost")
    assert [names(profile, host, tmp_path)["gpu.count"] for profile in ("prolog", "full")] == ["fail", "fail"]


def test_expected_package_is_checked_or_undeterminable(tmp_path):
    expected = {"versions": {"package bash": "5.*", "package enroot": "3.*"}}
    assert versions_judged(good_node(), tmp_path, expected) == {"package bash": "pass", "package enroot": "fail"}
    host = good_node()
    host.commands["dpkg-query -W"] = hanging("dpkg-query -W", 60)
    assert set(versions_judged(host, tmp_path, expected).values()) == {"undeterminable"}


def versions_judged(host, folder, expected):
    options = health.Options(marker=str(folder / "none"), expectations=expected)
    found = health.run_profile(host, "full", options, 60, str(folder))
    return {one.scope.device: one.status for one in found if one.id == "expect.version"}


EXPECTATIONS = {
    "mounts": ["/fsx"],
    "types": {"p5*": {"disks": 8, "gpus": 8, "efa": 31, "thresholds": {"scratch_free_percent": 50}}},
}


def test_prolog_checks_site_expectations(tmp_path):
    host = good_node()
    host.files["/proc/self/mountinfo"] = "60 1 0:50 / /fsx rw shared:1 - lustre 10.0.1.5@tcp:/abcd rw\n"
    for number in range(8):
        host.files[f"/proc/driver/nvidia/gpus/{number}/information"] = ""
        host.files[f"/sys/class/nvme/nvme{number + 1}/model"] = "Amazon EC2 NVMe Instance Storage        \n"
    host.files["/sys/class/nvme/nvme0/model"] = "Amazon Elastic Block Store              \n"
    found = names("prolog", host, tmp_path, expectations=EXPECTATIONS)
    expected = {name: status for name, status in found.items() if name.startswith("expect.")}
    # expect.devices drains a node if the look is late, and a drain only ends by a pass.
    passes = ("expect.devices", "expect.type", "expect.mount", "expect.disks", "expect.gpus")
    assert expected == dict.fromkeys(passes, "pass")
    # 32 devices exist and 31 are expected: the site's value has precedence over the table and EC2.
    assert found["efa.devices"] == "undeterminable"
    assert (
        names("prolog", host, tmp_path, expectations=EXPECTATIONS, expected_efa=32)["efa.devices"] == "undeterminable"
    )
    del host.files["/sys/class/nvme/nvme3/model"]
    assert names("prolog", host, tmp_path, expectations=EXPECTATIONS)["expect.disks"] == "fail"


def processor_node():
    """A node without an accelerator, local disks and EFA, and without any role's configuration."""
    host = TrainingHost()
    firmware(host, "m7i.large")
    host.files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x8086\n"
    host.files["/etc/fstab"] = "UUID=1 / ext4 defaults 0 1\n"
    return host


def neuron_node():
    host = processor_node()
    firmware(host, "trn2.48xlarge")
    host.files["/sys/module/neuron/version"] = "2.24.7.0\n"
    host.files.update({f"/dev/neuron{number}": "" for number in range(16)})
    return host


class Slurmctld(TrainingHost):
    """The controller, which has drained n1 for a reason."""

    def __init__(self, reason):
        super().__init__()
        self.files["/opt/slurm/bin/scontrol"] = ""
        self.reason, self.updates = reason, []

    def run(self, argv, timeout=120, check=True, stdin=None):
        if "update" in argv:
            self.updates.append(argv[-1])
        return CommandResult(0, f"NodeName=n1 State=IDLE+DRAIN Reason={self.reason} [root@2026-01-31T12:00:00]\n", "")


# Checks that no made-up node proves: they keep jobs away anyway, late or not.
UNPROVED = {"efa.devices", "gds.mode", "imex.service", "node.clock", "node.service"}


@pytest.mark.parametrize("profile", ["prolog", "full"])
@pytest.mark.parametrize("make", [good_node, processor_node, neuron_node])
def test_drain_for_late_check_ends_by_itself(tmp_path, profile, make):
    """Whichever check of a closed gate was late: the next run ends its drain, with the hardware and without."""
    efa = 0 if make is processor_node else None
    options = health.Options(marker=str(tmp_path / "none"), expectations={"types": {"*": {}}}, expected_efa=efa)
    host = make()
    host.files["/etc/fstab"] = "UUID=1 / ext4 defaults 0 1\n"
    for number in range(8 if make is good_node else 0):
        host.files[f"/proc/driver/nvidia/gpus/{number}/information"] = ""
    found, _versions = health.split(health.run_profile(host, profile, options, 60, str(tmp_path)))
    unproved = {one.id for one in health.blocking(found, fail_closed=True)}
    kept = set()
    for check in health.checks(profile, options, health.Expected(resolved="x"), None):
        late = undeterminable(check.name, "no answer within 4.0 seconds")
        controller = Slurmctld(drain.reason_for([late]))
        drain.undrain(Slurm(controller), "n1", found, 2)
        kept |= set() if controller.updates == ["State=UNDRAIN"] else {check.name}
    assert kept <= unproved & UNPROVED
    assert ("efa.devices" in kept) is (make is neuron_node)


@pytest.mark.parametrize("name", ["enroot.config", "pcluster.diag", "expect.devices"])
@pytest.mark.parametrize(("severity", "updates"), [("monitor", ["State=UNDRAIN"]), ("reset", [])])
def test_late_check_with_finding_ends_its_drain(name, severity, updates):
    """The check itself answers in time again, and has a finding that may stay for weeks."""
    controller = Slurmctld(drain.reason_for([undeterminable(name, "no answer within 150.0 seconds")]))
    beside = [passed("a.good", 1), failed("a.old", "an old version", severity=severity)]
    found = health._answered(name, lambda host: beside, TrainingHost())
    drain.undrain(Slurm(controller), "n1", found, 2)
    assert controller.updates == updates


def test_dropped_expectation_ends_its_drain():
    host, wanted = processor_node(), {"mounts": ["/fsx"], "types": {"m7i*": {"gpus": 0}}}
    options = health.Options(expectations=wanted)
    gone = {one.id for one in health.dropped(host, options)}
    buckets = {"s3.list", "s3.read", "s3.write"}
    assert gone == {"expect.disks", "expect.service", "expect.version", "expect.held", *buckets}
    everything = {one.id for one in health.dropped(host, health.Options())}
    assert everything - gone == {"expect.gpus", "expect.mount", "expect.devices", "expect.type"}
    assert all(drain.is_proof(one) for one in health.dropped(host, health.Options()))
    assert health.dropped(TrainingHost(), options) == []
    kept = {"buckets": [{"url": "s3://data/", "rights": ["read"]}, "s3://more/x"]}
    assert buckets & {one.id for one in health.dropped(host, health.Options(expectations=kept))} == {"s3.write"}


def test_answered_check_passes_by_its_name_only_if_good():
    def answered(*verdicts):
        return [(one.id, one.status) for one in health._answered("a.b", lambda host: verdicts, TrainingHost())]

    good, bad, finding = passed("a.c", 1), failed("a.d", "bad", severity="reset"), failed("a.d", "old")
    assert answered(good) == [("a.b", "pass"), ("a.c", "pass")]
    assert answered(good, bad) == [("a.c", "pass"), ("a.d", "fail")]
    assert answered(good, finding) == [("a.b", "pass"), ("a.c", "pass"), ("a.d", "fail")]
    assert answered(finding) == [("a.b", "pass"), ("a.d", "fail")]
    assert answered() == []
    assert answered(good, undeterminable("a.d", "x")) == [("a.c", "pass"), ("a.d", "undeterminable")]
    assert answered(not_applicable("a.c", "x")) == [("a.c", "not_applicable")]
    assert answered(passed("a.b", 1)) == [("a.b", "pass")]


def test_check_mode_writes_nothing_in_s3_and_starts_no_container(tmp_path):
    buckets = {"buckets": [{"url": "s3://checkpoints/train", "rights": ["write"]}]}
    host = good_node()
    host.programs.add("aws")
    found = names("full", host, tmp_path, expectations=buckets, image="a.sqsh", may_write=False)
    assert (found["s3.write"], found["container.image"]) == ("undeterminable", "undeterminable")


def test_full_profile_reads_storage_config(tmp_path):
    host = TrainingHost()
    host.files["/etc/mlcluster/storage.json"] = "{"
    assert names("full", host, tmp_path)["storage.plan"] == "undeterminable"


def test_container_profile(tmp_path):
    assert {name.partition(".")[0] for name in names("container", TrainingHost(), tmp_path)} == {"container"}


@pytest.mark.parametrize("profile", ["prolog", "full"])
def test_ultraserver_imex_is_checked(profile, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    host, options = FakeImexHost(), health.Options(instance_type=TYPE)
    (look,) = [
        one.look for one in health.checks(profile, options, health.Expected(), None) if one.name == "imex.service"
    ]
    assert {one.id: one.status for one in look(host)} == {
        "imex.service": "pass",
        "imex.domain": "not_applicable",
        "imex.channel": "not_applicable",
    }


@pytest.mark.parametrize(
    ("imex", "status", "blocks"),
    [("required", "fail", True), ("best_effort", "fail", False), ("none", "not_applicable", False)],
)
def test_missing_imex_daemon_blocks_only_if_required(imex, status, blocks, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    host, options = FakeImexHost(), health.Options(instance_type=TYPE, imex=imex)
    host.unit["LoadState"] = "masked"
    looks = {one.name: one.look for one in health.checks("prolog", options, health.Expected(), None)}
    found = looks["imex.service"](host)
    assert found[0].status == status and bool(health.blocking(found, fail_closed=False)) is blocks


def test_unknown_imex_mode_is_rejected():
    assert health.option_errors(health.Options(imex="maybe"), None) == [
        "imex is 'maybe': use one of required, best_effort, none"
    ]
