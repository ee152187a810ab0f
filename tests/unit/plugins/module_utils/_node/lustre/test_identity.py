# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.identity import identify, proved_paths

DNS = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"


def mount(**fields):
    return {
        "path": "/fsx",
        "state": "lustre",
        "source": "10.0.1.7@tcp:/abcdefgh",
        "mount_name": "",
        "dns_name": "",
        "addresses": [],
        "dns_problem": None,
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, None),
        ({"mount_name": "abcdefgh"}, None),
        ({"mount_name": "bcdefgh"}, "fail"),
        ({"mount_name": "fsx"}, "fail"),
        ({"mount_name": "fsx", "source": "10.0.1.7@tcp:/fsx"}, "undeterminable"),
        ({"mount_name": "fsx", "source": f"{DNS}@tcp:/fsx"}, "undeterminable"),
        ({"mount_name": "fsx", "source": "10.0.1.7@tcp:/fsx", "dns_name": DNS}, "undeterminable"),
        ({"mount_name": "fsx", "source": "10.0.1.7@tcp:/fsx", "dns_name": DNS, "addresses": ["10.0.1.7"]}, None),
        ({"mount_name": "fsx", "source": "10.0.1.7@tcp:/fsx", "dns_name": DNS, "addresses": ["10.0.1.8"]}, "fail"),
        ({"mount_name": "fsx", "source": f"{DNS}@tcp:/fsx", "dns_name": DNS}, None),
        ({"source": "abcdefgh", "dns_name": DNS, "addresses": ["10.0.1.7"]}, "undeterminable"),
        ({"source": None, "mount_name": "abcdefgh"}, "fail"),
    ],
)
def test_file_system_is_identified(fields, status):
    found = identify(mount(**fields))
    assert (found and found.status) == status
    assert proved_paths([mount(**fields)]) == ([] if status else ["/fsx"])
    assert found is None or (found.id, found.scope.device) == ("lustre.mounted", "/fsx")


def test_shared_name_names_missing_identity():
    found = identify(mount(mount_name="fsx", source="10.0.1.7@tcp:/fsx"))
    assert found.reason.startswith("10.0.1.7@tcp:/fsx may be any file system") and "dns_name" in found.hint


@pytest.mark.parametrize("state", ["absent", "trigger", "silent", "other", "nfs"])
def test_mount_that_is_no_lustre_is_not_proved(state):
    assert proved_paths([mount(state=state)]) == []
