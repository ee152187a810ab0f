# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role fsx_lustre on a node: its look, its verdicts, and facts for users and other roles."""

from __future__ import annotations

import dataclasses
import typing as t

from ..system.host import Host
from ..system.job_steps import running_steps
from ..system.plan import Report
from ..system.release import system_facts
from ..verdict.result import Result
from . import files
from . import look as lustre
from .config import RoleConfig
from .plan import is_concerned
from .verify import verify as verify_lustre

# Options of a look that only reads.
READ_ONLY: dict[str, t.Any] = {"probe": False}
# Verdicts of an image, which has no mounts.
IMAGE_IDS = ("lustre.client", "lustre.held")
_OTHER_SECONDS = 240

Facts = t.Mapping[str, t.Any]


def seconds(config: RoleConfig) -> float:
    """Return the time limit of the look: each mount is checked, resolved, listed, written; each parameter read."""
    mounts = max(len(config.lustre.file_systems), 4) + len(config.lustre.nfs_mounts)
    asked = 4 * mounts + 2 + len(config.lustre.tuning) + 5
    return float(_OTHER_SECONDS + config.lustre.timeout * asked)


def look(host: Host, config: RoleConfig) -> dict[str, t.Any]:
    """Return the facts of ``look.look``, and system, lnet_loaded (the module) and steps (of jobs).

    An image has nothing mounted: directories are not read and nothing is probed.
    """
    system = system_facts(host)
    wanted = dataclasses.replace(config.lustre, directories=()) if config.image_build else config.lustre
    request = lustre.Request(
        probe=config.probe and not config.image_build,
        packages=tuple(config.hold_packages) or files.HELD.get(system["os_family"], ()),
        files=files.files_to_read(system["os_family"]),
    )
    return {
        **lustre.look(host, wanted, request),
        "system": system,
        "lnet_loaded": host.exists("/sys/module/lnet"),
        "steps": running_steps(host),
    }


def verify(facts: Facts, config: RoleConfig) -> list[Result]:
    """Return the verdicts on the node; none if the role does not apply to it."""
    if not is_concerned(facts, config):
        return []
    found = verify_lustre(facts)
    return [entry for entry in found if entry.id in IMAGE_IDS] if config.image_build else found


def report(facts: Facts, config: RoleConfig) -> Report:
    """Return how existing directories differ, and the fact ``mlcluster_fsx_lustre`` for other roles.

    Only the head node reports directories, so that they are reported once.
    """
    rows = facts["directories"] if config.head_node else ()
    return Report(
        info=tuple(
            f"{row['path']} exists and is left as it is: {', '.join(row['differences'])}"
            for row in rows
            if row["differences"]
        ),
        facts={"mlcluster_fsx_lustre": {"mounts": [mount for mount in facts["mounts"] if mount["state"] == "lustre"]}},
    )
