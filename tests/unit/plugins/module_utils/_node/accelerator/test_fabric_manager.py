# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.fabric_manager import joined_by_nvswitch


@pytest.mark.parametrize(
    ("chips", "joined"),
    [
        ({"name": "H100", "count": 8}, True),
        ({"name": "H100", "count": 1}, False),
        ({"name": "L40S", "count": 8}, False),
        (None, False),
    ],
)
def test_eight_large_gpus_are_joined_by_nvswitch(chips, joined):
    assert joined_by_nvswitch(chips) is joined
