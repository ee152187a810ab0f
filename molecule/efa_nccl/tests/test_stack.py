# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The converged image: the pinned installer after an interrupted and after an older one, with packages and settings."""

from __future__ import annotations

import pytest
from testinfra.host import Host

MARKER = "/opt/amazon/efa_installed_packages"


def test_pinned_version_is_installed(host: Host) -> None:
    assert host.file(MARKER).content_string.startswith("# EFA installer version: 1.51.0\n")
    assert host.check_output("dpkg-query -W -f '${Version} ${Status}' libnccl-ofi") == "1.22.0 hold ok installed"


def test_installer_verified_its_packages(host: Host) -> None:
    arguments = host.file("/opt/amazon/efa_installer_arguments").content_string.split()
    assert arguments == ["-y", "--no-verify", "--check-signatures"]


def test_nothing_of_installation_is_left(host: Host) -> None:
    for path in (
        "/var/lib/mlcluster/efa_installer.json",
        "/var/cache/mlcluster/efa",
        "/var/cache/mlcluster/nccl-tests",
    ):
        assert not host.file(path).exists
    assert host.check_output("dpkg --audit") == ""


def test_linker_finds_plugin_in_its_new_directory(host: Host) -> None:
    assert "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so" in host.check_output("ldconfig -p") or (
        "aarch64" in host.check_output("uname -m")
    )
    assert not host.file("/etc/ld.so.conf.d/mlcluster-efa-nccl.conf").exists


def test_nccl_came_as_pinned_file_and_is_held(host: Host) -> None:
    assert host.package("libnccl2").version == "2.28.9-1+cuda13.0"
    assert {"libnccl2", "libnccl-ofi", "efa-config"} <= set(host.check_output("apt-mark showhold").split())


def test_gdrcopy_came_from_repository_and_is_held(host: Host) -> None:
    assert host.check_output("dpkg-query -W -f '${Version} ${Status}' libgdrapi") == "2.5.1-1 hold ok installed"


def test_nccl_tests_were_built_for_several_nodes(host: Host) -> None:
    program = "/opt/nccl-tests/build/all_reduce_perf"
    if host.check_output("hostname").endswith("-debian13"):
        assert not host.file(program).exists
        return
    output = host.check_output(program)
    assert output == "MPI_HOME=/opt/amazon/openmpi CUDA_HOME=/usr/local/cuda"


def test_environment_is_same_in_every_form(host: Host) -> None:
    wanted = {"NCCL_SOCKET_IFNAME": "^docker,lo,veth", "NCCL_NET_PLUGIN": "ofi", "NCCL_DEBUG": "WARN"}
    lines = host.file("/etc/nccl.conf").content_string.splitlines()
    assert dict(line.split("=", 1) for line in lines if not line.startswith("#")) == wanted
    module = host.file("/usr/share/modules/modulefiles/mlcluster-nccl").content_string
    assert module.startswith("#%Module1.0\n")
    assert all(f"setenv {name} {{{value}}}" in module for name, value in wanted.items())


def test_no_library_path_is_set(host: Host) -> None:
    found = host.run("grep -rlE 'LD_(LIBRARY_PATH|PRELOAD)' /etc/profile.d /etc/nccl.conf /etc/environment")
    assert found.stdout == ""


@pytest.mark.parametrize("unit", ["slurmd.service", "containerd.service", "docker.service"])
def test_services_may_lock_memory(host: Host, unit: str) -> None:
    path = f"/etc/systemd/system/{unit}.d/mlcluster-limits.conf"
    assert host.file(path).mode == 0o644
    assert "LimitMEMLOCK=infinity" in host.file(path).content_string


def test_later_service_gets_limit(host: Host) -> None:
    host.check_output("printf '[Service]\\nExecStart=/bin/sleep 1d\\n' > /run/systemd/system/containerd.service")
    host.check_output("systemctl daemon-reload")
    try:
        assert host.check_output("systemctl show -p LimitMEMLOCK --value containerd.service") == "infinity"
    finally:
        host.check_output("rm /run/systemd/system/containerd.service && systemctl daemon-reload")


def test_apt_reads_list_of_unattended_upgrades(host: Host) -> None:
    shown = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^libnccl2$"' in shown
    assert '"^efa$"' in shown
