# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of settings: unique names, limits that fit their type, defaults within them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data.cufile_keys import INSTEAD, KEYS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.cufile_plan import check_settings

NAMES = [entry["name"] for entry in KEYS]
KINDS = {"bool", "int", "text", "path", "numbers", "texts", "addresses", "hex32", "table"}
RELEASE = re.compile(r"1\.[0-9]{2}")


def test_names_are_unique_and_not_nested():
    assert len(set(NAMES)) == len(NAMES)
    assert [name for name in NAMES if any(other.startswith(f"{name}.") for other in NAMES)] == []


@pytest.mark.parametrize("entry", KEYS, ids=lambda entry: entry["name"])
def test_entry_is_complete(entry):
    assert re.fullmatch(r"[a-z]+(\.[a-z0-9_]+){1,2}", entry["name"], re.IGNORECASE)
    assert entry["kind"] in KINDS
    assert RELEASE.fullmatch(entry["since"])
    assert entry["until"] is None or (RELEASE.fullmatch(entry["until"]) and entry["until"] >= entry["since"])
    has_limits = entry["kind"] in ("int", "numbers")
    assert (entry["low"] is not None) == (entry["high"] is not None) == has_limits
    if entry["default"] not in (None, []):
        settings = entry["default"]
        for name in reversed(entry["name"].split(".")):
            settings = {name: settings}
        check_settings(settings)


def test_replacement_is_known_setting():
    assert [name for name in INSTEAD.values() if name not in NAMES] == []
