# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario of the fake endpoint: regions, fleets of instances, and faults.

A scenario file is YAML (or JSON) with the fields of these classes; regions are a mapping by name::

    page_size: 1000
    accounts: {AKIARIGMAIN: "111122223333"}
    regions:
      us-east-1:
        fleets:
          - {count: 8, type: p5.48xlarge, cluster: train, queue: gpu, compute_resource: p5}
        faults:
          - {operation: DescribeInstanceStatus, code: UnauthorizedOperation}
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import yaml

MAIN_ACCOUNT = "111122223333"
OTHER_ACCOUNT = "444455556666"
SCENARIOS = Path(__file__).with_name("scenarios")


class ScenarioError(ValueError):
    """An invalid scenario; the message has the field and its allowed values."""


@dataclass(frozen=True)
class Fleet:
    """Equal instances.

    ``role`` is HeadNode, Compute or LoginNode with a ``cluster`` (ParallelCluster's tags are then set), or "" for
    plain instances. ``interfaces`` and ``efa`` are numbers of attached interfaces; None means all that the type has.
    ``per_reservation`` instances share a reservation. ``tags`` are additional tags; ``tags_later`` replace them from
    the second listing of the region on. ``leaf`` instances share the lowest network node of the topology.
    """

    count: int = 1
    type: str = "p5.48xlarge"
    account: str = MAIN_ACCOUNT
    state: str = "running"
    cluster: str = ""
    role: str = "Compute"
    queue: str = ""
    compute_resource: str = ""
    static: bool = False
    name: Optional[str] = None
    tags: dict[str, str] = field(default_factory=dict)
    tags_later: dict[str, str] = field(default_factory=dict)
    zone: str = "a"
    interfaces: Optional[int] = None
    efa: Optional[int] = None
    public: bool = False
    ipv6: bool = False
    lifecycle: str = ""
    placement_group: str = ""
    reservation: str = ""
    block_days_left: Optional[int] = None
    per_reservation: int = 1
    health: str = "ok"
    event: str = ""
    ssm: str = "Online"
    leaf: int = 4


@dataclass(frozen=True)
class Fault:
    """A faulty response.

    ``code`` is an error code of the API, ``drop`` (the connection is closed without a response), ``cut`` (it is closed
    in the middle of the body), ``short`` (half of the XML as a complete body), or ``html-429`` (a page of HTML with
    that status, as proxies send it). ``times`` None is unlimited; ``page`` (from 0) and ``account`` restrict it.
    """

    operation: str = "*"
    code: str = "UnauthorizedOperation"
    message: str = ""
    times: Optional[int] = None
    page: Optional[int] = None
    account: str = ""


@dataclass(frozen=True)
class Region:
    """A region; ``opt_in`` is its status in DescribeRegions."""

    name: str
    fleets: tuple[Fleet, ...] = ()
    faults: tuple[Fault, ...] = ()
    latency_ms: float = 0
    opt_in: str = "opt-in-not-required"


@dataclass(frozen=True)
class Role:
    """A role that every caller may assume, with ``external_id`` if that is not empty."""

    arn: str
    account: str
    external_id: str = ""


@dataclass(frozen=True)
class Scenario:
    """The data of an endpoint. ``accounts`` maps access key ids to account ids; other keys are rejected."""

    regions: tuple[Region, ...] = ()
    page_size: int = 1000
    accounts: dict[str, str] = field(
        default_factory=lambda: {"AKIARIGMAIN": MAIN_ACCOUNT, "AKIARIGOTHER": OTHER_ACCOUNT}
    )
    roles: tuple[Role, ...] = ()
    home_region: str = "us-east-1"
    dynamodb_page: int = 400

    def region(self, name: str) -> Optional[Region]:
        """Return the region of that name, if the scenario has it."""
        return next((region for region in self.regions if region.name == name), None)


def _build(kind: type, values: dict[str, Any], where: str) -> Any:
    known = {item.name for item in dataclasses.fields(kind)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ScenarioError(f"{where}: {', '.join(unknown)} is not a field; these are: {', '.join(sorted(known))}")
    return kind(**values)


def from_dict(data: dict[str, Any]) -> Scenario:
    """Return a scenario from the content of a file. Raises ScenarioError for a field that does not exist."""
    regions = []
    for name, content in (data.get("regions") or {}).items():
        values = dict(content or {})
        for key, kind in (("fleets", Fleet), ("faults", Fault)):
            values[key] = tuple(_build(kind, entry, f"{name}.{key}") for entry in values.get(key) or ())
        regions.append(_build(Region, {"name": name, **values}, name))
    roles = tuple(_build(Role, entry, "roles") for entry in data.get("roles") or ())
    return _build(Scenario, {**data, "regions": tuple(regions), "roles": roles}, "scenario")


def load(name: str) -> Scenario:
    """Return the scenario of a file, or of one of the names in the folder scenarios/."""
    path = Path(name)
    if not path.suffix:
        path = SCENARIOS / f"{name}.yml"
    if not path.is_file():
        names = ", ".join(sorted(found.stem for found in SCENARIOS.glob("*.yml")))
        raise ScenarioError(f"{name} is neither a scenario file nor one of: {names}")
    return from_dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
