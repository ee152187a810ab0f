# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._data.ultraservers import TYPES, is_ultraserver


@pytest.mark.parametrize("name", TYPES)
def test_listed_type_is_ultraserver(name):
    assert is_ultraserver(name) is True


@pytest.mark.parametrize(
    "name", ["p6e-gb200", "p6e-gb300r.36xlarge", "p7e-x.1xlarge", "p7-gb400.8xlarge", "u-p6e-gb200x72"]
)
def test_other_name_of_family_is_unknown(name):
    assert is_ultraserver(name) is None


@pytest.mark.parametrize(
    "name", [None, "", "m5.large", "p5e.48xlarge", "p4de.24xlarge", "trn2u.48xlarge", "u-6tb1.metal"]
)
def test_other_type_is_none(name):
    assert is_ultraserver(name) is False


def test_every_other_type_of_table_is_none():
    assert {is_ultraserver(name) for name in instance_types.names() if name not in TYPES} == {False}
