# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One H100's document is recorded; the fields of older GPUs and the Xid lines follow NVIDIA's documentation."""

from __future__ import annotations

import functools
import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.parse import parse_driver_version
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_training_host import RECORDED_TOPOLOGY, RECORDED_XML

OLD_GPU = """<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>470.82.01</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:00:1E.0"><product_name>Tesla T4</product_name>
<clocks_throttle_reasons><clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown>
<clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle></clocks_throttle_reasons>
<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Disabled</pending_ecc></ecc_mode>
<ecc_errors><volatile><single_bit><total>3</total></single_bit><double_bit><total>2</total></double_bit></volatile>
<aggregate><single_bit><total>N/A</total></single_bit></aggregate></ecc_errors>
<retired_pages><multiple_single_bit_retirement><retired_count>5</retired_count></multiple_single_bit_retirement>
<double_bit_retirement><retired_count>1</retired_count></double_bit_retirement>
<pending_retirement>Yes</pending_retirement></retired_pages></gpu></nvidia_smi_log>"""


def test_recorded_gpu():
    found = parse.parse_smi(RECORDED_XML)
    assert (found["driver"], found["cuda"], found["attached"]) == ("580.159.04", "13.0", 1)
    assert found["warnings"] == []
    (gpu,) = found["gpus"]
    counters = dict.fromkeys(
        (
            "sram_correctable",
            "sram_uncorrectable_parity",
            "sram_uncorrectable_secded",
            "dram_correctable",
            "dram_uncorrectable",
        ),
        0,
    )
    untold = ("single_bit", "double_bit", "pending", "pending_blacklist")
    bad = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    harmless = ("applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clocks_setting")
    health = (
        "summary",
        "bandwidth",
        "route_recovery_in_progress",
        "route_unhealthy",
        "access_timeout_recovery",
        "incorrect_configuration",
        "partition_assigned",
    )
    assert gpu == {
        "index": 0,
        "bus_id": "00000000:00:06.0",
        "name": "NVIDIA H100 80GB HBM3",
        "architecture": "Hopper",
        "uuid": "GPU-00000000-1111-2222-3333-444444444444",
        "vbios": "96.00.DA.00.0C",
        "serial": "1650000000000",
        "inforom": "G520.0200.00.05",
        "minor": 0,
        "memory_mib": 81559,
        "memory_used_mib": 0,
        "persistence": True,
        "compute_mode": "Default",
        "mig": {"enabled": False, "pending": False},
        "ecc": {
            "enabled": True,
            "pending": True,
            "volatile": {"correctable": 0, "uncorrectable": 0, "counters": counters},
            "aggregate": {"correctable": 0, "uncorrectable": 0, "counters": counters},
            "sram_sources": dict.fromkeys(("l2", "sm", "microcontroller", "pcie", "other"), 0),
            "sram_threshold_exceeded": False,
            "channel_repair_pending": False,
            "tpc_repair_pending": False,
            "unrepairable_memory": False,
        },
        "retired_pages": dict.fromkeys(untold),
        "remapped_rows": {
            "correctable": 0,
            "uncorrectable": 0,
            "correctable_inactive": 0,
            "uncorrectable_inactive": 0,
            "pending": False,
            "failure": False,
            "banks": {"max": 2560, "high": 0, "partial": 0, "low": 0, "none": 0},
        },
        "clock_reasons": {"gpu_idle": True, **dict.fromkeys((*bad, *harmless), False)},
        "clock_microseconds": dict.fromkeys(
            ("sw_power_cap", "sync_boost", "sw_therm_slowdown", "hw_therm_slowdown", "hw_power_brake"), 0
        ),
        "throttle_reasons": ["gpu_idle"],
        "clocks_mhz": {
            "sm": 390,
            "sm_max": 1980,
            "memory": 2619,
            "memory_max": 2619,
            "boost_max": 1980,
            "graphics": 390,
            "graphics_max": 1980,
            "video": 765,
            "video_max": 1545,
            "application": 1980,
            "application_default": 1980,
            "application_memory": 2619,
            "application_memory_default": 2619,
        },
        "performance_state": "P0",
        "power_state": "P0",
        "power_state_module": "P0",
        "power_watts": dict.fromkeys(("limit", "limit_requested", "limit_default", "limit_max"), 700.0),
        "temperature_c": 33,
        "pcie": {
            **dict.fromkeys(("generation", "generation_max", "generation_device", "generation_device_max"), 5),
            "width": 16,
            "width_max": 16,
            "replays": 0,
            "replay_rollovers": 0,
        },
        "fabric": {
            **dict.fromkeys(("state", "status", "clique", "cluster_uuid")),
            "health": dict.fromkeys(health, "N/A"),
        },
        "recovery_action": "None",
        "reset_status": {"required": None, "recommended": None},
        "errors": {},
        "requires_reset": False,
        "unreadable": {
            **{f"retired_pages.{name}": "N/A" for name in untold},
            **{f"fabric.{name}": "N/A" for name in ("state", "status", "clique", "cluster_uuid")},
        },
    }


def test_gpu_without_row_remapping():
    (gpu,) = parse.parse_smi(OLD_GPU)["gpus"]
    counters = {"single_bit/total": 3, "double_bit/total": 2}
    assert gpu["ecc"]["volatile"] == {"correctable": 3, "uncorrectable": 2, "counters": counters}
    assert gpu["ecc"]["aggregate"] == {"correctable": None, "uncorrectable": None, "counters": dict.fromkeys(counters)}
    assert gpu["unreadable"] == {"ecc.aggregate.counters.single_bit/total": "N/A"}
    assert (gpu["ecc"]["enabled"], gpu["ecc"]["pending"]) == (True, False)
    assert gpu["retired_pages"] == {"single_bit": 5, "double_bit": 1, "pending": True, "pending_blacklist": None}
    assert gpu["remapped_rows"]["failure"] is None
    assert (gpu["throttle_reasons"], gpu["recovery_action"]) == (["hw_slowdown"], None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no XML but: nothing"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate\nwith the NVIDIA driver.",
            "no XML but: NVIDIA-SMI has",
        ),
        (RECORDED_XML[: len(RECORDED_XML) // 2], "breaks off"),
        (RECORDED_XML.replace("</gpu>", "", 1), "breaks off"),
        (RECORDED_XML.replace("Hopper", "\x00"), "breaks off"),
        ('<?xml version="1.0"?><other/>', "an XML document of another kind, other"),
        ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><nvidia_smi_log/>', "declares entities"),
        ('<?xml version="1.0" encoding="nonsense"?><nvidia_smi_log', "breaks off"),
    ],
)
def test_incomplete_document_is_rejected(text, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse.parse_smi(text)


def test_text_before_document_is_skipped():
    assert parse.parse_smi("WARNING: infoROM is corrupted\n" + RECORDED_XML)["attached"] == 1


@pytest.mark.parametrize(
    "word",
    [
        "N/A",
        "[N/A]",
        "n/a",
        "[Not Supported]",
        "[Unknown Error]",
        "Requested functionality has been deprecated",
        "",
        "   ",
        "MiB",
        "∞ MiB",
        "NaN",
        # Other text beside a number.
        "0x1F",
        "0 Unknown Error",
        "0 MiB (stale)",
        "0; 1",
        "9" * 400,
    ],
)
def test_invalid_number_is_none_and_not_zero(word):
    changed = re.sub(r"<total>81559 MiB</total>", f"<total>{word}</total>", RECORDED_XML)
    changed = changed.replace("<sram_uncorrectable_parity>0<", f"<sram_uncorrectable_parity>{word}<")
    changed = changed.replace("<dram_uncorrectable>0<", f"<dram_uncorrectable>{word}<")
    changed = changed.replace("<sram_uncorrectable_secded>0<", f"<sram_uncorrectable_secded>{word}<")
    (gpu,) = parse.parse_smi(changed)["gpus"]
    assert gpu["memory_mib"] is None
    assert gpu["ecc"]["volatile"]["uncorrectable"] is None


@pytest.mark.parametrize(
    ("tag", "path", "unit"),
    [
        ("total", "memory_mib", " MiB"),
        ("gpu_temp", "temperature_c", " C"),
        ("current_link_width", "pcie.width", "x"),
        ("current_power_limit", "power_watts.limit", " W"),
        ("sm_clock", "clocks_mhz.sm", " MHz"),
        ("row_remapper_histogram_max", "remapped_rows.banks.max", " bank(s)"),
        ("clocks_event_reasons_counters_sw_power_cap", "clock_microseconds.sw_power_cap", " us"),
        ("replay_counter", "pcie.replays", ""),
    ],
)
def test_number_in_another_unit_is_none(tag, path, unit):
    def read(word):
        changed, number = re.subn(rf"<{tag}>[^<]*<", f"<{tag}>{word}<", RECORDED_XML)
        (gpu,) = parse.parse_smi(changed)["gpus"]
        assert number
        return functools.reduce(lambda facts, part: facts[part], path.split("."), gpu)

    assert read(f"40{unit}") == 40
    for other in (" GiB", " KiB", " F", " kW", " GHz", " ms", "X", "%", " MiB/s", "\u0663", ""):
        assert other == unit or read(f"40{other}") is None
    # Digits of other scripts, as Python would read them.
    assert read(f"\u0664\u0660{unit}") is None


@pytest.mark.parametrize("second", [RECORDED_XML, RECORDED_XML[: len(RECORDED_XML) // 2], "<nvidia_smi_log>"])
def test_second_document_is_no_warning(second):
    """It may contradict the first, which alone would be judged."""
    with pytest.raises(ValueError, match="several XML documents: they may contradict each other"):
        parse.parse_smi(RECORDED_XML + second)


def test_huge_number_stays_number():
    (gpu,) = parse.parse_smi(RECORDED_XML.replace("81559 MiB", "9" * 18 + " MiB"))["gpus"]
    assert gpu["memory_mib"] >= 10**17


@pytest.mark.parametrize(
    "word", ["9" * 400, "81,559 MiB", "81.559,0 MiB", "0x13e97", "81559 MiB 0", "81559.5 MiB", "8 1559 MiB", "81559e0"]
)
def test_text_that_is_not_one_number_is_none(word):
    (gpu,) = parse.parse_smi(RECORDED_XML.replace("81559 MiB", word))["gpus"]
    assert (gpu["memory_mib"], gpu["unreadable"]["memory_mib"]) == (None, word[:80])


VALUE = re.compile(r">([^<>\n]+)<")


@given(
    st.integers(0, 260),
    st.sampled_from(
        ["", "N/A", "-1", "9" * 30, "Yes", "💥" * 50, "Requested functionality has been deprecated", "1e9"]
    ),
)
def test_any_field_may_hold_anything(position, word):
    spots = list(VALUE.finditer(RECORDED_XML))
    spot = spots[position % len(spots)]
    found = parse.parse_smi(f"{RECORDED_XML[: spot.start(1)]}{word}{RECORDED_XML[spot.end(1) :]}")
    json.dumps(found, allow_nan=False)
    assert len(found["gpus"]) == 1


@given(st.integers(0, len(RECORDED_XML) - 30))
def test_document_cut_anywhere_is_refused(length):
    with pytest.raises(ValueError, match=r"breaks off|no XML"):
        parse.parse_smi(RECORDED_XML[:length])


def test_nvlinks():
    found = parse.parse_nvlinks(training_host.nvlinks(2, down=3))
    speeds = {str(link): 26.562 for link in range(18)}
    assert found == {
        training_host.uuid(0): {"active": 18, "inactive": 0, "gb_per_s": speeds},
        training_host.uuid(1): {
            "active": 15,
            "inactive": 3,
            "gb_per_s": {**speeds, **dict.fromkeys("012", 0.0)},
        },
    }
    assert parse.parse_nvlinks("GPU 0: X (UUID: GPU-1)\n\t Link 0: 0 GB/s\n\t Link 1: 50 GB/s\n") == {
        "GPU-1": {"active": 1, "inactive": 1, "gb_per_s": {"0": 0.0, "1": 50.0}}
    }
    assert parse.parse_nvlinks("GPU 0: X (UUID: GPU-1)\nGPU 1: X (UUID: ?)\n\t Link 0: 50 GB/s\n") == {
        "GPU-1": {"active": 0, "inactive": 0, "gb_per_s": {}}
    }
    assert parse.parse_nvlinks("\t Link 0: 50 GB/s\nNVML: Unable to retrieve NVLink information\n") == {}


@pytest.mark.parametrize(
    "word", ["", "<unknown>", "ERR!", "N/A", "26.562", "26.562 MB/s", "-1 GB/s", "nan GB/s", "26 GB/s?"]
)
def test_unreadable_link_is_neither_up_nor_down(word):
    found = parse.parse_nvlinks(f"GPU 0: X (UUID: GPU-1)\n\t Link 0: {word}\n")
    assert found == {"GPU-1": {"active": 0, "inactive": 0, "gb_per_s": {"0": None}}}


def test_recorded_topology_and_one_of_eight():
    assert parse.parse_topology(RECORDED_TOPOLOGY) == {"GPU0": {}}
    matrix = parse.parse_topology(training_host.topology())
    assert len(matrix) == 9
    assert matrix["GPU3"]["GPU0"] == "NV18"
    assert (matrix["GPU3"]["NIC0"], "GPU3" in matrix["GPU3"]) == ("PHB", False)
    assert parse.parse_topology("nonsense") == {}


KERNEL = "2026-01-31T11:00:0{}+0000 node kernel: {}"
XID_LOG = "\n".join(
    [
        KERNEL.format(
            0, "NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        ),
        KERNEL.format(
            1, "NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Re"
        ),
        "2026-01-31T11:00:02,123456+00:00 NVRM: Xid (PCI:0000:53:00): 31, pid=77, name=python, Ch 00000008",
        "[  123.456789] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV",
        "[  124.456789] nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 23001, Fatal, Link 12",
        "NVRM: Xid (PCI:0000:53:00): 31",
        KERNEL.format(3, "NVRM: Xid (garbled): what"),
        KERNEL.format(3, "said NVRM without more"),
    ]
)


def test_xids_and_sxids():
    found = parse.parse_xids(XID_LOG)
    assert [(event["code"], event["bus"]) for event in found["xids"]] == [
        (79, "0000:b3:00"),
        (154, "0000:b3:00"),
        (31, "0000:53:00"),
        (31, "0000:53:00"),
    ]
    assert [event["time"] for event in found["xids"]] == [
        "2026-01-31T11:00:00+0000",
        "2026-01-31T11:00:01+0000",
        "2026-01-31T11:00:02,123456+00:00",
        None,
    ]
    assert (found["counts"], found["unread"]) == ({"79": 1, "154": 1, "31": 2}, 1)
    assert [(event["switch"], event["code"], event["fatal"], event["time"]) for event in found["sxids"]] == [
        ("nvidia-nvswitch3", 12028, False, "123.456789"),
        ("nvidia-nvswitch0", 23001, True, "124.456789"),
    ]


def test_flood_is_counted_and_not_kept():
    found = parse.parse_xids("NVRM: Xid (PCI:0000:53:00): 31, x\n" * 5000)
    assert (len(found["xids"]), found["counts"]) == (parse.MAX_EVENTS, {"31": 5000})


def test_flood_hides_no_other_event():
    bus = "NVRM: Xid (PCI:0000:53:00): "
    switch = "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 23001, "
    wanted = f"{bus}154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    flood = [
        f"{bus}31, x",
        f"{switch}Non-fatal, y",
        f"{bus}154, GPU recovery action changed from 0x1 (x) to 0x0 (None)",
    ]
    found = parse.parse_xids("\n".join([f"{bus}79, z", f"{switch}Fatal, y", wanted, *flood * 500]))
    assert {event["code"] for event in found["xids"]} == {79, 31, 154}
    assert sum("Node Reboot Required" in event["text"] for event in found["xids"]) == 1
    assert [event["fatal"] for event in found["sxids"]].count(True) == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        # The first two as the error containment chapter of NVIDIA's GPU Memory Error Management prints them.
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", 94),
        ("NVRM: Xid (PCI:0000:01:00): 95, pid=7062, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", 95),
        # By the format in NVIDIA/open-gpu-kernel-modules src/nvidia/src/kernel/gpu/rc/kernel_rc.c.
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 79, pid=9, name=a, GPU has fallen off the bus.", 79),
        ("NVRM: Xid (0000:01:00): 13, 0005 00000000 0000502d 00000104", 13),
        ("NVRM: Xid (PCI:0000:01:00): 79", 79),
    ],
)
def test_every_format_of_xid_is_parsed(line, code):
    assert parse.parse_xids(f"2026-01-31T11:00:00+0000 node kernel: {line}\n")["counts"] == {str(code): 1}


# `neuron-ls --json-output` of a trn1.2xlarge as projects on GitHub recorded it, and of trn2 in AWS' user guide.
TRN1 = """[
    {
        "neuron_device": 0,
        "bdf": "0000:00:1e.0",
        "cpu_affinity": "0-7",
        "numa_node": "-1",
        "connected_to": null,
        "nc_count": 2,
        "memory_size": 34359738368,
        "neuroncore_ids": [0, 1],
        "neuron_processes": []
    }
]"""
TRN2 = """[{"instance_type": "trn2.48xlarge", "neuron_device": 15, "bdf": "f7:00.0", "numa_node": "1",
 "connected_to": [11, 14, 3, 12], "nc_count": 4, "logical_neuroncore_config": 2, "memory_size": 103079215104,
 "neuron_processes": [{"pid": 113985, "command": "neuron-bench", "neuron_runtime_version": "2.0.0"}]}]"""


def test_neuron_devices():
    assert parse.parse_neuron_ls(TRN1) == [
        {
            "index": 0,
            "bdf": "0000:00:1e.0",
            "cores": 2,
            "memory_mib": 32768,
            "connected_to": [],
            "numa_node": "-1",
            "processes": 0,
        }
    ]
    (device,) = parse.parse_neuron_ls(TRN2)
    assert (device["index"], device["memory_mib"], device["connected_to"], device["processes"]) == (
        15,
        98304,
        [11, 14, 3, 12],
        1,
    )


def test_neuron_devices_without_their_fields():
    (device,) = parse.parse_neuron_ls('[{"memory_size": "lots", "connected_to": "x", "nc_count": true}]')
    assert device == {
        "index": None,
        "bdf": None,
        "cores": None,
        "memory_mib": None,
        "connected_to": [],
        "numa_node": None,
        "processes": 0,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "but: nothing"),
        ("neuron-ls: no neuron device found", "no neuron device found"),
        (TRN1[:50], "no JSON"),
        ("{}", "not a list of devices"),
        ("[1]", "not a list of devices"),
    ],
)
def test_neuron_ls_without_list_is_rejected(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse.parse_neuron_ls(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\n", "580.159.04"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n", "535.54.03"),
        ("GCC version:  gcc version 12.3.0\n", None),
    ],
)
def test_driver_version(text, version):
    assert parse_driver_version(text) == version


# The formats are from nvidia-smi's documentation; no machine with NVLink was available.
NVLINK_ERRORS = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
\t Link 0: Replay Errors: 1
\t Link 0: CRC Errors: 0
\t Link 1: Replay Errors: 2
\t Link 1: <inactive>
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)
\t Link 0: Data Tx: 5 KiB
\t Link 0: Data Rx: N/A
NVML: something else: 7
"""


def test_nvlink_counters_are_summed_over_links_of_gpu():
    found = parse.parse_nvlink_counters(NVLINK_ERRORS)
    assert found == {"0": {"replay_errors": 3, "crc_errors": 0}, "1": {"data_tx": 5}}
    assert parse.parse_nvlink_counters("\t Link 0: Replay Errors: 1\nGPU 0: X\n") == {}


def gpu_of(xml):
    (gpu,) = parse.parse_smi(f'<?xml version="1.0"?><nvidia_smi_log><gpu id="{"b" * 50}">{xml}</gpu></nvidia_smi_log>')[
        "gpus"
    ]
    return gpu


@pytest.mark.parametrize(
    ("word", "value"),
    [("Enabled", True), ("Active", True), ("Yes", True), ("Disabled", False), ("Not Active", False), ("No", False),
     ("Maybe", None), ("", None), ("N/A", None)],
)  # fmt: skip
def test_switch_is_on_off_or_unknown(word, value):
    gpu = gpu_of(f"<persistence_mode>{word}</persistence_mode>")
    assert gpu["persistence"] is value
    assert gpu["unreadable"] == ({} if value is not None else {"persistence": word})


def test_texts_are_cut_to_length():
    gpu = gpu_of(f"<product_name>{'x' * 300}</product_name><fabric><state>N/A</state></fabric>")
    assert (len(gpu["name"]), len(gpu["bus_id"])) == (200, 40)
    gpu = gpu_of(f"<minor_number>{'x' * 300}</minor_number><a><b>ERR! {'y' * 300} error</b></a>")
    assert len(gpu["unreadable"]["minor"]) == 80
    assert [len(text) for text in gpu["errors"].values()] == [80]
    gpu = gpu_of(
        f"<clocks_event_reasons><{'r' * 70}>Active</{'r' * 70}></clocks_event_reasons><{'p' * 130}>ERR!</{'p' * 130}>"
    )
    assert [len(name) for name in (*gpu["clock_reasons"], *gpu["errors"])] == [60, 120]


def test_block_without_its_fields_is_unreadable_as_whole():
    gpu = gpu_of("<remapped_rows>N/A</remapped_rows>")
    assert gpu["unreadable"] == {"remapped_rows": "N/A"}
    inner = "<row_remapper_histogram>Unknown Error</row_remapper_histogram>"
    gpu = gpu_of(f"<remapped_rows>{inner}</remapped_rows>")
    assert gpu["unreadable"] == {"remapped_rows/row_remapper_histogram": "Unknown Error"}


def test_errors_of_gpu_are_named_by_path_without_processes():
    gpu = gpu_of(
        "<a><b>Unknown Error</b></a><c>GPU requires reset</c><d>N/A</d><processes><name>an error</name></processes>"
    )
    assert gpu["errors"] == {"a/b": "Unknown Error", "c": "GPU requires reset"}
    assert gpu["requires_reset"] is True and gpu_of("<a>Unknown Error</a>")["requires_reset"] is False
    many = gpu_of("".join(f"<a{number}>ERR!</a{number}>" for number in range(30)))
    assert len(many["errors"]) == parse.MAX_EVENTS


@pytest.mark.parametrize(
    ("word", "value"), [("None", "None"), ("none", "none"), ("Reset GPU", "Reset GPU"), ("N/A", None), ("", None)]
)
def test_action_that_is_invalid_is_answer(word, value):
    assert gpu_of(f"<gpu_recovery_action>{word}</gpu_recovery_action>")["recovery_action"] == value


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [
        ({}, None),
        ({"gpu_idle": "Not Active"}, []),
        ({"gpu_idle": "Active", "a": "Active"}, ["a", "gpu_idle"]),
        ({"gpu_idle": "Active", "a": "ERR!"}, None),
    ],
)
@pytest.mark.parametrize("kind", ["event", "throttle"])
def test_clock_reasons_of_either_name(kind, reasons, throttled):
    rows = "".join(
        f"<clocks_{kind}_reason_{name}>{word}</clocks_{kind}_reason_{name}>" for name, word in reasons.items()
    )
    gpu = gpu_of(f"<clocks_{kind}_reasons>{rows}</clocks_{kind}_reasons>")
    assert gpu["throttle_reasons"] == throttled
    assert gpu["unreadable"] == ({"clock_reasons.a": "ERR!"} if "ERR!" in reasons.values() else {})


VOLTA = ("single_bit/total", "double_bit/total")
TURING = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")
AMPERE = ("sram_correctable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", *TURING[2:])


def counted(names, values):
    """Return the elements of counters; in a path of two parts the second is inside the first."""
    rows = []
    for name, value in zip(names, values):
        outer, _slash, inner = name.partition("/")
        text = f"<{inner}>{value}</{inner}>" if inner else f"{value}"
        rows.append(f"<{outer}>{text}</{outer}>")
    return "".join(rows)


@pytest.mark.parametrize(
    ("names", "values", "sums"),
    [
        (VOLTA, (2, 3), (2, 3)),
        (TURING, (1, 2, 3, 4), (4, 6)),
        (AMPERE, (1, 2, 3, 4, 5), (5, 10)),
        (AMPERE[:1], (1,), (None, None)),
        (VOLTA, ("N/A", 3), (None, 3)),
        ((), (), (None, None)),
    ],
)
def test_counters_of_each_generation_are_summed(names, values, sums):
    found = gpu_of(f"<ecc_errors><volatile>{counted(names, values)}</volatile></ecc_errors>")["ecc"]["volatile"]
    assert (found["correctable"], found["uncorrectable"]) == sums


def test_lines_around_document_are_warnings_up_to_number():
    text = "first\n\n" + RECORDED_XML + "\n" + "\n".join(f"warning {number} " + "x" * 300 for number in range(30))
    found = parse.parse_smi(text)["warnings"]
    assert (found[0], found[1][:9], len(found)) == ("first", "warning 0", parse.MAX_EVENTS)
    assert max(map(len, found)) == 200


@pytest.mark.parametrize(
    ("wanted", "name", "same"),
    [
        ("A100", "NVIDIA A100-SXM4-40GB", True),
        ("a100", "NVIDIA A100", True),
        ("A100", "A100", True),
        ("A10", "NVIDIA A10G", False),
        ("RTX PRO", "NVIDIA RTX PRO 6000", True),
        ("RTX PRO", "NVIDIA RTX 6000", False),
    ],
)
def test_model_has_all_words_of_its_name(wanted, name, same):
    assert parse.is_model(wanted, name) is same


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("", None),
        ("no time\n2026-01-31T11:00:00+0000 a\n2026-01-31T12:00:00+0000 b\n", 1769857200.0),
        ("2026-01-31T12:00:00,5+01:00 a\n", 1769857200.0),
        ("2026-13-31T12:00:00+0100 a\n2026-01-31T11:00:00+0000 b\n", 1769857200.0),
    ],
)
def test_first_time_of_log(text, time):
    assert parse.first_time(text) == time


def test_last_events_of_code_are_kept():
    lines = [f"NVRM: Xid (PCI:0000:53:00): 31, {number}" for number in range(25)]
    texts = [event["text"] for event in parse.parse_xids("\n".join(lines))["xids"]]
    assert texts == [str(number) for number in range(5, 25)]
    assert len(parse.parse_xids(f"NVRM: Xid (PCI:0000:53:00): 31, {'x' * 400}")["xids"][0]["text"]) == 300


def test_link_of_second_header_belongs_to_it():
    text = (
        "GPU 0: X (UUID: GPU-1)\n Link 0: <inactive>\nGPU 1: X (UUID: GPU-2)\n Link 0: 25.781 GB/s\n Link 1: 1 GB/s\n"
    )
    found = parse.parse_nvlinks(text)
    assert [(one["active"], one["inactive"]) for one in found.values()] == [(0, 1), (2, 0)]


def test_columns_of_topology_are_gpus_and_cards_alone():
    text = "\tGPU0\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nNIC0\tPIX\t X \t\nLegend:\nGPUx\ty\n"
    assert parse.parse_topology(text) == {"GPU0": {"NIC0": "PIX"}, "NIC0": {"GPU0": "PIX"}}


def test_contradicting_topology_rows_are_ignored():
    head, good, bad = "\tGPU0\tGPU1\n", "GPU0\t X \tNV18\n", "GPU0\t X \tSYS\n"
    assert parse.parse_topology(head + good + good) == {"GPU0": {"GPU1": "NV18"}}
    assert parse.parse_topology(head + bad + good) == parse.parse_topology(head + good + bad) == {"GPU0": {}}
    assert parse.parse_topology(head + bad + good + good) == {"GPU0": {}}


def test_event_of_switch_has_its_place_and_text():
    line = f"[  1.5] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Fatal, {'x' * 400}"
    (event,) = parse.parse_xids(line)["sxids"]
    assert event == {
        "time": "1.5", "bus": "0000:05:00.0", "switch": "nvidia-nvswitch3", "code": 12028, "fatal": True,
        "text": ("Fatal, " + "x" * 400)[:300],
    }  # fmt: skip
    (event,) = parse.parse_xids("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 7")["sxids"]
    assert (event["text"], event["fatal"]) == ("", False)


@pytest.mark.parametrize(
    ("text", "unread"),
    [("NVRM: Xid (garbled): what\nSXid (x): y\n", 2), ("NVRM: Xid (PCI:0000:53:00): 31\n", 0), ("NVRM: loaded\n", 0)],
)
def test_unknown_xid_lines_are_counted(text, unread):
    assert parse.parse_xids(text)["unread"] == unread


def test_counts_of_links_are_those_of_their_gpu():
    text = "GPU 0: X\n Link 0: Replay Errors: 1\n Link 1: Replay Errors: 4\nGPU 12: X\n Link 0: Replay Errors: 2\n"
    assert parse.parse_nvlink_counters(text) == {"0": {"replay_errors": 5}, "12": {"replay_errors": 2}}


@pytest.mark.parametrize(
    ("word", "speed"),
    [
        ("<inactive>", 0.0),
        ("<INACTIVE>", 0.0),
        ("26.562 GB/s", 26.562),
        ("25 GB/s", 25.0),
        ("25 GB/s x", None),
        ("", None),
    ],
)
def test_speed_of_link(word, speed):
    assert parse._link_speed(word) == speed


def test_place_and_processes_of_neuron_device():
    text = json.dumps([{"bdf": "0" * 50, "numa_node": "1" * 20, "neuron_processes": [1, 2], "connected_to": [1, "2"]}])
    (device,) = parse.parse_neuron_ls(text)
    assert (len(device["bdf"]), len(device["numa_node"]), device["processes"]) == (40, 10, 2)
    assert device["connected_to"] == [1]
    (device,) = parse.parse_neuron_ls('[{"neuron_processes": 3, "neuron_device": true, "memory_size": 0}]')
    assert (device["processes"], device["index"], device["memory_mib"]) == (0, None, 0)


@pytest.mark.parametrize("text", ["", "   ", "a  b"])
def test_text_without_document_is_quoted(text):
    for read in (parse.parse_smi, parse.parse_neuron_ls):
        with pytest.raises(ValueError, match=r"but: (nothing|a b)"):
            read(text)


def test_processes_are_skipped_at_top_level_only():
    gpu = gpu_of("<processes><name>an error</name></processes><a><processes>an error</processes></a>")
    assert gpu["errors"] == {"a/processes": "an error"}


def test_gpu_without_address_has_none():
    (gpu,) = parse.parse_smi('<?xml version="1.0"?><nvidia_smi_log><gpu><uuid>x</uuid></gpu></nvidia_smi_log>')["gpus"]
    assert (gpu["bus_id"], gpu["index"], gpu["uuid"]) == (None, 0, "x")


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (("single_bit",), VOLTA),
        (("double_bit",), VOLTA),
        (("sram_uncorrectable",), TURING),
        (("sram_uncorrectable", "sram_uncorrectable_parity"), AMPERE),
        (("sram_uncorrectable", "sram_uncorrectable_secded"), AMPERE),
        ((), AMPERE),
    ],
)
def test_required_counters_of_generation(tags, names):
    rows = "".join(f"<{tag}>0</{tag}>" for tag in tags)
    gpu = gpu_of(f"<ecc_errors><volatile>{rows}</volatile></ecc_errors>")
    assert tuple(gpu["ecc"]["volatile"]["counters"]) == names


def test_counters_of_all_generations_are_known():
    assert set(parse.COUNTERS) == {*VOLTA, *TURING, *AMPERE}


def test_field_of_number_is_read_without_its_unit():
    gpu = gpu_of("<fb_memory_usage><total>81559 MiB</total><used>-5.0 MiB</used></fb_memory_usage>")
    assert (gpu["memory_mib"], gpu["memory_used_mib"], gpu["minor"]) == (81559, -5, None)
    assert gpu["unreadable"] == {}
    text = "<remapped_rows><row_remapper_histogram><row_remapper_histogram_max>640 bank(s)</row_remapper_histogram_max>"
    assert gpu_of(f"{text}</row_remapper_histogram></remapped_rows>")["remapped_rows"]["banks"]["max"] == 640


@pytest.mark.parametrize(
    ("tag", "good", "other", "read"),
    [
        ("remapped_row_pending", "No", "Yes", lambda gpu: gpu["remapped_rows"]["pending"]),
        ("remapped_row_failure", "No", "Yes", lambda gpu: gpu["remapped_rows"]["failure"]),
        ("remapped_row_corr", "0", "7", lambda gpu: gpu["remapped_rows"]["correctable"]),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_field_with_two_values_has_none(tag, good, other, read, first):
    assert read(parse.parse_smi(RECORDED_XML)["gpus"][0]) is not None
    one, two = f"<{tag}>{good}</{tag}>", f"<{tag}>{other}</{tag}>"
    assert one in RECORDED_XML
    (gpu,) = parse.parse_smi(RECORDED_XML.replace(one, one + two if first else two + one))["gpus"]
    assert read(gpu) is None and " / " in "".join(gpu["unreadable"].values())


def test_recovery_action_of_two_is_not_none():
    (gpu,) = parse.parse_smi(
        RECORDED_XML.replace(
            "<gpu_recovery_action>None<", "<gpu_recovery_action>Reset</gpu_recovery_action><gpu_recovery_action>None<"
        )
    )["gpus"]
    assert gpu["recovery_action"] == "Reset / None"


@pytest.mark.parametrize("first", ["Active", "Not Active"])
def test_clock_reason_with_two_values_has_none(first):
    rows = "".join(
        f"<clocks_event_reason_hw_slowdown>{word}</clocks_event_reason_hw_slowdown>"
        for word in (first, "Active" if first == "Not Active" else "Not Active")
    )
    gpu = gpu_of(f"<clocks_event_reasons>{rows}</clocks_event_reasons>")
    assert gpu["clock_reasons"] == {"hw_slowdown": None} and gpu["throttle_reasons"] is None


@pytest.mark.parametrize(
    "line",
    [
        "NVRM:  Xid (PCI:0000:b3:00): 79, x",
        "NVRM:\tXid (PCI:0000:b3:00): 79, x",
        "NVRM:\0 Xid (PCI:0000:b3:00): 79, x",
        "nvrm: xid (pci:0000:b3:00): 79, x",
        "\x1b[31mNVRM:\x1b[0m Xid (PCI:0000:b3:00): 79, x",
        "NVRM: Xid: 79, x",
        "NVRM: Xid (PCI:0000:b3:00): -79, x",
        "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
        "nvidia-nvswitch0: SXid: 20034",
        "nvidia-nvswitch0: sxid (PCI:0000:b3:00.0): 20034",
    ],
)
def test_event_in_another_format_is_unread(line):
    found = parse.parse_xids(f"2026-01-31T11:30:00+0000 n kernel: {line}\n")
    assert (found["xids"], found["sxids"], found["unread"]) == ([], [], 1)


@pytest.mark.parametrize(
    "line",
    ["RPC: bad xid 0x1234", "NVRM: loading NVIDIA UNIX Open Kernel Module", "eth0 has fallen off the bus", "taxid"],
)
def test_other_line_of_the_kernel_is_no_event(line):
    assert parse.parse_xids(f"2026-01-31T11:30:00+0000 n kernel: {line}\n")["unread"] == 0
