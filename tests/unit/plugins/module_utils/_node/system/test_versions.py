# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.versions import (
    at_least,
    version_key,
    version_tuple,
)


@pytest.mark.parametrize(
    ("text", "numbers"), [("v580.159.04", (580, 159, 4)), ("2.1.0amzn4", (2, 1, 0)), ("git-1", None)]
)
def test_numbers_of_a_version(text, numbers):
    assert version_key(text) == numbers


@pytest.mark.parametrize(
    ("found", "wanted", "good"),
    [((1, 26), (1, 26, 0), True), ((1, 26, 0), (1, 26), True), ((1, 9), (1, 10), False), ((2,), (1, 99, 9), True)],
)
def test_version_is_compared_by_numbers_of_equal_length(found, wanted, good):
    assert at_least(found, wanted) is good


@pytest.mark.parametrize(
    ("text", "expected"), [("6.8.0-1021-aws", (6, 8, 0)), ("565.47.01", (565, 47, 1)), (None, ()), ("v1", ())]
)
def test_versions(text, expected):
    assert version_tuple(text) == expected
