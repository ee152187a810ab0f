# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of GPUDirect Storage that are refused."""

from __future__ import annotations

import pytest
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
