# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the EFA parsers; the outputs are from public issues and from the documentation of AWS and NVIDIA."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.parse import parse_driver_version
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.linker import parse_ldconfig
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.packages import (
    parse_dpkg,
    parse_rpm,
    parse_versionlock,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.units import parse_units
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import fake_training_host as training_host

OLDEST = """\
provider: efa
    fabric: EFA-fe80::94:3dff:fe89:1b70
    domain: efa_0-rdm
    version: 111.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
provider: efa
    fabric: EFA-fe80::94:3dff:fe89:1b70
    domain: efa_0-dgrm
    version: 111.0
    type: FI_EP_DGRAM
    protocol: FI_PROTO_EFA
provider: efa;ofi_rxd
    fabric: EFA-fe80::94:3dff:fe89:1b70
    domain: efa_0-dgrm
    version: 111.0
    type: FI_EP_RDM
    protocol: FI_PROTO_RXD
"""
NEWEST = """\
provider: efa
    fabric: efa-direct
    domain: rdmap47s0-rdm
    version: 206.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
provider: efa
    fabric: efa
    domain: rdmap47s0-rdm
    version: 206.0
    type: FI_EP_RDM
    protocol: FI_PROTO_EFA
"""
RPM_MARKER = """\
# EFA installer version: 1.22.0
# Debug packages installed: no
# Packages installed:
efa-config-1.13-1.el8.noarch efa-profile-1.5-1.el8.noarch libfabric-aws-1.17.0-1.el8.x86_64 rdma-core-43.0-1.el8.x86_64
"""
DEB_MARKER = """\
# EFA installer version: 1.17.2
# Debug packages installed: no
# Packages installed:
efa-config_1.10_all libfabric-aws-bin_1.16.0~amzn3.0_amd64 libibverbs1_41.0-1_amd64 efa_1.16.0-1.amzn1_amd64
"""


@pytest.mark.parametrize(
    ("text", "domains", "fabrics"),
    [
        (OLDEST, ["efa_0"], 1),
        (NEWEST, ["rdmap47s0"], 2),
        (training_host.fi_info(["rdmap16s27", "rdmap17s27"]), ["rdmap16s27", "rdmap17s27"], 2),
        (training_host.fi_info(["rdmap16s27"], ["efa"]), ["rdmap16s27"], 1),
        ("fi_getinfo: -61 (No data available)\n", [], 0),
        ("domain: x\nprovider: efa\n  type: FI_EP_RDM\n", [], 0),
    ],
)
def test_rdm_domains_of_every_fi_info_format(text, domains, fabrics):
    endpoints = parse.parse_fi_info(text)
    assert parse.rdm_domains(endpoints) == domains
    assert len({entry.get("fabric") for entry in endpoints} - {None}) == fabrics


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "/opt/amazon/efa/bin/fi_info: 1.22.0amzn5.0\nlibfabric: 1.22.0amzn5.0\nlibfabric api: 1.22\n",
            "1.22.0amzn5.0",
        ),
        ("fi_info: 2.1.0\nlibfabric: 2.1.0\nlibfabric api: 2.1\n", "2.1.0"),
        ("libfabric api: 2.1\n", None),
        ("", None),
    ],
)
def test_libfabric_version(text, version):
    assert parse.parse_libfabric_version(text) == version


def test_marker_of_rpm_and_of_deb_systems():
    rpm = parse.parse_marker(RPM_MARKER)
    assert rpm["version"] == "1.22.0"
    assert rpm["packages"][0] == {"name": "efa-config", "version": "1.13-1.el8"}
    assert rpm["packages"][2] == {"name": "libfabric-aws", "version": "1.17.0-1.el8"}
    deb = parse.parse_marker(DEB_MARKER)
    assert deb["version"] == "1.17.2"
    assert deb["packages"][1] == {"name": "libfabric-aws-bin", "version": "1.16.0~amzn3.0"}
    assert deb["packages"][3] == {"name": "efa", "version": "1.16.0-1.amzn1"}


@pytest.mark.parametrize("text", ["", "# EFA installer version: \n", "# EFA installer version: latest\n", "garbage\n"])
def test_marker_without_version(text):
    assert parse.parse_marker(text)["version"] is None


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("efa", True),
        ("efa-config", True),
        ("efa-nv-peermem", True),
        ("libfabric1-aws", True),
        ("libfabric-aws-bin", True),
        ("openmpi40-aws", True),
        ("openmpi50-aws", True),
        ("libnccl-ofi", True),
        ("libfabric1", False),
        ("openmpi-bin", False),
        ("libnccl2", False),
        ("efax", False),
        ("rdma-core", False),
    ],
)
def test_packages_of_installer_are_recognized(name, own):
    assert bool(parse.OWN_PACKAGE.fullmatch(name)) is own


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("unlimited", "unlimited"),
        ("infinity", "unlimited"),
        ("-1", "unlimited"),
        ("18446744073709551615", "unlimited"),
        ("65536", 65536),
        ("-2", None),
        ("many", None),
        ("٣", None),
        ("0", 0),
        ("9" * 19, int("9" * 19)),
        ("9" * 20, None),
    ],
)
def test_parse_limit(word, value):
    assert parse.parse_limit(word) == value


def test_login_limit_is_last_wildcard_line():
    files = {
        "/etc/security/limits.conf": "* soft memlock 64\n# * hard memlock 1\nroot - memlock unlimited\n",
        "/etc/security/limits.d/01_efa.conf": training_host.EFA_LIMITS,
        "/etc/security/limits.d/99-site.conf": "*  soft  memlock  1024 # site\n@ml hard memlock 5\n* hard memlock\n",
    }
    assert parse.login_memlock(files) == {
        "soft": 1024,
        "hard": "unlimited",
        "soft_file": "/etc/security/limits.d/99-site.conf",
        "hard_file": "/etc/security/limits.d/01_efa.conf",
    }
    assert parse.login_memlock(files, "root")["soft"] == "unlimited"
    assert parse.login_memlock({})["soft"] is None


def test_process_memlock():
    assert parse.process_memlock(training_host.limits("unlimited")) == {"soft": "unlimited", "hard": "unlimited"}
    assert parse.process_memlock(training_host.limits("8388608")) == {"soft": 8388608, "hard": 8388608}
    assert parse.process_memlock("Max locked memory  much  much  bytes\n") is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Fabric Manager version is : 580.159.03\n", "580.159.03"),
        ("\n\n\tFabric Manager version is : 535.161.08\n\n", "535.161.08"),
        ("Fabric Manager version is : unknown", None),
    ],
)
def test_fabric_manager_version(text, version):
    assert parse.parse_fabric_manager_version(text) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("\0NET/OFI\0Initializing aws-ofi-nccl 1.16.1\0", "1.16.1"),
        ("Initializing aws-ofi-nccl 1.13.2-aws\0", "1.13.2-aws"),
        ("Initializing aws-ofi-nccl git-6e504db\0", "git-6e504db"),
        ("/build/aws-ofi-nccl-1.7.4/src/x.c\0", "1.7.4"),
        ("aws-ofi-nccl\0", None),
    ],
)
def test_plugin_version(text, version):
    assert parse.plugin_version(text) == version


def test_parse_meminfo_pages():
    text = "MemTotal: 1 kB\nHugePages_Total:    5128\nHugePages_Free:       12\nHugepagesize:       2048 kB\n"
    assert parse.parse_meminfo_pages(text) == {"total": 5128, "free": 12, "size_kib": 2048}
    assert parse.parse_meminfo_pages("") == {"total": None, "free": None, "size_kib": None}


PARSERS = [
    lambda text: parse.rdm_domains(parse.parse_fi_info(text)),
    parse.parse_libfabric_version,
    parse.parse_marker,
    parse_dpkg,
    parse_rpm,
    parse_versionlock,
    lambda text: parse.login_memlock({"/x": text}),
    parse.process_memlock,
    parse_units,
    parse.parse_modinfo,
    parse_ldconfig,
    parse.parse_fabric_manager_version,
    parse_driver_version,
    parse.parse_mpi_version,
    parse.plugin_version,
    parse.parse_meminfo_pages,
]
WORDS = st.sampled_from(
    [
        "provider: efa\n",
        "domain: ",
        "_amd64",
        "\t",
        "\n",
        "ii ",
        ": ",
        "=",
        "* soft memlock ",
        "Max locked memory ",
        "\0",
    ]
    + ["99999999999999999999", "-1", "é", "NVRM version: ", "HugePages_Total: "]
)


@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=30).map("".join)))
def test_parsers_accept_any_text(text):
    for parser in PARSERS:
        parser(text)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", [" ", "\n", "\t", "a ", "a: ", "name ", '	x (a) => /"a ', "1.", "(a) => "])
def test_parsers_are_fast_on_long_lines(parser, text):
    parser(text * 100_000 + "x")


def endpoint(**fields):
    return {"provider": "efa", "domain": "d0-rdm", "type": "FI_EP_RDM", **fields}


@pytest.mark.parametrize(
    ("fields", "domains"),
    [
        ({}, ["d0"]),
        ({"domain": "d0"}, ["d0"]),
        ({"domain": "d0-rdm-1"}, ["d0-rdm-1"]),
        ({"domain": ""}, []),
        ({"domain": "-rdm"}, []),
        ({"type": "FI_EP_DGRAM"}, []),
        ({"provider": "efa;ofi_rxd"}, []),
    ],
)
def test_rdm_endpoint_of_efa_has_device_name(fields, domains):
    assert parse.rdm_domains([endpoint(**fields)]) == domains


def test_endpoint_with_missing_fields_is_ignored():
    assert parse.rdm_domains([{}, {"provider": "efa"}, {"type": "FI_EP_RDM", "domain": "x"}]) == []


def test_endpoint_with_repeated_field_keeps_first_value():
    assert parse.parse_fi_info("provider: efa\n  domain:  a \n  domain: b\n domain= c\n") == [
        {"provider": "efa", "domain": "a"}
    ]


@pytest.mark.parametrize(
    ("word", "package"),
    [
        ("efa_1.16.0_amd64", {"name": "efa", "version": "1.16.0"}),
        ("a_1_b_c", {"name": "a", "version": "1"}),
        # In an .rpm name, underscores belong to the name.
        ("a_b-1-2.noarch", {"name": "a_b", "version": "1-2"}),
        ("a_b_c-1-2.x86_64", {"name": "a_b_c", "version": "1-2"}),
        ("a-b-1-2.el8.aarch64", {"name": "a-b", "version": "1-2.el8"}),
        ("a-1.noarch", None),
        ("word", None),
    ],
)
def test_parse_marker_package_line(word, package):
    assert parse.parse_marker(f"# Packages installed:\n{word}\n")["packages"] == ([package] if package else [])


@pytest.mark.parametrize(
    ("line", "soft", "hard"),
    [
        ("* - memlock 5", 5, 5),
        ("* soft memlock 5", 5, None),
        ("* hard memlock 5", None, 5),
        ("* both memlock 5", None, None),
        ("* - nofile 5", None, None),
        ("* - memlock 5 more", None, None),
        ("* - memlock", None, None),
        ("ml - memlock 5", None, None),
        ("* - memlock many", None, None),
        ("* - memlock 0", 0, 0),
    ],
)
def test_login_memlock_of_one_line(line, soft, hard):
    found = parse.login_memlock({"/a": line})
    assert (found["soft"], found["hard"]) == (soft, hard)
    assert (found["soft_file"], found["hard_file"]) == (
        "/a" if soft is not None else None,
        "/a" if hard is not None else None,
    )


def test_own_memlock_has_finite_user_and_group_limits():
    text = (
        "* - memlock 1\nroot - memlock 2\n@ml hard memlock 5\nana - memlock unlimited\n%g soft memlock 0\n"
        "bob - nofile 7\neve - memlock 9 x\n# zoe - memlock 3\n"
    )
    found = parse.own_memlock({"/a": text})
    assert {name: (limit["soft"], limit["hard"]) for name, limit in found.items()} == {
        "@ml": (None, 5),
        "%g": (0, None),
    }


def test_limits_of_process_are_whole_numbers():
    line = "Max locked memory         {}            {}            bytes\n"
    assert parse.process_memlock(line.format(5, "unlimited")) == {"soft": 5, "hard": "unlimited"}
    assert parse.process_memlock(line.format("9" * 20, 1)) == {"soft": int("9" * 20), "hard": 1}
    assert parse.process_memlock(line.format("9" * 21, 1)) is None


def test_modinfo_with_repeated_field_keeps_first_value():
    text = "filename:  /lib/efa.ko\nversion: 2.17.2g\nversion: 3\n: nothing\nword\nalias:\n"
    assert parse.parse_modinfo(text) == {"filename": "/lib/efa.ko", "version": "2.17.2g", "alias": ""}


def test_version_of_open_mpi():
    assert parse.parse_mpi_version("mpirun (Open MPI) 4.1.7\n\nReport bugs\n") == "4.1.7"
    assert parse.parse_mpi_version("mpirun (Open MPI) none\n") is parse.parse_mpi_version("Intel(R) MPI 2021\n") is None
