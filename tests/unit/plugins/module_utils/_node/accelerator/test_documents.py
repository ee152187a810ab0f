# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documents of other GPUs and drivers: the recorded one of an H100, with the fields and values that these print.

Shapes: recorded documents of B200 (driver 580.105), GB200 and GB300 (580.173), L40S and T4 (595.91) and a generated one
of an H100 with MIG in NVIDIA/k8s-test-infra, and of an RTX PRO 6000 (590.44) in influxdata/telegraf.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import GPU_CHECKS

from tests.unit.fakes.fake_training_host import DRIVER, eight_gpus, nvlinks, topology
from tests.unit.plugins.module_utils._node.accelerator.test_verify import judge, node, rack

GONE = "Requested functionality has been deprecated"
HEALTH = re.compile(r"<health>.*?</health>", re.DOTALL)
# Of a B200: what the H100 of the recording reads as well is left out.
B200 = {
    "summary": "Healthy", "bandwidth": "N/A", "route_recovery_in_progress": "N/A", "route_unhealthy": "N/A",
    "access_timeout_recovery": "False", "incorrect_configuration": "N/A",
}  # fmt: skip
MIG_DEVICES = (
    "<mig_devices><mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><ecc_error_count><volatile_count>"
    "<sram_uncorrectable>0</sram_uncorrectable></volatile_count></ecc_error_count><fb_memory_usage>"
    "<total>9984 MiB</total></fb_memory_usage></mig_device></mig_devices>"
)


def document(text=None, driver=DRIVER, **changes):
    """Return a document; changes: {tag: text} of each GPU, of all elements with that name."""
    text = (text or eight_gpus()).replace(DRIVER, driver)
    for tag, word in changes.items():
        text, number = re.subn(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{word}</{tag}>", text)
        assert number, f"the recording has no {tag}"
    return text


def b200(**last):
    """Return the document of eight B200; last: {tag: text} of the last one."""
    health = "".join(f"<{tag}>{word}</{tag}>" for tag, word in B200.items())
    text = HEALTH.sub(f"<health>{health}</health>", document(product_architecture="Blackwell", driver="580.105.08"))
    head, sep, gpu = text.rpartition("<gpu id=")
    for tag, word in last.items():
        gpu = re.sub(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{word}</{tag}>", gpu)
    return f"{head}{sep}{gpu}"


def unlike(found):
    """Return the checks that do not pass, of the GPUs themselves."""
    return {name: found[name].status for name in GPU_CHECKS if found[name].status != "pass"}


def judged(text, driver=DRIVER):
    host = node(text)
    host.files["/proc/driver/nvidia/version"] = host.files["/proc/driver/nvidia/version"].replace(DRIVER, driver)
    return judge(host)


def test_healthy_b200_passes():
    assert unlike(judged(b200(), "580.105.08")) == {}


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        # Its neighbours have a value there.
        ({"summary": "N/A"}, "gpu.fabric", "undeterminable"),
        ({"access_timeout_recovery": "N/A"}, "gpu.fabric", "undeterminable"),
        ({"access_timeout_recovery": "True"}, "gpu.fabric", "fail"),
        ({"summary": "Limited Capacity"}, "gpu.fabric", "fail"),
        ({"bandwidth": "Degraded"}, "gpu.fabric", "fail"),
        ({"bandwidth": "Half"}, "gpu.fabric", "undeterminable"),
        ({"channel_repair_pending": "Yes"}, "gpu.ecc", "fail"),
        ({"channel_repair_pending": "N/A"}, "gpu.ecc", "undeterminable"),
        ({"sram_threshold_exceeded": "N/A"}, "gpu.ecc", "undeterminable"),
        ({"row_remapper_histogram_none": "N/A"}, "gpu.ecc", "undeterminable"),
        ({"current_ecc": "N/A"}, "gpu.ecc", "undeterminable"),
        ({"gpu_recovery_action": "N/A"}, "gpu.recovery", "undeterminable"),
        ({"gpu_recovery_action": "Drain P2P"}, "gpu.recovery", "fail"),
    ],
)
def test_b200_with_unreadable_or_bad_field_does_not_pass(changes, check, status):
    assert judged(b200(**changes), "580.105.08")[check].status == status


@pytest.mark.parametrize("driver", ["590.44.01", "595.91.07"])
def test_fields_that_newer_drivers_no_longer_read_are_no_evidence(driver):
    text = document(driver=driver, power_state=GONE)
    for block in ("applications_clocks", "default_applications_clocks"):
        text = re.sub(
            rf"<{block}>.*?</{block}>",
            f"<{block}><graphics_clock>{GONE}</graphics_clock><mem_clock>{GONE}</mem_clock></{block}>",
            text,
            flags=re.DOTALL,
        )
    assert unlike(judged(text, driver)) == {}
    assert judged(text.replace(GONE, "Unknown Error"), driver)["gpu.clocks"].status == "undeterminable"


def test_unknown_performance_state_is_undeterminable():
    assert judged(document(performance_state=GONE))["gpu.clocks"].status == "undeterminable"
    assert judged(document(power_state="N/A"))["gpu.clocks"].status == "undeterminable"


NEW_FIELDS = (
    "<egm>Disabled</egm>",
    "<power_smoothing>Insufficient Permissions</power_smoothing>",
    "<platformInfo><chassis_serial_number></chassis_serial_number><host_id>1</host_id></platformInfo>",
    "<dram_encryption_mode><current_dram_encryption>N/A</current_dram_encryption></dram_encryption_mode>",
    "<a_field_of_tomorrow><state>Wonderful</state></a_field_of_tomorrow>",
)


@pytest.mark.parametrize("field", NEW_FIELDS)
def test_new_harmless_field_leaves_pass(field):
    assert unlike(judged(eight_gpus().replace("</gpu>", f"{field}</gpu>"))) == {}


@pytest.mark.parametrize(
    "field",
    [
        "<power_smoothing>Unknown Error</power_smoothing>",
        "<a_field_of_tomorrow>Insufficient Permissions</a_field_of_tomorrow>",
        "<a_field_of_tomorrow>GPU requires reset</a_field_of_tomorrow>",
        "<a_field_of_tomorrow>ERR!</a_field_of_tomorrow>",
    ],
)
def test_error_in_new_field_is_no_answer(field):
    assert judged(eight_gpus().replace("</gpu>", f"{field}</gpu>"))["gpu.answers"].status == "undeterminable"


def test_gpus_split_by_mig_are_judged_as_whole_gpus():
    text = document(current_mig="Enabled", pending_mig="Enabled")
    text = re.sub(r"<mig_devices>[^<]*</mig_devices>", MIG_DEVICES, text)
    assert "<mig_device>" in text
    assert unlike(judged(text)) == {"gpu.mig": "fail"}
    lost = text.replace("9984 MiB", "GPU is lost")
    assert judged(lost)["gpu.answers"].status == "undeterminable"


def test_h200_is_another_gpu_than_h100():
    text = document(product_name="NVIDIA H200", driver=DRIVER)
    text = re.sub(r"(<fb_memory_usage>\s*<total>)[^<]*", r"\g<1>143771 MiB", text)
    assert judge(node(text), instance_type="p5en.48xlarge")["gpu.model"].status == "pass"
    assert judge(node(text), instance_type="p5en.48xlarge")["gpu.memory"].status == "pass"
    assert judge(node(text))["gpu.model"].status == "fail"


def test_rack_of_recorded_driver_passes():
    found = rack(
        incorrect_configuration="N/A", partition_assigned="N/A", text=document(product_architecture="Blackwell")
    )
    assert found["gpu.fabric"].status == "pass"


def test_document_cut_anywhere_is_no_document():
    """Whatever is behind the end of the document is behind its proof."""
    text = re.sub(r">\s+<", "><", eight_gpus(count=1))
    end = text.index("</nvidia_smi_log>") + len("</nvidia_smi_log>")
    for at in range(end):
        with pytest.raises(ValueError, match="XML"):
            parse.parse_smi(text[:at] if at else "<?xml")
    assert parse.parse_smi(text[:end])["attached"] == 1


def test_links_cut_anywhere_do_not_pass():
    whole = nvlinks(count=2)
    for text in (whole, nvlinks(count=2, down=1)):
        for at in range(len(text)):
            found = parse.parse_nvlinks(text[:at])
            up = [one["active"] == 18 and None not in one["gb_per_s"].values() for one in found.values()]
            # Only the line feed is left.
            assert up.count(True) < 2 or (text is whole and at >= len(whole) - 1)


def test_topology_cut_anywhere_does_not_pass():
    whole = topology(count=2)
    for at in range(len(whole)):
        matrix = parse.parse_topology(whole[:at])
        joined = [matrix.get(one, {}).get(other) for one, other in (("GPU0", "GPU1"), ("GPU1", "GPU0"))]
        # Both rows are there up to their last connection.
        assert joined != ["NV18", "NV18"] or whole[:at].count("NV18") == 2
