# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outputs are those in public issues and in the documentation of AWS and NVIDIA."""

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
def test_domains_are_counted_once_in_every_shape(text, domains, fabrics):
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


def test_the_marker_of_rpm_and_of_deb_systems():
    rpm = parse.parse_marker(RPM_MARKER)
    assert rpm["version"] == "1.22.0"
    assert rpm["packages"][0] == {"name": "efa-config", "version": "1.13-1.el8"}
    assert rpm["packages"][2] == {"name": "libfabric-aws", "version": "1.17.0-1.el8"}
    deb = parse.parse_marker(DEB_MARKER)
    assert deb["version"] == "1.17.2"
    assert deb["packages"][1] == {"name": "libfabric-aws-bin", "version": "1.16.0~amzn3.0"}
    assert deb["packages"][3] == {"name": "efa", "version": "1.16.0-1.amzn1"}


@pytest.mark.parametrize("text", ["", "# EFA installer version: \n", "# EFA installer version: latest\n", "garbage\n"])
def test_a_marker_without_a_version(text):
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
def test_what_the_installer_brings_itself(name, own):
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
        ("9" * 40, None),
    ],
)
def test_a_limit(word, value):
    assert parse.parse_limit(word) == value


def test_the_last_line_for_everybody_decides_on_a_login():
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


def test_the_limits_of_a_process():
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


def test_huge_pages():
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
def test_no_text_stops_a_parser(text):
    for parser in PARSERS:
        parser(text)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("text", [" ", "\n", "\t", "a ", "a: ", "name ", '	x (a) => /"a ', "1.", "(a) => "])
def test_no_long_line_holds_a_parser(parser, text):
    parser(text * 100_000 + "x")
