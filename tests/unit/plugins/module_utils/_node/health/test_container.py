# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shutil

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import container as health_container
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.child import ask_child
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

from tests.unit.fakes.fake_training_host import DRIVER, PLUGIN, TrainingHost, good_node, hanging, ldconfig

FACTS = health_container.FACTS_PATH
BOOT = "/proc/sys/kernel/random/boot_id"
PYTHON = shutil.which("python3") or "/usr/bin/python3"
OLD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Release Build\n"
TORCH = {
    "pytorch.version": "2.9.1+cu130",
    "pytorch.cuda": "13.0",
    "pytorch.nccl": "2.27.7",
    "pytorch.error": None,
    "megatron.version": "0.15.0",
}


OVERLAY = "29 1 0:77 / / rw - overlay overlay rw\n"


@pytest.fixture(autouse=True)
def python(monkeypatch):
    monkeypatch.setattr(health_container.shutil, "which", lambda program: PYTHON)
    monkeypatch.delenv("SLURM_GPUS_ON_NODE", raising=False)


def container(**torch):
    """Return a container on a good host, with the host's kernel, devices and one mount; PyTorch's answer has the format
    of the child program.
    """
    host = good_node(4)
    host.files[BOOT] = "this\n"
    host.files["/usr/local/cuda/version.json"] = '{"cuda": {"name": "CUDA SDK", "version": "13.0.2"}}'
    host.files["/proc/self/mountinfo"] = f"{OVERLAY}30 1 9:127 / /scratch rw - xfs /dev/md127 rw\n"
    host.files["/scratch/job-4711/file"] = ""
    for number in range(8):
        host.files[f"/dev/nvidia{number}"] = ""
    library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}"
    host.links["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] = library
    host.commands["ldconfig -p"] = ldconfig("/usr/lib/x86_64-linux-gnu/libcuda.so.1")
    host.loads['["ofi", "libnccl-net-ofi.so"]'] = {
        "name": "libnccl-net-ofi.so", "path": PLUGIN, "files": [PLUGIN, "/opt/amazon/efa/lib/libfabric.so.1"],
        "symbols": ["ncclNetPlugin_v10"], "errors": {}, "init": None, "version": None,
    }  # fmt: skip
    host.loads['["libcuda.so.1"]'] = {
        "name": "libcuda.so.1", "path": library, "files": [library], "symbols": [], "errors": {}, "init": 0,
        "version": 13000,
    }  # fmt: skip
    host.commands[PYTHON] = json.dumps({**TORCH, **torch})
    return host


def facts(**changes):
    host = container()
    found = {**health_container.host_facts(host), "volumes": [{"path": "/local", "device": "9:127"}]}
    found = {**found, "root": "259:1 /", **changes}
    return json.dumps(found)


def test_control_devices_are_not_counted_as_gpus():
    host = container()
    before = health_container.host_facts(host)["gpus"]
    host.files.update(dict.fromkeys(("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/nvidia0x"), ""))
    assert before == health_container.host_facts(host)["gpus"] == 8


def scan(host, require=None):
    return {one.id: one for one in health_container.verify_container(host, FACTS, require or {})}


def statuses(host, require=None):
    return {key: one.status for key, one in scan(host, require).items()}


def test_container_that_fits_host_passes():
    host = container()
    host.files[FACTS] = facts()
    found = statuses(host, {"pytorch": "2.5", "megatron": None})
    assert set(found.values()) == {"pass"}
    assert set(found) >= {
        "checklist.cuda", "checklist.nccl", "container.driver", "container.driver_for_cuda", "container.nccl",
        "container.plugin", "container.libfabric", "container.pytorch", "container.megatron", "container.gpus",
        "container.efa", "container.nccl_net", "container.cuda_init", "container.mounts", "container.root",
        "container.nccl_env",
    }  # fmt: skip


def test_missing_host_facts_are_undeterminable():
    found = statuses(container())
    needing = ("nccl", "plugin", "libfabric", "gpus", "efa", "mounts")
    assert {found[f"container.{name}"] for name in needing} == {"undeterminable"}
    assert {found[f"container.{name}"] for name in ("driver", "driver_for_cuda", "pytorch", "cuda")} == {"pass"}
    root = scan(container())["container.root"]
    assert (root.status, root.reason) == ("undeterminable", "there are no facts of the host to compare with")
    assert "mlcluster host-facts" in root.hint


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "other/1"}', None])
def test_damaged_or_old_host_facts_are_rejected(text):
    host = container()
    host.files[FACTS] = text or facts(boot_id="before")
    assert statuses(host)["container.mounts"] == "undeterminable"


def without_gpus(host):
    """Take the NVIDIA driver and the GPUs from a container."""
    del host.files["/proc/driver/nvidia/version"]
    for number in range(8):
        del host.files[f"/dev/nvidia{number}"]


@pytest.mark.parametrize("check", ["container.driver", "container.driver_for_cuda", "container.cuda_init"])
def test_gpus_with_unreadable_driver_are_undeterminable(check):
    host = container()
    host.files[FACTS] = facts()
    del host.files["/proc/driver/nvidia/version"]
    found = scan(host)[check]
    assert (found.status, found.reason) == ("undeterminable", health_container.UNREAD_DRIVER)


@pytest.mark.parametrize(
    ("fact", "check"),
    [("gpus", "container.gpus"), ("efa", "container.efa"), ("volumes", "container.mounts")],
)
def test_incomplete_host_facts_are_undeterminable(fact, check):
    host = container()
    given = json.loads(facts())
    del given[fact]
    host.files[FACTS] = json.dumps(given)
    assert statuses(host)[check] == "undeterminable"


def test_host_facts_without_boot_id_are_rejected():
    host = container()
    del host.files[BOOT]
    host.files[FACTS] = facts(boot_id=None)
    assert statuses(host)["container.root"] == "undeterminable"


def test_unmounted_volume_of_host_is_undeterminable():
    host = container()
    host.files[FACTS] = facts(volumes=[{"path": "/local", "device": None}])
    found = scan(host)["container.mounts"]
    assert (found.status, found.scope.device) == ("undeterminable", "/local")


def test_root_on_volume_does_not_count_as_mount():
    host = container()
    host.files[FACTS] = facts()
    host.files["/proc/self/mountinfo"] = "29 1 9:127 /enroot/data/job / rw - xfs /dev/md127 rw\n"
    assert statuses(host)["container.mounts"] == "fail"


@pytest.mark.parametrize(
    ("change", "check", "status", "message"),
    [
        (
            lambda host: host.links.update({"/usr/lib/x86_64-linux-gnu/libcuda.so.1": "/x/libcuda.so.535.54.03"}),
            "container.driver", "fail", "libcuda in the container is not the one of the kernel's driver",
        ),
        (
            lambda host: host.commands.update({"ldconfig -p": ldconfig("/lib/libc.so.6")}),
            "container.driver", "fail", "libcuda.so.1 is not in the container",
        ),
        (
            lambda host: host.commands.pop("ldconfig -p"),
            "container.driver", "undeterminable", None,
        ),
        (
            lambda host: host.files.update({"/proc/driver/nvidia/version": OLD}),
            "container.driver_for_cuda", "fail", "the host's driver is too old for this CUDA",
        ),
        (
            lambda host: host.files.update({
                "/proc/driver/nvidia/version": OLD,
                "/usr/local/cuda/compat/libcuda.so.1": "",
            }),
            "container.driver_for_cuda", "undeterminable", None,
        ),
        (
            without_gpus,
            "container.driver_for_cuda", "not_applicable", None,
        ),
        (
            lambda host: host.files.update({"/usr/local/cuda/version.json": '{"cuda": {"version": "21.0"}}'}),
            "container.driver_for_cuda", "undeterminable", None,
        ),
        (
            lambda host: host.loads.update({"libnccl.so.2": {"loads": True, "nccl": 22005}}),
            "container.nccl", "fail", "NCCL is older than that of the host",
        ),
        (
            lambda host: host.files.pop("/dev/infiniband/uverbs3"),
            "container.efa", "fail", "EFA devices of the host are not in the container",
        ),
        (
            lambda host: host.files.update({"/proc/self/mountinfo": "30 1 9:1 / /local rw - xfs /dev/md1 rw\n"}),
            "container.mounts", "fail", "the host's local volume is not in the container",
        ),
        (
            lambda host: host.commands.update({PYTHON: CommandResult(-11, "", "")}),
            "container.pytorch", "fail",
            f"PyTorch cannot be imported: {PYTHON} was ended by signal 11 and gave no answer while importing PyTorch",
        ),
        (
            lambda host: host.commands.update({PYTHON: hanging(PYTHON, 60)}),
            "container.pytorch", "fail", "PyTorch cannot be imported: no answer within 60 seconds",
        ),
    ],
)  # fmt: skip
def test_mismatch_with_host_is_reported(change, check, status, message):
    host = container()
    host.files[FACTS] = facts()
    change(host)
    found = scan(host)[check]
    assert (found.status, found.message) == (status, message)


def test_component_only_on_host_is_undeterminable():
    host = container()
    host.files[FACTS] = facts()
    del host.files[PLUGIN]
    found = scan(host)["container.plugin"]
    assert found.status == "undeterminable" and "and the host has 1.16.1" in found.reason
    assert statuses(container())["container.plugin"] == "undeterminable"


@pytest.mark.parametrize(
    ("torch", "require", "status"),
    [
        ({"pytorch.version": None}, {}, "not_applicable"),
        ({"pytorch.version": None}, {"pytorch": None}, "fail"),
        ({"pytorch.version": "2.4.0"}, {"pytorch": "2.5"}, "fail"),
        ({"pytorch.version": "2.5.0a0+b465a58"}, {"pytorch": "2.5"}, "pass"),
        ({"pytorch.version": "main"}, {"pytorch": "2.5"}, "undeterminable"),
    ],
)
def test_required_component_has_to_be_present(torch, require, status):
    assert statuses(container(**torch), require)["container.pytorch"] == status


def test_import_error_of_another_module_fails():
    host = container(**{"pytorch.error": "libcudnn.so.9: cannot open shared object file"})
    assert "libcudnn.so.9" in scan(host)["container.pytorch"].message


def test_nccl_of_pytorch_wheel_is_used_without_linker_entry():
    host = container()
    host.loads["libnccl.so.2"] = {"error": "not found"}
    assert health_container.look(host)["nccl.version"] == "2.27.7"


def test_job_share_of_gpus_is_expected(monkeypatch):
    host = container()
    host.files[FACTS] = facts()
    for number in range(4):
        del host.files[f"/dev/nvidia{number}"]
    assert statuses(host)["container.gpus"] == "fail"
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    assert statuses(host)["container.gpus"] == "pass"
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "5")
    assert statuses(host)["container.gpus"] == "fail"
    # An invalid value is not a share.
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "gpu:4")
    assert statuses(host)["container.gpus"] == "fail"


def test_job_without_gpus_is_not_applicable(monkeypatch):
    host = container()
    host.files[FACTS] = facts()
    for number in range(8):
        del host.files[f"/dev/nvidia{number}"]
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "0")
    found = scan(host)["container.gpus"]
    assert (found.status, found.reason) == ("not_applicable", "the job has no GPUs")


def test_bare_machine_is_not_applicable_except_root(monkeypatch):
    monkeypatch.setattr(health_container.shutil, "which", lambda program: None)
    host = TrainingHost()
    host.files[BOOT] = "this\n"
    host.files[FACTS] = json.dumps(health_container.host_facts(host))
    found = statuses(host)
    # The host itself has its own root directory.
    assert found.pop("container.root") == "fail"
    assert set(found.values()) == {"not_applicable"}


def test_unreadable_mount_table_is_undeterminable():
    host = container()
    host.files[FACTS] = facts()
    del host.files["/proc/self/mountinfo"]
    found = statuses(host)
    assert (found["container.root"], found["container.mounts"]) == ("undeterminable", "undeterminable")


@pytest.mark.parametrize(
    ("root", "status"),
    [("259:1 /", "pass"), ("0:77 /", "fail"), ("0:77 /enroot/data/a", "pass"), (None, "undeterminable")],
)
def test_root_of_host_fails(root, status):
    host = container()
    host.files[FACTS] = facts(root=root)
    assert statuses(host)["container.root"] == status


# The child program, in real interpreters.


def child(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = f"sys.path.insert(0, {str(tmp_path)!r})\n" + health_container._CHILD
    return ask_child(Host(), script, [], health_container._KEYS, 600, python=[PYTHON, "-I"])


def test_child_reads_versions_and_megatron_source_tree(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(
        "import types\n__version__ = '2.9.1+cu130'\nversion = types.SimpleNamespace(cuda='13.0')\n"
        "cuda = types.SimpleNamespace(nccl=types.SimpleNamespace(version=lambda: (2, 27, 7)))\nprint('hello')\n"
    )
    (tmp_path / "megatron/core").mkdir(parents=True)
    (tmp_path / "megatron/core/__init__.py").write_text("raise RuntimeError('this takes a GPU')\n")
    (tmp_path / "megatron/core/package_info.py").write_text("MAJOR = 0\nMINOR = 15\nPATCH = 0\n")
    assert child(tmp_path) == TORCH


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, {}),
        ("import not_there", {"pytorch.error": "No module named 'not_there'"}),
        ("raise OSError('libcudnn.so.9')", {"pytorch.error": "libcudnn.so.9"}),
    ],
)
def test_child_distinguishes_missing_from_broken(tmp_path, source, expected):
    if source:
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch/__init__.py").write_text(source)
    assert child(tmp_path) == {**dict.fromkeys(TORCH), **expected}


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"root": "N/A"}, "container.root", "it reads 'N/A'"),
        ({"root": "259:1"}, "container.root", "it reads '259:1'"),
        ({"gpus": 4}, "container.gpus", "there are 8 GPUs here and the host's facts give 4"),
        ({"efa": True}, "container.efa", "the host's facts do not give its number of EFA devices"),
        ({"efa": -1}, "container.efa", "the host's facts do not give its number of EFA devices"),
        ({"nccl.version": "N/A"}, "container.nccl", "2.28.9 cannot be compared with N/A"),
        ({"libfabric.version": ""}, "container.libfabric", "the host's facts give '' as the version of libfabric"),
    ],
)
def test_unknown_host_fact_is_undeterminable(changes, check, words):
    host = container()
    host.files[FACTS] = facts(**changes)
    found = scan(host)[check]
    assert found.status == "undeterminable" and words in found.reason


def test_host_facts_without_version_are_undeterminable():
    host = container()
    document = json.loads(facts())
    del document["plugin.version"]
    host.files[FACTS] = json.dumps(document)
    assert statuses(host)["container.plugin"] == "undeterminable"
    host.files[FACTS] = facts(**{"plugin.version": None})
    assert statuses(host)["container.plugin"] == "pass"


def test_invalid_version_inside_is_undeterminable():
    host = container(**{"megatron.version": "N/A"})
    host.files[FACTS] = facts(**{"megatron.version": None})
    found = scan(host)["container.megatron"]
    assert (found.status, found.reason) == ("undeterminable", "the version of Megatron-LM reads 'N/A'")


@pytest.mark.parametrize(
    ("cuda", "driver", "status", "least"),
    [
        ("11.8", "450.80.02", "pass", 450),
        ("11.8", "449.99", "fail", 450),
        ("12.9", "525.60.13", "pass", 525),
        ("12.9", "524.99", "fail", 525),
        ("13.0", "580.65.06", "pass", 580),
        ("13.0", "579.99", "fail", 580),
    ],
)
def test_driver_supports_cuda_from_minimum_release(cuda, driver, status, least):
    inside = {"cuda.toolkit": cuda, "driver": driver, "gpus": 8}
    found = health_container._cuda(container(), inside)
    assert (found.status, found.found) == (status, driver)
    assert found.expected == f"{least} or newer for CUDA {cuda}"


def test_missing_cuda_is_undeterminable():
    found = health_container._cuda(container(), {"driver": "580.65.06", "gpus": 8})
    assert (found.status, found.reason) == ("undeterminable", "CUDA is not found, and only 11, 12, 13 are known")
    # The CUDA version of PyTorch replaces that of the toolkit.
    inside = {"driver": "580.65.06", "gpus": 8, "pytorch.cuda": "13.0"}
    assert health_container._cuda(container(), inside).status == "pass"


def test_linker_nccl_precedes_pytorch_nccl():
    found = health_container.look(container(**{"pytorch.nccl": "2.1.1"}))
    assert found["nccl.version"] == "2.28.9"
    host = container(**{"pytorch.nccl": None})
    host.loads["libnccl.so.2"] = {"error": "not found"}
    assert not health_container.look(host).get("nccl.version")


def test_libcuda_version_is_read_from_name():
    host = container()
    assert health_container.look(host)["libcuda"] == DRIVER
    host.links["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] = "/x/libcuda.so.1"
    assert health_container.look(host)["libcuda"] is None


def test_host_facts_identify_host():
    host = container()
    found = health_container.host_facts(host)
    assert (found["schema"], found["boot_id"], found["efa"], found["root"]) == (
        "mlcluster.host_facts/1", "this", 4, "0:77 /"
    )  # fmt: skip
    assert found["time"].endswith("Z") and found["volumes"] == []
    host.files["/dev/infiniband/rdma_cm"] = ""
    assert health_container.host_facts(host)["efa"] == 4


def test_host_facts_have_each_volume_with_its_device(monkeypatch):
    record = {"volumes": [{"path": "/scratch"}, {"path": "/gone"}]}
    monkeypatch.setattr(health_container, "read_document", lambda host, path: record)
    assert health_container.host_facts(container())["volumes"] == [
        {"path": "/scratch", "device": "9:127"},
        {"path": "/gone", "device": None},
    ]


@pytest.mark.parametrize(("root", "known"), [("0:77 /", True), ("0:77 ", False), (7, False), ("a:77 /", False)])
def test_shape_of_root(root, known):
    assert health_container.is_root(root) is known


def test_missing_python_means_no_pytorch(monkeypatch):
    monkeypatch.setattr(health_container.shutil, "which", lambda program: None)
    found = health_container.look(container())
    assert (found["pytorch.version"], found["megatron.version"]) == (None, None)


def test_broken_pytorch_keeps_megatron_version():
    found = health_container.look(container(**{"pytorch.error": "libcudnn"}))
    assert (found["pytorch.error"], found["megatron.version"], "pytorch.version" in found) == (
        "libcudnn", "0.15.0", False
    )  # fmt: skip
    assert "pytorch.error" not in health_container.look(container())


@pytest.mark.parametrize(
    ("inside", "outside", "least", "status", "words"),
    [
        ({"nccl.version": "2.28.9"}, {"nccl.version": "2.28.9"}, None, "pass", ""),
        (
            {"nccl.version": "2.28.9"},
            {"nccl.version": "2.28.9"},
            "2.29",
            "fail",
            "NCCL is older than the required one",
        ),
        ({"nccl.version": "2.28.9"}, {"nccl.version": "2.29"}, None, "fail", "NCCL is older than that of the host"),
        ({"nccl.version": "2.28.9"}, {"nccl.version": None}, "2.1", "pass", ""),
        ({"nccl.version": "2.28.9"}, None, "2.1", "undeterminable", "no facts of the host"),
        ({"nccl.version": "2.28.9"}, {}, None, "undeterminable", "give 'nothing' as the version of NCCL"),
        ({"nccl.version": None}, {"nccl.version": "2.1"}, None, "undeterminable", "and the host has 2.1"),
        ({"nccl.version": None}, {"nccl.version": None}, None, "not_applicable", "is not required"),
        ({"nccl.version": None}, None, None, "not_applicable", "is not required"),
        ({}, {}, None, "undeterminable", "NCCL could not be determined"),
        ({"nccl.error": "x"}, {}, None, "fail", "NCCL cannot be imported: x"),
    ],
)
def test_component_is_compared_with_host(inside, outside, least, status, words):
    found = health_container._component("nccl", inside, outside, least is not None, least)
    assert found.status == status and words in f"{found.message} {found.reason}"
    if status == "pass":
        assert (found.found, found.expected) == ("2.28.9", least or outside["nccl.version"])


def test_component_not_compared_with_host_needs_no_facts():
    found = health_container._component("pytorch", {"pytorch.version": "2.9"}, None, False, None)
    assert (found.status, found.expected) == ("pass", None)
    assert health_container._component("pytorch", {"pytorch.version": None}, {}, True, None).expected == "any version"


@pytest.mark.parametrize(
    ("key", "inside", "there", "share", "status"),
    [
        ("gpus", 8, 8, None, "pass"),
        ("gpus", 7, 8, None, "fail"),
        ("gpus", 0, 0, None, "not_applicable"),
        ("gpus", 1, 0, None, "undeterminable"),
        ("gpus", 9, 8, None, "undeterminable"),
        ("efa", 3, 4, None, "fail"),
    ],
)
def test_devices_are_counted(key, inside, there, share, status):
    found = health_container._devices("x.y", key, "things", {key: inside}, {key: there}, share)
    assert found.status == status
    if status == "fail":
        hint = "mount /dev/infiniband" if key == "efa" else "start the container with NVIDIA's hook"
        assert (found.severity, found.hint) == ("reset", hint)
    if status in ("pass", "fail"):
        assert (found.expected, found.found, found.unit) == (there, inside, "things")
    if status == "not_applicable":
        assert found.reason == "the host has no things"


def test_each_volume_gets_verdict():
    host = container()
    volumes = [
        {"path": "/local", "device": "9:127"}, {"path": "/b", "device": None}, {"path": "/c", "device": "9:1"}
    ]  # fmt: skip
    found = health_container._mounts(host, {"volumes": volumes})
    assert [(one.scope.device, one.status, one.found) for one in found] == [
        ("/local", "pass", "/scratch"),
        ("/b", "undeterminable", None),
        ("/c", "fail", None),
    ]
    assert (found[0].expected, found[2].hint) == ("/local", "add --container-mounts=/c:/c")
    host.files["/proc/self/mountinfo"] += "31 1 9:127 / /second rw - xfs /dev/md127 rw\n"
    assert health_container._mounts(host, {"volumes": volumes[:1]})[0].found == "/scratch"
    assert [one.status for one in health_container._mounts(host, {"volumes": []})] == ["not_applicable"]


def test_single_file_of_volume_is_no_volume():
    host = container()
    host.files["/proc/self/mountinfo"] = f"{OVERLAY}30 1 9:127 /job.sh /job.sh rw - xfs /dev/md127 rw\n"
    host.files["/job.sh"] = "#!/bin/sh"
    host.files[FACTS] = facts()
    assert statuses(host)["container.mounts"] == "fail"


def test_unreadable_mount_of_volume_is_no_pass():
    host = container()
    del host.files["/scratch/job-4711/file"]
    host.files[FACTS] = facts()
    found = scan(host)["container.mounts"]
    assert (found.status, found.reason) == (
        "undeterminable",
        "the local volume is mounted at /scratch, which cannot be read",
    )


def test_damaged_record_leaves_volumes_unknown():
    host = good_node()
    host.files["/var/lib/mlcluster/local_storage.json"] = "{"
    assert health_container.host_facts(host)["volumes"] is None
    (one,) = health_container._mounts(host, {"volumes": None})
    assert (one.status, one.reason) == ("undeterminable", "the host's facts do not give its local volumes")
