# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""File systems that a region of AWS offers or lacks."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import fsx_regions
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import problems as _cluster_problems

from tests.unit.checkout import CHECKOUT

from .test_config import settings

FAST = {"gib": 9600, "throughput": 1000}
EFA = {**FAST, "efa": True}
OLDER = {"gib": 9600, "throughput": 200, "deployment": "PERSISTENT_1"}
SMALL = {"gib": 2400, "throughput": 250}


def problems(region, filesystem, **changes):
    entry = {"name": "data", "mount": "/fsx", **filesystem}
    return _cluster_problems.problems(settings(region=region, filesystems=[entry], **changes))


@pytest.mark.parametrize(
    ("region", "filesystem", "words"),
    [
        (
            "ap-southeast-3",
            FAST,
            "deployment is PERSISTENT_2, which the FSx for Lustre User Guide of 2025 does not list",
        ),
        ("ap-southeast-3", EFA, "for ap-southeast-3; use PERSISTENT_1"),
        ("us-gov-west-1", SMALL, "another region, or cluster_fsx_regions: {us-gov-west-1: all} if AWS offers it"),
        ("ap-southeast-5", FAST, "throughput is 1000, and the FSx for Lustre User Guide of 2025 lists 125 and 250"),
        ("ap-southeast-5", {**EFA, "gib": 19200, "throughput": 250}, "lists ap-southeast-5 without EFA; take efa out"),
        ("ap-southeast-5", OLDER, "deployment is PERSISTENT_1, which the FSx for Lustre User Guide"),
    ],
)
def test_option_missing_in_region_is_rejected(region, filesystem, words):
    (problem,) = problems(region, filesystem)
    assert problem.startswith("file system 'data': ") and words in problem


@pytest.mark.parametrize(
    ("region", "filesystem"),
    [
        ("us-east-2", EFA),
        ("us-east-2", OLDER),
        ("ap-southeast-3", OLDER),
        ("ap-southeast-5", SMALL),
        # Not in the table: not judged and never rejected.
        ("ap-southeast-6", EFA),
        ("ap-southeast-6", OLDER),
        # It exists already.
        ("ap-southeast-3", {"id": "fs-0e4b1c9a72d35f806"}),
    ],
)
def test_option_of_known_or_unknown_region_is_accepted(region, filesystem):
    assert problems(region, filesystem) == []


def test_own_setting_overrides_table():
    assert problems("ap-southeast-3", EFA, fsx_regions={"ap-southeast-3": "all"}) == []
    assert "without EFA" in problems("us-east-2", EFA, fsx_regions={"us-east-2": "slow"})[0]
    (problem,) = problems("ap-southeast-3", OLDER, fsx_regions={"ap-southeast-3": "efa"})
    assert problem == "cluster_fsx_regions has ap-southeast-3: efa; use one of all, slow, old"


def test_invalid_file_system_is_not_checked_by_region():
    (problem,) = problems("ap-southeast-3", {**FAST, "gib": 1000})
    assert "gib is 1000" in problem


def test_unknown_region_is_noted_for_new_file_system():
    made = {"name": "data", "mount": "/fsx", **FAST}
    there = {"name": "data", "mount": "/fsx", "id": "fs-0e4b1c9a72d35f806"}
    (note,) = _cluster_problems.notes(settings(region="ap-southeast-6", filesystems=[made]))
    assert note.startswith("whether FSx has these file systems in ap-southeast-6 was not checked")
    for region, filesystems, own in (
        ("ap-southeast-6", [there], {}),
        ("ap-southeast-6", [made], {"ap-southeast-6": "all"}),
        ("us-east-2", [made], {}),
    ):
        assert _cluster_problems.notes(settings(region=region, filesystems=filesystems, fsx_regions=own)) == []


def test_documentation_has_table():
    text = (CHECKOUT / "docs/cluster.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[1:4] for line in text.splitlines() if line.endswith(("| `all` |", "| `slow` |", "| `old` |"))
    ]
    listed = {name.strip(): value.strip(" `") for names, _has, value in rows for name in names.split(",")}
    assert listed.pop("us-gov-…") == "old"
    assert listed == {name: value for name, value in fsx_regions.REGIONS.items() if not name.startswith("us-gov-")}
