# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access control lists in the kernel's format."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import acl as lustre_acl
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

from tests.unit.fakes.fake_lustre_host import ME, MY_GROUP


def test_acl_is_encoded_for_kernel():
    entries = [f"group:{MY_GROUP}:rwx", f"default:user:{ME}:r-x"]
    found = lustre_acl.attributes(Host(), entries, 0o2750)
    access = lustre_acl.decode(found[lustre_acl.ACCESS])
    assert access == sorted(access)
    assert (lustre_acl.GROUP, 7, int(MY_GROUP)) in access
    assert [rights for tag, rights, _id in access if tag == lustre_acl.MASK] == [7]
    default = lustre_acl.decode(found[lustre_acl.DEFAULT])
    assert (lustre_acl.USER, 5, int(ME)) in default
    assert [rights for tag, rights, _id in default if tag in (lustre_acl.USER_OBJ, lustre_acl.OTHER)] == [7, 0]


def test_acl_with_unknown_account_is_rejected():
    with pytest.raises(NodeError, match="names a group that this node does not have"):
        lustre_acl.attributes(Host(), ["group:missing-group:rwx"], 0o755)
    assert "use entries such as group:ml:rwx" in lustre_acl.acl_problem(["ml:rwx"])
    with pytest.raises(NodeError, match="check it with getfacl"):
        lustre_acl.decode(b"\x01\0\0\0")
