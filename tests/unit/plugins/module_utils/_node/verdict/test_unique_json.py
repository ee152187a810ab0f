# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import unique_json


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": 1, "a": 2, "a": 1}', '{"a": 1, "a": true}', '{"a": 1, "a": 1.0}']
)
def test_key_with_several_values_has_none(text):
    value = unique_json.loads(text)["a"]
    assert isinstance(value, unique_json.Contradiction)
    assert value not in (1, 2, True, 1.0) and str(value) == "several values of one key"


def test_other_values_are_unchanged():
    assert unique_json.loads('[{"a": 1, "a": 1, "b": {"c": [null, "x"]}}]') == [{"a": 1, "b": {"c": [None, "x"]}}]
    with pytest.raises(ValueError):
        unique_json.loads("{")
