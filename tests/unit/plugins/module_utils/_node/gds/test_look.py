# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import look as gds_look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

from tests.unit.fakes.fake_gds_host import LIBRARY, GdsHost, fixture, load_nvidia_fs, node


def test_node_with_gpu():
    facts = gds_look.look(node(), ["/data"])
    assert facts["kernel"] == {
        "release": "6.8.0-1021-aws",
        "machine": "x86_64",
        "p2pdma": True,
        "config": None,
        "nvme_hooks": False,
    }
    assert facts["driver"] == {
        "loaded": True,
        "version": "580.159.04",
        "open_module": True,
        "evidence": "/proc/driver/nvidia/version",
    }
    assert (facts["gpus"], facts["registry_dwords"]) == (["NVIDIA H100 80GB HBM3"], {})
    assert (facts["nvme_multipath"], facts["iommu"]) == (True, None)
    assert facts["library"] == {"path": LIBRARY, "version": "1.15.1", "asked": None}
    assert facts["nvidia_fs"] == {"loaded": False, "version": None, "registered": None}
    assert facts["mounts"][0]["kname"] == "nvme1n1"


def test_node_without_anything():
    host = GdsHost()
    host.files["/proc/self/mountinfo"] = "30 1 8:1 / /other rw - ext4 /dev/x rw\n"
    facts = gds_look.look(host, ["/data"])
    assert facts["driver"] == {"loaded": False, "version": None, "open_module": None, "evidence": None}
    assert (facts["gpus"], facts["registry_dwords"], facts["iommu"]) == ([], None, None)
    assert facts["kernel"]["p2pdma"] is None
    assert facts["library"] == {"path": None, "version": None, "asked": None}
    assert facts["cufile_json"]["valid"] is None
    assert facts["mounts"][0]["mount_point"] is None


def test_nvidia_fs():
    host = node()
    load_nvidia_fs(host)
    facts = gds_look.look(host, [])
    assert facts["nvidia_fs"] == {"loaded": True, "version": "2.27", "registered": {"nvme": "1.0"}}
    assert facts["kernel"]["nvme_hooks"] is True


@pytest.mark.parametrize(("licence", "is_open"), [("Dual MIT/GPL\n", True), ("NVIDIA\n", False)])
def test_driver_on_disk_is_reported_by_its_licence(licence, is_open):
    host = GdsHost()
    host.programs["modinfo"] = "/sbin/modinfo"
    host.commands["modinfo -F license nvidia"] = licence
    host.commands["modinfo -F version nvidia"] = "580.95.05\n"
    driver = gds_look.look(host, [])["driver"]
    assert driver == {"loaded": False, "version": "580.95.05", "open_module": is_open, "evidence": "modinfo nvidia"}


def test_missing_driver_has_no_version():
    host = GdsHost()
    host.programs["modinfo"] = "/sbin/modinfo"
    assert gds_look.look(host, [])["driver"]["evidence"] is None


def test_cufile_json_behind_its_links():
    host = node()
    host.files["/etc/cufile.json"] = '{ // x\n "properties": {"use_pci_p2pdma": true}}'
    host.links["/etc/cufile.json"] = "/usr/local/cuda-13.0/gds/cufile.json"
    found = gds_look.look(host, [])["cufile_json"]
    assert (found["target"], found["exists"], found["valid"]) == ("/usr/local/cuda-13.0/gds/cufile.json", True, True)
    assert found["settings"] == {"properties": {"use_pci_p2pdma": True}}
    host.files["/etc/cufile.json"] = "{"
    found = gds_look.look(host, [])["cufile_json"]
    assert (found["valid"], found["settings"]) == (False, {})


def test_library_of_linker_comes_first():
    host = node()
    host.programs["ldconfig"] = "/sbin/ldconfig"
    host.commands["ldconfig -p"] = (
        "\tlibcufile_rdma.so.1 (libc6,x86-64) => /opt/libcufile_rdma.so.1\n"
        "\tlibcufile.so.0 (libc6,x86-64) => /opt/lib/libcufile.so.0\n"
    )
    assert gds_look.look(host, [])["library"]["path"] == "/opt/lib/libcufile.so.0"
    assert gds_look.look(host, [], LIBRARY)["library"]["path"] == LIBRARY
    assert gds_look.look(host, [], "/nowhere/libcufile.so.0")["library"]["path"] is None


def test_tools_in_toolkit_directory_are_found():
    host = node()
    host.files["/usr/local/cuda/gds/tools/gdscheck"] = ""
    host.programs["gdsio"] = "/usr/bin/gdsio"
    tools = gds_look.look(host, [])["tools"]
    assert (tools["gdscheck"], tools["gdscheck.py"], tools["gdsio"]) == (
        "/usr/local/cuda/gds/tools/gdscheck",
        None,
        "/usr/bin/gdsio",
    )


def test_machine_type_falls_back_to_uname():
    host = node()
    del host.files["/proc/sys/kernel/arch"]
    assert gds_look.look(host, [])["kernel"]["machine"] is None
    host.commands["uname -m"] = "aarch64\n"
    assert gds_look.look(host, [])["kernel"]["machine"] == "aarch64"


def test_kernel_configuration():
    host = node()
    host.files["/boot/config-6.8.0-1021-aws"] = "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n"
    assert gds_look.look(host, [])["kernel"]["config"] is True
    host.files["/boot/config-6.8.0-1021-aws"] = "# CONFIG_PCI_P2PDMA is not set\n"
    assert gds_look.look(host, [])["kernel"]["config"] is False


def test_iommu_has_groups():
    host = node()
    host.files["/sys/kernel/iommu_groups/0/type"] = "DMA\n"
    assert gds_look.look(host, [])["iommu"] is True


def test_recorded_parameters_have_no_registry_settings():
    assert 'RegistryDwords: ""' in fixture("nvidia-params-h100.txt")


@pytest.mark.parametrize("path", ["/a\0b", "/\udcff"])
def test_path_with_nul_or_surrogate_is_rejected(path):
    with pytest.raises(NodeError, match="holds a NUL or is not UTF-8"):
        gds_look.look(node(), [path])


def test_mount_with_spaces_and_line_ends(tmp_path):
    place = tmp_path / "a b\nc\n"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    line = str(place).replace(" ", "\\040").replace("\n", "\\012")
    host = Host()
    text = f"1 1 0:1 / / rw - ext4 /dev/x rw\n2 1 0:2 / {line} rw - xfs /dev/y rw\n"
    host.read_text = lambda path: text if path == "/proc/self/mountinfo" else None
    found = [gds_look.look(host, [str(tmp_path / name)])["mounts"][0] for name in ("link", "missing")]
    assert [(mount["fstype"], mount["exists"]) for mount in found] == [("xfs", True), (None, False)]


def test_unreadable_cufile_json_is_not_taken_for_missing():
    host = node()
    host.files["/etc/cufile.json"] = "{}"
    host.read_text = lambda path: None if path == "/etc/cufile.json" else host.files.get(path)
    config = gds_look.look(host, [])["cufile_json"]
    assert (config["exists"], config["valid"]) == (True, False)
