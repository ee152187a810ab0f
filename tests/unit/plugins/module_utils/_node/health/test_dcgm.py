# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DCGM's figures. Both output formats are as documented; the figures are invented, as none were recorded."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import dcgm as health_dcgm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import drain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import formats as report_formats
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Report

from tests.unit.fakes.fake_training_host import TrainingHost, hanging

NAMES = [field.name for field in health_dcgm.FIELDS]
GOOD = {
    "temperature": "45", "memory_temperature": "52", "power": "57.430", "pcie_replays": "0", "xid": "0",
    "ecc_corrected": "3", "ecc_uncorrected": "0", "remapped_corrected": "1", "remapped_uncorrected": "0",
    "remap_failure": "0", "remap_pending": "0",
}  # fmt: skip
# The UUID in the driver's file before a program has used the GPU.
UNREAD = "GPU-????????-????-????-????-????????????"
FIRST, SECOND, OTHER = (f"GPU-{digit * 8}-aaaa-bbbb-cccc-{digit * 12}" for digit in "012")
LISTENS = "   1: 0100007F:24B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 1\n"


def dmon(**changes):
    """Return two GPUs as dcgmi dmon prints them; ``changes`` apply to the second."""
    rows = [list(GOOD.values()), [{**GOOD, **changes}[name] for name in NAMES]]
    head = "#Entity   TMPTR   MMTMP   POWER   PCIRP   XIDER   ESVTL   EDVTL   RRCOR   RRUNC   RRFAIL   RRPND   \n"
    return head + "ID        C\n" + "".join(f"GPU {at}     {'   '.join(row)}   \n" for at, row in enumerate(rows))


def exporter(**changes):
    names = {field.name: field.names[0] for field in health_dcgm.FIELDS}
    lines = ["# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).", "# TYPE DCGM_FI_DEV_GPU_TEMP gauge"]
    for at, values in enumerate((GOOD, {**GOOD, **changes})):
        labels = f'gpu="{at}",UUID="GPU-{at}",device="nvidia{at}",modelName="NVIDIA H100 80GB HBM3"'
        lines += [f"{names[name]}{{{labels}}} {value}" for name, value in values.items()]
    return "\n".join([*lines, 'DCGM_FI_DEV_SM_CLOCK{gpu="0"} 1980', ""])


def gpus_of(host, *uuids):
    """Let the driver have GPUs with these UUIDs."""
    for number, uuid in enumerate(uuids):
        text = f"Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
        host.files[f"/proc/driver/nvidia/gpus/0000:{number:02x}:00.0/information"] = text
    return host


def engine(output, running=True):
    host = gpus_of(TrainingHost(), UNREAD, UNREAD)
    host.programs.add("dcgmi")
    if running:
        host.files["/proc/4711/comm"] = "nv-hostengine\n"
    host.commands["/usr/bin/dcgmi dmon"] = output
    return host


def served(output):
    host = gpus_of(TrainingHost(), UNREAD, UNREAD)
    host.files["/proc/net/tcp"] = LISTENS
    host.commands["curl"] = output
    return host


HOSTS = {"dcgmi": lambda **changes: engine(dmon(**changes)), "exporter": lambda **changes: served(exporter(**changes))}


def by_id(host, **options):
    return {one.id: one for one in health_dcgm.check_dcgm(host, **options)}


@pytest.fixture(params=HOSTS)
def source(request):
    return HOSTS[request.param]


def test_good_node_passes_by_either_source(source):
    found = by_id(source())
    assert set(found) == {"dcgm.fields", *(f"dcgm.{name}" for name in NAMES)}
    assert found["dcgm.fields"].found == "11 of 11 fields of 2 GPUs"
    assert found["dcgm.power"].reason == "57.43 W on 2 GPUs; no limit is known"
    assert by_id(source(power="99"))["dcgm.power"].reason.startswith("57.43 to 99 W on 2 GPUs")
    assert found["dcgm.power"].found == {"gpu0": 57.43, "gpu1": 57.43}
    judged = {name for name, one in found.items() if one.status == "pass"}
    assert judged == {"dcgm.fields", "dcgm.xid", "dcgm.ecc_uncorrected", "dcgm.remap_failure", "dcgm.remap_pending"}
    assert {one.status for name, one in found.items() if name not in judged} == {"not_applicable"}
    assert {one.source for one in found.values()} == {"DCGM"}


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("xid", "79", "reboot"),
        ("ecc_uncorrected", "2", "reset"),
        ("remap_failure", "1", "isolate"),
        ("remap_pending", "1", "reset"),
    ],
)
def test_faulty_gpu_is_named(source, name, value, severity):
    one = by_id(source(**{name: value}))[f"dcgm.{name}"]
    assert (one.status, one.severity, one.scope.device) == ("fail", severity, "gpu1")
    assert one.found["gpu1"] == float(value)
    assert one.expected == (None if name == "xid" else 0)


def test_worst_xid_counts_unless_allowed(source):
    host = source(xid="79")
    assert by_id(host)["dcgm.xid"].hint
    assert by_id(host, allowed_xids=[79])["dcgm.xid"].status == "pass"
    # An Xid that only reports a failed application is not a fault of the node.
    assert by_id(source(xid="13"))["dcgm.xid"].status == "pass"


@pytest.mark.parametrize("name", ["ecc_uncorrected", "remap_failure", "temperature"])
def test_gpu_without_figure_is_undeterminable(source, name):
    one = by_id(source(**{name: "N/A"}), most_celsius=80)[f"dcgm.{name}"]
    (field,) = (field for field in health_dcgm.FIELDS if field.name == name)
    assert (one.status, one.message) == ("undeterminable", f"gpu1 {field.names[0]} reads 'N/A'")
    # A GPU that never had an Xid may have no figure.
    assert by_id(source(xid="N/A"))["dcgm.xid"].status == "pass"


def test_temperature_is_judged_by_site_limit(source):
    assert by_id(source(), most_celsius=80)["dcgm.temperature"].status == "pass"
    hot = by_id(source(temperature="91"), most_celsius=80)["dcgm.temperature"]
    assert (hot.status, hot.severity, hot.scope.device) == ("fail", "monitor", "gpu1")
    assert by_id(source(temperature="0"), most_celsius=80)["dcgm.temperature"].status == "pass"


@pytest.mark.parametrize("blank", ["N/A", "2147483632", "9223372036854775792", "-1", "nan"])
def test_blank_value_is_not_a_figure(source, blank):
    found = by_id(source(temperature=blank, xid=blank))
    assert found["dcgm.temperature"].found == found["dcgm.temperature"].found | {"gpu0": 45.0}
    assert "gpu1" not in found["dcgm.temperature"].found and found["dcgm.xid"].found == {"gpu0": 0.0}


NO_FIGURE = "DCGM reported no figure for any GPU"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (engine(CommandResult(1, "", "Error: unable to establish a connection to the host")), "unable to establish"),
        (engine(hanging("dcgmi dmon", 20)), "20"),
        (engine("#Entity TMPTR\nID C\nGPU 0 45\n"), NO_FIGURE),
        (engine("".join(f"GPU {at} {' '.join(['N/A'] * len(NAMES))}\n" for at in range(2))), NO_FIGURE),
        (engine(""), NO_FIGURE),
        (served(CommandResult(7, "", "curl: (7) Failed to connect")), "Failed to connect"),
        (served("# nothing\n"), NO_FIGURE),
    ],
)
def test_dcgm_without_values_is_undeterminable(host, reason):
    (one,) = health_dcgm.check_dcgm(host)
    assert (one.id, one.status, one.source) == ("dcgm.fields", "undeterminable", "DCGM")
    assert reason in one.reason


@pytest.mark.parametrize(
    ("host", "words"),
    [(TrainingHost(), "DCGM is not installed"), (engine(dmon(), running=False), "nv-hostengine is not running")],
)
def test_missing_dcgm_is_not_applicable(host, words):
    (one,) = health_dcgm.check_dcgm(host)
    assert one.status == "not_applicable" and words in one.reason
    assert host.calls == []


def test_worst_mig_part_counts():
    lines = [f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",GPU_I_ID="{at}"}} {value}' for at, value in enumerate((0, 94, 0))]
    assert health_dcgm.parse_exporter("\n".join([*lines, ""]))[0]["xid"] == {"gpu0": "94"}
    lines.append('DCGM_FI_DEV_XID_ERRORS{gpu="0",GPU_I_ID="9"} ERR!')
    assert health_dcgm.parse_exporter("\n".join([*lines, ""]))[0]["xid"] == {"gpu0": "ERR!"}


def test_sample_without_gpu_belongs_to_none():
    page = 'DCGM_EXP_STARTED{Hostname="n1"} 1\nDCGM_FI_DEV_GPU_TEMP{UUID="GPU-0"} 99\n'
    words, gpus = health_dcgm.parse_exporter(page)
    assert gpus == set() and not any(words.values())
    assert by_id(served(page + exporter()))["dcgm.temperature"].found == {"gpu0": 45.0, "gpu1": 45.0}


def test_figures_are_exported_to_prometheus():
    results = tuple(health_dcgm.check_dcgm(engine(dmon(xid="79"))))
    text = report_formats.prometheus([Report("n1", "2026-01-31T12:00:00Z", {}, results)])
    assert 'mlcluster_check_value{node="n1",check="dcgm.power",number="1",unit="W",key="gpu1"} 57.43\n' in text
    assert 'check="dcgm.xid",device="gpu1",number="1",unit="last Xid",key="gpu1"} 79\n' in text
    assert 'check="dcgm.xid",device="gpu1",number="1",unit="last Xid",key="gpu0"} 0\n' in text


def test_truncated_gpu_line_is_undeterminable():
    text = dmon().rstrip().rpartition("GPU 1")[0] + "GPU 1     45   52\n"
    found = by_id(engine(text), most_celsius=80)
    assert {found[f"dcgm.{name}"].status for name in ("xid", "ecc_uncorrected", "remap_failure", "temperature")} == {
        "undeterminable"
    }
    assert found["dcgm.xid"].reason == "no value of gpu1"
    names = ", ".join(f"{field.names[0]} of gpu1" for field in health_dcgm.FIELDS[:4])
    assert found["dcgm.fields"].reason == f"DCGM reports no value of {names} and 7 more"
    assert "gpu1 DCGM_FI_DEV_ECC_DBE_VOL_TOTAL is missing" in found["dcgm.ecc_uncorrected"].message


@pytest.mark.parametrize(("number", "rest"), [(4, ""), (5, " and 1 more")])
def test_missing_values_are_counted(number, rest):
    fields = health_dcgm.FIELDS[5:]
    found = by_id(engine(dmon(**{field.name: "N/A" for field in fields[:number]})))["dcgm.fields"]
    shown = ", ".join(f"{field.names[0]} of gpu1" for field in fields[:4])
    assert (found.status, found.reason) == ("undeterminable", f"DCGM reports no value of {shown}{rest}")


def test_gpu_missing_from_metric_is_undeterminable():
    text = "\n".join(row for row in exporter().splitlines() if "ECC_DBE" not in row or 'gpu="0"' in row)
    assert by_id(served(text))["dcgm.ecc_uncorrected"].status == "undeterminable"


@pytest.mark.parametrize("there", [0, 1, 2, 3])
def test_other_number_of_gpus_than_driver_is_no_pass(source, there):
    host = source()
    host.files = {path: text for path, text in host.files.items() if "/driver/nvidia/" not in path}
    found = by_id(gpus_of(host, *[UNREAD] * there))["dcgm.fields"]
    assert found.status == ("pass" if there == 2 else "undeterminable")
    assert there == 2 or found.reason == f"DCGM reports 2 GPUs, and the driver has {there}"


def test_gpus_of_other_numbers_are_no_pass():
    found = by_id(engine(dmon().replace("GPU 1 ", "GPU 2 ")))["dcgm.fields"]
    assert (found.status, found.reason) == ("undeterminable", "DCGM reports gpu0, gpu2, and the driver has 2 GPUs")


@pytest.mark.parametrize(
    ("uuids", "status"),
    [
        ((FIRST, SECOND), "pass"), ((SECOND, FIRST), "pass"), ((FIRST, OTHER), "undeterminable"),
        ((OTHER, UNREAD), "pass"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("label", ["UUID", "uuid"])
def test_exporter_of_other_gpus_is_no_pass(uuids, status, label):
    """Without the UUIDs of all GPUs of the driver only the numbers are compared."""
    page = exporter().replace("GPU-0", FIRST).replace("GPU-1", SECOND).replace("UUID=", f"{label}=")
    found = by_id(gpus_of(served(page), *uuids))["dcgm.fields"]
    assert found.status == status
    assert status == "pass" or found.reason == f"DCGM reports GPUs with other UUIDs than the driver: {SECOND}"


@pytest.mark.parametrize(
    ("name", "word", "status"),
    [
        ("power", "N/A", "undeterminable"), ("power", "ERR!", "undeterminable"),
        ("ecc_corrected", "-1", "undeterminable"),
        ("xid", "N/A", "pass"), ("xid", "ERR!", "undeterminable"), ("power", "0", "pass"),
    ],
)  # fmt: skip
def test_value_that_one_gpu_lacks_is_no_pass(source, name, word, status):
    found = by_id(source(**{name: word}))["dcgm.fields"]
    (field,) = (field for field in health_dcgm.FIELDS if field.name == name)
    assert found.status == status
    assert status == "pass" or found.reason == f"DCGM reports no value of {field.names[0]} of gpu1"


def test_fields_that_no_gpu_has_are_named():
    rows = [f"GPU {at} {' '.join({**GOOD, 'memory_temperature': 'N/A'}.values())}" for at in range(2)]
    found = by_id(engine("\n".join([*rows, ""])))["dcgm.fields"]
    assert (found.status, found.found) == ("pass", "10 of 11 fields of 2 GPUs, without memory_temperature")


def test_drain_for_missing_gpu_ends_with_whole_dcgm():
    lost = [one for one in health_dcgm.check_dcgm(gpus_of(engine(dmon()), *[UNREAD] * 3)) if one.id == "dcgm.fields"]
    drained, _severity = drain.drained_for(drain.reason_for(lost))
    whole = health_dcgm.check_dcgm(engine(dmon()))
    assert drained == ["dcgm.fields"] and drain.vanished(drained, whole) == []
    assert [one.status for one in whole if one.id in drained] == ["pass"]
    assert drain.vanished(drained, health_dcgm.check_dcgm(TrainingHost())) == ["dcgm.fields"]


@pytest.mark.parametrize("word", ["N/A", "2147483634", "9223372036854775794"])
def test_unsupported_field_is_not_applicable(word):
    rows = dict.fromkeys(("remap_failure", "remap_pending", "ecc_uncorrected", "memory_temperature"), word)
    values = [{**GOOD, **rows}[name] for name in NAMES]
    found = by_id(engine("".join(f"GPU {at} {' '.join(values)}\n" for at in range(2))))
    assert {name: found[f"dcgm.{name}"].status for name in rows} == {
        "remap_failure": "not_applicable",
        "remap_pending": "not_applicable",
        "ecc_uncorrected": "undeterminable",
        "memory_temperature": "not_applicable",
    }
    # There is nothing to act on.
    assert {found[f"dcgm.{name}"].hint for name in ("remap_failure", "remap_pending")} == {None}
    assert found["dcgm.remap_failure"].reason == "DCGM has no value of it"


@pytest.mark.parametrize("word", ["ERR!", "nan", "-1", "Infinity", "", "79.5", "0.5"])
def test_non_numeric_xid_is_undeterminable(source, word):
    found = by_id(source(xid=word or "[Not"))["dcgm.xid"]
    assert found.status == "undeterminable" and "gpu1 reads" in found.reason


def test_xid_without_any_value_is_undeterminable(source):
    values = [{**GOOD, "xid": "N/A"}[name] for name in NAMES]
    assert by_id(engine(f"GPU 0 {' '.join(values)}\n"))["dcgm.xid"].status == "undeterminable"


def test_fields_are_requested_by_documented_numbers():
    host = engine(dmon())
    health_dcgm.check_dcgm(host)
    assert "/usr/bin/dcgmi dmon -e 150,140,155,202,230,310,311,394,393,395,396 -c 1" in host.calls


BLANKS = [f"{blank + more}" for blank in (2147483632, 9223372036854775792) for more in range(4)]


# Words of DCGM, and words that it does not print but that Python reads as numbers.
@pytest.mark.parametrize(
    "word",
    ["N/A", *BLANKS, None, "", "x", "-1", "-0.5", "nan", "inf", "0,5", "0_0", "1_000", "+0", " 0", "0x0", "infinity"],
)
def test_invalid_word_is_not_a_figure(word):
    assert health_dcgm.figure(word) is None


@pytest.mark.parametrize(
    ("word", "value"), [("0", 0), ("0.5", 0.5), ("2147483631", 2147483631), ("2147483636", 2147483636)]
)
def test_valid_word_is_a_figure(word, value):
    assert health_dcgm.figure(word) == value


@pytest.mark.parametrize(
    ("name", "row", "status"),
    [
        ("tcp6", "   0: 00000000000000000000000000000000:24B8 0:0 0A x\n", "pass"),
        ("tcp", "   0: 0100007F:24B8 0100007F:9C40 01 x\n", "not_applicable"),
        ("tcp", "   0: 0100007F:24B9 00000000:0000 0A x\n", "not_applicable"),
    ],
)
def test_exporter_is_read_if_port_is_open(name, row, status):
    host = served(exporter())
    host.files = {f"/proc/net/{name}": row}
    found = by_id(host)
    assert found["dcgm.xid" if status == "pass" else "dcgm.fields"].status == status
    assert bool(host.calls) is (status == "pass")


@pytest.mark.parametrize(("most", "status"), [(45, "pass"), (44.9, "fail"), (0, "fail")])
def test_temperature_at_limit_passes(source, most, status):
    found = by_id(source(), most_celsius=most)["dcgm.temperature"]
    assert (found.status, found.expected) == (status, most)
    # That of the memory has no bound.
    assert by_id(source(), most_celsius=0)["dcgm.memory_temperature"].status == "not_applicable"


def test_gpus_are_listed_by_number():
    rows = [f"GPU {at} {' '.join({**GOOD, 'ecc_uncorrected': 'ERR!'}.values())}" for at in (10, 2, 1)]
    found = by_id(engine("\n".join(rows)))["dcgm.ecc_uncorrected"]
    assert [part.split()[0] for part in found.message.split("; ")] == ["gpu1", "gpu2", "gpu10"]


@pytest.mark.parametrize(
    ("words", "kept"),
    [(("1", "3", "2"), "3"), (("N/A", "3"), "N/A"), (("3", "ERR!", "9"), "ERR!"), (("1", "1.0"), "1")],
)
def test_worst_of_several_words_is_kept(words, kept):
    lines = [f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",GPU_I_ID="{at}"}} {word}' for at, word in enumerate(words)]
    assert health_dcgm.parse_exporter("\n".join([*lines, ""]))[0]["power"] == {"gpu0": kept}


def test_two_xids_take_worse_severity():
    values = [[{**GOOD, "xid": xid}[name] for name in NAMES] for xid in ("48", "79")]
    text = "".join(f"GPU {at} {' '.join(row)}\n" for at, row in enumerate(values))
    found = by_id(engine(text))["dcgm.xid"]
    assert (found.status, found.severity, found.scope.device) == ("fail", "reboot", None)
    assert found.message == "gpu0 last reported Xid 48; gpu1 last reported Xid 79"


NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("rest", "word"),
    [
        ("", "79"),
        (f" {int(NOW.timestamp())}000", "79"),
        (f" {int(NOW.timestamp()) - 300}000", "79"),
        (f" {int(NOW.timestamp()) - 301}000", health_dcgm.STALE),
        (f" {int(NOW.timestamp()) + 301}000", health_dcgm.STALE),
        (" soon", health_dcgm.STALE),
        (f" {int(NOW.timestamp())}000 more", health_dcgm.STALE),
    ],
)
def test_sample_of_another_time_is_no_figure(rest, word):
    line = f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",pod="a{{b}}"}} 79{rest}\n'
    assert health_dcgm.parse_exporter(line, NOW)[0]["xid"] == {"gpu0": word}
    assert health_dcgm.figure(health_dcgm.STALE) is None
    assert not rest or health_dcgm.parse_exporter(line)[0]["xid"] == {"gpu0": health_dcgm.STALE}


@pytest.mark.parametrize(("make", "host"), [(dmon, engine), (exporter, served)], ids=["dcgmi", "exporter"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", "95"), ("ecc_uncorrected", "12"), ("xid", "79"), ("remap_failure", "10"), ("remap_pending", "10")],
)
def test_output_cut_anywhere_hides_no_bad_figure(make, host, name, value):
    text = make(**{name: value})
    for end in range(len(text)):
        found = by_id(host(text[:end]), most_celsius=90)
        verdict = found.get(f"dcgm.{name}")
        assert found["dcgm.fields"].status != "pass" or verdict.status != "pass", text[:end]


def test_figure_that_breaks_off_is_no_figure():
    """95 C would be 9 C."""
    line = 'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1"} 9'
    text = "\n".join(one for one in exporter().splitlines() if not one.startswith(line[:28])) + f"\n{line}"
    assert by_id(served(text), most_celsius=90)["dcgm.temperature"].status == "undeterminable"
    row = dmon().rstrip()
    assert by_id(engine(row))["dcgm.fields"].status == "undeterminable"


def test_columns_in_another_order_are_no_figures():
    text = dmon()
    assert by_id(engine(text.replace("TMPTR   MMTMP", "MMTMP   TMPTR")))["dcgm.fields"].status == "undeterminable"
    assert by_id(engine(text.replace("XIDER   ESVTL", "ESVTL   XIDER")))["dcgm.fields"].status == "undeterminable"
    # A blank behind the mark moves no column.
    spaced = text.replace("#Entity ", "# Entity ").replace("ID ", "# Id ")
    assert by_id(engine(spaced))["dcgm.fields"].status == "pass"
    wrong = spaced.replace("TMPTR   MMTMP", "MMTMP   TMPTR")
    assert by_id(engine(wrong))["dcgm.fields"].status == "undeterminable"
    # Headings that are not known prove nothing.
    assert by_id(engine(text.replace("TMPTR", "GPUTEMP").replace("XIDER", "XID")))["dcgm.fields"].status == "pass"


@pytest.mark.parametrize("word", ["\u0660", "\uff10", "0x0", "+0", "-0", "0,0", "1_0", "\u00b9"])
def test_number_in_another_notation_is_no_figure(source, word):
    assert by_id(source(remap_failure=word))["dcgm.remap_failure"].status == "undeterminable"
