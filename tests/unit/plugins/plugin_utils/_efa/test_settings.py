# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of the role efa_nccl that no node could carry out."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._efa.settings import efa_nccl_problems

SETTINGS = {
    "minima": {},
    "installer_version": "1.51.0",
    "installer_sha256": "",
    "installer_source": "upstream",
    "installer_file": "",
    "installer_arguments": [],
    "installer_timeout": 1800,
    "mirror": "",
    "fingerprint": "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC",
    "signing_key": "",
    "check_signature": True,
    "tests_version": "2.19.6",
    "tests_sha256": "",
    "tests_arguments": [],
    "tests_builder_known": True,
    "tests_dir": "/opt/nccl-tests",
    "cuda_home": "/usr/local/cuda",
    "mpi_home": "/opt/amazon/openmpi",
    "limit_units": ["slurmd.service"],
    "needrestart_keep": ["slurmd"],
    "ptrace_scope": 0,
    "wait_seconds": 30,
    "expected_devices": 0,
    "huge_pages": 0,
    "hold_packages": [],
    "modulefile_dir": "",
    "environment": {},
}


def problems(packages=None, judged=(), **settings):
    return efa_nccl_problems({**SETTINGS, **settings}, packages, judged)


def test_a_text_for_a_list_or_a_mapping_is_told_by_its_name():
    given = {"environment": "NCCL_DEBUG=INFO", "minima": "plugin=1.20", "limit_units": "slurmd.service"}
    assert problems({"efa_nccl_nccl_packages": "libnccl2"}, **given) == [
        "efa_nccl_environment is 'NCCL_DEBUG=INFO', a text; give a mapping",
        "efa_nccl_minima is 'plugin=1.20', a text; give a mapping",
        "efa_nccl_limit_units is 'slurmd.service', a text; give a list of texts",
        "efa_nccl_nccl_packages is 'libnccl2', a text; give a list of mappings",
    ]


def test_sound_settings_have_no_problems():
    packages = {"efa_nccl_nccl_packages": [{"name": "libnccl2", "version": "2.28.9-1+cuda13.0"}]}
    judged = [{"verdict": "keep"}, {"verdict": "drop"}]
    assert problems(packages, judged) == []
    sound = {
        "installer_arguments": ["-y", "-g", "--skip-kmod", "--use-openmpi5"],
        "tests_arguments": ["NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90", "NCCL_HOME=/opt/nccl"],
        "hold_packages": ["*", "linux-image-*", "libstdc++6"],
        "limit_units": ["slurmd.service", "user@1000.service"],
        "modulefile_dir": "/usr/share/modules/modulefiles",
        "environment": {"NCCL_DEBUG": "WARN"},
    }
    assert problems(**sound) == []
    url = "https://bucket.s3.amazonaws.com/x.deb?X-Amz-Signature=a/b"
    presigned = {"name": "libnccl2", "version": "1:2.0~rc1-1", "url": url, "sha256": "1" * 64}
    assert problems({"efa_nccl_nccl_packages": [presigned], "efa_nccl_gdrcopy_packages": [presigned]}) == []
    assert problems(installer_source="mirror", mirror="s3://bucket/efa", installer_arguments=["--mpi=openmpi5"]) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"installer_version": "latest"}, "efa_nccl_installer_version is 'latest': give a version such as 1.51.0"),
        ({"installer_sha256": "abc"}, "efa_nccl_installer_sha256 is 'abc': give 64 hexadecimal digits"),
        ({"installer_version": "\u0661.5.0"}, "efa_nccl_installer_version is"),
        ({"installer_version": 1.51}, "efa_nccl_installer_version is 1.51: give a version"),
        ({"installer_version": "1.51.0 "}, "efa_nccl_installer_version is"),
        ({"installer_sha256": "A" * 64}, "give 64 hexadecimal digits in lower case"),
        ({"tests_sha256": "A" * 64}, "efa_nccl_tests_sha256 is"),
        ({"tests_version": "../../etc"}, "efa_nccl_tests_version is '../../etc': give a version such as 2.19.6"),
        ({"fingerprint": 1234}, "efa_nccl_fingerprint is 1234: give 40"),
        ({"mirror": None}, "efa_nccl_mirror has no value: give it one, or leave it out"),
        ({"fingerprint": "4E90 91BC"}, "give 40 hexadecimal digits in capitals, no spaces"),
        ({"installer_arguments": ["-y --minimal"]}, "efa_nccl_installer_arguments has '-y --minimal'"),
        ({"installer_arguments": ["--uninstall"]}, "without --uninstall"),
        ({"installer_arguments": ["--un"]}, "without --uninstall"),
        ({"installer_arguments": ["-yu"]}, "without --uninstall"),
        ({"installer_arguments": ["--"]}, "has '--': give options of efa_installer.sh"),
        ({"tests_arguments": ["MPI=0"]}, "efa_nccl_tests_arguments has 'MPI=0': give variables for make"),
        ({"tests_arguments": ["--eval=$(shell id)", "-f"]}, "has '--eval=$(shell id)', '-f': give variables"),
        ({"installer_timeout": 5}, "give 60 seconds or more"),
        ({"installer_source": "mirror"}, "efa_nccl_mirror is '': give the base of the mirror"),
        ({"installer_source": "mirror", "mirror": "ftp://example.com"}, "efa_nccl_mirror is 'ftp://example.com'"),
        ({"installer_source": "mirror", "mirror": "https://host/a b"}, "give the base of the mirror and nothing else"),
        (
            {"installer_source": "mirror", "mirror": "https://host/a?x=1"},
            "give the base of the mirror and nothing else",
        ),
        (
            {"installer_source": "mirror", "mirror": "https://me:secret@host/efa"},
            "efa_nccl_mirror has a name or password in it: give",
        ),
        ({"installer_source": "local"}, "efa_nccl_installer_file is '': give an absolute path on the controller"),
        (
            {"installer_source": "local", "installer_file": "/nowhere", "check_signature": False},
            "there is no such file on the controller",
        ),
        ({"signing_key": "/nowhere"}, "efa_nccl_signing_key is '/nowhere'"),
        ({"tests_dir": "nccl-tests"}, "efa_nccl_tests_dir is 'nccl-tests': give an absolute path"),
        ({"tests_dir": "/opt/../etc"}, "without '..'"),
        ({"tests_dir": "/"}, "efa_nccl_tests_dir is '/'"),
        ({"tests_dir": "/opt/a b"}, "of letters, digits and"),
        ({"mpi_home": "/opt/$(id)"}, "efa_nccl_mpi_home is '/opt/$(id)'"),
        ({"modulefile_dir": "modules"}, "efa_nccl_modulefile_dir is 'modules': give an absolute path"),
        ({"tests_builder_known": False}, "efa_nccl_tests_builder names no host of the inventory"),
        ({"limit_units": ["slurmd"]}, "efa_nccl_limit_units has 'slurmd': give names of services"),
        ({"limit_units": ["user@.service", "-.service"]}, "has 'user@.service', '-.service': give names"),
        ({"needrestart_keep": ["a b"]}, "efa_nccl_needrestart_keep has 'a b'"),
        ({"hold_packages": ['a"; };']}, "efa_nccl_hold_packages has 'a\"; };': give names of packages"),
        ({"hold_packages": ["-o"]}, "efa_nccl_hold_packages has '-o'"),
        ({"huge_pages": -1}, "efa_nccl_huge_pages is -1: give 0 to"),
        ({"expected_devices": 5000}, "efa_nccl_expected_devices is 5000: give 0 to 1000"),
        ({"environment": {"A B": "1"}}, "efa_nccl_environment: 'A B' is no name for a variable"),
        ({"environment": {"NCCL_DEBUG": "a\nb"}}, "efa_nccl_environment: NCCL_DEBUG has the value 'a\\nb'"),
        ({"ptrace_scope": 7}, "efa_nccl_ptrace_scope is 7"),
        ({"minima": {"driver": 580.95}}, "efa_nccl_minima: the minimum of driver is 580.95: give a version in quotes"),
        ({"minima": {"cudnn": "9"}}, "efa_nccl_minima: minima has 'cudnn': give some of driver, cuda"),
        ({"wait_seconds": 1000}, "efa_nccl_wait_seconds is 1000: give 0 to 600"),
    ],
)
def test_each_bad_setting_is_one_sentence(settings, words):
    (found,) = problems(**settings)
    assert words in found


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ({"name": "libnccl2", "version": "2.*"}, "efa_nccl_nccl_packages has libnccl2 '2.*': give one whole version"),
        ({"name": "libnccl2", "version": ""}, "give one whole version"),
        ({"name": "lib nccl", "version": "2"}, "that is no name of a package"),
        ({"name": "libnccl2", "version": "2/testing"}, "give one whole version"),
        ({"name": "libnccl2", "version": "-o"}, "give one whole version"),
        ({"name": "libnccl2", "version": 2.5, "url": "", "sha256": "1" * 64}, "with a url that is none"),
        ({"name": "libnccl2", "version": "2", "url": "file:///x.deb", "sha256": "1" * 64}, "give http:// or https://"),
        ({"name": "libnccl2", "version": "2", "url": "https://me:pw@x/y", "sha256": "1" * 64}, "without a password"),
        ({"name": "libnccl2", "version": "2", "url": "https://x/y.deb"}, "with a url and no sha256"),
        ({"name": "libnccl2", "version": "2", "url": "https://x/y.deb", "sha256": "1"}, "with a url and no sha256"),
    ],
)
def test_packages_have_to_be_pinned(package, words):
    (found,) = problems({"efa_nccl_nccl_packages": [package]})
    assert words in found


def test_a_package_is_pinned_once():
    other = {"name": "libnccl2", "version": "3"}
    lists = {"efa_nccl_nccl_packages": [{"name": "libnccl2", "version": "2"}], "efa_nccl_gdrcopy_packages": [other]}
    assert problems(lists) == [
        "efa_nccl_gdrcopy_packages has libnccl2, which is pinned elsewhere in another way: pin it once"
    ]


def test_a_list_without_a_value_is_said():
    assert problems({"efa_nccl_nccl_packages": None}) == [
        "efa_nccl_nccl_packages has no value: give it one, or leave it out"
    ]


def test_a_local_installer_has_its_signature_and_key_beside_it(tmp_path):
    archive = tmp_path / "efa.tar.gz"
    archive.write_bytes(b"")
    local = {"installer_source": "local", "installer_file": str(archive)}
    signature, key = problems(**local)
    assert signature == (
        f"the signature beside efa_nccl_installer_file is '{archive}.sig' and there is no such file on the controller"
    )
    assert "aws-efa-installer.key' and there is no such file" in key
    (tmp_path / "efa.tar.gz.sig").write_bytes(b"")
    (tmp_path / "own.key").write_bytes(b"")
    assert problems(**local, signing_key=str(tmp_path / "own.key")) == []
    assert problems(**{**local, "installer_file": "efa.tar.gz"}, check_signature=False) == [
        "efa_nccl_installer_file is 'efa.tar.gz': give an absolute path on the controller"
    ]


def test_a_harmful_variable_is_named_with_reason_and_source():
    entry = {
        "verdict": "harmful",
        "name": "NCCL_PROTO",
        "value": "LL",
        "why": "EFA cannot carry it",
        "source": "its document",
        "since": "1.7",
        "to_value": None,
    }
    assert problems(judged=[entry]) == [
        "efa_nccl_environment has NCCL_PROTO=LL, which does harm: EFA cannot carry it (its document, since 1.7)"
    ]
    assert problems(judged=[{**entry, "to_value": "simple"}])[0].endswith("; use simple")


def test_a_misnamed_variable_is_told_its_name():
    entry = {"verdict": "rename", "name": "NCCL_IFNAME", "to": "NCCL_SOCKET_IFNAME", "why": "unknown", "source": "nccl"}
    assert problems(judged=[entry]) == [
        "efa_nccl_environment has NCCL_IFNAME, which must be NCCL_SOCKET_IFNAME: unknown (nccl)"
    ]


def test_all_problems_come_at_once():
    assert len(problems(installer_version="latest", ptrace_scope=9, tests_dir="x")) == 3
