# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide as gds
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.parse import parse_table

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
NO_MODULE = outcome(
    "refused", "open", fixture("libcufile-1.15-h200-compat-forbidden.log"), err=5001, reason="5001: not loaded"
)
REFUSED = outcome("refused", "register", err=5008, reason="cuFileHandleRegister gave 5008")
TAKEN = outcome()
HUNG = outcome("hang", "register", reason="no answer from register within 30 seconds")
CRASHED = outcome("crash", "open", reason="open ended the process with SIGSEGV")
STATES = ("ok", "refused", "hang", "crash", "corrupt", "unusable")

BOTH_IN_LOG = "DRIVER CONFIGURATION:\nNVMe : p2pdma, nvfs, compat\n"
P2PDMA_LINE = (
    "Is PCIP2PDMA Supported: {0} kernel Support: 1 pci_p2pdma_supported_cuda: 1 checkIfAllGPUsSupportP2PDMA(): {0}\n"
)


def survey(host, asker, paths=("/data",), active=True):
    return gds.survey(host, list(paths), active, asker=asker, checker=lambda path, seconds: pytest.fail("not asked"))


def mode(host, asker, path="/data", active=True):
    (mount,) = survey(host, asker, [path], active)["mounts"]
    return mount["mode"], mount["reason"]


def test_recorded_machine_falls_back_to_compat():
    asker = Asker(OPENED, strict=NO_MODULE, own=TAKEN)
    host = node()
    found, reason = mode(host, asker)
    assert found == "compat"
    assert reason.startswith("nvfs lacks nvidia_fs_module, nvme_driver")
    assert asker.questions == [("driver", None), ("strict", "/data"), ("own", "/data")]


def test_recorded_machine_without_udev_takes_no_file_at_all():
    own = outcome("refused", log=fixture("libcufile-1.15-h200-compat-allowed.log"), err=5027, reason="5027: no udev")
    found, reason = mode(node(), Asker(OPENED, strict=NO_MODULE, own=own))
    assert (found, reason.endswith("with compat mode allowed: 5027: no udev")) == ("none", True)


def test_compat_is_not_inferred_without_udev():
    host = node()
    del host.files["/run/udev/data/b259:1"]
    found, reason = mode(host, Asker(OPENED), active=False)
    assert (found, reason.endswith("only an active probe can prove it")) == ("undeterminable", True)


def test_nvfs_is_reported_where_file_was_taken_and_p2pdma_is_off():
    host = node()
    load_nvidia_fs(host)
    asker = Asker(OPENED, strict=TAKEN)
    assert mode(host, asker) == ("nvfs", "a block went through GPU memory with compat mode forbidden")
    assert asker.questions[1:] == [("strict", "/data")]


def test_p2pdma_is_reported_where_file_is_taken_only_with_it():
    host = node()
    enable_p2pdma(host)
    asker = Asker(OPENED, strict=TAKEN, no_p2pdma=NO_MODULE)
    found, reason = mode(host, asker)
    assert (found, reason.endswith("and not without P2PDMA")) == ("p2pdma", True)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (BOTH_IN_LOG, "p2pdma"),
        (BOTH_IN_LOG.replace("p2pdma, ", ""), "nvfs"),
        (P2PDMA_LINE.format(1), "p2pdma"),
        (P2PDMA_LINE.format(0), "nvfs"),
        ("", "undeterminable"),
    ],
)
def test_log_decides_between_two_possible_paths(log, expected):
    host = node()
    enable_p2pdma(host)
    load_nvidia_fs(host)
    asker = Asker(OPENED, strict=outcome(log=log), no_p2pdma=TAKEN)
    assert mode(host, asker)[0] == expected


def test_working_path_lacks_nothing():
    host = node()
    load_nvidia_fs(host)
    facts = survey(host, Asker(OPENED, strict=TAKEN))
    (mount,) = facts["mounts"]
    assert (mount["mode"], mount["missing"]["nvfs"], mount["doubtful"]["nvfs"]) == (
        "nvfs",
        [],
        ["nvidia_fs_module", "udev"],
    )


def test_file_without_possible_path_proves_nothing():
    found, reason = mode(node(), Asker(OPENED, strict=TAKEN))
    assert (found, "by neither path: nvidia-fs is not loaded" in reason) == ("undeterminable", True)
    host = node()
    load_nvidia_fs(host)
    strict = outcome(log="NOTICE cufio-drv:851 running in compatible mode\n")
    found, reason = mode(host, Asker(OPENED, strict=strict))
    assert (found, reason.endswith("its log reports compat mode")) == ("undeterminable", True)


def test_raid_over_p2pdma_on_arm():
    host = node(machine="aarch64")
    raid0(host)
    enable_p2pdma(host)
    taken = outcome(log="DRIVER CONFIGURATION:\nNVMe : p2pdma, compat\n")
    assert mode(host, Asker(OPENED, strict=taken, no_p2pdma=NO_MODULE), "/raid")[0] == "p2pdma"


@pytest.mark.parametrize("row", ["NVMe : c2c, p2pdma, compat", "NVMe : c2c", "NVMe : nvfs", "no table"])
def test_c2c_of_grace_is_not_taken_for_p2pdma(row):
    host = node(machine="aarch64")
    enable_p2pdma(host)
    taken = outcome(log=f"DRIVER CONFIGURATION:\n{row}\n")
    found, reason = mode(host, Asker(OPENED, strict=taken, no_p2pdma=NO_MODULE))
    assert (found, "by P2PDMA or by C2C" in reason) == ("undeterminable", True)


def test_nvfs_is_not_reported_against_libcufile_table():
    host = node()
    load_nvidia_fs(host)
    taken = outcome(log="DRIVER CONFIGURATION:\nNVMe : compat\n")
    found, reason = mode(host, Asker(OPENED, strict=taken))
    assert (found, reason.endswith("libcufile's table does not name nvfs for NVMe")) == ("undeterminable", True)


@pytest.mark.parametrize("section", ["block", "fs"])
def test_partial_p2pdma_is_not_taken_for_nvfs(section):
    host = node()
    load_nvidia_fs(host)
    host.files["/etc/cufile.json"] = f'{{"{section}": {{"nvme": {{"use_pci_p2pdma": true}}}}}}'
    asker = Asker(OPENED, strict=TAKEN, no_p2pdma=REFUSED)
    assert mode(host, asker)[0] == "p2pdma"


@pytest.mark.parametrize("active", [True, False])
def test_missing_path_has_no_mode(active):
    host = node()
    host.absent.add("/data")
    asker = Asker(OPENED)
    assert mode(host, asker, active=active) == ("undeterminable", "/data does not exist")
    assert asker.questions == [("driver", None)]


def test_missing_requested_library_is_named():
    facts = gds.survey(node(), ["/data"], library="/opt/libcufile.so.0")
    assert facts["mounts"][0]["reason"] == "/opt/libcufile.so.0, the requested libcufile, does not exist"


@pytest.mark.parametrize("active", [True, False])
def test_hanging_path_is_skipped(active):
    host = node()
    host.dead.add("/data")
    asker = Asker(OPENED)
    assert mode(host, asker, active=active) == ("undeterminable", "/data did not answer within 10 seconds")
    assert asker.questions == [("driver", None)]


@pytest.mark.parametrize("other", [HUNG, CRASHED, outcome("unusable", "start")])
def test_unidentified_direct_path_is_undeterminable(other):
    host = node()
    enable_p2pdma(host)
    assert mode(host, Asker(OPENED, strict=TAKEN, no_p2pdma=other))[0] == "undeterminable"


@pytest.mark.parametrize("other", [HUNG, CRASHED, outcome("corrupt", "compare")])
def test_table_does_not_replace_answer_without_p2pdma(other):
    host = node()
    enable_p2pdma(host)
    load_nvidia_fs(host)
    found, reason = mode(host, Asker(OPENED, strict=outcome(log=BOTH_IN_LOG), no_p2pdma=other))
    assert (found, "but by which path is open" in reason) == ("undeterminable", True)


def test_over_md_and_lustre_direct_path_is_nvfs():
    host = node()
    raid0(host)
    enable_p2pdma(host)
    load_nvidia_fs(host, "nvme: 1.0\nlnet: 1.0\n")
    host.mount("0:50 / /fsx rw - lustre 10.0.0.1@tcp:/fsx rw")
    asker = Asker(OPENED, strict=outcome(log=BOTH_IN_LOG), no_p2pdma=TAKEN)
    assert [mode(host, asker, path)[0] for path in ("/raid", "/fsx")] == ["nvfs", "nvfs"]


@pytest.mark.parametrize("strict", [HUNG, CRASHED, outcome("unusable", "buffer")])
def test_no_answer_is_undeterminable_and_asks_no_further(strict):
    asker = Asker(OPENED, strict=strict)
    found, reason = mode(node(), asker)
    assert (found, reason) == ("undeterminable", strict["reason"])
    assert len(asker.questions) == 2


@pytest.mark.parametrize("own", [HUNG, CRASHED])
def test_no_answer_with_compat_mode_allowed_is_undeterminable(own):
    assert mode(node(), Asker(OPENED, strict=NO_MODULE, own=own))[0] == "undeterminable"


def test_node_that_forbids_compat_mode_has_none():
    host = node()
    host.files["/etc/cufile.json"] = '{"properties": {"allow_compat_mode": false}}'
    asker = Asker(OPENED, strict=NO_MODULE)
    found, reason = mode(host, asker)
    assert (found, reason.endswith("/etc/cufile.json forbids compat mode")) == ("none", True)


@pytest.mark.parametrize("name", ["force_compat_mode", "posix_io_mode", "vanilla_posix_io_mode"])
def test_forced_compat_mode_skips_direct_probe(name):
    host = node()
    load_nvidia_fs(host)
    host.files["/etc/cufile.json"] = f'{{"properties": {{"{name}": true}}}}'
    asker = Asker(OPENED, own=TAKEN)
    assert mode(host, asker) == ("compat", f"/etc/cufile.json forces compat mode ({name})")
    assert asker.questions[1:] == [("own", "/data")]
    assert mode(host, Asker(OPENED, own=REFUSED))[0] == "none"


def test_corrupt_read_is_none():
    assert mode(node(), Asker(OPENED, strict=outcome("corrupt", "compare")))[0] == "none"


def test_helpful_p2pdma_switch_is_found():
    host = node()
    enable_p2pdma(host)
    del host.files["/etc/cufile.json"]
    facts = survey(host, Asker(OPENED, strict=NO_MODULE, own=TAKEN, with_p2pdma=TAKEN))
    assert facts["mounts"][0]["mode"] == "compat"
    assert gds.advice(facts) == ["/data: P2PDMA works here as soon as properties.use_pci_p2pdma is true"]
    refused = survey(host, Asker(OPENED, strict=NO_MODULE, own=TAKEN, with_p2pdma=REFUSED))
    assert gds.advice(refused) == []


def test_failed_driver_is_not_probed_for_next_mount():
    host = node()
    raid0(host)
    asker = Asker(OPENED, strict=NO_MODULE, own=TAKEN)
    facts = survey(host, asker, ["/data", "/raid"])
    assert [question for question in asker.questions if question[0] == "strict"] == [("strict", "/data")]
    assert [mount["mode"] for mount in facts["mounts"]] == ["compat", "compat"]
    # Nothing was asked, so no time was spent.
    assert facts["mounts"][1]["probe"]["strict"] == {**NO_MODULE, "seconds": 0.0}


def test_refused_file_does_not_affect_next_mount():
    host = node()
    raid0(host)
    asker = Asker(OPENED, strict=REFUSED, own=TAKEN)
    survey(host, asker, ["/data", "/raid"])
    assert [question[1] for question in asker.questions if question[0] == "strict"] == ["/data", "/raid"]


@pytest.mark.parametrize("driver", [HUNG, CRASHED, outcome("unusable", "load")])
def test_hanging_driver_is_not_probed_for_any_mount(driver):
    asker = Asker(driver)
    found, reason = mode(node(), asker)
    assert (found, reason) == ("undeterminable", f"libcufile: {driver['reason']}")
    assert asker.questions == [("driver", None)]


def test_passive_is_compat_if_every_direct_path_lacks_something():
    found, reason = mode(node(), Asker(OPENED), active=False)
    assert found == "compat"
    assert reason.startswith("nvfs lacks nvidia_fs_module, nvme_driver, udev; p2pdma lacks nvme_multipath")


def test_passive_is_undeterminable_if_nothing_is_missing():
    host = node()
    enable_p2pdma(host)
    load_nvidia_fs(host)
    found, reason = mode(host, Asker(outcome(step="open", log=BOTH_IN_LOG)), active=False)
    assert (found, reason) == (
        "undeterminable",
        "nothing that nvfs or p2pdma needs is known to be missing: only an active probe can prove it",
    )


def test_passive_without_compat_mode_or_open_driver_is_none():
    host = node()
    assert mode(host, Asker(NO_MODULE), active=False)[0] == "none"
    host.files["/etc/cufile.json"] = '{"properties": {"allow_compat_mode": false}}'
    assert mode(host, Asker(OPENED), active=False)[0] == "none"


@pytest.mark.parametrize("active", [True, False])
def test_missing_driver_or_library_is_none(active):
    no_driver = node()
    del no_driver.files["/proc/driver/nvidia/version"]
    no_library = node()
    del no_library.files[LIBRARY]
    asker = Asker(OPENED)
    assert mode(no_driver, asker, active=active) == ("none", "the NVIDIA driver is not loaded")
    assert mode(no_library, asker, active=active) == ("none", "libcufile is not installed")
    assert asker.questions == []


def test_no_mount_and_no_valid_configuration_are_undeterminable():
    nowhere = GdsHost()
    nowhere.files["/proc/self/mountinfo"] = "30 1 8:1 / /other rw - ext4 /dev/x rw\n"
    assert mode(nowhere, Asker(OPENED))[0] == "undeterminable"
    host = node()
    host.files["/etc/cufile.json"] = '{"properties": {'
    asker = Asker(OPENED)
    found, reason = mode(host, asker)
    assert (found, "cannot be read" in reason) == ("undeterminable", True)
    assert asker.questions == []
    assert survey(host, asker)["capability"] == {"source": None}


def test_gdscheck_runs_if_libcufile_gave_no_table():
    host = node()
    host.files["/usr/local/cuda/gds/tools/gdscheck.py"] = host.files["/usr/local/cuda/gds/tools/gdscheck"] = ""
    table = parse_table(fixture("gdscheck-1.16-unsupported.txt"))
    asked = []

    def checker(path, seconds):
        asked.append(path)
        return {"state": "ok", "reason": "", "table": table}

    facts = gds.survey(host, ["/data"], asker=Asker(CRASHED), checker=checker)
    assert (facts["capability"]["source"], facts["capability"]["drivers"]["NVMe"]) == ("gdscheck", [])
    assert asked == ["/usr/local/cuda/gds/tools/gdscheck.py"]
    facts = gds.survey(host, ["/data"], asker=Asker(OPENED), checker=checker)
    assert (facts["capability"]["source"], facts["gdscheck"], len(asked)) == ("libcufile", None, 1)


@pytest.mark.parametrize("line", ["", "Kernel does not support PCIP2PDMA"])
def test_finding_of_gdscheck_is_missing_prerequisite(line):
    host = node()
    host.files["/usr/local/cuda/gds/tools/gdscheck.py"] = ""
    answer = {"state": "ok", "reason": "", "table": parse_table(f"{line}\nDRIVER CONFIGURATION:\nNVMe : nvfs\n")}
    facts = gds.survey(host, ["/data"], asker=Asker(CRASHED), checker=lambda path, seconds: answer)
    assert ("kernel_p2pdma" in facts["mounts"][0]["missing"]["p2pdma"]) is bool(line)


def test_link_keeps_its_requested_name():
    host = node()
    host.links["/scratch"] = "/data/scratch"
    (mount,) = survey(host, Asker(OPENED, strict=TAKEN), ["/scratch"])["mounts"]
    assert (mount["path"], mount["mount_point"], mount["proof"]) == ("/scratch", "/data", "active")


def every_host():
    for fs, p2pdma, md in itertools.product((False, True), repeat=3):
        host = node()
        if fs:
            load_nvidia_fs(host)
        if p2pdma:
            enable_p2pdma(host)
        if md:
            raid0(host)
        yield host, "/raid" if md else "/data"


def test_passive_never_affirms_direct_path():
    logs = [BOTH_IN_LOG, fixture("gdscheck-1.13-both.txt"), fixture("gdscheck-1.16-p2pdma-derived.txt"), ""]
    for host, path in every_host():
        for log, state in itertools.product(logs, STATES):
            found, reason = mode(host, Asker(outcome(state, "open", log)), path, active=False)
            assert found in ("compat", "none", "undeterminable")
            assert reason


def test_direct_path_requires_accepted_file():
    for host, path in every_host():
        for strict, other in itertools.product(STATES, repeat=2):
            answers = {name: outcome(other, log=BOTH_IN_LOG) for name in ("own", "no_p2pdma", "with_p2pdma")}
            asker = Asker(OPENED, strict=outcome(strict, log=BOTH_IN_LOG), **answers)
            found, reason = mode(host, asker, path)
            assert found in gds.MODES
            assert reason
            if found in gds.DIRECT:
                assert strict == "ok"
            if found == "compat":
                assert (strict, other) == ("refused", "ok")


@pytest.mark.parametrize(
    ("line", "fields", "words"),
    [
        ("lustre", {"mode": "compat"}, "FSx for Lustre over EFA"),
        ("lustre", {"mode": "nvfs"}, None),
        ("nfs4", {}, "no direct path on EC2"),
        ("overlay", {}, "no direct path on EC2"),
        ("xfs", {"layout": "disk"}, None),
        ("xfs", {"layout": "md", "md_level": "raid0"}, "nvme_raid0_layout: per_disk"),
        ("ext4", {"layout": "lvm"}, "is on LVM"),
        ("ext4", {"layout": "dm"}, "is on device-mapper"),
    ],
)
def test_advice_depends_on_layout(line, fields, words):
    mount = {"path": "/x", "mount_point": "/x", "fstype": line, "layout": "network", "mode": "compat", **fields}
    text = gds.layout_advice(mount, "x86_64", False)
    assert (text is None) if words is None else (words in text)


@pytest.mark.parametrize(("mount_point", "named"), [("/data", "/data is Lustre"), (None, "/data/scratch is Lustre")])
def test_advice_names_mount_point_before_path(mount_point, named):
    mount = {"path": "/data/scratch", "mount_point": mount_point, "fstype": "lustre", "layout": "", "mode": "compat"}
    assert gds.layout_advice(mount, "x86_64", False).startswith(named)


def test_raid0_with_p2pdma_gives_advice_on_x86_only():
    mount = {"path": "/r", "mount_point": "/r", "fstype": "xfs", "layout": "md", "md_level": "raid0", "mode": "compat"}
    assert "P2PDMA, requested here, does not work over md on x86" in gds.layout_advice(mount, "x86_64", True)
    assert gds.layout_advice(mount, None, False) is not None
    assert gds.layout_advice(mount, "aarch64", True) is None


def test_hints_cover_missing_items_of_requested_paths():
    def item(name, state, *paths):
        return {"id": name, "hint": f"do {name}", "state": state, "paths": paths}

    items = [
        item("a", gds.MISSING, gds.NVFS, gds.P2PDMA),
        item("b", "present", gds.NVFS),
        item("c", gds.MISSING, gds.P2PDMA),
        item("a", gds.MISSING, gds.NVFS),
        item("d", gds.MISSING, gds.NVFS),
    ]
    assert gds.hints({"prerequisites": items}, [gds.NVFS]) == ["a: do a", "d: do d"]
    assert gds.hints({"prerequisites": items}, []) == []
