# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the reports of GPUs: each verdict names the field that it could not read."""

from __future__ import annotations

import copy
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import look as accelerator
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import GPU_CHECKS, verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.drain import is_proof

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_training_host import DRIVER, RECORDED_XML, eight_gpus, good_node, nvlinks, topology

XML = "nvidia-smi -q -x"
LINKS = "nvidia-smi nvlink --status"
UNKNOWN_WORDS = ("Unknown Error", "[Unknown Error]", "ERR!", "", "[Not Supported]", "N/A", "NaN", "maybe")


def node(document=None, links=None, matrix=None, log=()):
    host = good_node()
    host.commands[XML] = eight_gpus() if document is None else document
    if links is not None:
        host.commands[LINKS] = links
    if matrix is not None:
        host.commands["nvidia-smi topo -m"] = matrix
    lines = ["Linux version 6.8.0-1030-aws (buildd@x) #32 SMP", *log]
    host.commands["journalctl -k"] = "".join(f"2026-01-31T11:00:00+0000 node kernel: {text}\n" for text in lines)
    return host


def judge(host, mig=False, **options):
    facts = accelerator.look(host, accelerator.Options(**options))
    return {result.id: result for result in verify(facts, mig)}


def without(*tags, document=None):
    """Return the document of eight GPUs whose last lacks the first of each of these elements."""
    text = eight_gpus() if document is None else document
    for tag in tags:
        start = text.index(f"<{tag}>", text.rindex("<gpu id="))
        end = text.index(f"</{tag}>", start) + len(f"</{tag}>")
        text = text[:start] + text[end:]
    return text


def old_driver(release, *tags, text=None):
    """Return the document of an older driver, without these elements in any GPU."""
    text = eight_gpus() if text is None else text
    for tag in tags:
        text, number = re.subn(rf"\s*<{tag}>.*?</{tag}>", "", text, flags=re.DOTALL)
        assert number, f"the document has no {tag}"
    return text.replace(DRIVER, release)


def statuses(found, status):
    return {check for check, result in found.items() if result.status == status}


ECC = (
    ("sram_uncorrectable_parity", "ecc_errors/volatile/sram_uncorrectable_parity"),
    ("dram_uncorrectable", "ecc_errors/volatile/dram_uncorrectable"),
    ("dram_correctable", "ecc_errors/volatile/dram_correctable"),
    ("sram_threshold_exceeded", "ecc_errors/aggregate/sram_threshold_exceeded"),
    ("channel_repair_pending", "ecc_errors/channel_repair_pending"),
    ("tpc_repair_pending", "ecc_errors/tpc_repair_pending"),
    ("unrepairable_memory", "ecc_errors/unrepairable_memory"),
    ("remapped_row_pending", "remapped_rows/remapped_row_pending"),
    ("remapped_row_failure", "remapped_rows/remapped_row_failure"),
    ("remapped_row_unc", "remapped_rows/remapped_row_unc"),
    ("current_ecc", "ecc_mode/current_ecc"),
    ("pending_ecc", "ecc_mode/pending_ecc"),
)


@pytest.mark.parametrize("word", UNKNOWN_WORDS)
@pytest.mark.parametrize(("tag", "path"), ECC)
def test_unreadable_memory_counter_is_named(tag, path, word):
    result = judge(node(eight_gpus(**{tag: word})))["gpu.ecc"]
    assert (result.status, result.reason) == ("undeterminable", "unread")
    assert f"gpu7 {path} reads {repr(word) if word else 'nothing'}" in result.message


@pytest.mark.parametrize(("tag", "path"), ECC)
def test_missing_memory_counter_is_named(tag, path):
    result = judge(node(without(tag)))["gpu.ecc"]
    assert (result.status, result.message) == ("undeterminable", f"gpu7 {path} is missing")


def test_missing_block_of_remapped_rows():
    result = judge(node(without("remapped_rows")))["gpu.ecc"]
    assert result.status == "undeterminable"
    assert "gpu7 remapped_rows/remapped_row_failure is missing" in result.message


def test_ecc_off_after_next_reset():
    result = judge(node(eight_gpus(pending_ecc="Disabled")))["gpu.ecc"]
    assert (result.status, result.message) == ("fail", "gpu7 has ECC off after the next reset")


@pytest.mark.parametrize(
    ("release", "absent", "status"),
    [
        ("580.159.04", (), "pass"),
        ("580.159.04", ("unrepairable_memory",), "undeterminable"),
        ("575.51.02", ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory"), "pass"),
        ("535.183.01", ("channel_repair_pending", "tpc_repair_pending", "sram_threshold_exceeded"), "pass"),
        ("555.42.06", ("sram_threshold_exceeded",), "undeterminable"),
        ("N/A", ("unrepairable_memory",), "undeterminable"),
    ],
)
def test_fields_that_driver_does_not_print(release, absent, status):
    assert judge(node(old_driver(release, *absent)))["gpu.ecc"].status == status


@pytest.mark.parametrize(
    "tag",
    [
        "channel_repair_pending",
        "tpc_repair_pending",
        "unrepairable_memory",
        "remapped_row_corr_inactive",
        "remapped_row_unc_inactive",
    ],
)
@pytest.mark.parametrize(
    ("architecture", "status"), [("Ampere", "pass"), ("Ada Lovelace", "pass"), ("Hopper", "undeterminable")]
)
def test_older_gpus_have_no_repair_of_channels(tag, architecture, status):
    text = eight_gpus().replace(">Hopper<", f">{architecture}<")
    text, number = re.subn(f"<{tag}>[^<]*<", f"<{tag}>N/A<", text)
    assert (judge(node(text))["gpu.ecc"].status, number) == (status, 8)


def test_memory_that_cannot_be_repaired_is_read_on_older_gpus():
    text = eight_gpus().replace(">Hopper<", ">Ampere<")
    text = text.replace("<sram_threshold_exceeded>No", "<sram_threshold_exceeded>N/A")
    assert judge(node(text))["gpu.ecc"].status == "undeterminable"


def turing(retired="0", pending="No", architecture="Turing"):
    """Return eight GPUs that retire pages: nvidia-smi prints N/A for their remapped rows."""
    text = re.sub(r"<remapped_rows>.*?</remapped_rows>", "<remapped_rows>N/A</remapped_rows>", eight_gpus(), flags=re.S)
    text = text.replace("<product_architecture>Hopper<", f"<product_architecture>{architecture}<")
    text = text.replace("<retired_count>N/A", f"<retired_count>{retired}")
    text = text.replace("<pending_blacklist>N/A", "<pending_blacklist>No")
    return text.replace("<pending_retirement>N/A", f"<pending_retirement>{pending}")


def test_gpus_with_page_retirement():
    assert judge(node(turing()))["gpu.ecc"].status == "pass"
    for words in ({"retired": "N/A"}, {"pending": "N/A"}, {"retired": "Unknown Error"}, {"architecture": "Hopper"}):
        assert judge(node(turing(**words)))["gpu.ecc"].status == "undeterminable", words
    unnamed = turing(architecture="N/A")
    assert judge(node(unnamed))["gpu.ecc"].status == "undeterminable"
    named = unnamed.replace("NVIDIA H100 80GB HBM3", "Tesla T4")
    assert judge(node(named))["gpu.ecc"].status == "pass"


def test_kernel_module_of_unknown_version():
    host = node()
    host.files["/proc/driver/nvidia/version"] = "NVRM version: garbled\n"
    result = judge(host)["gpu.driver"]
    assert result.status == "undeterminable"
    assert "/proc/driver/nvidia/version is missing" in result.message
    assert judge(node(eight_gpus().replace(DRIVER, "N/A")))["gpu.driver"].status == "undeterminable"


REASONS = re.findall(r"<clocks_event_reason_(\w+)>", RECORDED_XML)


@pytest.mark.parametrize("word", UNKNOWN_WORDS)
@pytest.mark.parametrize("reason", REASONS)
def test_one_unknown_clock_reason(reason, word):
    result = judge(node(eight_gpus(**{f"clocks_event_reason_{reason}": word})))["gpu.clocks"]
    assert result.status == "undeterminable"
    assert f"gpu7 clocks_event_reasons/{reason} reads" in result.message


def test_missing_and_new_clock_reasons():
    result = judge(node(without("clocks_event_reason_hw_slowdown")))["gpu.clocks"]
    assert (result.status, "hw_slowdown is missing" in result.message) == ("undeterminable", True)
    for word, status in (("Active", "undeterminable"), ("Not Active", "pass")):
        new = f"</clocks_event_reasons><clocks_event_reasons><clocks_event_reason_x>{word}</clocks_event_reason_x>"
        text = eight_gpus().replace("</clocks_event_reasons>", f"{new}</clocks_event_reasons>")
        assert judge(node(text))["gpu.clocks"].status == status


@pytest.mark.parametrize("reason", ["sw_power_cap", "sync_boost", "applications_clocks_setting"])
def test_harmless_clock_reasons(reason):
    assert judge(node(eight_gpus(**{f"clocks_event_reason_{reason}": "Active"})))["gpu.clocks"].status == "pass"


def last(text, old, new):
    """Change the last occurrence: in the last GPU."""
    start = text.rindex(old)
    return text[:start] + new + text[start + len(old) :]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "<current_power_limit>700.00 W",
            "<current_power_limit>350.00 W",
            "power limit of 350 W, and 700 W is the default",
        ),
        ("<default_power_limit>700.00 W", "<default_power_limit>350.00 W", "power limit of 350 W"),
        ("<requested_power_limit>700.00 W", "<requested_power_limit>350.00 W", "power limit of 350 W"),
        ("<max_power_limit>700.00 W", "<max_power_limit>350.00 W", "and 700 W is its neighbours' maximum"),
        ("<sm_clock>1980 MHz", "<sm_clock>990 MHz", "maximum of 990 MHz, and its neighbours of 1980 MHz"),
    ],
)
def test_gpu_held_below_its_speed(old, new, words):
    text = eight_gpus()
    if "power" in old:
        # The power readings of the memory and the module read N/A, and have other numbers.
        assert text.count(old) == 8
    result = judge(node(last(text, old, new)))["gpu.clocks"]
    assert (result.status, result.severity) == ("fail", "monitor")
    assert words in result.message


def test_boost_clock_that_no_gpu_has_is_no_evidence():
    old, new = (f"<max_customer_boost_clocks>\n\t\t\t<graphics_clock>{word}<" for word in ("1980 MHz", "N/A"))
    assert judge(node(eight_gpus().replace(old, new)))["gpu.clocks"].status == "pass"
    assert judge(node(last(eight_gpus(), old, new)))["gpu.clocks"].status == "undeterminable"
    slower = judge(node(last(eight_gpus(), old, old.replace("1980", "1979"))))["gpu.clocks"]
    assert "has a boost clock of 1979 MHz, and its neighbours of 1980 MHz" in slower.message


def test_application_clocks_below_their_default():
    whole = "<applications_clocks>\n\t\t\t<graphics_clock>{} MHz"
    slow = eight_gpus().replace(whole.format(1980), whole.format(1200))
    result = judge(node(slow))["gpu.clocks"]
    assert (result.status, "application clock of 1200 MHz" in result.message) == ("fail", True)
    gone = re.sub(
        r"(<(?:default_)?applications_clocks>\s*<graphics_clock>)1980 MHz",
        r"\1Requested functionality has been deprecated",
        eight_gpus(),
    )
    assert judge(node(gone))["gpu.clocks"].status == "pass"


def test_fields_with_required_reset():
    text = old_driver("535.183.01", "gpu_recovery_action")
    for tag in ("gpu_temp", "dram_correctable", "performance_state"):
        text = last(text, f"<{tag}>", f"<{tag}>GPU requires reset</{tag}><x{tag}>").replace(
            f"<x{tag}>", f"<!--{tag}-->"
        )
    text = re.sub(r"<!--(\w+)-->[^<]*</\1>", "", text)
    found = judge(node(text))
    result = found["gpu.recovery"]
    assert (result.status, result.severity, result.scope.device) == ("fail", "reset", "gpu7")
    assert found["gpu.answers"].status == "undeterminable"
    assert "gpu7 temperature/gpu_temp reads 'GPU requires reset'" in found["gpu.answers"].message


@pytest.mark.parametrize(
    ("required", "recommended", "status"),
    [
        ("No", "N/A", "pass"),
        ("No", "No", "pass"),
        ("Yes", "N/A", "fail"),
        ("No", "Yes", "fail"),
        ("Unknown Error", "N/A", "undeterminable"),
        ("", "N/A", "undeterminable"),
    ],
)
def test_reset_status_of_drivers_without_recovery_action(required, recommended, status):
    block = (
        f"<gpu_reset_status><reset_required>{required}</reset_required>"
        f"<drain_and_reset_recommended>{recommended}</drain_and_reset_recommended></gpu_reset_status>"
    )
    text = old_driver("555.42.06", "gpu_recovery_action").replace("</gpu>", f"{block}</gpu>")
    assert judge(node(text))["gpu.recovery"].status == status


def test_recovery_action_that_only_begins_with_none():
    result = judge(node(eight_gpus(gpu_recovery_action="None of these")))["gpu.recovery"]
    assert (result.status, result.severity) == ("fail", "monitor")


def test_silent_gpu_is_not_counted():
    text = eight_gpus()
    start, end = text.rindex("<gpu id="), text.rindex("</gpu>")
    silent = text[:start] + '<gpu id="00000000:57:00.0"><product_name>Unknown Error</product_name>' + text[end:]
    for document in (silent, re.sub(r"<product_name>Unknown Error</product_name>", "", silent)):
        result = judge(node(document))["gpu.count"]
        assert (result.status, result.severity, result.expected, result.found) == ("fail", "reset", 8, 7)
        assert "gpu7 is listed and does not answer" in result.message


@pytest.mark.parametrize("word", ["", "N/A", "Unknown Error", "80", "4"])
def test_unreadable_number_of_attached_gpus(word):
    text = eight_gpus().replace("<attached_gpus>8<", f"<attached_gpus>{word}<")
    assert judge(node(text))["gpu.count"].status == "undeterminable"


CLOCKS = "<supported_clocks><supported_mem_clock><value>2619 MHz</value></supported_mem_clock></supported_clocks>"


@pytest.mark.parametrize(
    "clocks",
    [
        CLOCKS.replace("</value>", "</valu>"),
        CLOCKS.replace("</supported_mem_clock>", ""),
        CLOCKS.replace("</supported_clocks>", "</supported_clock>"),
        CLOCKS.replace("2619 MHz", "\x1b&<"),
    ],
)
def test_damage_in_list_of_clocks_is_left_out(clocks):
    text = eight_gpus().replace("<processes>", f"{clocks}<processes>", 3)
    assert statuses(judge(node(text)), "pass") == set(GPU_CHECKS)


@pytest.mark.parametrize("line", ["WARNING: something else", "nvidia-smi: warning <b>", "\n\n", "</x>"])
def test_lines_outside_of_document_change_nothing(line):
    for text in (f"{eight_gpus()}\n{line}\n", f"{line}\n{eight_gpus()}"):
        assert statuses(judge(node(text)), "pass") == set(GPU_CHECKS)


@pytest.mark.parametrize("place", ["{0}{1}", "{1}\n{0}"])
def test_corrupted_inforom_has_its_own_verdict(place):
    text = place.format(eight_gpus(), "WARNING: infoROM is corrupted at gpu 0000:57:00.0")
    found = judge(node(text))
    result = found["gpu.inforom"]
    assert (result.status, result.severity) == ("fail", "monitor")
    assert "infoROM is corrupted at gpu 0000:57:00.0" in result.message
    assert statuses(found, "pass") == set(GPU_CHECKS) - {"gpu.inforom"}
    assert judge(node(eight_gpus(img_version="N/A")))["gpu.inforom"].status == "undeterminable"


@pytest.mark.parametrize("speed", ["13.281", "25.999", "0.1"])
def test_link_slower_than_its_neighbours(speed):
    links = nvlinks()
    slow = last(links, "\t Link 7: 26.562 GB/s", f"\t Link 7: {speed} GB/s")
    result = judge(node(links=slow))["gpu.nvlink"]
    assert (result.status, result.severity, result.scope.device) == ("fail", "reset", "gpu7")
    assert result.message == f"gpu7 has a link slower than 26.562 GB/s: link 7 {float(speed):g} GB/s"


@pytest.mark.parametrize(
    ("speed", "status"), [("25", "pass"), ("24.999", "fail"), ("13.281", "fail"), ("53.125", "pass")]
)
def test_equally_slow_links(speed, status):
    result = judge(node(links=nvlinks(speed=speed)))["gpu.nvlink"]
    assert result.status == status
    if status == "fail":
        assert result.severity == "reset" and "gpu0 has a link slower than 25 GB/s: link 0" in result.message


@pytest.mark.parametrize("word", ["<unknown>", "N/A", "Unknown Error", "", "26.562"])
def test_unreadable_link(word):
    result = judge(node(links=last(nvlinks(), "\t Link 7: 26.562 GB/s", f"\t Link 7: {word}")))["gpu.nvlink"]
    assert (result.status, result.message) == ("undeterminable", "gpu7 nvlink reads 'link 7'")


def test_excess_or_unlisted_links():
    assert judge(node(links=nvlinks(links=19)))["gpu.nvlink"].status == "undeterminable"
    assert (
        judge(node(links=nvlinks(count=7)))["gpu.nvlink"].message == "gpu7 active is missing; gpu7 inactive is missing"
    )
    assert judge(node(links=""))["gpu.nvlink"].status == "undeterminable"


V100 = eight_gpus().replace("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB")


@pytest.mark.parametrize(
    ("kind", "links", "status", "words"),
    [
        ("p3dn.24xlarge", nvlinks(links=6, speed="25.781"), "pass", "6 on each GPU"),
        ("p3dn.24xlarge", nvlinks(links=6, down=1), "fail", "gpu7 has 5 of 6 NVLinks up"),
        ("p3dn.24xlarge", "", "undeterminable", "gpu0 active is missing"),
        ("g5.48xlarge", nvlinks(links=6, down=6), "not_applicable", "no NVLinks"),
        ("p99.new", nvlinks(), "undeterminable", "not known"),
    ],
)
def test_nvlinks_of_types_without_switches(kind, links, status, words):
    result = judge(node(V100, links=links), instance_type=kind)["gpu.nvlink"]
    assert (result.status, words in result.line()) == (status, True), result.line()


def test_required_mig_excludes_nvlink():
    text = eight_gpus().replace("_mig>Disabled<", "_mig>Enabled<")
    found = judge(node(text, nvlinks(links=18, down=18), topology(kind="SYS")), mig=True)
    assert statuses(found, "not_applicable") == {"gpu.nvlink", "gpu.topology"}
    assert statuses(found, "pass") == set(GPU_CHECKS) - {"gpu.nvlink", "gpu.topology"}
    assert statuses(judge(node(text)), "fail") == {"gpu.mig"}


@pytest.mark.parametrize("word", UNKNOWN_WORDS)
def test_unreadable_mig_mode(word):
    for tag in ("current_mig", "pending_mig"):
        assert judge(node(eight_gpus(**{tag: word})))["gpu.mig"].status == "undeterminable"


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("NV18", "pass", "NV18"),
        ("NV9", "fail", "is joined by 9 of 18 NVLinks"),
        ("NV0", "fail", "is joined by 0 of 18"),
        ("NV36", "undeterminable", "links reads '36'"),
        ("NVERR", "undeterminable", "links reads 'NVERR'"),
        ("N/A", "undeterminable", "links reads 'N/A'"),
        ("PIX", "fail", "without NVLink"),
    ],
)
def test_connection_types_of_pair(kind, status, words):
    text = topology()
    row = text.index("GPU3\t")
    start = text.index("NV18", row)
    result = judge(node(matrix=text[:start] + kind + text[start + 4 :]))["gpu.topology"]
    assert (result.status, words in result.line()) == (status, True), result.line()


@pytest.mark.parametrize(
    ("tag", "word", "status"),
    [
        ("bandwidth", "Full", "pass"),
        ("bandwidth", "Degraded", "fail"),
        ("summary", "Healthy", "pass"),
        ("summary", "Unhealthy", "fail"),
        ("summary", "Limited Capacity", "fail"),
        ("route_unhealthy", "False", "pass"),
        ("route_unhealthy", "True", "fail"),
        ("route_recovery_in_progress", "True", "fail"),
        ("access_timeout_recovery", "True", "fail"),
        ("incorrect_configuration", "None", "pass"),
        ("incorrect_configuration", "Something", "undeterminable"),
        ("partition_assigned", "False", "fail"),
        *((tag, word, "undeterminable") for tag in ("summary", "route_unhealthy") for word in ("Unknown Error", "")),
    ],
)
def test_health_of_fabric(tag, word, status):
    alike = re.sub(f"<{tag}>[^<]*<", f"<{tag}>{word}<", eight_gpus())
    assert judge(node(alike))["gpu.fabric"].status == status
    # A neighbour that reads N/A where this one has a value is not known to be healthy.
    alone = "undeterminable" if status == "pass" else status
    assert judge(node(eight_gpus(**{tag: word})))["gpu.fabric"].status == alone


def test_fabric_health_of_older_drivers():
    absent = ("summary", "route_unhealthy", "incorrect_configuration", "partition_assigned")
    assert judge(node(old_driver("555.42.06", *absent)))["gpu.fabric"].status == "pass"
    assert judge(node(old_driver("580.159.04", *absent)))["gpu.fabric"].status == "undeterminable"


@pytest.mark.parametrize(
    ("mode", "status"), [("Prohibited", "fail"), ("Exclusive_Process", "pass"), ("x", "undeterminable")]
)
def test_compute_mode(mode, status):
    assert judge(node(eight_gpus(compute_mode=mode)))["gpu.compute_mode"].status == status


@pytest.mark.parametrize("path", ["fan_speed", "egm", "replay_counter", "gsp_firmware_version"])
@pytest.mark.parametrize("word", ["Unknown Error", "ERR!", "GPU is lost", "Insufficient Permissions"])
def test_error_in_any_field_is_undeterminable(path, word):
    found = judge(node(eight_gpus(**{path: word})))
    assert found["gpu.answers"].status == "undeterminable"
    assert word in found["gpu.answers"].message


@pytest.mark.parametrize(("count", "end"), [(8, "'ERR!'"), (9, "'ERR!' and 1 more"), (10, "'ERR!' and 2 more")])
def test_eight_errors_are_quoted_and_rest_is_counted(count, end):
    fields = "".join(f"<x{number}>ERR!</x{number}>" for number in range(count))
    message = judge(node(eight_gpus().replace("</gpu>", f"{fields}</gpu>", 1)))["gpu.answers"].message
    assert message.count("ERR!") == 8 and message.endswith(end)


def test_names_of_processes_are_no_errors():
    process = "<processes><process_info><process_name>Unknown Error</process_name></process_info>"
    assert judge(node(eight_gpus().replace("<processes>", process)))["gpu.answers"].status == "pass"


@pytest.mark.parametrize(
    ("tag", "word", "status"),
    [
        ("current_link_width", "4x", "fail"),
        ("current_link_width", "0x", "undeterminable"),
        ("current_link_width", "160x", "undeterminable"),
        ("max_link_width", "8x", "undeterminable"),
        ("max_link_gen", "2", "undeterminable"),
        ("current_link_gen", "50", "undeterminable"),
        ("current_link_gen", "1", "pass"),
        ("replay_counter", "N/A", "undeterminable"),
        ("replay_counter", "12", "pass"),
    ],
)
def test_pcie_fields(tag, word, status):
    assert judge(node(eight_gpus(**{tag: word})))["gpu.pcie"].status == status


def test_narrow_links_of_all_gpus_are_not_compared():
    text = eight_gpus().replace("_link_width>16x", "_link_width>8x")
    assert judge(node(text))["gpu.pcie"].found == "8 lanes on each GPU"


BUS = "NVRM: Xid (PCI:0000:b3:00): "
OTHER = "NVRM: Xid (PCI:0000:53:00): "
TO_RESET = "154, pid=1, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
TO_NONE = "154, pid=1, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
FATAL = "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"
NONFATAL = "145, RLW_CTRL Nonfatal XC1 i0 Link -1 (0x00000005 0x00000000)"


@pytest.mark.parametrize(
    ("lines", "status", "severity"),
    [
        ([BUS + FATAL], "fail", "reset"),
        ([BUS + NONFATAL], "fail", "monitor"),
        ([f"{BUS}149, something else"], "fail", "monitor"),
        ([BUS + FATAL, BUS + TO_RESET], "fail", "reset"),
        ([BUS + FATAL, BUS + TO_RESET, BUS + TO_NONE], "pass", "none"),
        ([BUS + NONFATAL, BUS + TO_NONE], "pass", "none"),
        ([BUS + TO_NONE, BUS + FATAL], "fail", "reset"),
        ([BUS + FATAL, OTHER + TO_NONE], "fail", "reset"),
        ([BUS + TO_RESET, BUS + TO_NONE], "pass", "none"),
        ([BUS + TO_RESET, OTHER + TO_NONE], "fail", "reset"),
        ([BUS + TO_NONE, BUS + TO_RESET], "fail", "reset"),
        ([f"{BUS}79, x", BUS + TO_RESET, BUS + TO_NONE], "fail", "reboot"),
        ([*[OTHER + TO_NONE] * 30, BUS + TO_RESET, *[OTHER + TO_NONE] * 30], "fail", "reset"),
        ([BUS + TO_NONE, *[OTHER + TO_RESET, OTHER + TO_NONE] * 30], "pass", "none"),
        (["NVRM: Xid (garbled): what"], "undeterminable", "none"),
        (["nvidia-nvswitch0: SXid (garbled"], "undeterminable", "none"),
    ],
)
def test_xids_of_nvlink_and_of_recovery(lines, status, severity):
    result = judge(node(log=lines))["gpu.xid"]
    assert (result.status, result.severity) == (status, severity), result.line()


SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 23001, "


@pytest.mark.parametrize(
    ("lines", "severity", "words"),
    [
        ([f"{SWITCH}Non-fatal, x"], "none", "no Xid"),
        ([f"{SWITCH}Fatal, x"], "reset", "NVSwitch nvidia-nvswitch0 reported SXid 23001: Fatal, x"),
        ([BUS + NONFATAL, f"{SWITCH}Fatal, x"], "reset", "NVSwitch nvidia-nvswitch0 reported SXid 23001"),
        # An Xid of the same severity names the GPU.
        ([BUS + FATAL, f"{SWITCH}Fatal, x"], "reset", "Xid 149 on 0000:b3:00"),
        ([f"{BUS}79, x", f"{SWITCH}Fatal, x"], "reboot", "Xid 79 on 0000:b3:00"),
    ],
)
def test_fatal_error_of_switch_counts_beside_xids(lines, severity, words):
    result = judge(node(log=lines))["gpu.xid"]
    assert (result.severity, words in result.line()) == (severity, True), result.line()


def test_xid_154_is_named_only_if_present():
    assert "154" not in judge(node(log=[BUS + FATAL]))["gpu.xid"].line()
    assert "154" not in judge(node(log=[BUS + NONFATAL]))["gpu.xid"].line()
    assert "Xid 154 on 0000:b3:00" in judge(node(log=[BUS + FATAL, BUS + TO_RESET]))["gpu.xid"].line()


def test_verify_leaves_facts_as_they_are():
    facts = accelerator.look(node(), accelerator.Options())
    before = copy.deepcopy(facts)
    verify(facts)
    assert facts == before
    assert training_host.uuid(7) in facts["nvlinks"]["gpus"]


def test_gpu_reading_all_ones_fell_off_bus():
    host = node()
    host.files["/sys/bus/pci/devices/0000:57:00.0/config"] = "\ufffd" * 64
    result = judge(host)["gpu.count"]
    assert (result.status, result.severity, result.expected, result.found) == ("fail", "isolate", 8, 7)
    assert result.message == "0000:57:00.0 gives no answer on the PCI bus"


@pytest.mark.parametrize(
    ("mib", "status"),
    [(75365, "fail"), (75366, "pass"), (81920, "pass"), (90112, "pass"), (90113, "undeterminable")],
)
def test_memory_within_its_bounds(mib, status):
    recorded = re.search(r"<fb_memory_usage>\s*<total>(\d+) MiB", eight_gpus()).group(1)
    text = last(eight_gpus(), f"<total>{recorded} MiB", f"<total>{mib} MiB")
    assert judge(node(text))["gpu.memory"].status == status


@pytest.mark.parametrize("pages", ["1", "2"])
def test_page_retired_after_double_bit_error_is_monitored(pages):
    text = turing().replace("<retired_count>0", f"<retired_count>{pages}")
    result = judge(node(text))["gpu.ecc"]
    assert (result.status, result.severity) == ("fail", "monitor")


@pytest.mark.parametrize(("one", "other"), [("current_mig", "pending_mig"), ("pending_mig", "current_mig")])
def test_one_na_mig_mode_is_not_skipped(one, other):
    text = eight_gpus().replace(f"<{one}>Disabled<", f"<{one}>N/A<")
    assert judge(node(text))["gpu.mig"].status == "undeterminable"
    both = text.replace(f"<{other}>Disabled<", f"<{other}>N/A<")
    assert judge(node(both))["gpu.mig"].status == "not_applicable"
    assert judge(node(both), mig=True)["gpu.mig"].status == "fail"


def test_failed_topology_command_is_undeterminable():
    facts = accelerator.look(node(), accelerator.Options())
    facts["topology"]["problem"] = "nvidia-smi topo -m: no answer"
    found = {one.id: one for one in verify(facts)}["gpu.topology"]
    assert (found.status, found.reason) == ("undeterminable", "nvidia-smi topo -m: no answer")


def test_unknown_number_of_nvlinks_is_undeterminable():
    facts = accelerator.look(node(), accelerator.Options())
    facts["expected"] = {**facts["expected"], "name": "H900"}
    found = {one.id: one for one in verify(facts)}["gpu.nvlink"]
    assert (found.status, found.reason) == ("undeterminable", "how many NVLinks H900 has is not known")


@pytest.mark.parametrize(
    ("expected", "on_bus", "status"),
    [(None, None, "undeterminable"), (None, 0, "undeterminable"), (None, 1, "fail"), (1, None, "fail")],
)
def test_missing_gpus_are_judged_by_known_facts(expected, on_bus, status):
    facts = accelerator.look(node(), accelerator.Options())
    facts["smi"].update(gpus=[], attached=0)
    facts["expected"] = {**facts["expected"], "count": expected} if expected else None
    facts["pci_gpus"] = None if on_bus is None else {"0000:53:00.0": {}} if on_bus else {}
    assert {one.id: one for one in verify(facts)}["gpu.count"].status == status


@pytest.mark.parametrize(
    ("known", "kind", "pci", "status", "words"),
    [
        (True, "m7i.large", [], "not_applicable", "m7i.large has no accelerators"),
        (False, "p99.new", [], "undeterminable", "no GPU is on the PCI bus, and what p99.new should have is not known"),
        (False, "m99.new", [], "not_applicable", "m99.new has no GPU by its name, and none is on the PCI bus"),
        (False, "new", [], "not_applicable", "no GPU is on the PCI bus, and the instance type is not known"),
        (False, None, [], "not_applicable", "no GPU is on the PCI bus, and the instance type is not known"),
        (False, "p99.new", None, "undeterminable", "the PCI bus cannot be seen, and the instance type is not known"),
    ],
)
def test_node_without_gpus_has_one_verdict(known, kind, pci, status, words):
    facts = accelerator.look(node(), accelerator.Options())
    facts.update(smi=None, expected=None, type_known=known, instance_type=kind, pci_gpus=pci)
    (one,) = verify(facts)
    assert (one.id, one.status, one.reason) == ("gpu.count", status, words)
    assert is_proof(one) is (kind in ("m7i.large", "m99.new"))


def test_failed_nvidia_smi_leaves_only_bus_and_log():
    host = node(log=["NVRM: Xid (PCI:0000:b3:00): 79, x"])
    host.commands[XML] = "NVIDIA-SMI has failed"
    found = judge(host)
    assert list(found) == [
        "gpu.count",
        *(name for name in GPU_CHECKS if name not in ("gpu.count", "gpu.xid")),
        "gpu.xid",
    ]
    assert statuses(found, "undeterminable") == set(GPU_CHECKS) - {"gpu.xid"}
    assert (found["gpu.xid"].severity, "NVIDIA-SMI has failed" in found["gpu.memory"].reason) == ("reboot", True)


def test_gpu_missing_from_bus_isolates_node():
    facts = accelerator.look(node(), accelerator.Options())
    facts["pci_gpus"] = facts["pci_gpus"][:7]
    one = {one.id: one for one in verify(facts)}["gpu.count"]
    assert (one.status, one.severity, one.expected, one.found) == ("fail", "isolate", 8, 7)
    assert one.message == "GPUs are missing from the PCI bus"


ULTRA = "p6e-gb200.36xlarge"
UUID = "814d0000-0000-4000-8000-00000000b5b7"


HEALTHY = {
    "summary": "Healthy",
    "bandwidth": "Full",
    "route_recovery_in_progress": "False",
    "route_unhealthy": "False",
    "access_timeout_recovery": "False",
    "incorrect_configuration": "None",
    "partition_assigned": "True",
}


def rack(cluster=UUID, clique="32766", last=None, **health):
    """Return a document whose GPUs are in an NVLink cluster; last: (cluster, clique) of the last GPU."""
    text = re.sub("<cliqueId>[^<]*<", f"<cliqueId>{clique}<", health.pop("text", eight_gpus()))
    for tag, word in {**HEALTHY, **health}.items():
        text = re.sub(f"<{tag}>[^<]*</{tag}>", f"<{tag}>{word}</{tag}>", text)
    text = re.sub("<clusterUuid>[^<]*<", f"<clusterUuid>{cluster}<", text)
    if last:
        head, _sep, tail = text.rpartition("<gpu id=")
        tail = tail.replace(cluster, last[0]).replace(f"<cliqueId>{clique}<", f"<cliqueId>{last[1]}<")
        text = f"{head}<gpu id={tail}"
    return judge(node(text), instance_type=ULTRA)


def test_gpus_of_ultraserver_share_cluster_and_clique():
    fabric = rack()["gpu.fabric"]
    assert (fabric.status, fabric.found) == ("pass", {"state": "Completed", "cluster_uuid": UUID, "clique": "32766"})


@pytest.mark.parametrize(
    ("given", "status", "expected"),
    [
        ({"last": ("other", "32766")}, "fail", "gpu7 is of NVLink cluster other"),
        # The same on each GPU, and no value of the field.
        ({"cluster": "other"}, "undeterminable", "clusterUuid reads 'other'"),
        ({"cluster": UUID + "0"}, "undeterminable", f"clusterUuid reads '{UUID}0'"),
        ({"clique": "other"}, "undeterminable", "cliqueId reads 'other'"),
        ({"clique": "-1"}, "undeterminable", "cliqueId reads '-1'"),
        ({"clique": "4026"}, "pass", ""),
        *(
            ({tag: "N/A"}, "undeterminable", f"gpu0 fabric/health/{tag} reads 'N/A'")
            for tag in HEALTHY
            if tag not in ("incorrect_configuration", "partition_assigned")
        ),
        # GB200 and GB300 with driver 580.173 read these (NVIDIA/k8s-test-infra, recorded documents).
        ({"incorrect_configuration": "N/A", "partition_assigned": "N/A"}, "pass", ""),
        ({"partition_assigned": "N/A"}, "pass", ""),
        ({"partition_assigned": "False"}, "fail", "has fabric partition_assigned False"),
        ({"incorrect_configuration": "Unknown"}, "undeterminable", "incorrect_configuration reads 'Unknown'"),
        ({"partition_assigned": "N/A", "summary": "N/A"}, "undeterminable", "partition_assigned reads 'N/A'"),
        ({"summary": "Unhealthy"}, "fail", "has fabric summary Unhealthy"),
        ({"last": (UUID, "1")}, "fail", "gpu7 is of clique 1, and gpu0 of 32766"),
        ({"cluster": "00000000-0000-0000-0000-000000000000"}, "fail", "gpu0 is of NVLink cluster 00000000"),
        ({"cluster": "N/A"}, "undeterminable", "clusterUuid reads 'N/A'"),
        ({"clique": "N/A"}, "undeterminable", "cliqueId reads 'N/A'"),
    ],
)
def test_gpu_outside_of_cluster(given, status, expected):
    fabric = rack(**given)["gpu.fabric"]
    assert fabric.status == status and expected in (fabric.message or "")


@pytest.mark.parametrize("tag", ["incorrect_configuration", "partition_assigned"])
def test_gpu_without_the_health_of_its_neighbours_is_not_proved(tag):
    head, _sep, tail = eight_gpus().rpartition("<gpu id=")
    head = re.sub(f"<{tag}>[^<]*<", f"<{tag}>{HEALTHY[tag]}<", head)
    text = f"{head}<gpu id={re.sub(f'<{tag}>[^<]*<', f'<{tag}>N/A<', tail)}"
    for other, healthy in HEALTHY.items():
        if other != tag:
            text = re.sub(f"<{other}>[^<]*<", f"<{other}>{healthy}<", text)
    text = re.sub("<clusterUuid>[^<]*<", f"<clusterUuid>{UUID}<", text)
    fabric = judge(node(text), instance_type=ULTRA)["gpu.fabric"]
    assert fabric.status == "undeterminable" and f"gpu7 fabric/health/{tag} reads 'N/A'" in fabric.message


def test_older_driver_of_ultraserver_reports_no_health():
    unknown = dict.fromkeys(HEALTHY, "N/A")
    assert rack(text=old_driver("570.172.08"), **unknown)["gpu.fabric"].status == "pass"
    assert rack(text=old_driver("580.159.04"), **unknown)["gpu.fabric"].status == "undeterminable"
    assert rack(text=old_driver("570.172.08"), **{**unknown, "route_unhealthy": "True"})["gpu.fabric"].status == "fail"


@pytest.mark.parametrize(
    ("word", "status"),
    [("5", "pass"), ("1", "pass"), ("7", "pass"), ("0", "undeterminable"), ("8", "undeterminable")],
)
def test_pcie_generation_of_all_devices(word, status):
    text = re.sub("<max_device_link_gen>[^<]*<", f"<max_device_link_gen>{word}<", eight_gpus())
    assert judge(node(text))["gpu.pcie"].status == status


def test_memory_of_ultraserver_is_that_of_its_source():
    assert rack()["gpu.memory"].expected == "174284 MiB or more"


@pytest.mark.parametrize("width", [1, 2, 4, 8, 12, 16, 32, 3, 5, 9, 13, 17, 33])
def test_valid_pcie_widths(width):
    text = re.sub("<(current|max)_link_width>[^<]*<", rf"<\1_link_width>{width}x<", eight_gpus())
    status = "pass" if width in (1, 2, 4, 8, 12, 16, 32) else "undeterminable"
    assert judge(node(text))["gpu.pcie"].status == status


def test_undocumented_ultraserver_facts_are_undeterminable():
    assert judge(node(), instance_type="p6e-gb300.36xlarge")["gpu.count"].status == "undeterminable"
    assert judge(node(), instance_type="p6e-gb300.36xlarge")["gpu.topology"].status == "undeterminable"


@pytest.mark.parametrize(("count", "status"), [(1, "not_applicable"), (2, "pass"), (8, "pass")])
def test_two_gpus_can_be_joined_by_nvlinks(count, status):
    facts = accelerator.look(node(), accelerator.Options())
    facts["expected"] = {**facts["expected"], "count": count}
    assert {one.id: one for one in verify(facts)}["gpu.nvlink"].status == status


def shown_memory(sizes):
    """Return the verdict on the memory of eight GPUs; sizes: {number of the GPU: MiB}."""
    facts = accelerator.look(node(), accelerator.Options())
    for number, mib in sizes.items():
        facts["smi"]["gpus"][number]["memory_mib"] = mib
    return {one.id: one for one in verify(facts)}["gpu.memory"]


@pytest.mark.parametrize(
    ("sizes", "found"),
    [({}, "81559 MiB"), ({0: 81000}, "81000 MiB to 81559 MiB"), ({0: 81000, 1: 81200}, "81000 MiB to 81559 MiB")],
)
def test_shown_memory_is_least_and_most(sizes, found):
    assert shown_memory(sizes).found == found


@pytest.mark.parametrize(
    ("scope", "tag", "status"),
    [
        ("volatile", "dram_uncorrectable", "fail"),
        ("volatile", "dram_correctable", "pass"),
        ("aggregate", "dram_uncorrectable", "pass"),
        ("aggregate", "dram_correctable", "pass"),
    ],
)
def test_only_uncorrectable_errors_since_reset_count(scope, tag, status):
    text = eight_gpus()
    start = text.index(f"<{tag}>", text.index(f"<{scope}>"))
    text = text[:start] + text[start:].replace(f"<{tag}>0<", f"<{tag}>5<", 1)
    assert judge(node(text))["gpu.ecc"].status == status


def test_histogram_is_read_where_it_is_printed():
    for word in ("ERR!", "N/A"):
        text = eight_gpus(row_remapper_histogram_low=word)
        assert judge(node(text))["gpu.ecc"].status == "undeterminable", word
    block = re.compile(r"<row_remapper_histogram>.*?</row_remapper_histogram>", re.DOTALL)
    text = block.sub("<row_remapper_histogram>N/A</row_remapper_histogram>", eight_gpus())
    assert judge(node(text))["gpu.ecc"].status == "pass"


def test_remapped_rows_count_on_gpus_that_retire_pages():
    text = eight_gpus()
    for old, new in (
        ("<product_architecture>Hopper<", "<product_architecture>Turing<"),
        ("<retired_count>N/A", "<retired_count>0"),
    ):
        text = text.replace(old, new)
    text = text.replace("<pending_blacklist>N/A", "<pending_blacklist>No")
    text = text.replace("<pending_retirement>N/A", "<pending_retirement>No")
    assert judge(node(text))["gpu.ecc"].status == "pass"
    bad = text.replace("<remapped_row_failure>No", "<remapped_row_failure>Yes")
    assert judge(node(bad))["gpu.ecc"].status == "fail"


CLOCK = "clocks_event_reasons_counters_hw_power_brake"


@pytest.mark.parametrize(
    ("architecture", "word", "status"),
    [
        ("Hopper", "N/A", "undeterminable"),
        ("Ampere", "N/A", "pass"),
        ("Ampere", "Unknown Error", "undeterminable"),
        ("Hopper", "7 us", "pass"),
    ],
)
def test_counters_of_lowered_clocks(architecture, word, status):
    text = eight_gpus(**{CLOCK: word}).replace(">Hopper<", f">{architecture}<")
    assert judge(node(text))["gpu.clocks"].status == status


def test_older_driver_prints_no_counters_of_lowered_clocks():
    assert judge(node(old_driver("570.86.15", CLOCK)))["gpu.clocks"].status == "pass"


def test_single_lane_beside_wide_neighbours_fails():
    assert judge(node(eight_gpus(current_link_width="1x")))["gpu.pcie"].status == "fail"


def test_failed_nvlink_command_is_undeterminable():
    facts = accelerator.look(node(), accelerator.Options())
    facts["nvlinks"]["problem"] = "nvidia-smi nvlink: no answer"
    found = {one.id: one for one in verify(facts)}["gpu.nvlink"]
    assert (found.status, found.reason) == ("undeterminable", "nvidia-smi nvlink: no answer")


@pytest.mark.parametrize("source", [None, "a table"])
def test_gpus_without_switches_name_their_source(source):
    facts = accelerator.look(node(V100), accelerator.Options(instance_type="p3dn.24xlarge"))
    facts["expected_source"] = source
    found = {one.id: one for one in verify(facts)}["gpu.topology"]
    assert (found.status, found.source) == (
        "not_applicable",
        source or "EC2 User Guide, instance type naming conventions",
    )


def test_gpus_of_unknown_type_may_have_switches():
    facts = accelerator.look(node(), accelerator.Options())
    facts["type_known"] = False
    found = {one.id: one for one in verify(facts)}
    for name in ("gpu.topology", "gpu.fabric"):
        assert found[name].reason == "whether the GPUs are joined by NVSwitches is not known", name


def test_connections_that_topology_lacks_are_counted():
    facts = accelerator.look(node(), accelerator.Options())
    facts["topology"]["matrix"]["GPU0"].pop("GPU1")
    found = {one.id: one for one in verify(facts)}["gpu.topology"]
    assert found.reason == "nvidia-smi topo shows 55 of 56 connections"
