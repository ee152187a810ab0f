# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host in mode nvfs with a module that DKMS really built (debian12), and one in mode p2pdma (debian13)."""

from __future__ import annotations

import json
import re

import pytest
from testinfra.host import Host

TARGET = "/usr/local/cuda-13.0/gds/cufile.json"


@pytest.fixture
def is_nvfs(host: Host) -> bool:
    return host.check_output("hostname").endswith("-debian12")


def settings(text: str) -> dict[str, dict[str, object]]:
    """Return the settings of the file; its comments are on separate lines."""
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


@pytest.mark.parametrize("package", ["libcufile-13-0", "gds-tools-13-0"])
def test_library_and_tools_are_installed(host: Host, package: str) -> None:
    assert host.package(package).is_installed


def test_module_is_built_only_where_it_is_wanted(host: Host, is_nvfs: bool) -> None:
    assert host.package("nvidia-fs-dkms").is_installed is is_nvfs
    if is_nvfs:
        kernel = host.check_output("ls /lib/modules").split()[-1]
        assert host.check_output("dkms status").startswith("nvidia-fs/2.26.6")
        assert host.check_output("modinfo -k %s -F version nvidia-fs", kernel) == "2.26.6"


def test_module_is_loaded_now_and_at_boot(host: Host, is_nvfs: bool) -> None:
    assert host.file("/proc/driver/nvidia-fs/version").exists is is_nvfs
    at_boot = host.file("/etc/modules-load.d/mlcluster-nvidia-fs.conf")
    assert at_boot.exists is is_nvfs
    if is_nvfs:
        assert at_boot.content_string.splitlines()[-1] == "nvidia-fs"
        assert (at_boot.user, at_boot.group, at_boot.mode) == ("root", "root", 0o644)


def test_link_of_alternatives_stays(host: Host) -> None:
    assert host.file("/etc/cufile.json").linked_to == TARGET
    assert host.check_output("readlink /etc/cufile.json") == "/etc/alternatives/cufile.json"
    assert TARGET in host.check_output("update-alternatives --query cufile.json")


def test_cufile_json_has_settings_of_mode_and_keeps_others(host: Host, is_nvfs: bool) -> None:
    text = host.file(TARGET).content_string
    config = settings(text)
    assert config["properties"] == {
        "allow_compat_mode": True,
        "max_direct_io_size_kb": 16384,
        "use_pci_p2pdma": not is_nvfs,
    }
    assert config["execution"] == {"max_io_queue_depth": 64 if is_nvfs else 128, "max_request_parallelism": 4}
    assert "// ours, in the shape of NVIDIA's" in text
    assert '\t\t    "max_request_parallelism" : 4\n' in text
    assert '//"rdma_dc_key": "0xffeeddcc"\n' in text


def test_one_copy_of_old_file_is_kept(host: Host) -> None:
    (copy,) = host.check_output("ls %s", "/usr/local/cuda-13.0/gds").split()[1:2]
    assert re.fullmatch(r"cufile\.json\.\d{8}T\d{6}Z\.bak", copy)
    assert settings(host.file(f"/usr/local/cuda-13.0/gds/{copy}").content_string)["properties"] == {
        "allow_compat_mode": False,
        "max_direct_io_size_kb": 16384,
    }


def test_boot_settings_are_for_review_only(host: Host, is_nvfs: bool) -> None:
    review = host.file("/etc/mlcluster/nvidia-gds-boot.conf")
    if not is_nvfs:
        assert "options nvme_core multipath=N" in review.content_string
        assert 'NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;"' in review.content_string
        assert host.file("/usr/local/share/mlcluster/torch_gds_example.py").exists
    assert not host.file("/etc/modprobe.d/mlcluster-nvidia-gds.conf").exists
    assert not host.file("/var/log/update-initramfs.calls").exists
