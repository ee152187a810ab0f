# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at the file systems of a node."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import look as lustre
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import (
    parse_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.mounts import parse_fstab


def test_mounts_and_fstab_lines_are_adopted(host):
    path = host.mount("fsx")
    host.files["/etc/fstab"] = "fs-1.example.com@tcp:/abc /fsx9 lustre _netdev,noauto,x-systemd.automount 0 0\n"
    config = lustre.with_adopted(host, parse_config({}))
    assert sorted(system.path for system in config.file_systems) == sorted([path, "/fsx9"])


def test_other_spelling_of_path_is_line_of_others():
    wanted = {"path": "/fsx", "dns_name": "fs-1.x", "mount_name": "abc"}
    (system,) = parse_config({"file_systems": [wanted]}).file_systems
    fstab = parse_fstab("fs-2.x@tcp:/def /fsx/ lustre noauto 0 0\n")
    assert lustre.fstab_line(system, fstab)["line"] == "other"


@pytest.mark.parametrize(
    ("known", "count"), [("p5en.48xlarge", 8), ("p4d.24xlarge", 2), ("g6.16xlarge", 1), ("x9.large", 1), (None, 1)]
)
def test_efa_interfaces_depend_on_instance_type(known, count):
    assert lustre.efa_interfaces(known) == count
