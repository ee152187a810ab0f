# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter says what the node would say."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.filter.storage_problem import FilterModule

PROBLEM = FilterModule().filters()["storage_problem"]


def test_sound_settings_have_no_problem():
    assert PROBLEM({}) == ""
    assert PROBLEM({"mount_point": "/local", "fstype": "xfs", "users": ["ubuntu"]}) == ""


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"chunk_kib": 500}, "chunk_kib is 500: md needs a power of two"),
        ({"mount_point": "data"}, "mount_point is 'data': give an absolute path"),
        ({"mode": "0777"}, "mode is 0777: everybody could delete"),
        ({"disks": 4}, "unknown keys: disks"),
    ],
)
def test_bad_settings_are_one_sentence(settings, sentence):
    assert sentence in PROBLEM(settings)
