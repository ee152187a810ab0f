# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.options import role_options

NAME = "nvme_raid0"


def test_node_gets_runtime_checksum_of_controller():
    options, problems = role_options(DOMAINS[NAME], {"nvme_raid0_chunk_kib": "256"})
    assert problems == []
    assert options == {"chunk_kib": 256, "runtime_sha256": _runtime.build()["sha256"]}


def test_bad_option_is_named_before_node_is_asked():
    _options, problems = role_options(DOMAINS[NAME], {"nvme_raid0_mode": "0777"})
    assert problems == [
        "nvme_raid0_mode is 0777: all users could delete each other's files there; use 0755, a group with 2775, or 1777"
    ]
