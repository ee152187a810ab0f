# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of downloads."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._data.artifacts import ARTIFACTS, PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_checksums_are_of_artifacts_with_source(name):
    assert name in [row["name"] for row in ARTIFACTS]
    assert PUBLISHED[name]["source"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", checksum) for checksum in PUBLISHED[name]["sha256"].values())


def test_each_download_is_there_for_both_architectures():
    pairs = {"deb-amd64": "deb-arm64", "rpm-x86_64": "rpm-aarch64"}
    there = {(entry["name"], entry["platform"]) for entry in ARTIFACTS}
    for name, platform in there:
        assert platform == "any" or platform in {*pairs, *pairs.values()}, name
        assert platform not in pairs or (name, pairs[platform]) in there, f"{name} has no file for {pairs[platform]}"
