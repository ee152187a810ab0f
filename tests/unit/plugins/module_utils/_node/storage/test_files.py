# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import files


def test_boot_unit_waits_for_its_own_mounts():
    lines = files.boot_unit(["data-disk0.mount", "data-disk1.mount"]).splitlines()
    assert "After=local-fs.target data-disk0.mount data-disk1.mount" in lines
    assert "Before=slurmd.service docker.service containerd.service" in lines
    assert "ConditionPathExists=/etc/mlcluster/storage.json" in lines
    assert "ExecStart=/usr/local/lib/mlcluster/mlcluster.pyz storage-boot" in lines
    assert lines[-2:] == ["[Install]", "WantedBy=multi-user.target"]
