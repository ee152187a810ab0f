# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the role nvidia_gds: defaults and option errors."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.config import (
    parse_config,
    problems,
)


@pytest.mark.parametrize(
    ("options", "modes"),
    [
        ({}, ()),
        ({"mode": "nvfs"}, ()),
        ({"required": True}, ("nvfs", "p2pdma", "compat")),
        ({"required": True, "mode": "p2pdma"}, ("p2pdma",)),
        ({"required": True, "mode": "p2pdma", "image_build": True}, ()),
    ],
)
def test_required_modes_follow_mode_and_switch(options, modes):
    assert parse_config(options).required_modes == modes


def test_sound_options_have_no_problem():
    assert problems({}) == []
    assert problems({"mounts": ["/data", "/"], "packages": ["a=1:2-3", "b"], "cuda_version": "13.0"}) == []


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"compat_allowed": False}, "nvidia_gds_mode is compat and nvidia_gds_compat_allowed forbids it"),
        ({"cuda_version": "13"}, "nvidia_gds_cuda_version is '13': use a release of CUDA in quotes, such as '13.0'"),
        ({"mounts": ["/a\x1b[2J"]}, "nvidia_gds_mounts has '/a\\x1b[2J': use absolute paths without '..'"),
        (
            {"cufile_settings": {"properties": {1: 2}}},
            "nvidia_gds_cufile_settings: properties.1 is a setting that libcufile does not know",
        ),
        (
            {"headers_package": "--allow-unauthenticated"},
            "nvidia_gds_headers_package is '--allow-unauthenticated': use the name of a package, or none",
        ),
        ({"library": "lib.so"}, "nvidia_gds_library is 'lib.so': use the full path of libcufile.so.0"),
        ({"packages": ["-x"]}, "nvidia_gds_packages has '-x'"),
        ({"packages": ["a;b"]}, "nvidia_gds_packages has 'a;b'"),
        ({"mounts": ["data"]}, "nvidia_gds_mounts has 'data': use absolute paths"),
        ({"mounts": ["/a/../b"]}, "nvidia_gds_mounts has '/a/../b'"),
        ({"probe_timeout": 601}, "nvidia_gds_probe_timeout is 601: use a number from 1 to 600"),
        ({"dkms_log_lines": 0}, "nvidia_gds_dkms_log_lines is 0"),
        ({"cufile_settings": {"properties": {"io_batchsize": 0}}}, "cufile_settings: properties.io_batchsize"),
    ],
)
def test_impossible_option_is_rejected(option, words):
    (problem,) = problems(option)
    assert words in problem


def test_all_option_errors_are_returned():
    assert len(problems({"cuda_version": "x", "mounts": ["a", "b"]})) == 3
