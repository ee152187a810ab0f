# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.versions import (
    at_least,
    is_version,
    version_key,
)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v580.159.04", (580, 159, 4)),
        ("2.1.0amzn4", (2, 1, 0)),
        ("1.7.3-aws", (1, 7, 3)),
        ("6.8.0-1021-aws", (6, 8, 0)),
        ("v1", (1,)),
        ("git-1", ()),
        ("\u0661.2", ()),
        ("", ()),
        (None, ()),
        (12.4, ()),
    ],
)
def test_version_key_is_leading_numbers(text, numbers):
    assert version_key(text) == numbers


def test_versions_sort_by_their_keys():
    assert version_key("0.9.1") < version_key("0.12.0") < version_key("0.24.0") < version_key("1.0")


@pytest.mark.parametrize(
    ("found", "wanted", "good"),
    [
        ((1, 26), (1, 26, 0), True),
        ((1, 26, 0), (1, 26), True),
        ((1, 9), (1, 10), False),
        ((2,), (1, 99, 9), True),
        ((), (0,), False),
    ],
)
def test_version_is_compared_by_numbers_of_equal_length(found, wanted, good):
    assert at_least(found, wanted) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [("580.159.04", True), ("v1.16", True), ("2", True), ("N/A", False), ("", False), (None, False), (2.1, False),
     ("unknown 2.1", False), (" 2.1", False)],
)  # fmt: skip
def test_words_for_no_version_are_none(text, good):
    assert is_version(text) is good
