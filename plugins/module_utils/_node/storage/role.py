# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role nvme_raid0 on a node: facts, verdicts, and the report for users and other roles."""

from __future__ import annotations

import typing as t

from ..system.host import Host
from ..system.mounts import mount_unit
from ..system.packages import package_manager
from ..system.plan import Report
from ..verdict.result import Result
from . import files
from .config import mount_points
from .converge import context_for, survey
from .role_config import RoleConfig
from .verify import boot_unit_enabled
from .verify import verify as verify_storage

# Options of a look that only reads.
READ_ONLY: dict[str, t.Any] = {"probe": False}
# wipefs, mdadm and LVM's tools have up to 60 seconds each; disks that answer take none of it.
_SECONDS = 600.0

Facts = t.Mapping[str, t.Any]


def seconds(config: RoleConfig) -> float:
    """Return the time limit of the look, in seconds."""
    return _SECONDS


def look(host: Host, config: RoleConfig) -> dict[str, t.Any]:
    """Return storage and storage_plan (of ``converge.survey``), results, mount_units, manager, files, paths and
    boot_unit_enabled.
    """
    facts, plan = survey(host, config.storage)
    return {
        "storage": facts,
        "storage_plan": plan,
        "results": verify_storage(host, facts, plan, config.storage, context_for(facts), config.probe),
        "mount_units": [mount_unit(path) for path in mount_points(config.storage, len(plan.claims))],
        "manager": package_manager(host),
        "files": {path: host.sha256(path) for path in files.PATHS},
        "paths": {path: host.stat(path) for path in files.PATHS},
        "boot_unit_enabled": boot_unit_enabled(host),
    }


def verify(facts: Facts, config: RoleConfig) -> list[Result]:
    """Return the verdicts on the volume. A refused plan is already one of them."""
    return [] if facts["storage_plan"].refusals else list(facts["results"])


def report(facts: Facts, config: RoleConfig) -> Report:
    """Return the situation of the disks in words, and the fact ``mlcluster_local_storage``."""
    plan = facts["storage_plan"]
    record = facts["storage"]["record"] or {"state": "none", "path": None, "owner": "none"}
    report_lines = [f"{plan.situation}: {plan.reason}"] if not plan.refusals else []
    report_lines += [f"destroys: {text}" for text in plan.losses]
    return Report(info=tuple(report_lines), facts={"mlcluster_local_storage": record})
