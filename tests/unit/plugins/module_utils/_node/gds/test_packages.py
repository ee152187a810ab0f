# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of GPUDirect Storage that a node lacks, and obstacles of a direct path."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.packages import asked_names, packages


def look(*installed: str, **facts: t.Any) -> dict[str, t.Any]:
    """Return the facts of a node with driver 580 (open), these packages, and nothing else of GDS."""
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
def test_release_of_cuda_is_newest_that_node_has(installed, facts, cuda, evidence):
    plan = packages(look(*installed, **facts), "compat")
    assert (plan["cuda"], plan["evidence"]) == (cuda, evidence)


def test_unknown_cuda_is_reported_and_not_guessed():
    plan = packages(look(), "compat")
    assert (plan["cuda"], plan["names"]) == ("", [])
    assert plan["problems"][0].startswith("the CUDA release of the node is unknown")
    broken_link = {"target": "/usr/local/cuda-13.0/gds/cufile.json", "exists": False}
    assert packages(look(cufile_json=broken_link), "compat")["cuda"] == ""


def test_software_without_package_is_adopted():
    here = look(library={"path": "/usr/local/cuda/lib64/libcufile.so.0"}, tools={"gdscheck": "/x", "gdscheck.py": None})
    assert packages(here, "compat", "13.0")["missing"] == []
    assert packages(here, "nvfs", "13.4")["missing"] == ["nvidia-fs-dkms"]
    loaded = {**here, "nvidia_fs": {"loaded": True}}
    assert packages(loaded, "nvfs", "13.4")["missing"] == []
    built = {**here, "kernel_modules": {"running": "6.8", "next": "6.8", "installed": {"6.8": "2.27"}}}
    assert packages(built, "nvfs", "13.0")["missing"] == []


def test_unknown_cuda_with_complete_software_lacks_nothing():
    here = look(library={"path": "/opt/libcufile.so.0"}, nvidia_fs={"loaded": True})
    assert packages(here, "nvfs")["problems"] == []


def test_own_packages_replace_table():
    here = look("libcufile-13-0")
    here["packages"].update({"mine": "2.0-1", "yours": None})
    plan = packages(here, "compat", "", ["mine=2.0-1", "mine=2.1-1", "yours", "mine"])
    assert plan["missing"] == ["mine=2.1-1", "yours"]
    assert asked_names(["mine=2.0-1"])[-1] == "mine"


@pytest.mark.parametrize(
    ("mode", "cuda", "driver", "words"),
    [
        ("nvfs", "13.0", {"open_module": False}, "as /proc/driver/nvidia/version shows, and nvfs needs the open one"),
        ("p2pdma", "13.0", {"open_module": False}, "and p2pdma needs the open one"),
        ("compat", "13.0", {"version": "570.86.15"}, "570.86.15 is too old for CUDA 13.0, which needs 580 or newer"),
        ("compat", "12.0", {"version": "470.1"}, "470.1 is too old for CUDA 12.0, which needs 525 or newer"),
        ("p2pdma", "12.6", {}, "CUDA 12.6 has no P2PDMA, which needs 12.8 or newer"),
    ],
)
def test_obstacles_of_direct_path_are_reported(mode, cuda, driver, words):
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
def test_unknown_driver_or_cuda_is_no_obstacle(mode, cuda, driver):
    here = look()
    here["driver"].update(driver)
    assert packages(here, mode, cuda)["problems"] == []
