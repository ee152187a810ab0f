# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import look as efa
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.verify import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.packages import parse_dpkg

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_training_host import MARKER, PLUGIN, good_node, hanging


def look(host, **options):
    return efa.look(host, efa.Options(**options))


def judge(host, **options):
    """{id, or id and device where there are several: result}"""
    found = {}
    for result in verify(look(host, **options)):
        several = result.id in ("efa.limits", "efa.peers") and result.scope.device
        found[f"{result.id} {result.scope.device}" if several else result.id] = result
    return found


def statuses(host, **options):
    return {key: result.status for key, result in judge(host, **options).items()}


def test_good_node_passes_everything():
    facts = look(good_node())
    passes = "installer devices driver provider plugin limits ptrace fabric_manager nccl"
    assert {result.id: result.status for result in verify(facts)} == {
        **dict.fromkeys((f"efa.{name}" for name in passes.split()), "pass"),
        "efa.gdrcopy": "not_applicable",
        "efa.nvshmem": "not_applicable",
        **{f"versions.{name}": "pass" for name in ("driver", "installer", "libfabric", "plugin", "nccl")},
        "versions.cuda": "not_applicable",
    }
    assert facts["installer"] == {"state": "complete", "version": "1.43.0", "reasons": [], "differences": []}
    assert facts["devices"][0] == {
        "name": "rdmap16s27",
        "pci": "0000:10:1b.0",
        "device_id": "0xefa2",
        "driver": "efa",
        "state": "4: ACTIVE",
        "p2p": "NVIDIA",
    }
    assert (len(facts["devices"]), len(facts["pci_devices"]), len(facts["uverbs"])) == (32, 32, 32)
    assert (facts["libfabric"]["version"], facts["libfabric"]["fabrics"]) == ("2.1.0amzn4", ["efa", "efa-direct"])
    assert (facts["nccl"]["version"], facts["nccl"]["loads"]) == ("2.28.9", True)
    assert facts["mpi"] == [{"program": "/opt/amazon/openmpi/bin/mpirun", "version": "4.1.7"}]
    assert facts["huge_pages"] == {"total": 5128, "free": 5120, "size_kib": 2048}
    assert facts["held_packages"] == ["libnccl2"]
    assert facts["modules"]["nvidia"]["loaded_version"] == training_host.DRIVER
    assert (facts["gdrcopy"]["path"], facts["nvshmem"]["loads"]) == (None, None)


def test_machine_without_efa_is_not_judged_by_it():
    host = training_host.bare_node()
    training_host.firmware(host, "g6.xlarge")
    assert set(statuses(host).values()) == {"not_applicable"}


def test_head_node_may_have_software():
    host = good_node(devices=0, instance_type="m5.8xlarge")
    found = judge(host, expected_devices=0)
    assert (found["efa.installer"].status, found["efa.devices"].status) == ("pass", "not_applicable")


def test_unknown_machine_gets_no_claims():
    host = training_host.bare_node()
    found = statuses(host)
    assert {key for key, status in found.items() if status == "undeterminable"} == {
        "efa.devices",
        "efa.driver",
        "efa.provider",
        "efa.limits",
        "efa.ptrace",
    }
    assert "pass" not in found.values()


def test_unknown_type_with_driver_may_need_fabric_manager():
    assert judge(good_node(instance_type="p9.48xlarge"))["efa.fabric_manager"].status == "undeterminable"


def test_missing_devices_isolate_node():
    result = judge(good_node(devices=16))["efa.devices"]
    assert (result.status, result.severity, result.expected, result.found) == ("fail", "isolate", 32, 16)
    assert judge(good_node(devices=16), expected_devices=16)["efa.devices"].status == "pass"
    assert judge(good_node(devices=16), instance_type="p5en.48xlarge")["efa.devices"].status == "pass"


def test_more_devices_than_known_are_no_pass():
    assert judge(good_node(), expected_devices=16)["efa.devices"].status == "undeterminable"


def test_devices_without_driver():
    host = good_node(devices=31)
    training_host.efa_device(host, 40, bound=False)
    result = judge(host)["efa.devices"]
    assert (result.status, result.severity) == ("fail", "reboot")
    assert result.message == "32 EFA functions are on the PCI bus and the driver offers 31 of them"


def test_devices_of_another_vendor_do_not_count():
    host = good_node()
    host.files["/sys/class/infiniband/mlx5_0/device/vendor"] = "0x15b3\n"
    host.files["/sys/bus/pci/devices/0000:01:00.0/vendor"] = "0x1d0f\n"
    host.files["/sys/bus/pci/devices/0000:01:00.0/device"] = "0xec20\n"
    facts = look(host)
    assert (len(facts["devices"]), len(facts["pci_devices"])) == (32, 32)


def test_late_devices_are_waited_for():
    host = good_node(devices=31)

    def sleeping(_seconds):
        if host.clock >= 15:
            training_host.efa_device(host, 31)

    host.sleeping = sleeping
    facts = look(host, wait_seconds=60)
    assert (facts["waited_seconds"], len(facts["devices"])) == (15.0, 32)


def test_wait_has_bound():
    host = good_node(devices=31)
    assert (look(host, wait_seconds=20)["waited_seconds"], host.clock) == (20.0, 20.0)
    host = good_node(devices=0)
    assert look(host, wait_seconds=20, expected_devices=0)["waited_seconds"] == 0


def test_counters_only_when_asked():
    assert "counters" not in look(good_node(1))["devices"][0]
    assert look(good_node(1), counters=True)["devices"][0]["counters"] == {"tx_bytes": 4096}


@pytest.mark.parametrize(
    ("marker", "packages", "pieces", "state", "reason"),
    [
        (None, {}, [], "absent", None),
        (None, {}, ["/opt/amazon/efa/bin"], "interrupted", "/opt/amazon/efa/bin there without"),
        (None, {"efa": ("2.1", "ii ")}, [], "interrupted", "efa there without"),
        (None, {"libfabric1": ("1.11", "ii ")}, [], "absent", None),
        (MARKER, {}, [], "interrupted", "efa-config of the installer's list is not installed"),
        (MARKER, {"efa": ("2.17.2-1.amzn1", "iF ")}, [], "interrupted", "efa is not fully installed"),
        ("", {}, ["/opt/amazon/efa/bin"], "interrupted", "names no version"),
        ("# EFA installer version: 1.4", {}, [], "undeterminable", "not be compared"),
        ("# EFA installer version: 1.4", {"efa": ("3", "ii ")}, [], "complete", None),
        (MARKER, None, [], "undeterminable", "could not be compared"),
        (
            f"{MARKER[:32]}\nunder_stood_no longer_in_a-list\n",
            {"efa": ("3", "ii ")},
            [],
            "undeterminable",
            "not be compared",
        ),
        (None, None, [], "undeterminable", "no package manager gave an answer"),
        (None, None, ["/opt/amazon/efa/bin"], "interrupted", "/opt/amazon/efa/bin there without"),
    ],
)
def test_state_of_installation(marker, packages, pieces, state, reason):
    known = None
    if packages is not None:
        known = parse_dpkg(training_host.dpkg((name, *entry) for name, entry in packages.items()))
    found = efa.installation(marker, known, pieces)
    assert found["state"] == state
    if reason:
        assert any(reason in line for line in found["reasons"])
    else:
        assert found["reasons"] == []


def test_upgrade_that_died_leaves_packages_of_two_versions():
    packages = [
        (name, "3.0.0" if name == "efa" else "60-1" if name == "libibverbs1" else version, status)
        for name, version, status in training_host.DPKG
    ]
    host = good_node()
    host.commands["dpkg-query -W"] = training_host.dpkg(packages)
    found = look(host)["installer"]
    # The distribution's own rdma-core may be newer: the installer leaves that alone, and so do we.
    assert found["differences"] == [{"name": "efa", "version": "2.17.2-1.amzn1", "installed": "3.0.0"}]
    result = judge(host)["efa.installer"]
    assert (result.status, "efa 3.0.0 instead of 2.17.2-1.amzn1" in result.message) == ("fail", True)


def test_interrupted_installation_is_failure_with_way_out():
    host = good_node()
    del host.files["/opt/amazon/efa_installed_packages"]
    result = judge(host)["efa.installer"]
    assert result.status == "fail"
    assert result.message.startswith("an installation did not end: efa, efa-config, libfabric1-aws, libnccl-ofi there")
    assert "run the installer" in result.hint


def test_missing_software_beside_devices():
    host = training_host.bare_node()
    training_host.firmware(host, "p5.48xlarge")
    for number in range(32):
        training_host.efa_device(host, number)
    found = statuses(host)
    assert (found["efa.installer"], found["efa.plugin"], found["efa.provider"]) == ("fail", "fail", "undeterminable")


def test_rpm_systems_are_asked_by_rpm():
    host = good_node()
    host.programs = {"rpm"}
    host.commands["rpm -qa"] = "efa\t2.17.2-1.amzn2023\nkernel\t6.1.0-1\n"
    host.files["/etc/dnf/plugins/versionlock.conf"] = "[main]\nenabled = 1\n"
    host.files["/etc/dnf/plugins/versionlock.list"] = "kernel-0:6.1.0-1.*\n"
    host.files["/opt/amazon/efa_installed_packages"] = "# EFA installer version: 1.43.0\nefa-2.17.2-1.amzn2023.x86_64\n"
    facts = look(host)
    assert (facts["package_manager"], facts["installer"]["state"]) == ("rpm", "complete")
    assert facts["held_packages"] == ["kernel"]


def test_package_manager_that_hangs_is_no_pass():
    host = good_node()
    host.commands["dpkg-query -W"] = hanging("dpkg-query -W", 60)
    assert judge(host)["efa.installer"].status == "undeterminable"


@pytest.mark.parametrize(
    ("instance_type", "status"),
    [("p5.48xlarge", "undeterminable"), (None, "undeterminable"), ("g6.xlarge", "not_applicable")],
)
@pytest.mark.parametrize("answer", [hanging("dpkg-query -W", 60), "", None], ids=["hangs", "empty", "no dpkg"])
def test_silent_package_manager_proves_no_absence(instance_type, status, answer):
    host = training_host.bare_node()
    if instance_type:
        training_host.firmware(host, instance_type)
    host.commands["dpkg-query -W"] = answer
    if answer is None:
        host.programs.discard("dpkg-query")
    found = judge(host)["efa.installer"]
    assert found.status == status
    assert status != "undeterminable" or "no package manager gave an answer" in found.reason


def test_packages_by_name_and_by_pattern():
    found = look(good_node(), packages=("lib*", "bash", "absent"))["packages"]
    assert (found["bash"], found["absent"], found["libibverbs1"]) == ("5.2", None, "58.amzn0-1")
    assert (found["efa"], found["aws-neuronx-dkms"]) == ("2.17.2-1.amzn1", None)


def test_files_and_paths():
    facts = look(good_node(), files=(PLUGIN, "/none"), paths=("/opt/amazon/efa", "/none"))
    assert facts["files"] == {PLUGIN: "0" * 64, "/none": None}
    assert (facts["paths"]["/opt/amazon/efa"]["is_dir"], facts["paths"]["/none"]) == (True, None)


def test_look_only_runs_what_reads():
    host = good_node()
    look(host)
    assert {call.split()[0] for call in host.calls} == {
        "env",
        "dpkg-query",
        "ldconfig",
        "modinfo",
        "systemctl",
        "nv-fabricmanager",
        "/opt/amazon/efa/bin/fi_info",
        "/opt/amazon/openmpi/bin/mpirun",
    }
