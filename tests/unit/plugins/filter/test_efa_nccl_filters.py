# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filters of the role efa_nccl: its settings, its pinned packages, its files."""

from __future__ import annotations

import hashlib

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.filter import efa_nccl_problems, file_drift, unlike_pinned

SETTINGS = {
    "installer_version": "1.51.0",
    "installer_sha256": "",
    "installer_source": "upstream",
    "installer_file": "",
    "installer_arguments": [],
    "installer_timeout": 1800,
    "mirror": "",
    "fingerprint": "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC",
    "signing_key": "",
    "tests_sha256": "",
    "tests_dir": "/opt/nccl-tests",
    "cuda_home": "/usr/local/cuda",
    "mpi_home": "/opt/amazon/openmpi",
    "limit_units": ["slurmd.service"],
    "needrestart_keep": ["slurmd"],
    "ptrace_scope": 0,
    "wait_seconds": 30,
}


def problems(packages=None, judged=(), **settings):
    return efa_nccl_problems.efa_nccl_problems({**SETTINGS, **settings}, packages, judged)


def test_sound_settings_have_no_problems():
    packages = {"efa_nccl_nccl_packages": [{"name": "libnccl2", "version": "2.28.9-1+cuda13.0"}]}
    judged = [{"verdict": "keep"}, {"verdict": "drop"}]
    assert problems(packages, judged) == []
    assert problems(installer_source="mirror", mirror="s3://bucket/efa", installer_arguments=["--mpi=openmpi5"]) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"installer_version": "latest"}, "efa_nccl_installer_version is 'latest': give a version such as 1.51.0"),
        ({"installer_sha256": "abc"}, "efa_nccl_installer_sha256 is 'abc': give 64 hexadecimal digits"),
        ({"tests_sha256": "A" * 64}, "efa_nccl_tests_sha256 is"),
        ({"fingerprint": "4E90 91BC"}, "give 40 hexadecimal digits in capitals, no spaces"),
        ({"installer_arguments": ["-y --minimal"]}, "efa_nccl_installer_arguments has -y --minimal"),
        ({"installer_arguments": ["--uninstall"]}, "without --uninstall"),
        ({"installer_timeout": 5}, "give 60 seconds or more"),
        ({"installer_source": "mirror"}, "efa_nccl_mirror is '': give the base of the mirror"),
        ({"installer_source": "mirror", "mirror": "ftp://example.com"}, "efa_nccl_mirror is 'ftp://example.com'"),
        ({"installer_source": "local"}, "efa_nccl_installer_file is '' and there is no such file"),
        ({"installer_source": "local", "installer_file": "/nowhere"}, "there is no such file on the controller"),
        ({"signing_key": "/nowhere"}, "efa_nccl_signing_key is '/nowhere'"),
        ({"tests_dir": "nccl-tests"}, "efa_nccl_tests_dir is 'nccl-tests': give an absolute path"),
        ({"tests_dir": "/opt/../etc"}, "without '..'"),
        ({"tests_dir": "/"}, "efa_nccl_tests_dir is '/'"),
        ({"limit_units": ["slurmd"]}, "efa_nccl_limit_units has slurmd: give names of services"),
        ({"needrestart_keep": ["a b"]}, "efa_nccl_needrestart_keep has a b"),
        ({"ptrace_scope": 7}, "efa_nccl_ptrace_scope is 7"),
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
        ({"name": "libnccl2", "version": "2", "url": "https://x/y.deb"}, "with a url and no sha256"),
        ({"name": "libnccl2", "version": "2", "url": "https://x/y.deb", "sha256": "1"}, "with a url and no sha256"),
    ],
)
def test_packages_have_to_be_pinned(package, words):
    (found,) = problems({"efa_nccl_nccl_packages": [package]})
    assert words in found


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


def test_packages_in_another_version_are_unlike_the_pinned_ones():
    wanted = [{"name": "a", "version": "1"}, {"name": "b", "version": "2"}, {"name": "c", "version": "3"}]
    assert unlike_pinned.unlike_pinned(wanted, {"a": "1", "b": "1", "c": None}) == wanted[1:]


def test_an_epoch_is_not_compared():
    assert unlike_pinned.unlike_pinned([{"name": "a", "version": "1:2.3-4"}], {"a": "2.3-4"}) == []


def test_how_a_package_is_asked_for():
    assert unlike_pinned.pinned_spec({"name": "a", "version": "1"}, "=") == "a=1"


def file(**changes):
    return {"name": "limits", "paths": ["/a"], "wanted": True, "text": "x\n", **changes}


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_that_is_as_wanted_is_no_difference():
    assert file_drift.file_drift([file()], {"/a": checksum("x\n")}) == []


@pytest.mark.parametrize("found", [None, checksum("y\n")])
def test_a_file_that_differs_is_written(found):
    drift = file_drift.file_drift([file()], {"/a": found})
    assert drift == [{"name": "limits", "path": "/a", "text": "x\n", "backup": False}]


def test_every_path_of_an_entry_is_compared():
    drift = file_drift.file_drift([file(paths=["/a", "/b"])], {"/a": checksum("x\n"), "/b": None})
    assert [entry["path"] for entry in drift] == ["/b"]


def test_a_file_that_is_not_wanted_goes_where_it_is():
    files = [file(wanted=False, paths=["/a", "/b"])]
    assert file_drift.file_drift(files, {"/a": "1", "/b": None}) == [
        {"name": "limits", "path": "/a", "state": "absent"}
    ]


def test_a_file_of_others_is_kept_and_backed_up():
    assert file_drift.file_drift([file(wanted=False, kept=True)], {"/a": "1"}) == []
    assert file_drift.file_drift([file(kept=True)], {"/a": "1"})[0]["backup"]


def test_a_file_that_was_not_looked_at_is_an_error():
    with pytest.raises(AnsibleFilterError, match="/a was not looked at"):
        file_drift.file_drift([file()], {})
