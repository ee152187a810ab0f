# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file systems of FSx for Lustre by region, since no API lists them.

Source: FSx for Lustre User Guide, "Deployment type availability" (using-fsx-lustre.html), in its edition of 2025 that
lists Taipei and not yet New Zealand; "Working with EFA-enabled file systems" sends its readers to the same table. AWS
adds regions, so a region that is missing in the table is not judged, and ``cluster_fsx_regions`` overrides the table.
Local Zones are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Settings = Mapping[str, Any]

EDITION = "FSx for Lustre User Guide of 2025"
# Offers of a region: PERSISTENT_1 and PERSISTENT_2, the latter also with EFA; PERSISTENT_2 at two throughputs and
# without EFA; PERSISTENT_1 only.
ALL, SLOW, OLD = "all", "slow", "old"
OFFERS = (ALL, SLOW, OLD)
SLOW_THROUGHPUTS = (125, 250)
REGIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1"),
            *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2"),
            *("ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
        ),
        ALL,
    ),
    **dict.fromkeys(
        ("ap-east-2", "ap-southeast-5", "ap-southeast-7", "ca-west-1", "il-central-1", "mx-central-1"), SLOW
    ),
    **dict.fromkeys(
        (
            *("af-south-1", "ap-northeast-3", "ap-south-2", "ap-southeast-3", "ap-southeast-4"),
            *("eu-central-2", "eu-south-1", "eu-south-2", "eu-west-3", "me-central-1", "me-south-1", "sa-east-1"),
            *("us-gov-east-1", "us-gov-west-1"),
        ),
        OLD,
    ),
}


def offer(region: str, own: Settings) -> str:
    """Return the offer of a region, one of ``OFFERS``, empty if neither ``own`` nor the table has it."""
    return str(own.get(region) or REGIONS.get(region, ""))


def refusals(what: str, given: Settings, region: str, own: Settings) -> Iterator[str]:
    """Return the unsupported options of a file system in its region, a sentence each; empty for an unknown region."""
    has, kind = offer(region, own), given["deployment"]
    right = f"cluster_fsx_regions: {{{region}: {ALL}}} if AWS offers it there by now"
    if has == OLD and kind == "PERSISTENT_2":
        yield (
            f"{what}: deployment is PERSISTENT_2, which the {EDITION} does not list for {region}; use PERSISTENT_1 "
            f"with 50, 100 or 200 MB/s and without efa, another region, or {right}"
        )
    if has != SLOW:
        return
    if kind == "PERSISTENT_1":
        yield (
            f"{what}: deployment is PERSISTENT_1, which the {EDITION} does not list for {region}; use PERSISTENT_2, "
            f"or {right}"
        )
    elif given["efa"]:
        yield f"{what}: efa is true, and the {EDITION} lists {region} without EFA; take efa out, or use {right}"
    elif given["throughput"] and given["throughput"] not in SLOW_THROUGHPUTS:
        yield (
            f"{what}: throughput is {given['throughput']}, and the {EDITION} lists 125 and 250 MB/s for {region}; "
            f"use one of them, or {right}"
        )


def option_errors(own: Settings) -> Iterator[str]:
    """Return the errors in ``cluster_fsx_regions``, a sentence each."""
    for region, value in own.items():
        if value not in OFFERS:
            yield f"cluster_fsx_regions has {region}: {value}; use one of {', '.join(OFFERS)}"


def unjudged(region: str, own: Settings, filesystems: list[Any]) -> list[str]:
    """Return a note on an unknown region in which file systems are to be created."""
    if offer(region, own) or not any(not filesystem.get("id") for filesystem in filesystems):
        return []
    return [f"whether FSx has these file systems in {region} was not checked: the {EDITION} does not name that region"]
