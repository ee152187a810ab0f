# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Libraries that a job in a container loads, with libraries that are built and opened for real."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.plugin import CLEARED, TRANSPORT
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import container_loads
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

from tests.unit.fakes.fake_training_host import hanging
from tests.unit.plugins.module_utils._node.efa.test_plugin import build

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
NET = """
int ncclNetPlugin_v9; int ncclNetPlugin_v10;
const char *text = "NET/OFI Initializing aws-ofi-nccl 1.16.1";
int fi_version(void); int use(void) { return fi_version(); }
"""
FOREIGN = 'int ncclNetPlugin_v8; const char *text = "IB sharp plugin";'
FABRIC = "int fi_version(void) { return 1; }"
CUDA = "int cuInit(unsigned f) {{ return {init}; }} int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}"


@pytest.fixture
def image(tmp_path, monkeypatch):
    """Directories ``ofi`` (the plugin with libfabric beside it) and ``sharp`` (another plugin), and no variables."""
    build(tmp_path / "ofi/libfabric-made.so.1", FABRIC, "-Wl,-soname,libfabric-made.so.1")
    build(
        tmp_path / "ofi/libnccl-net-ofi.so",
        NET,
        str(tmp_path / "ofi/libfabric-made.so.1"),
        f"-Wl,-rpath,{tmp_path}/ofi",
    )
    build(tmp_path / "sharp/libnccl-net.so", FOREIGN)
    for name in ("NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


class Container(Host):
    """The real machine with another /etc/nccl.conf."""

    def __init__(self, conf=""):
        self.conf = conf

    def read_text(self, path):
        return self.conf if path == "/etc/nccl.conf" else super().read_text(path)


def net(conf="", inside=4, outside=4):
    return container_loads.verify_net(Container(conf), inside, outside)


def test_plugin_on_library_path_passes(image, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "ofi"))
    found = net("NCCL_NET_PLUGIN=ofi\n")
    assert found.status == "pass" and found.scope.device == str(image / "ofi/libnccl-net-ofi.so")
    assert found.found == (
        "1.16.1, ncclNetPlugin_v10, by NCCL_NET_PLUGIN=ofi in /etc/nccl.conf, with "
        f"{(image / 'ofi/libfabric-made.so.1').resolve()}"
    )


def test_default_name_is_tried_alone(image, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "ofi"))
    found = net()
    assert found.status == "fail"
    assert found.message.startswith("NCCL opens no plugin by its default name: libnccl-net.so: cannot open shared")
    (image / "ofi/libnccl-net.so").symlink_to("libnccl-net-ofi.so")
    assert net().status == "pass"


def test_first_directory_of_library_path_wins(image, monkeypatch):
    (image / "ofi/libnccl-net.so").symlink_to("libnccl-net-ofi.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{image}/sharp:{image}/ofi")
    found = net()
    assert found.status == "fail" and "which is not the OFI plugin" in found.message
    assert str(image / "sharp/libnccl-net.so") in found.message
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{image}/ofi:{image}/sharp")
    assert net().status == "pass"


def test_unloadable_plugin_shows_loader_error(image, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "ofi"))
    (image / "ofi/libfabric-made.so.1").unlink()
    found = net("NCCL_NET_PLUGIN=ofi\n")
    assert found.status == "fail"
    assert "libfabric-made.so.1: cannot open shared object file" in found.message


def test_missing_version_of_symbol_fails(image, monkeypatch):
    script = image / "versions"
    script.write_text("FABRIC_1.0 { global: fi_version; };")
    build(
        image / "new/libfabric-made.so.1", FABRIC, "-Wl,-soname,libfabric-made.so.1", f"-Wl,--version-script={script}"
    )
    build(image / "new/libnccl-net-ofi.so", NET, str(image / "new/libfabric-made.so.1"))
    # The older libfabric, without that version of the symbol, is found first.
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{image}/ofi:{image}/new")
    (image / "ofi/libnccl-net-ofi.so").unlink()
    script.write_text("FABRIC_0.9 { global: fi_version; };")
    build(
        image / "ofi/libfabric-made.so.1", FABRIC, "-Wl,-soname,libfabric-made.so.1", f"-Wl,--version-script={script}"
    )
    found = net("NCCL_NET_PLUGIN=ofi\n")
    assert found.status == "fail" and "version `FABRIC_1.0' not found" in found.message


@pytest.mark.parametrize(
    ("variable", "value", "status"),
    [
        ("NCCL_NET", "Socket", "fail"), ("NCCL_NET", "IB", "fail"), ("NCCL_NET", "AWS Libfabric", "pass"),
        ("FI_PROVIDER", "tcp", "fail"), ("FI_PROVIDER", "efa", "pass"), ("FI_PROVIDER", "^efa", "fail"),
        ("NCCL_NET_PLUGIN", "none", "fail"), ("NCCL_NET_PLUGIN", "", "pass"),
    ],
)  # fmt: skip
def test_variable_that_disables_efa_fails(image, monkeypatch, variable, value, status):
    (image / "ofi/libnccl-net.so").symlink_to("libnccl-net-ofi.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "ofi"))
    monkeypatch.setenv(variable, value)
    found = net()
    assert found.status == status
    assert status == "pass" or f"{variable}={value} in the environment" in found.message
    assert value != "none" or found.message.endswith("keeps NCCL from opening any plugin")


def test_plugin_without_interface_fails(image, monkeypatch):
    build(image / "odd/libnccl-net.so", NET.replace("int ncclNetPlugin_v9; int ncclNetPlugin_v10;", FABRIC))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{image}/odd:{image}/ofi")
    found = net()
    assert (found.status, found.severity) == ("fail", "reset")
    assert found.message.endswith("odd/libnccl-net.so offers no NCCL network interface")


def test_plugin_without_libfabric_is_undeterminable(image, monkeypatch):
    build(image / "odd/libnccl-net.so", NET.replace("return fi_version();", "return 0;"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "odd"))
    assert net().status == "undeterminable"


@pytest.mark.parametrize(
    ("inside", "outside", "status"),
    [(0, 0, "not_applicable"), (0, None, "undeterminable"), (4, None, "pass"), (4, 0, "pass"), (0, 4, "pass")],
)
def test_missing_efa_decides_verdict(image, monkeypatch, inside, outside, status):
    (image / "ofi/libnccl-net.so").symlink_to("libnccl-net-ofi.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "ofi"))
    assert net(inside=inside, outside=outside).status == status


@pytest.mark.parametrize(
    ("init", "version", "status", "words"),
    [
        (0, 13000, "pass", "CUDA 13.0 of"),
        (804, 13000, "fail", "cuInit returned 804"),
        (0, 13090, "pass", "CUDA 13.9 of"),
        (0, 1000, "pass", "CUDA 1.0 of"),
        (0, 999, "undeterminable", "gave 999"),
        (0, 0, "undeterminable", "gave 0"),
    ],
)
def test_cuda_init_decides_verdict(image, monkeypatch, init, version, status, words):
    build(image / "cuda/libcuda.so.1", CUDA.format(init=init, version=version))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "cuda"))
    found = container_loads.verify_cuda(Host(), "580.95.05", 8)
    assert found.status == status and words in str(found.found or "") + str(found.message or found.reason)
    assert container_loads.verify_cuda(Host(), None, 0).status == "not_applicable"
    assert container_loads.verify_cuda(Host(), "580.95.05", 0).status == "not_applicable"
    unread = container_loads.verify_cuda(Host(), None, 8)
    assert (unread.status, unread.reason) == ("undeterminable", container_loads.UNREAD_DRIVER)


def test_invalid_libcuda_fails(image, monkeypatch):
    (image / "cuda").mkdir()
    (image / "cuda/libcuda.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "cuda"))
    found = container_loads.verify_cuda(Host(), "580.95.05", 8)
    assert found.status == "fail" and "libcuda.so.1 does not open: " in found.message


def test_crashing_library_is_undeterminable(image, monkeypatch):
    build(image / "cuda/libcuda.so.1", "__attribute__((constructor)) void c(void) { __builtin_trap(); }")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(image / "cuda"))
    found = container_loads.verify_cuda(Host(), "580.95.05", 8)
    assert found.status == "undeterminable" and "was ended by signal" in found.reason


class Answers(Host):
    """Gives one answer to every command."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, argv, timeout=120, check=True, stdin=None):
        if isinstance(self.answer, CommandError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [hanging("python3", 30), CommandResult(0, "", ""), CommandResult(0, "{}", ""), CommandResult(0, "[1]", "")],
)
def test_child_without_answer_is_undeterminable(answer):
    assert container_loads.verify_cuda(Answers(answer), "580.95.05", 8).status == "undeterminable"
    found = container_loads.verify_net(Answers(answer), 4, 4)
    started = isinstance(answer, CommandResult)
    words = "the process that opened libnccl-net.so " if started else "no answer within 30 seconds"
    assert found.status == "undeterminable" and found.reason.startswith(words)


@pytest.fixture
def plain(monkeypatch):
    for name in TRANSPORT:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("NCCL_NET", "Socket", "fail"), ("NCCL_NET", "AWS Libfabric", "pass"), ("NCCL_NET_PLUGIN", "none", "fail"),
        ("NCCL_NET_PLUGIN", "ofi", "pass"), ("FI_PROVIDER", "tcp", "fail"), ("FI_PROVIDER", "efa", "pass"),
        ("NCCL_P2P_DISABLE", "1", "fail"), ("NCCL_P2P_DISABLE", "0", "pass"),
        ("NCCL_P2P_DISABLE", "?", "undeterminable"),
        ("NCCL_P2P_LEVEL", "LOC", "fail"), ("NCCL_SHM_DISABLE", "1", "fail"), ("NCCL_NET_GDR_LEVEL", "LOC", "fail"),
        ("NCCL_NET_GDR_LEVEL", "SYS", "pass"), ("FI_EFA_USE_DEVICE_RDMA", "0", "pass"),
        ("NCCL_DEBUG", "INFO", "not_applicable"),
    ],
)  # fmt: skip
def test_settings_that_decide_transport_are_judged(plain, name, value, status):
    plain.setenv(name, value)
    found = container_loads.verify_settings(Container())
    assert (found.id, found.status) == ("container.nccl_env", status)
    if status in ("pass", "fail"):
        assert found.found == {name: f"{value} in the environment"}
    assert status != "fail" or f"{name}={value} in the environment: " in found.message


def test_setting_in_file_names_file(plain):
    found = container_loads.verify_settings(Container("NCCL_SHM_DISABLE=1\n"))
    assert (found.status, found.message.partition(": ")[0]) == ("fail", "NCCL_SHM_DISABLE=1 in /etc/nccl.conf")
    assert container_loads.verify_settings(Container()).status == "not_applicable"


@pytest.mark.parametrize(
    ("conf", "variables", "hint"),
    [
        ("", {"NCCL_P2P_LEVEL": "LOC"}, "Unset NCCL_P2P_LEVEL in the image or in the job; jobs of the role slurm_jobs"),
        ("NCCL_SHM_DISABLE=1\n", {}, "Unset NCCL_SHM_DISABLE in the image or in the job; jobs of the role slurm_jobs"),
        ("NCCL_P2P_LEVEL=LOC\n", {}, "Remove NCCL_P2P_LEVEL from /etc/nccl.conf of the image: no job can, NCCL always"),
        ("NCCL_NET=Socket\n", {"NCCL_SHM_DISABLE": "1"}, "Unset NCCL_SHM_DISABLE in the image or in the job;"),
    ],
)
def test_hint_distinguishes_clearable_settings(plain, conf, variables, hint):
    for name, value in variables.items():
        plain.setenv(name, value)
    found = container_loads.verify_settings(Container(conf))
    assert found.hint.startswith(hint)
    assert ("Remove NCCL_NET from /etc/nccl.conf" in found.hint) is ("NCCL_NET=" in conf)


def test_network_setting_in_file_has_removal_hint(plain):
    found = container_loads.verify_net(Container("NCCL_NET=Socket\n"), 4, 4)
    assert found.status == "fail" and found.hint.startswith("Remove NCCL_NET from /etc/nccl.conf of the image")
    plain.setenv("NCCL_NET", "Socket")
    assert container_loads.verify_net(Container(), 4, 4).hint.startswith("Unset NCCL_NET in the image or in the job")


def test_cleared_variables_exclude_plugin_name():
    assert set(TRANSPORT) - set(CLEARED) == {"NCCL_NET_PLUGIN"}
