# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which packages of GPUDirect Storage a node lacks, and why a direct path cannot be had."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.filter.nvidia_gds import FilterModule
from ansible_collections.mlcluster.aws.plugins.plugin_utils._gds.package_table import RELEASES
from ansible_collections.mlcluster.aws.plugins.plugin_utils._gds.packages import asked_names, packages
from ansible_collections.mlcluster.aws.plugins.plugin_utils._gds.settings import gds_problems

SETTINGS = {
    "mode": "compat",
    "compat_allowed": True,
    "cuda_version": "",
    "packages": [],
    "mounts": [],
    "cufile_settings": {},
    "cufile_allow_unknown": False,
    "probe_timeout": 30,
    "bandwidth_mib": 1024,
    "dkms_log_lines": 40,
    "headers_package": "",
    "library": "",
}


def look(*installed: str, **facts: t.Any) -> dict[str, t.Any]:
    """gds_info's answer on a node with driver 580 (open) and these packages, and nothing else of GDS."""
    answer: dict[str, t.Any] = {
        "packages": {name: ("1" if name in installed else None) for name in asked_names([])},
        "cufile_json": {"target": "/etc/cufile.json", "exists": False},
        "library": {"path": None},
        "tools": {"gdscheck": None, "gdscheck.py": None},
        "nvidia_fs": {"loaded": False},
        "kernel_modules": {
            "running": "6.8.0-1021-aws",
            "next": "6.8.0-1021-aws",
            "installed": {"6.8.0-1021-aws": None},
        },
        "driver": {"version": "580.159.04", "open_module": True, "evidence": "/proc/driver/nvidia/version"},
    }
    return {**answer, **facts}


@pytest.mark.parametrize(
    ("mode", "cuda", "names"),
    [
        ("compat", "13.0", ["libcufile-13-0", "gds-tools-13-0"]),
        ("p2pdma", "12.8", ["libcufile-12-8", "gds-tools-12-8"]),
        ("nvfs", "13.3", ["libcufile-13-3", "gds-tools-13-3", "nvidia-gds-13-3"]),
        ("nvfs", "13.4", ["libcufile-13-4", "gds-tools-13-4", "nvidia-fs-dkms"]),
        ("nvfs", "13.10", ["libcufile-13-10", "gds-tools-13-10", "nvidia-fs-dkms"]),
    ],
)
def test_names_and_their_split_follow_cuda(mode, cuda, names):
    plan = packages(look(), mode, cuda)
    assert (plan["names"], plan["missing"], plan["problems"]) == (names, names, [])
    assert (plan["cuda"], plan["evidence"]) == (cuda, "nvidia_gds_cuda_version")
    assert plan["gds"] == RELEASES.get(cuda, "")


@pytest.mark.parametrize(
    ("installed", "facts", "cuda", "evidence"),
    [
        (["libcufile-12-9", "libcufile-13-0", "cuda-cudart-13-1"], {}, "13.0", "package libcufile-13-0"),
        (["cuda-cudart-12-8", "cuda-cudart-12-10"], {}, "12.8", "package cuda-cudart-12-8"),
        (
            [],
            {"cufile_json": {"target": "/usr/local/cuda-13.0/gds/cufile.json", "exists": True}},
            "13.0",
            "/usr/local/cuda-13.0/gds/cufile.json",
        ),
    ],
)
def test_the_release_of_cuda_is_the_newest_that_the_node_has(installed, facts, cuda, evidence):
    plan = packages(look(*installed, **facts), "compat")
    assert (plan["cuda"], plan["evidence"]) == (cuda, evidence)


def test_an_unknown_cuda_is_refused_instead_of_guessed():
    plan = packages(look(), "compat")
    assert (plan["cuda"], plan["names"]) == ("", [])
    assert plan["problems"][0].startswith("nothing on the node tells its CUDA release")
    broken_link = {"target": "/usr/local/cuda-13.0/gds/cufile.json", "exists": False}
    assert packages(look(cufile_json=broken_link), "compat")["cuda"] == ""


def test_what_is_there_without_a_package_is_adopted():
    here = look(library={"path": "/usr/local/cuda/lib64/libcufile.so.0"}, tools={"gdscheck": "/x", "gdscheck.py": None})
    assert packages(here, "compat", "13.0")["missing"] == []
    assert packages(here, "nvfs", "13.4")["missing"] == ["nvidia-fs-dkms"]
    loaded = {**here, "nvidia_fs": {"loaded": True}}
    assert packages(loaded, "nvfs", "13.4")["missing"] == []
    built = {**here, "kernel_modules": {"running": "6.8", "next": "6.8", "installed": {"6.8": "2.27"}}}
    assert packages(built, "nvfs", "13.0")["missing"] == []


def test_nothing_is_missing_where_everything_is_there_and_cuda_is_unknown():
    here = look(library={"path": "/opt/libcufile.so.0"}, nvidia_fs={"loaded": True})
    assert packages(here, "nvfs")["problems"] == []


def test_packages_of_ones_own_replace_the_table():
    here = look("libcufile-13-0")
    here["packages"].update({"mine": "2.0-1", "yours": None})
    plan = packages(here, "compat", "", ["mine=2.0-1", "mine=2.1-1", "yours", "mine"])
    assert plan["missing"] == ["mine=2.1-1", "yours"]
    assert asked_names(["mine=2.0-1"])[-1] == "mine"


@pytest.mark.parametrize(
    ("mode", "cuda", "driver", "words"),
    [
        ("nvfs", "13.0", {"open_module": False}, "as /proc/driver/nvidia/version says, and nvfs needs the open one"),
        ("p2pdma", "13.0", {"open_module": False}, "and p2pdma needs the open one"),
        ("compat", "13.0", {"version": "570.86.15"}, "570.86.15 is too old for CUDA 13.0, which needs 580 or newer"),
        ("compat", "12.0", {"version": "470.1"}, "470.1 is too old for CUDA 12.0, which needs 525 or newer"),
        ("p2pdma", "12.6", {}, "CUDA 12.6 brings no P2PDMA, which needs 12.8 or newer"),
    ],
)
def test_what_stands_in_the_way_is_said(mode, cuda, driver, words):
    here = look()
    here["driver"].update(driver)
    (problem,) = packages(here, mode, cuda)["problems"]
    assert words in problem


@pytest.mark.parametrize(
    ("mode", "cuda", "driver"),
    [
        ("compat", "13.0", {"open_module": False}),
        ("nvfs", "13.0", {"open_module": None, "version": None}),
        ("compat", "12.9", {"version": "525.60.13"}),
        ("compat", "14.0", {"version": "470.1"}),
    ],
)
def test_what_cannot_be_said_is_no_obstacle(mode, cuda, driver):
    here = look()
    here["driver"].update(driver)
    assert packages(here, mode, cuda)["problems"] == []


def test_sound_settings_have_no_problem():
    assert gds_problems(SETTINGS) == []
    assert (
        gds_problems({**SETTINGS, "mounts": ["/data", "/"], "packages": ["a=1:2-3", "b"], "cuda_version": "13.0"}) == []
    )


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"compat_allowed": False}, "nvidia_gds_mode is compat and nvidia_gds_compat_allowed forbids just that"),
        ({"cuda_version": "13"}, "nvidia_gds_cuda_version is '13': give a release of CUDA in quotes, such as '13.0'"),
        ({"cuda_version": 13.1}, "nvidia_gds_cuda_version is 13.1: give a release of CUDA in quotes, such as '13.0'"),
        ({"packages": "abc"}, "nvidia_gds_packages is 'abc': give a list"),
        ({"mounts": "/"}, "nvidia_gds_mounts is '/': give a list"),
        ({"mounts": ["/a\x1b[2J"]}, "nvidia_gds_mounts has '/a\\x1b[2J': give absolute paths without '..'"),
        ({"cufile_settings": "a=b"}, "nvidia_gds_cufile_settings is 'a=b': give a mapping"),
        (
            {"cufile_settings": {"properties": {1: 2}}},
            "nvidia_gds_cufile_settings: properties.1 is a setting that libcufile does not know",
        ),
        (
            {"headers_package": "--allow-unauthenticated"},
            "nvidia_gds_headers_package is '--allow-unauthenticated': give the name of a package, or none",
        ),
        ({"headers_package": ["a"]}, "nvidia_gds_headers_package is ['a']: give the name of a package, or none"),
        ({"library": "lib.so"}, "nvidia_gds_library is 'lib.so': give the full path of libcufile.so.0"),
        ({"packages": ["-x"]}, "nvidia_gds_packages has '-x'"),
        ({"packages": ["a;b"]}, "nvidia_gds_packages has 'a;b'"),
        ({"mounts": ["data"]}, "nvidia_gds_mounts has 'data': give absolute paths"),
        ({"mounts": ["/a/../b"]}, "nvidia_gds_mounts has '/a/../b'"),
        ({"probe_timeout": 601}, "nvidia_gds_probe_timeout is 601: give a number from 1 to 600"),
        ({"dkms_log_lines": 0}, "nvidia_gds_dkms_log_lines is 0"),
        (
            {"cufile_settings": {"properties": {"io_batchsize": 0}}},
            "cufile_settings: properties.io_batchsize",
        ),
    ],
)
def test_a_setting_that_no_node_could_carry_out(setting, words):
    (problem,) = gds_problems({**SETTINGS, **setting})
    assert words in problem


def test_all_problems_are_given():
    assert len(gds_problems({**SETTINGS, "cuda_version": "x", "mounts": ["a", "b"]})) == 3


def test_the_filters_are_found_by_their_names():
    assert sorted(FilterModule().filters()) == ["gds_package_names", "gds_packages", "gds_problems"]
