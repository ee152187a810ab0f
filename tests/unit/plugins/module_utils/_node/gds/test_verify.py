# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide as gds
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import verify as gds_verify

from tests.unit.fakes.fake_gds_host import (
    LIBRARY,
    Asker,
    GdsHost,
    enable_p2pdma,
    fixture,
    load_nvidia_fs,
    node,
    outcome,
    raid0,
)

OPENED = outcome(step="open", log=fixture("libcufile-1.15-h200-compat-allowed.log"))
NO_MODULE = outcome("refused", "open", fixture("libcufile-1.15-h200-compat-forbidden.log"), err=5001)
TAKEN = outcome()


def verdicts(host, asker, required=(), path="/data", active=True):
    facts = gds.survey(host, [path], active, asker=asker)
    results = gds_verify.verify(facts, required)
    return {entry.id: entry for entry in results}


def test_compat_mode_without_requirement_passes():
    found = verdicts(node(), Asker(OPENED, strict=NO_MODULE, own=TAKEN))
    assert {name: entry.status for name, entry in found.items()} == {
        "gds.driver": "pass",
        "gds.library": "pass",
        "gds.module": "not_applicable",
        "gds.mode": "pass",
        "gds.prerequisites": "not_applicable",
    }
    assert found["gds.mode"].line().startswith("PASS gds.mode (/data): compat: nvfs lacks nvidia_fs_module")
    assert found["gds.mode"].seconds == 2.0
    assert found["gds.prerequisites"].found["p2pdma"][0] == "udev" or found["gds.prerequisites"].found["nvfs"]


def test_compat_mode_fails_with_hint_if_direct_is_required():
    found = verdicts(node(), Asker(OPENED, strict=NO_MODULE, own=TAKEN), ["nvfs", "p2pdma"])
    mode = found["gds.mode"]
    assert (mode.status, mode.expected, mode.found, mode.severity) == ("fail", ["nvfs", "p2pdma"], "compat", "monitor")
    assert "nvidia_fs_module: install nvidia-fs" in mode.hint
    assert "registry_dwords: set 'options nvidia" in mode.hint
    assert found["gds.prerequisites"].status == "fail"


@pytest.mark.parametrize("required", [[], ["nvfs"]])
def test_kernel_module_of_unknown_kind_is_undeterminable(required):
    host = node()
    host.files["/proc/driver/nvidia/version"] = "NVRM version: unreadable\n"
    found = verdicts(host, Asker(OPENED, strict=NO_MODULE, own=TAKEN), required)
    assert found["gds.driver"].status == "undeterminable"


def test_required_compat_mode_passes():
    found = verdicts(node(), Asker(OPENED, strict=NO_MODULE, own=TAKEN), ["compat"])
    assert (found["gds.mode"].status, found["gds.mode"].expected) == ("pass", "compat")


def test_direct_path():
    host = node()
    load_nvidia_fs(host)
    found = verdicts(host, Asker(outcome(step="open"), strict=TAKEN), ["nvfs"])
    assert {entry.status for entry in found.values()} == {"pass"}
    assert found["gds.module"].found == "nvidia-fs 2.27 with nvme"


def test_other_direct_path_does_not_do():
    host = node()
    enable_p2pdma(host)
    found = verdicts(host, Asker(outcome(step="open"), strict=TAKEN, no_p2pdma=NO_MODULE), ["nvfs"])
    assert (found["gds.mode"].status, found["gds.mode"].found) == ("fail", "p2pdma")
    assert found["gds.module"].status == "fail"


def test_no_gpu_node():
    found = verdicts(GdsHost(), Asker(OPENED))
    assert found["gds.driver"].status == "not_applicable"
    assert verdicts(GdsHost(), Asker(OPENED), ["compat"])["gds.driver"].status == "fail"
    host = node()
    del host.files["/proc/driver/nvidia/version"]
    found = verdicts(host, Asker(OPENED))
    assert {entry.status for entry in found.values()} == {"not_applicable"}
    assert "was not opened" in found["gds.library"].message


def test_no_library():
    host = node()
    del host.files[LIBRARY]
    found = verdicts(host, Asker(OPENED))
    assert found["gds.library"].status == found["gds.mode"].status == "not_applicable"
    assert verdicts(host, Asker(OPENED), ["compat"])["gds.mode"].status == "fail"


def test_proprietary_driver_matters_only_for_direct_path():
    host = node()
    host.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n"
    asker = Asker(OPENED, strict=NO_MODULE, own=TAKEN)
    assert verdicts(host, asker)["gds.driver"].status == "not_applicable"
    failed = verdicts(host, asker, ["p2pdma"])["gds.driver"]
    assert (failed.status, failed.found) == ("fail", "550.54.15 (proprietary kernel module)")


def test_invalid_json_is_undeterminable():
    host = node()
    host.files["/etc/cufile.json"] = "{"
    found = verdicts(host, Asker(OPENED), ["compat"])
    assert found["gds.library"].status == found["gds.mode"].status == "undeterminable"
    assert "cannot be read as JSON with comments" in found["gds.library"].reason


@pytest.mark.parametrize(
    ("state", "status"), [("hang", "undeterminable"), ("crash", "undeterminable"), ("refused", "fail")]
)
def test_library_that_does_not_open(state, status):
    found = verdicts(node(), Asker(outcome(state, "open")), active=False)
    assert found["gds.library"].status == status


def test_no_answer_is_undeterminable_even_if_required():
    found = verdicts(node(), Asker(OPENED, strict=outcome("hang")), ["compat"])
    assert (found["gds.mode"].status, found["gds.mode"].reason) == ("undeterminable", "register was hang")


def test_wrong_block_isolates_node():
    found = verdicts(node(), Asker(OPENED, strict=outcome("corrupt", "compare")))
    assert (found["gds.mode"].status, found["gds.mode"].severity) == ("fail", "isolate")


def test_cufile_that_rejects_file_fails():
    refused = outcome("refused", err=5027, reason="5027")
    found = verdicts(node(), Asker(OPENED, strict=NO_MODULE, own=refused))
    assert (found["gds.mode"].status, found["gds.mode"].found) == ("fail", "none")


def test_nothing_missing_and_nothing_proved():
    host = node()
    enable_p2pdma(host)
    found = verdicts(host, Asker(outcome(step="open")), active=False)
    assert found["gds.mode"].status == found["gds.prerequisites"].status == "undeterminable"


def test_layout_fails_only_if_it_blocks_required_mode():
    host = node()
    raid0(host)
    enable_p2pdma(host)
    asker = Asker(OPENED, strict=NO_MODULE, own=TAKEN)
    verdict = verdicts(host, asker, [], "/raid")["gds.layout"]
    assert (verdict.status, "does not work over md on x86" in verdict.line()) == ("not_applicable", True)
    assert verdicts(host, asker, ["nvfs", "p2pdma"], "/raid")["gds.layout"].status == "not_applicable"
    failed = verdicts(host, asker, ["p2pdma"], "/raid")["gds.layout"]
    assert (failed.status, failed.expected, failed.found) == ("fail", "disk", "md")


@pytest.mark.parametrize("required", [[], ["nvfs"]])
@pytest.mark.parametrize("text", [None, "", "version:\n", "unreadable\n"])
def test_module_without_its_version_is_no_pass(required, text):
    host = node()
    load_nvidia_fs(host)
    host.files["/sys/module/nvidia_fs/refcnt"] = "1\n"
    if text is None:
        del host.files["/proc/driver/nvidia-fs/version"]
    else:
        host.files["/proc/driver/nvidia-fs/version"] = text
    found = verdicts(host, Asker(outcome(step="open"), strict=TAKEN), required)["gds.module"]
    assert found.status == "undeterminable" and "/proc/driver/nvidia-fs/version" in found.message


@pytest.mark.parametrize(
    ("required", "modules", "status"),
    [
        ([], None, "undeterminable"),
        (["nvfs"], None, "undeterminable"),
        ([], "", "not_applicable"),
        (["nvfs"], "", "fail"),
        (["nvfs", "compat"], "", "not_applicable"),
        (["nvfs"], "nvme: 1.0\n", "pass"),
        ([], "nvme: 1.0\n", "pass"),
    ],
)
def test_module_passes_only_with_storage_driver(required, modules, status):
    host = node()
    load_nvidia_fs(host, modules or "")
    if modules is None:
        del host.files["/proc/driver/nvidia-fs/modules"]
    found = verdicts(host, Asker(outcome(step="open"), strict=TAKEN), required)["gds.module"]
    assert found.status == status


def facts_of_a_direct_path():
    host = node()
    load_nvidia_fs(host)
    return gds.survey(host, ["/data"], True, asker=Asker(outcome(step="open"), strict=TAKEN))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"proof": "passive"}, "the proof of the path reads 'passive'"),
        ({"proof": None}, "the proof of the path is missing"),
        ({"probe": {}}, "the answer with compat mode forbidden is missing"),
        ({"probe": {"strict": outcome("hang")}}, "the answer with compat mode forbidden reads 'hang'"),
        ({"probe": {"strict": outcome(err=None)}}, "the status with compat mode forbidden is missing"),
        ({"probe": {"strict": outcome(err=5001)}}, "the status with compat mode forbidden reads '5001'"),
        ({"mode": "compat"}, "the answer with the node's settings is missing"),
        ({"mode": "direct"}, ""),
        ({"mode": None}, ""),
    ],
)
def test_mode_without_its_proof_is_no_pass(change, words):
    facts = facts_of_a_direct_path()
    assert {one.status for one in gds_verify.verify(facts)} == {"pass"}
    facts["mounts"][0].update(change)
    found = {one.id: one for one in gds_verify.verify(facts)}
    assert found["gds.mode"].status == "undeterminable" and words in found["gds.mode"].reason
    assert change == {"mode": "compat"} or found["gds.prerequisites"].status != "pass"


@pytest.mark.parametrize("change", [{"state": "fine"}, {"err": None}, {"err": 5001}])
def test_library_whose_answer_is_unknown_is_no_pass(change):
    facts = facts_of_a_direct_path()
    facts["driver_probe"].update(change)
    found = {one.id: one.status for one in gds_verify.verify(facts)}
    assert found["gds.library"] == "undeterminable"


def test_library_and_driver_without_version_are_no_pass():
    facts = facts_of_a_direct_path()
    facts["library"]["version"] = facts["driver"]["version"] = None
    found = {one.id: one.message for one in gds_verify.verify(facts) if one.status == "undeterminable"}
    assert found == {
        "gds.driver": "the driver's version is missing",
        "gds.library": "the version of libcufile is missing",
    }


def test_library_is_named_with_its_version_and_place():
    facts = facts_of_a_direct_path()
    library = facts["library"]
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.library"]
    assert (found.found, found.seconds) == (f"libcufile {library['version']} ({library['path']})", 1.0)
    library["version"] = None
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.library"]
    assert found.status == "undeterminable" and "the version of libcufile is missing" in found.message


@pytest.mark.parametrize(
    ("changes", "status", "severity"),
    [
        ({"loaded": False}, "not_applicable", "none"),
        ({"loaded": "yes"}, "undeterminable", "none"),
        ({"open_module": False}, "not_applicable", "none"),
        ({"open_module": None}, "undeterminable", "none"),
    ],
)
def test_driver_without_required_direct_mode(changes, status, severity):
    facts = facts_of_a_direct_path()
    facts["driver"].update(changes)
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.driver"]
    assert (found.status, found.severity) == (status, severity)


def test_driver_that_mode_needs():
    facts = facts_of_a_direct_path()
    facts["driver"]["open_module"] = False
    assert {one.id: one for one in gds_verify.verify(facts, ["compat"])}["gds.driver"].status == "not_applicable"
    closed = {one.id: one for one in gds_verify.verify(facts, ["nvfs"])}["gds.driver"]
    assert (closed.status, closed.expected) == ("fail", "the open kernel module")
    facts["driver"]["loaded"] = False
    absent = {one.id: one for one in gds_verify.verify(facts, ["compat"])}["gds.driver"]
    assert (absent.status, absent.severity) == ("fail", "reset")


@pytest.mark.parametrize("required", [["nvfs"], ["nvfs", "compat"], ["p2pdma"], []])
def test_missing_module_fails_if_nvfs_is_required(required):
    facts = facts_of_a_direct_path()
    facts["nvidia_fs"]["loaded"] = False
    found = {one.id: one for one in gds_verify.verify(facts, required)}["gds.module"]
    assert (found.status, found.severity) == (
        ("fail", "monitor") if required == ["nvfs"] else ("not_applicable", "none")
    )


def test_seconds_of_all_probes_of_mount_are_added():
    facts = facts_of_a_direct_path()
    facts["mounts"][0]["probe"] = {"strict": outcome(), "own": outcome()}
    for number, one in enumerate(facts["mounts"][0]["probe"].values()):
        one["seconds"] = 0.1234 + number
    facts["mounts"][0]["probe"]["strict"] = {**facts_of_a_direct_path()["mounts"][0]["probe"]["strict"], "seconds": 1.0}
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.mode"]
    assert (found.status, found.seconds) == ("pass", 2.123)


@pytest.mark.parametrize(
    ("required", "expected"), [(["nvfs"], "nvfs"), (["nvfs", "p2pdma"], ["nvfs", "p2pdma"]), ([], None)]
)
def test_mode_reports_required_modes(required, expected):
    found = {one.id: one for one in gds_verify.verify(facts_of_a_direct_path(), required)}["gds.mode"]
    assert (found.status, found.expected, found.found) == ("pass", expected, "nvfs")


@pytest.mark.parametrize(("library", "driver"), [(True, True), (True, False), (False, True)])
def test_none_fails_with_library_and_driver(library, driver):
    facts = facts_of_a_direct_path()
    facts["mounts"][0].update(mode="none", reason="nothing took it", probe={})
    facts["library"]["path"] = facts["library"]["path"] if library else None
    facts["driver"]["loaded"] = driver
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.mode"]
    assert (found.status, found.found) == ("fail" if library and driver else "not_applicable", "none")
    assert (found.severity == "monitor") == (library and driver)
    assert found.message == "none: nothing took it"


@pytest.mark.parametrize(
    ("missing", "required", "status"),
    [
        ({"nvfs": ["a"], "p2pdma": ["b"]}, [], "not_applicable"),
        ({"nvfs": ["a"], "p2pdma": ["b"]}, ["compat"], "not_applicable"),
        ({"nvfs": ["a"], "p2pdma": ["b"]}, ["nvfs"], "fail"),
        ({"nvfs": ["a"], "p2pdma": []}, ["nvfs"], "fail"),
        ({"nvfs": ["a"], "p2pdma": []}, ["nvfs", "p2pdma"], "undeterminable"),
        ({"nvfs": ["a"], "p2pdma": []}, ["p2pdma"], "undeterminable"),
        ({"nvfs": ["a"], "p2pdma": []}, [], "undeterminable"),
        ({"nvfs": [], "p2pdma": []}, ["nvfs"], "undeterminable"),
    ],
)
def test_prerequisites_of_paths_that_are_required(missing, required, status):
    facts = facts_of_a_direct_path()
    facts["mounts"][0].update(mode="compat", missing=missing, proof="passive")
    found = {one.id: one for one in gds_verify.verify(facts, required)}["gds.prerequisites"]
    assert (found.status, found.found) == (status, missing)
    assert (found.hint is not None) == (status == "fail")


def test_path_that_lacks_nothing_is_named_with_other():
    facts = facts_of_a_direct_path()
    facts["mounts"][0].update(mode="compat", missing={"nvfs": ["a", "b"], "p2pdma": []}, proof="passive")
    found = {one.id: one for one in gds_verify.verify(facts, ["nvfs"])}["gds.prerequisites"]
    assert found.message == "missing for nvfs: a, b; p2pdma: nothing"


@pytest.mark.parametrize(
    ("mode", "required", "layout", "status"),
    [
        ("compat", ["p2pdma"], "md", "fail"),
        ("p2pdma", ["p2pdma"], "md", "not_applicable"),
        ("compat", ["p2pdma", "nvfs"], "md", "not_applicable"),
        ("compat", ["nvfs"], "md", "not_applicable"),
        ("compat", ["p2pdma"], "disk", "not_applicable"),
        ("compat", [], "md", "not_applicable"),
    ],
)
def test_layout_that_is_in_way(mode, required, layout, status):
    found = gds_verify._layout({"mode": mode, "path": "/x", "layout": layout}, "not over md", required)
    assert (found.status, found.found, found.message) == (status, layout, "not over md")
    assert found.expected == ("disk" if status == "fail" else None)


@pytest.mark.parametrize("change", [{"cu_err": 1}, {"cu_err": None}, {"err": False}])
def test_library_whose_status_is_not_zero_is_no_pass(change):
    facts = facts_of_a_direct_path()
    facts["driver_probe"].update(change)
    assert {one.id: one.status for one in gds_verify.verify(facts)}["gds.library"] == "undeterminable"


def test_library_without_answer_reports_reason():
    facts = facts_of_a_direct_path()
    facts["driver_probe"].update(state="hang", reason="it hangs")
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.library"]
    assert (found.status, found.reason, found.seconds) == ("undeterminable", "it hangs", 1.0)
    facts["driver_probe"].update(state="ok", reason="a note")
    assert {one.id: one.status for one in gds_verify.verify(facts)}["gds.library"] == "pass"
    facts["driver_probe"].update(state="hang", reason="")
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.library"]
    assert "the answer to cuFileDriverOpen reads 'hang'" in found.message
    facts["driver_probe"] = None
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.library"]
    assert (found.status, "cannot be read as JSON with comments" in found.reason) == ("undeterminable", True)
    facts["driver"]["loaded"] = False
    found = {one.id: one for one in gds_verify.verify(facts)}["gds.library"]
    assert (found.status, found.reason.endswith("was not opened: the NVIDIA driver is not loaded")) == (
        "not_applicable",
        True,
    )


@pytest.mark.parametrize("change", [{"cu_err": 1}, {"cu_err": None}, {"err": 5001}, {"state": "hang"}])
def test_compat_mode_needs_file_with_node_settings(change):
    facts = gds.survey(node(), ["/data"], True, asker=Asker(OPENED, strict=NO_MODULE, own=TAKEN))
    assert {one.id: one.status for one in gds_verify.verify(facts)}["gds.mode"] == "pass"
    facts["mounts"][0]["probe"]["own"] = {**facts["mounts"][0]["probe"]["own"], **change}
    assert {one.id: one.status for one in gds_verify.verify(facts)}["gds.mode"] == "undeterminable"


@pytest.mark.parametrize("change", [{"cu_err": 1}, {"table": {"compatible": True}}, {"table": {}}])
def test_direct_path_with_contrary_probe_is_no_pass(change):
    facts = facts_of_a_direct_path()
    facts["mounts"][0]["probe"]["strict"] = {**facts["mounts"][0]["probe"]["strict"], **change}
    found = {one.id: one.status for one in gds_verify.verify(facts)}
    assert (found["gds.mode"], found["gds.prerequisites"]) == ("undeterminable", "undeterminable")


@pytest.mark.parametrize("registered", [{"nvme": "1.0", "": "1.0"}, {" ": "1.0"}, ["nvme"], "nvme"])
def test_storage_drivers_without_names_are_not_known(registered):
    facts = facts_of_a_direct_path()
    facts["nvidia_fs"]["registered"] = registered
    assert {one.id: one.status for one in gds_verify.verify(facts)}["gds.module"] == "undeterminable"


def test_mount_that_was_not_probed_took_no_time():
    facts = gds.survey(node(), ["/data"], False, asker=Asker(OPENED))
    assert facts["mounts"][0]["probe"] == {}
    assert {one.id: one for one in gds_verify.verify(facts)}["gds.mode"].seconds is None
