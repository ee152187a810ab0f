# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data.checklists import CHECKLISTS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator import look as accelerator
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import checklist
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, NodeError

from tests.unit.fakes.fake_training_host import PLUGIN, TrainingHost, good_node, hanging


def go_through(host, name, **parameters):
    checks = checklist.choose(name, parameters)
    seen = accelerator.look(host, accelerator.Options())
    return {result.id: result for result in checklist.verify(checks, checklist.look(host, checks, seen))}


def compute_node():
    host = good_node()
    host.programs |= {"docker", "enroot"}
    host.files["/scratch"] = ""
    host.files["/proc/self/mountinfo"] += "30 29 9:0 / /scratch rw - ext4 /dev/md0 rw\n"
    # Eight disks of 3800 GB with ext4 on them.
    host.sizes["/scratch"] = 8 * 3_800_000_000_000 * 98 // 100
    host.files["/proc/4712/comm"] = "slurmd\n"
    return host


def test_checks_are_complete():
    for name, checks in CHECKLISTS.items():
        ids = [check["id"] for check in checks]
        assert len(set(ids)) == len(ids), name
        for check in checks:
            assert check["kind"] in ("equal", "version_at_least", "size", "present")
            assert check["what"]
            assert ("expected" in check) == (check["kind"] != "present")


def test_good_compute_node_passes():
    found = go_through(compute_node(), "compute")
    assert {key: result.status for key, result in found.items()} == dict.fromkeys(
        ["checklist.driver", "checklist.efa", "checklist.gpus", "checklist.scratch"]
        + ["checklist.docker", "checklist.enroot", "checklist.slurm"],
        "pass",
    )
    assert (found["checklist.driver"].found, found["checklist.efa"].found) == ("580.159.04", "1.43.0")


def test_bare_compute_node_fails():
    host = TrainingHost()
    host.files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x8086\n"
    found = go_through(host, "compute")
    assert {key: result.status for key, result in found.items()} == {
        "checklist.driver": "undeterminable",
        "checklist.efa": "fail",
        "checklist.gpus": "fail",
        "checklist.scratch": "fail",
        "checklist.docker": "fail",
        "checklist.enroot": "fail",
        "checklist.slurm": "fail",
    }
    assert (found["checklist.gpus"].severity, found["checklist.gpus"].found) == ("isolate", 0)


def test_scratch_may_be_ten_percent_smaller():
    host = compute_node()
    host.sizes["/scratch"] = 27_648_000_000_000
    assert go_through(host, "compute")["checklist.scratch"].status == "pass"
    host.sizes["/scratch"] -= 1
    result = go_through(host, "compute")["checklist.scratch"]
    assert (result.status, result.expected, result.unit) == ("fail", 27_648_000_000_000, "bytes")


def test_scratch_on_root_disk_is_no_scratch():
    host = compute_node()
    host.sizes["/"] = host.sizes["/scratch"]
    host.files["/proc/self/mountinfo"] = "29 1 8:1 / / rw - ext4 /dev/root rw\n"
    found = go_through(host, "compute")["checklist.scratch"]
    assert (found.status, found.message) == ("fail", "the scratch space is missing")


@pytest.mark.parametrize("broken", ["mounts", "size"])
def test_scratch_of_unknown_size_is_undeterminable(broken):
    host = compute_node()
    if broken == "mounts":
        host.files["/proc/self/mountinfo"] = "?\n"
    else:
        del host.sizes["/scratch"]
    assert go_through(host, "compute")["checklist.scratch"].status == "undeterminable"


def test_good_head_node_passes():
    host = TrainingHost()
    host.files["/sys/bus/pci/devices/0000:00:00.0/vendor"] = "0x8086\n"
    host.files["/opt/amazon/efa_installed_packages"] = "# EFA installer version: 1.26.1\n"
    host.programs |= {"docker", "enroot"}
    host.files["/proc/7/comm"] = "slurmctld\n"
    assert {result.status for result in go_through(host, "head").values()} == {"pass"}
    assert go_through(good_node(), "head")["checklist.gpus"].status == "fail"


@pytest.mark.parametrize(("name", "daemon"), [("head", "slurmctld"), ("compute", "slurmd")])
def test_slurm_daemon_has_to_run(name, daemon):
    host = TrainingHost()
    host.files["/proc/8/comm"] = "slurmstepd\n"
    host.files["/opt/slurm/bin/sinfo"] = ""
    assert f"a running {daemon}, is missing" in go_through(host, name)["checklist.slurm"].message
    host.files["/proc/9/comm"] = f"{daemon}\n"
    assert go_through(host, name)["checklist.slurm"].found == "pid 9"
    host.files["/proc/9/stat"] = f"9 ({daemon} S) Z 1 9 9 0\n"
    assert f"a running {daemon}, is missing" in go_through(host, name)["checklist.slurm"].message
    host.files["/proc/9/stat"] = f"9 ({daemon} Z) S 1 9 9 0\n"
    assert go_through(host, name)["checklist.slurm"].found == "pid 9"


@pytest.mark.parametrize(
    ("instance_type", "gpus", "scratch", "skipped"),
    [
        ("p5.48xlarge", 8, 30_400_000_000_000, set()),
        ("g6.xlarge", 1, 250_000_000_000, {"checklist.efa"}),
        ("trn1.32xlarge", 0, 7_600_000_000_000, {"checklist.driver"}),
        ("c7i.24xlarge", 8, 30_720_000_000_000, set()),
    ],
)
def test_values_follow_from_instance_type(instance_type, gpus, scratch, skipped):
    """An unknown type keeps the values of the reference architecture."""
    own = checklist.of_machine(TrainingHost(), "compute", instance_type)
    checks = {check["id"]: check for check in checklist.choose("compute", own)}
    assert (checks["checklist.gpus"]["expected"], checks["checklist.scratch"]["expected"]) == (gpus, scratch)
    assert {check["id"] for check in CHECKLISTS["compute"]} - set(checks) == skipped


def test_scratch_check_uses_path_of_volume():
    host = TrainingHost()
    host.read_json = lambda path: {"path": "/data"} if path == "/var/lib/mlcluster/local_storage.json" else None
    (scratch,) = (
        check
        for check in checklist.choose("compute", checklist.of_machine(host, "compute", "p5.48xlarge"))
        if check["id"] == "checklist.scratch"
    )
    assert (scratch["path"], scratch["fact"]) == ("/data", "size./data")
    assert checklist.of_machine(host, "head", "p5.48xlarge") == {}


def test_good_container_passes():
    host = good_node()
    host.files["/usr/local/cuda/version.json"] = json.dumps({"cuda": {"version": "12.2.2"}})
    found = go_through(host, "container")
    assert {key: (result.status, result.found) for key, result in found.items()} == {
        "checklist.cuda": ("pass", "12.2.2"),
        "checklist.nccl": ("pass", "2.28.9"),
        "checklist.plugin": ("pass", "1.16.1"),
        "checklist.libfabric": ("pass", "2.1.0amzn4"),
    }


def test_bare_container_fails_and_hanging_is_undeterminable():
    assert {key: result.status for key, result in go_through(TrainingHost(), "container").items()} == {
        "checklist.cuda": "fail",
        "checklist.nccl": "fail",
        "checklist.plugin": "fail",
        "checklist.libfabric": "fail",
    }
    host = good_node()
    host.files["/usr/local/cuda/version.json"] = '{"cuda": ["12.2"]}'
    host.loads["libnccl.so.2"] = hanging("env", 20)
    host.files[PLUGIN] = "no version"
    host.commands["/opt/amazon/efa/bin/fi_info --version"] = hanging("fi_info", 30)
    found = go_through(host, "container")
    assert [found[f"checklist.{name}"].status for name in ("nccl", "plugin", "libfabric")] == ["undeterminable"] * 3


def test_failing_nvidia_smi_leaves_gpus_undeterminable():
    host = compute_node()
    host.commands["nvidia-smi -q -x"] = CommandResult(9, "NVIDIA-SMI has failed", "")
    found = go_through(host, "compute")
    # The driver version is also in a file of the kernel.
    assert (found["checklist.gpus"].status, found["checklist.driver"].status) == ("undeterminable", "pass")


def test_site_values_override_checklist():
    host = compute_node()
    host.files["/local"] = ""
    host.files["/proc/self/mountinfo"] += "31 29 9:1 / /local rw - ext4 /dev/md1 rw\n"
    host.sizes["/local"] = 3_700_000_000_000
    found = go_through(
        host,
        "compute",
        **{
            "checklist.gpus": {"expected": 4, "severity": "monitor"},
            "checklist.scratch": {"path": "/local", "expected": 3_800_000_000_000},
            "checklist.docker": {"skip": True},
            "checklist.efa": {"expected": "1.50"},
        },
    )
    assert "checklist.docker" not in found
    assert (found["checklist.gpus"].status, found["checklist.gpus"].severity) == ("fail", "monitor")
    assert (found["checklist.scratch"].status, found["checklist.efa"].status) == ("pass", "fail")


def test_unknown_names_are_reported_together():
    with pytest.raises(NodeError) as refused:
        checklist.choose(
            "head", {"checklist.nosuch": {}, "checklist.gpus": {"expect": 1, "fact": "x"}, "checklist.efa": "new"}
        )
    for word in (
        "check checklist.nosuch",
        "parameter expect of checklist.gpus",
        "parameter fact of",
        "checklist.efa wi",
    ):
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("driver", {"severity": "fatal"}),
        ("driver", {"severity": "none"}),
        ("driver", {"expected": 535.54}),
        ("driver", {"expected": "newest"}),
        ("gpus", {"expected": "8"}),
        ("gpus", {"expected": -1}),
        ("scratch", {"expected": float("inf")}),
        ("scratch", {"expected": float("nan")}),
        ("scratch", {"tolerance_percent": "10"}),
        ("scratch", {"tolerance_percent": 100}),
        ("scratch", {"path": "scratch"}),
        ("scratch", {"path": ["/scratch"]}),
        ("scratch", {"path": "/a\0b"}),
        ("docker", {"expected": 1}),
        ("docker", {"skip": "yes"}),
    ],
)
def test_invalid_parameter_is_rejected(key, values):
    with pytest.raises(NodeError) as refused:
        checklist.choose("compute", {f"checklist.{key}": values})
    [(name, value)] = values.items()
    assert str(refused.value).startswith(f"{name} of checklist.{key} is {value!r}: use ")


@pytest.mark.parametrize(
    ("found", "wanted", "status"),
    [
        ("580.159.04", "535.54.03", "pass"),
        ("535.54.03", "535.54.3", "pass"),
        ("1.9.0", "1.26.1", "fail"),
        ("1.26", "1.26.0", "pass"),
        ("1.26", "1.26.1", "fail"),
        ("1.8.1-aws", "1.8.1", "pass"),
        ("git-6e504db", "1.8.1", "undeterminable"),
        (12, "1.8.1", "undeterminable"),
        ("1.8", 1.8, "undeterminable"),
    ],
)
def test_version_is_compared_with_minimum(found, wanted, status):
    check = {"id": "checklist.x", "what": "x", "fact": "x", "kind": "version_at_least", "expected": wanted}
    assert checklist.verify([check], {"x": found})[0].status == status


@pytest.mark.parametrize(
    ("kind", "found", "wanted", "status"),
    [
        ("equal", 8, 8, "pass"),
        ("equal", 7, 8, "fail"),
        ("equal", "8", 8, "undeterminable"),
        ("equal", True, 1, "undeterminable"),
        ("size", 10, "ten", "undeterminable"),
        ("size", None, 10, "fail"),
        ("present", "/usr/bin/x", None, "pass"),
    ],
)
def test_incomparable_values_are_undeterminable(kind, found, wanted, status):
    check = {"id": "checklist.x", "what": "x", "fact": "x", "kind": kind, "expected": wanted}
    assert checklist.verify([check], {"x": found})[0].status == status
    assert checklist.verify([check], {})[0].status == "undeterminable"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_fact_is_undeterminable(text):
    check = {"id": "head.x", "kind": "present", "fact": "x", "what": "x"}
    (one,) = checklist.verify([check], {"x": text})
    assert (one.status, one.reason) == ("undeterminable", "x is empty")
    (one,) = checklist.verify([check], {"x": "1.2"})
    assert one.status == "pass"
