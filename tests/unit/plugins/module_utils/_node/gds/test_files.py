# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The complete texts of the files that the role nvidia_gds writes."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import files

REGISTRY = {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1"}
OPTIONS = (
    'options nvidia NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\n'
    "options nvme_core multipath=N\n"
)


def test_options_of_kernel_modules_by_machine():
    assert files.module_options(REGISTRY, "x86_64") == files.module_options(REGISTRY, None) == OPTIONS
    assert files.module_options(REGISTRY, "aarch64") == "options nvme_core multipath=N\n"


def test_module_at_boot_is_last_line():
    assert files.modules_load().splitlines()[-1] == "nvidia-fs"


def test_review_file_has_only_required_settings():
    command = ["update-initramfs", "-u"]
    both = files.review(OPTIONS, command, True)
    assert "rebuilds the initramfs (update-initramfs -u)" in both
    assert OPTIONS in both
    assert "intel_iommu=off" in both
    assert [line for line in both.splitlines() if not line.startswith("#")] == OPTIONS.splitlines()
    assert "options" not in files.review("", command, True)
    assert "iommu" not in files.review(OPTIONS, command, False)
