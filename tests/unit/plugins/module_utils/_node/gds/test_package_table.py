# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages of each CUDA release."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.package_table import RELEASES
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.packages import packages

from .test_packages import look


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
