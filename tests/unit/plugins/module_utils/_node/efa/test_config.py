# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of the role efa_nccl that no node could carry out."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.config import (
    EfaConfig,
    known_type,
    parse_config,
    problems,
)


def found(**options):
    return problems(options)


def test_sound_settings_have_no_problems():
    assert found(nccl_packages=[{"name": "libnccl2", "version": "2.28.9-1+cuda13.0"}]) == []
    sound = {
        "installer_arguments": ["-y", "-g", "--skip-kmod", "--use-openmpi5"],
        "tests_arguments": ["NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90", "NCCL_HOME=/opt/nccl"],
        "hold_packages": ["*", "linux-image-*", "libstdc++6"],
        "limit_units": ["slurmd.service", "user@1000.service"],
        "modulefile_dir": "/usr/share/modules/modulefiles",
        "environment": {"NCCL_DEBUG": "WARN"},
    }
    assert found(**sound) == []
    url = "https://bucket.s3.amazonaws.com/x.deb?X-Amz-Signature=a/b"
    presigned = {"name": "libnccl2", "version": "1:2.0~rc1-1", "url": url, "sha256": "1" * 64}
    assert found(nccl_packages=[presigned], gdrcopy_packages=[presigned]) == []
    assert found(installer_source="mirror", mirror="s3://bucket/efa", installer_arguments=["--mpi=openmpi5"]) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"installer_version": "latest"}, "efa_nccl_installer_version is 'latest': use a version such as 1.51.0"),
        ({"installer_sha256": "abc"}, "efa_nccl_installer_sha256 is 'abc': use 64 hexadecimal digits"),
        ({"installer_version": "\u0661.5.0"}, "efa_nccl_installer_version is"),
        ({"installer_version": 1.51}, "efa_nccl_installer_version is 1.51: use a version"),
        ({"installer_version": "1.51.0 "}, "efa_nccl_installer_version is"),
        ({"installer_sha256": "A" * 64}, "use 64 hexadecimal digits in lower case"),
        ({"tests_sha256": "A" * 64}, "efa_nccl_tests_sha256 is"),
        ({"tests_version": "../../etc"}, "efa_nccl_tests_version is '../../etc': use a version such as 2.19.6"),
        ({"fingerprint": 1234}, "efa_nccl_fingerprint is 1234: use 40"),
        ({"fingerprint": "4E90 91BC"}, "use 40 hexadecimal digits in capitals, no spaces"),
        ({"installer_arguments": ["-y --minimal"]}, "efa_nccl_installer_arguments has '-y --minimal'"),
        ({"installer_arguments": ["--uninstall"]}, "without --uninstall"),
        ({"installer_arguments": ["--un"]}, "without --uninstall"),
        ({"installer_arguments": ["-yu"]}, "without --uninstall"),
        ({"installer_arguments": ["--"]}, "has '--': use options of efa_installer.sh"),
        ({"tests_arguments": ["MPI=0"]}, "efa_nccl_tests_arguments has 'MPI=0': use variables for make"),
        ({"tests_arguments": ["--eval=$(shell id)", "-f"]}, "has '--eval=$(shell id)', '-f': use variables"),
        ({"installer_timeout": 5}, "use 60 seconds or more"),
        ({"installer_source": "mirror"}, "efa_nccl_mirror is '': use the base of the mirror"),
        ({"installer_source": "mirror", "mirror": "ftp://example.com"}, "efa_nccl_mirror is 'ftp://example.com'"),
        ({"installer_source": "mirror", "mirror": "https://host/a b"}, "use the base of the mirror and nothing else"),
        (
            {"installer_source": "mirror", "mirror": "https://host/a?x=1"},
            "use the base of the mirror and nothing else",
        ),
        (
            {"installer_source": "mirror", "mirror": "https://me:secret@host/efa"},
            "efa_nccl_mirror has a name or password in it: use",
        ),
        ({"tests_dir": "nccl-tests"}, "efa_nccl_tests_dir is 'nccl-tests': use an absolute path"),
        ({"tests_dir": "/opt/../etc"}, "without '..'"),
        ({"tests_dir": "/"}, "efa_nccl_tests_dir is '/'"),
        ({"tests_dir": "/opt/a b"}, "of letters, digits and"),
        ({"mpi_home": "/opt/$(id)"}, "efa_nccl_mpi_home is '/opt/$(id)'"),
        ({"modulefile_dir": "modules"}, "efa_nccl_modulefile_dir is 'modules': use an absolute path"),
        ({"limit_units": ["slurmd"]}, "efa_nccl_limit_units has 'slurmd': use names of services"),
        ({"limit_units": ["user@.service", "-.service"]}, "has 'user@.service', '-.service': use names"),
        ({"needrestart_keep": ["a b"]}, "efa_nccl_needrestart_keep has 'a b'"),
        ({"hold_packages": ['a"; };']}, "efa_nccl_hold_packages has 'a\"; };': use names of packages"),
        ({"hold_packages": ["-o"]}, "efa_nccl_hold_packages has '-o'"),
        ({"huge_pages": -1}, "efa_nccl_huge_pages is -1: use 0 to"),
        ({"expected_devices": 5000}, "efa_nccl_expected_devices is 5000: use 0 to 1000"),
        ({"environment": {"A B": "1"}}, "efa_nccl_environment: 'A B' is not a name for a variable"),
        ({"environment": {"NCCL_DEBUG": "a\nb"}}, "efa_nccl_environment: NCCL_DEBUG has the value 'a\\nb'"),
        ({"ptrace_scope": 7}, "efa_nccl_ptrace_scope is 7"),
        ({"minima": {"driver": 580.95}}, "efa_nccl_minima: the minimum of driver is 580.95: use a version in quotes"),
        ({"minima": {"cudnn": "9"}}, "efa_nccl_minima: minima has 'cudnn': use some of driver, cuda"),
        ({"wait_seconds": 1000}, "efa_nccl_wait_seconds is 1000: use 0 to 600"),
    ],
)
def test_each_bad_setting_is_one_sentence(settings, words):
    (sentence,) = found(**settings)
    assert words in sentence


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ({"name": "libnccl2", "version": "2.*"}, "efa_nccl_nccl_packages has libnccl2 '2.*': use one whole version"),
        ({"name": "libnccl2", "version": ""}, "use one whole version"),
        ({"version": "2"}, "efa_nccl_nccl_packages has an entry without name: set name and version of each package"),
        ({"url": "https://x/y.deb"}, "an entry without name and version"),
        ({"name": "lib nccl", "version": "2"}, "that is not a name of a package"),
        ({"name": "libnccl2", "version": "2/testing"}, "use one whole version"),
        ({"name": "libnccl2", "version": "-o"}, "use one whole version"),
        ({"name": "libnccl2", "version": 2.5, "url": "", "sha256": "1" * 64}, "with a url that is not valid"),
        ({"name": "libnccl2", "version": "2", "url": "file:///x.deb", "sha256": "1" * 64}, "use http:// or https://"),
        ({"name": "libnccl2", "version": "2", "url": "https://me:pw@x/y", "sha256": "1" * 64}, "without a password"),
        ({"name": "libnccl2", "version": "2", "url": "https://x/y.deb"}, "with a url and no sha256"),
        ({"name": "libnccl2", "version": "2", "url": "https://x/y.deb", "sha256": "1"}, "with a url and no sha256"),
    ],
)
def test_packages_have_to_be_pinned(package, words):
    (sentence,) = found(nccl_packages=[package])
    assert words in sentence


def test_package_is_pinned_once():
    lists = {"nccl_packages": [{"name": "libnccl2", "version": "2"}]}
    assert found(**lists, gdrcopy_packages=[{"name": "libnccl2", "version": "3"}]) == [
        "efa_nccl_gdrcopy_packages has libnccl2, which is pinned elsewhere in another way: pin it once"
    ]


def test_harmful_variable_is_named_with_reason_and_source():
    (sentence,) = found(environment={"NCCL_SOCKET_IFNAME": "lo"})
    assert sentence.startswith("efa_nccl_environment has NCCL_SOCKET_IFNAME=lo, which does harm: ")
    assert sentence.endswith("); use ^docker,lo,veth")


def test_misnamed_variable_gets_right_name():
    (sentence,) = found(environment={"NCCL_IB_GDR_LEVEL": "5"})
    assert sentence.startswith("efa_nccl_environment has NCCL_IB_GDR_LEVEL, which must be NCCL_NET_GDR_LEVEL: ")
    assert sentence.endswith(", since NCCL 2.4)")


def test_variable_is_judged_for_named_type():
    without_rdma = {"FI_EFA_USE_DEVICE_RDMA": "1"}
    assert found(environment=without_rdma) == found(environment=without_rdma, instance_type="p5.48xlarge") == []
    assert len(found(environment=without_rdma, instance_type="p3dn.24xlarge")) == 1
    # A type that the table lacks gets what all get.
    assert (found(environment=without_rdma, instance_type="x1.large"), known_type("x1.large")) == ([], None)


def test_all_problems_come_at_once():
    assert len(found(installer_version="latest", ptrace_scope=9, tests_dir="x")) == 3


ARTIFACT = {
    "url": "https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz",
    "signature_url": "https://efa-installer.amazonaws.com/aws-efa-installer-1.47.0.tar.gz.sig",
    "key_url": "https://efa-installer.amazonaws.com/aws-efa-installer.key",
    "sha256": "2" * 64,
    "sha256_source": "AWS",
}


@pytest.mark.parametrize(
    ("options", "sources"),
    [
        ({}, (ARTIFACT["url"], ARTIFACT["signature_url"], ARTIFACT["key_url"])),
        ({"signing_key": "/srv/own.key"}, (ARTIFACT["url"], ARTIFACT["signature_url"], "/srv/own.key")),
        (
            {"installer_source": "mirror", "mirror": "s3://bucket/efa/"},
            (
                "s3://bucket/efa/aws-efa-installer-1.47.0.tar.gz",
                "s3://bucket/efa/aws-efa-installer-1.47.0.tar.gz.sig",
                "s3://bucket/efa/aws-efa-installer.key",
            ),
        ),
        (
            {"installer_source": "local", "installer_file": "/srv/efa.tar.gz"},
            ("/srv/efa.tar.gz", "/srv/efa.tar.gz.sig", "/srv/aws-efa-installer.key"),
        ),
    ],
)
def test_sources_of_installer(options, sources):
    config = parse_config({"installer_version": "1.47.0", "artifact": ARTIFACT, **options})
    assert tuple(config.sources[name] for name in ("archive", "signature", "key")) == sources


def test_checksum_is_published_given_or_missing():
    published = parse_config({"artifact": ARTIFACT})
    assert (published.sha256, published.sha256_source) == ("2" * 64, "AWS")
    given = parse_config({"artifact": ARTIFACT, "installer_sha256": "1" * 64})
    assert (given.sha256, given.sha256_source) == ("1" * 64, "efa_nccl_installer_sha256")
    assert (EfaConfig().sha256, EfaConfig().tests_checksum) == ("", "")
    tests = {"url": "https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v2.19.6.tar.gz", "sha256": "3" * 64}
    assert parse_config({"tests_artifact": tests}).tests_checksum == "3" * 64
    assert parse_config({"tests_artifact": tests, "tests_sha256": "4" * 64}).tests_checksum == "4" * 64


def test_http_mirror_has_sources_of_nccl_tests():
    tests = {"tests_artifact": {"url": "https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v2.19.6.tar.gz"}}
    mirror = {"installer_source": "mirror", **tests}
    assert parse_config(tests).tests_url == tests["tests_artifact"]["url"]
    assert parse_config({**mirror, "mirror": "https://host/efa/"}).tests_url == "https://host/efa/v2.19.6.tar.gz"
    assert parse_config({**mirror, "mirror": "s3://bucket"}).tests_url == tests["tests_artifact"]["url"]
