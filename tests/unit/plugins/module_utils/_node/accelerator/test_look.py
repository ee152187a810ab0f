# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import look as accelerator
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import GPU_CHECKS, verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_training_host import (
    RECORDED_XML,
    TrainingHost,
    eight_gpus,
    firmware,
    good_node,
    hanging,
    missing,
)


def look(host, **options):
    return accelerator.look(host, accelerator.Options(**options))


def judge(host, mig=False, **options):
    results = verify(look(host, **options), mig)
    found = {result.id: result for result in results}
    assert len(found) == len(results)
    return found


FIRST = "2026-01-31T11:00:00+0000 node kernel: Linux version 6.8.0-1030-aws (buildd@x) #32 SMP\n"


def changed(**fields):
    """Return a good node whose last GPU reports other values."""
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus(**fields)
    return host


def xids(*messages):
    host = good_node()
    lines = [FIRST, *(f"2026-01-31T11:00:00+0000 node kernel: {text}\n" for text in messages)]
    host.commands["journalctl -k"] = "".join(lines)
    return host


def test_good_node_passes_everything():
    found = judge(good_node())
    assert {key: result.status for key, result in found.items()} == dict.fromkeys(GPU_CHECKS, "pass")
    assert found["gpu.memory"].found == "81559 MiB"
    assert found["gpu.nvlink"].found == "18 on each GPU, at 26.562 GB/s"


def test_one_recorded_gpu_on_type_with_one():
    host = TrainingHost()
    firmware(host, "p5.4xlarge")
    host.programs.add("nvidia-smi")
    host.files["/proc/driver/nvidia/version"] = good_node().files["/proc/driver/nvidia/version"]
    host.commands = {
        "nvidia-smi -q -x": RECORDED_XML,
        "nvidia-smi topo -m": training_host.RECORDED_TOPOLOGY,
        "nvidia-smi nvlink": "",
        "journalctl -k": FIRST,
    }
    statuses = {key: result.status for key, result in judge(host).items()}
    switched = ("gpu.nvlink", "gpu.fabric", "gpu.topology")
    assert {key for key, status in statuses.items() if status == "not_applicable"} == set(switched)
    assert {status for key, status in statuses.items() if key not in switched} == {"pass"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (missing("nvidia-smi -q -x"), "the program is not installed"),
        (hanging("nvidia-smi -q -x", 60), "no answer within 60 seconds"),
        (
            CommandResult(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", ""),
            "status 9",
        ),
        (CommandResult(18, "Failed to initialize NVML: Driver/library version mismatch", ""), "version mismatch"),
        (CommandResult(0, RECORDED_XML[:5000], ""), "breaks off"),
        (CommandResult(1, RECORDED_XML, "Unable to determine the device handle for GPU"), "status 1"),
        ("", "no XML but: nothing"),
    ],
)
def test_bad_nvidia_smi_answer_proves_nothing(answer, reason):
    host = good_node()
    host.commands["nvidia-smi -q -x"] = answer
    found = judge(host)
    assert set(found) == set(GPU_CHECKS)
    assert {key for key, result in found.items() if result.status != "undeterminable"} == {"gpu.xid"}
    assert all(reason in found[key].reason for key in GPU_CHECKS if key != "gpu.xid")


def test_hanging_nvidia_smi_is_called_once():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = hanging("nvidia-smi -q -x", 60)
    facts = look(host)
    assert [call for call in host.calls if call.startswith("nvidia-smi")] == ["nvidia-smi -q -x"]
    assert facts["nvlinks"]["problem"] == facts["topology"]["problem"] == facts["smi"]["problem"]


def test_gpus_missing_from_bus_fail_despite_nvidia_smi():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = hanging("nvidia-smi -q -x", 60)
    del host.files["/sys/bus/pci/devices/0000:50:00.0/vendor"]
    del host.files["/sys/bus/pci/devices/0000:50:00.0/class"]
    result = judge(host)["gpu.count"]
    assert (result.status, result.severity, result.expected, result.found) == ("fail", "isolate", 8, 7)


def test_gpu_lost_by_driver_fails():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus(7)
    result = judge(host)["gpu.count"]
    assert (result.status, result.severity, result.found) == ("fail", "isolate", 7)


def test_contradicting_counts_are_undeterminable():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus().replace("<attached_gpus>8<", "<attached_gpus>9<")
    assert judge(host)["gpu.count"].status == "undeterminable"
    assert judge(good_node(), instance_type="p5.4xlarge")["gpu.count"].status == "undeterminable"
    assert judge(good_node(), instance_type="p99.new")["gpu.count"].status == "undeterminable"


def test_machine_without_gpus():
    host = TrainingHost()
    firmware(host, "c5d.4xlarge")
    assert {key: result.status for key, result in judge(host).items()} == {"gpu.count": "not_applicable"}
    host = TrainingHost()
    host.files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x8086\n"
    assert judge(host)["gpu.count"].status == "not_applicable"
    assert judge(TrainingHost())["gpu.count"].status == "undeterminable"


@pytest.mark.parametrize(("kind", "status"), [("p7.48xlarge", "undeterminable"), ("m9.large", "not_applicable")])
def test_unknown_accelerated_type_without_gpus_is_undeterminable(kind, status):
    host = TrainingHost()
    firmware(host, kind)
    host.files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x8086\n"
    assert judge(host)["gpu.count"].status == status


def test_gpu_without_driver_is_not_taken_for_missing():
    host = TrainingHost()
    host.files["/sys/bus/pci/devices/0000:00:1e.0/vendor"] = "0x10de\n"
    host.files["/sys/bus/pci/devices/0000:00:1e.0/class"] = "0x030200\n"
    assert judge(host)["gpu.count"].reason == "nvidia-smi -q -x: the program is not installed"


@pytest.mark.parametrize(
    ("fields", "check", "severity", "word"),
    [
        ({"product_name": "NVIDIA H200"}, "gpu.model", "isolate", "gpu7 is NVIDIA H200"),
        ({"remapped_row_failure": "Yes"}, "gpu.ecc", "isolate", "could not remap"),
        ({"sram_threshold_exceeded": "Yes"}, "gpu.ecc", "isolate", "cannot be repaired"),
        ({"unrepairable_memory": "Yes"}, "gpu.ecc", "isolate", "cannot be repaired"),
        ({"remapped_row_pending": "Yes"}, "gpu.ecc", "reset", "repair to carry out"),
        ({"tpc_repair_pending": "Yes"}, "gpu.ecc", "reset", "repair to carry out"),
        ({"dram_uncorrectable": "4"}, "gpu.ecc", "reset", "had 4 uncorrectable errors"),
        ({"sram_uncorrectable_parity": "2"}, "gpu.ecc", "reset", "had 2 uncorrectable errors"),
        ({"current_ecc": "Disabled"}, "gpu.ecc", "monitor", "switched off"),
        ({"pending_retirement": "Yes"}, "gpu.ecc", "reboot", "pages to retire"),
        ({"gpu_recovery_action": "Reset"}, "gpu.recovery", "reset", "asks for: Reset"),
        ({"gpu_recovery_action": "Node Reboot Required"}, "gpu.recovery", "reboot", "Node Reboot"),
        ({"gpu_recovery_action": "Drain P2P"}, "gpu.recovery", "reset", "Drain P2P"),
        ({"gpu_recovery_action": "Something New"}, "gpu.recovery", "monitor", "Something New"),
        ({"clocks_event_reason_hw_thermal_slowdown": "Active"}, "gpu.clocks", "monitor", "hw_thermal_slowdown"),
        ({"current_link_width": "8x"}, "gpu.pcie", "isolate", "8 of its neighbours' 16"),
        ({"persistence_mode": "Disabled"}, "gpu.persistence", "monitor", "persistence mode off"),
        ({"current_mig": "Enabled", "pending_mig": "Enabled"}, "gpu.mig", "reset", "has MIG on"),
        ({"pending_mig": "Enabled"}, "gpu.mig", "reset", "changes its MIG mode"),
        ({"state": "In Progress"}, "gpu.fabric", "reset", "fabric state In Progress"),
        ({"status": "Failure"}, "gpu.fabric", "reset", "status Failure"),
    ],
)
def test_fault_of_one_gpu_names_that_gpu(fields, check, severity, word):
    found = judge(changed(**fields))
    result = found[check]
    assert (result.status, result.severity, result.scope.device) == ("fail", severity, "gpu7")
    assert word in result.message
    assert {key for key, other in found.items() if other.status != "pass"} == {check}


CLOCKS_UNTOLD = dict.fromkeys(re.findall(r"<(clocks_event_reason_\w+)>", RECORDED_XML), "N/A")


@pytest.mark.parametrize(
    ("fields", "check", "words"),
    [
        ({"current_ecc": "N/A"}, "gpu.ecc", "gpu7 ecc_mode/current_ecc reads 'N/A'"),
        ({"product_name": "N/A"}, "gpu.model", "gpu7 product_name reads 'N/A'"),
        ({"persistence_mode": "[Unknown Error]"}, "gpu.persistence", "gpu7 persistence_mode reads '[Unknown Error]'"),
        ({"sm_clock": "N/A"}, "gpu.clocks", "gpu7 clocks/sm_clock reads 'N/A'"),
        (CLOCKS_UNTOLD, "gpu.clocks", "gpu7 clocks_event_reasons/hw_slowdown reads 'N/A'"),
        ({"current_link_width": "N/A"}, "gpu.pcie", "gpu7 pci/pci_gpu_link_info/link_widths/current_link_width"),
        ({"current_mig": "N/A"}, "gpu.mig", "gpu7 mig_mode/current_mig reads 'N/A'"),
        ({"state": "N/A"}, "gpu.fabric", "gpu7 fabric/state reads 'N/A'"),
        ({"uuid": "N/A"}, "gpu.nvlink", "gpu7 active is missing"),
        ({"uuid": "N/A"}, "gpu.count", "gpu7 uuid reads 'N/A'"),
        ({"gpu_recovery_action": "N/A"}, "gpu.recovery", "gpu7 gpu_recovery_action reads 'N/A'"),
    ],
)
def test_missing_value_of_one_gpu_is_no_pass(fields, check, words):
    result = judge(changed(**fields))[check]
    assert (result.status, result.reason) == ("undeterminable", "unread")
    assert words in result.message


def test_retired_pages_are_monitored_only():
    text = eight_gpus()
    start = text.rindex("<double_bit_retirement>")
    host = good_node()
    host.commands["nvidia-smi -q -x"] = text[:start] + text[start:].replace("<retired_count>N/A", "<retired_count>2", 1)
    result = judge(host)["gpu.ecc"]
    assert (result.status, result.severity, "2 pages retired" in result.message) == ("fail", "monitor", True)


def test_missing_memory_isolates():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus().replace("81559 MiB", "40000 MiB", 1)
    result = judge(host)["gpu.memory"]
    assert (result.status, result.severity, result.message) == ("fail", "isolate", "gpu0 shows 40000 MiB")


def test_memory_used_by_ecc_is_not_missing():
    # The values of nvidia-smi 418 for a healthy T4, whose 16384 MiB are GDDR memory with ECC.
    text = RECORDED_XML.replace("NVIDIA H100 80GB HBM3", "Tesla T4").replace("81559 MiB", "15079 MiB")
    host = TrainingHost()
    firmware(host, "g4dn.xlarge")
    host.programs.add("nvidia-smi")
    host.commands["nvidia-smi -q -x"] = text
    found = judge(host)
    assert (found["gpu.model"].status, found["gpu.memory"].status) == ("pass", "pass")


def test_one_gpu_described_eight_times_is_one():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus().replace(training_host.uuid(3), training_host.uuid(4))
    assert judge(host)["gpu.count"].reason == "nvidia-smi describes one GPU several times"


def test_worst_of_several_gpus_decides():
    text = eight_gpus(dram_uncorrectable="1").replace("<remapped_row_failure>No", "<remapped_row_failure>Yes", 1)
    host = good_node()
    host.commands["nvidia-smi -q -x"] = text
    result = judge(host)["gpu.ecc"]
    assert (result.severity, result.scope.device) == ("isolate", None)
    assert result.message == "gpu0 could not remap a row of its memory; gpu7 had 1 uncorrectable errors"


def test_different_driver_versions_need_reboot():
    host = good_node()
    host.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1.2  Tue\n"
    facts = look(host)
    assert facts["kernel_module"] == {"version": "570.1.2", "open": False}
    result = {entry.id: entry for entry in verify(facts)}["gpu.driver"]
    assert (result.status, result.severity) == ("fail", "reboot")


def test_required_mig():
    text = eight_gpus().replace("<current_mig>Disabled", "<current_mig>Enabled")
    host = good_node()
    host.commands["nvidia-smi -q -x"] = text.replace("<pending_mig>Disabled", "<pending_mig>Enabled")
    assert judge(host, mig=True)["gpu.mig"].status == "pass"
    assert judge(good_node(), mig=True)["gpu.mig"].status == "fail"
    host.commands["nvidia-smi -q -x"] = eight_gpus().replace("_mig>Disabled", "_mig>N/A")
    assert judge(host)["gpu.mig"].status == "not_applicable"
    assert judge(host, mig=True)["gpu.mig"].status == "fail"


def test_driver_without_recovery_actions():
    host = good_node()
    text = eight_gpus().replace("<gpu_recovery_action>None</gpu_recovery_action>", "")
    host.commands["nvidia-smi -q -x"] = text
    assert judge(host)["gpu.recovery"].status == "undeterminable"
    host.commands["nvidia-smi -q -x"] = text.replace(training_host.DRIVER, "535.183.01")
    assert judge(host)["gpu.recovery"].status == "not_applicable"


def test_links_down():
    host = good_node()
    host.commands["nvidia-smi nvlink --status"] = training_host.nvlinks(down=2)
    result = judge(host)["gpu.nvlink"]
    assert (result.status, result.message) == ("fail", "gpu7 has 16 of 18 NVLinks up")
    host.commands["nvidia-smi nvlink --status"] = hanging("nvidia-smi nvlink", 60)
    assert judge(host)["gpu.nvlink"].status == "undeterminable"


def test_pair_without_nvlink():
    host = good_node()
    host.commands["nvidia-smi topo -m"] = training_host.topology(kind="SYS")
    assert judge(host)["gpu.topology"].status == "fail"
    host.commands["nvidia-smi topo -m"] = training_host.topology(4)
    assert judge(host)["gpu.topology"].reason == "nvidia-smi topo shows 4 of 8 GPUs"
    cut = "".join(f"{line[:40]}\n" for line in training_host.topology().splitlines())
    host.commands["nvidia-smi topo -m"] = cut
    assert judge(host)["gpu.topology"].reason.endswith("of 56 connections")


def test_gpus_before_hopper_do_not_report_fabric():
    host = good_node()
    host.commands["nvidia-smi -q -x"] = eight_gpus().replace("H100 80GB HBM3", "A100-SXM4-80GB")
    found = judge(host, instance_type="p4de.24xlarge")
    assert (found["gpu.fabric"].status, found["gpu.model"].status) == ("not_applicable", "pass")


BUS = "NVRM: Xid (PCI:0000:b3:00): "


@pytest.mark.parametrize(
    ("messages", "status", "severity", "word"),
    [
        ([f"{BUS}79, pid=1, GPU has fallen off the bus."], "fail", "reboot", "fallen off the bus"),
        ([f"{BUS}48, pid=1, DBE"], "fail", "reset", "Xid 48"),
        ([f"{BUS}54, power"], "fail", "isolate", "Xid 54"),
        ([f"{BUS}74, NVLink"], "fail", "reset", "Xid 74"),
        (
            [f"{BUS}31, pid=1", f"{BUS}13, x", f"{BUS}43, y", f"{BUS}45, z"],
            "pass",
            "none",
            "Xid 13 1 times, Xid 31 1 times",
        ),
        ([f"{BUS}154, changed from 0x0 (None) to 0x2 (Node Reboot Required)"], "fail", "reboot", "Xid 154"),
        ([f"{BUS}154, changed from 0x0 (None) to 0x1 (GPU Reset Required)"], "fail", "reset", "Xid 154"),
        ([f"{BUS}154, changed from 0x1 (GPU Reset Required) to 0x0 (None)"], "pass", "none", "Xid 154"),
        ([f"{BUS}154, garbled"], "fail", "monitor", "Xid 154"),
        ([f"{BUS}999, what"], "fail", "monitor", "Xid 999"),
        ([f"{BUS}31, x", f"{BUS}95, y", f"{BUS}92, z"], "fail", "reset", "Xid 95"),
        (["nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 23001, Fatal, Link 12"], "fail", "reset", "SXid 23001"),
        (["nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 12"], "pass", "none", "no Xid"),
        (["nothing of interest"], "pass", "none", "no Xid"),
    ],
)
def test_xids_by_nvidias_catalog(messages, status, severity, word):
    result = judge(xids(*messages))["gpu.xid"]
    assert (result.status, result.severity) == (status, severity)
    assert word in result.line()
    assert "docs.nvidia.com" in result.source


def test_kernel_log_falls_back_to_dmesg():
    host = good_node()
    host.commands["journalctl -k"] = ""
    host.commands["dmesg --time-format iso"] = f"2026-01-31T11:00:00,1+00:00 {BUS}79, x\n"
    assert look(host)["kernel_log"]["source"] == "dmesg"
    assert judge(host)["gpu.xid"].severity == "reboot"
    host.commands["dmesg --time-format iso"] = CommandResult(1, "", "dmesg: read kernel buffer failed: not permitted")
    result = judge(host)["gpu.xid"]
    assert (result.status, "not permitted" in result.reason) == ("undeterminable", True)


def test_kernel_log_since_time():
    host = good_node()
    host.commands["journalctl -k"] = ""
    host.commands["dmesg"] = CommandResult(0, "", "")
    assert judge(host, xid_since="2026-01-31 12:00:00")["gpu.xid"].status == "pass"
    assert any("--since 2026-01-31 12:00:00" in call for call in host.calls)
    assert judge(host)["gpu.xid"].status == "undeterminable"


PICK = "journalctl -k -b -o short-iso --no-pager -q -n 20000 --grep"


@pytest.mark.parametrize(
    ("picked", "status", "word"),
    [
        (f"2026-01-31T11:00:00+0000 node kernel: {BUS}79, x\n", "fail", "Xid 79"),
        (FIRST, "pass", "no Xid"),
        (CommandResult(1, "", ""), "undeterminable", "does not reach back to the boot"),
        (CommandResult(1, "", "Compiled without pattern matching support"), "undeterminable", "only its end"),
        (hanging(PICK, 30), "undeterminable", "only its end"),
    ],
)
def test_too_long_kernel_log_is_partial(picked, status, word):
    host = good_node()
    host.commands["journalctl -k"] = "2026-01-31T11:00:00+0000 node kernel: noise\n" * accelerator.LOG_LINES
    host.commands[PICK] = picked
    result = judge(host)["gpu.xid"]
    assert (result.status, word in result.line()) == (status, True)


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (FIRST, "pass"),
        # A large machine may lose the first messages; booted at 11:00 it has those of 11:00:02.
        ("2026-01-31T11:00:02+0000 node kernel: ACPI: noise\n", "pass"),
        ("2026-01-31T11:00:02,000000+00:00 ACPI: noise\n", "pass"),
        ("2026-01-31T13:00:02+0200 node kernel: ACPI: noise\n", "pass"),
        ("2026-02-14T09:00:00+0000 node kernel: Lustre: noise\n", "undeterminable"),
        ("2026-99-99T09:00:00+0000 node kernel: Lustre: noise\n", "undeterminable"),
        ("ERROR: something went wrong: 0 OK yes\n", "undeterminable"),
        ("\ufffd\x00\x07\n", "undeterminable"),
    ],
)
def test_log_without_boot_proves_no_absence(first, status):
    host = good_node()
    host.files["/proc/stat"] = "cpu  1 2 3\nbtime 1769857200\n"
    host.commands["journalctl -k"] = first
    assert judge(host)["gpu.xid"].status == status
    host.commands["journalctl -k"] = f"{first}2026-02-14T09:00:00+0000 node kernel: {BUS}79, x\n"
    assert judge(host)["gpu.xid"].status == "fail"


def test_dated_log_needs_times():
    host = good_node()
    host.now = lambda: "2026-02-14T12:00:00Z"
    for log, status in (
        ("2026-02-14T09:00:00+0000 n kernel: noise\n", "pass"),
        ("Hint: nothing\n", "undeterminable"),
    ):
        host.commands["journalctl -k"] = log
        assert judge(host, xid_since="2026-02-01 12:00:00")["gpu.xid"].status == status


def test_look_runs_only_read_commands():
    host = good_node()
    look(host)
    assert [call.split()[:3] for call in host.calls] == [
        ["nvidia-smi", "-q", "-x"],
        ["nvidia-smi", "nvlink", "--status"],
        ["nvidia-smi", "topo", "-m"],
        ["journalctl", "-k", "-b"],
    ]


TAGS = ["total", "uuid", "current_ecc", "current_mig", "product_name", "state", "gpu_recovery_action", "sm_clock"]
WORDS = ["", "N/A", "[N/A]", "-1", "9" * 60, "💥", "Requested functionality has been deprecated", "Yes", "0x7"]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.dictionaries(st.sampled_from(TAGS), st.sampled_from(WORDS), max_size=4))
def test_hostile_values_end_in_verdicts_and_never_in_crash(fields):
    results = verify(look(changed(**fields)))
    assert {result.id for result in results} == set(GPU_CHECKS)
    for result in results:
        json.dumps(result.to_dict())


@pytest.mark.parametrize("since", ["2026-03-01 12:00:00", "2026-99-99 12:00:00"])
def test_start_of_xids_in_future_proves_nothing(since):
    host = good_node()
    host.programs |= {"dmesg"}
    host.commands["journalctl -k"] = host.commands["dmesg"] = ""
    found = judge(host, xid_since=since)["gpu.xid"]
    assert (found.status, found.found) == ("undeterminable", None)
    assert f"Xids count from {since} on, and it is 2026-01-31T12:00:00Z by the node's clock" in found.reason


@pytest.mark.parametrize(
    ("kind", "bus", "status"),
    [
        ("m7i.large", True, "not_applicable"),
        ("r5ad.large", True, "not_applicable"),
        ("r5ad.large", False, "not_applicable"),
        ("m7i.large", False, "undeterminable"),
        ("p99.large", True, "undeterminable"),
        ("other", True, "undeterminable"),
    ],
)
def test_nvidia_smi_on_a_type_without_gpus_is_not_queried(kind, bus, status):
    """An image for GPU nodes may also run on a head node, where nvidia-smi finds no driver."""
    host = TrainingHost()
    firmware(host, kind)
    host.programs.add("nvidia-smi")
    if bus:
        host.files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x8086\n"
    found = judge(host)
    assert found["gpu.count"].status == status
    if status == "not_applicable":
        assert (list(found), found["gpu.count"].expected, found["gpu.count"].found) == (["gpu.count"], 0, 0)
