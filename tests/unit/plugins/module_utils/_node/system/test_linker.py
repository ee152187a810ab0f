# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.linker import parse_ldconfig

from tests.unit.fakes import fake_training_host as training_host


def test_linkers_cache():
    text = training_host.ldconfig("/lib/libnccl.so.2", "/opt/x y/libnccl.so.2", "/lib/libc.so.6")
    assert parse_ldconfig(text)["libnccl.so.2"] == ["/lib/libnccl.so.2", "/opt/x y/libnccl.so.2"]
