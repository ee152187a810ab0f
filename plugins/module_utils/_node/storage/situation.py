# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Situations of a node's disks. ``plan.choose`` picks one; ``volume.actions_for`` turns it into actions."""

from __future__ import annotations

import dataclasses
import enum
import typing as t
import uuid

from .config import StorageConfig
from .owner import OWNER_NONE, Claim

Facts = t.Mapping[str, t.Any]
Disk = t.Mapping[str, t.Any]


class Situation(enum.Enum):
    """The name that plans and records use, and the reason for what the plan does."""

    DISABLED = ("disabled", "nvme_raid0_layout is none")
    NO_DISKS = ("no_disks", "the node has no instance-store disks, and none are expected")
    REFUSED = ("refused", "a refusal stands against every action")
    FRESH = ("fresh", "every disk is proved blank")
    # The image's own set-up has not run yet, or has not mounted its volume: start its service and look again.
    SERVICE_SETS_UP = ("owner_pending", "the disks are blank, and a service of the image sets them up")
    SERVICE_MOUNTS = ("owner_pending", "the disks carry the image's volume, and a service of the image mounts it")
    VOLUME_INACTIVE = ("owner_pending", "the image's volume is inactive, so its content is not visible yet")
    ADOPTED = ("adopted", "the disks carry the image's volume")
    INTACT = ("intact", "the disks carry the volume of the record")
    # An interrupted run, known by its intent.
    ARRAY_STOPPED = ("half_finished", "the last run was interrupted; what it made shows once its array runs")
    ALL_MADE = ("half_finished", "the last run was interrupted after it made every filesystem")
    SOME_MADE = ("half_finished", "the last run was interrupted before it made every filesystem")
    NOTHING_MADE = ("half_finished", "the last run was interrupted before a file could be written")
    REBUILD = ("rebuild", "both switches allow to destroy what is on the disks")

    @property
    def published(self) -> str:
        """The name in plans, records and documentation."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """The reason for the plan's actions."""
        return self.value[1]


@dataclasses.dataclass(frozen=True)
class Context:
    """The input of a plan besides the facts.

    array_uuid is the UUID that a new array would get; namespace seeds the filesystem UUIDs, so that the same node
    gets the same ones after a stop and start and its fstab stays valid; table_disks is the number of instance-store
    disks of the instance type (None: type unknown); at_boot forbids every destruction.
    """

    array_uuid: str
    namespace: uuid.UUID
    table_disks: t.Optional[int]
    at_boot: bool


@dataclasses.dataclass(frozen=True)
class Node:
    """The input for the choice of a situation: facts, configuration, and the owner of each selected disk."""

    facts: Facts
    config: StorageConfig
    context: Context
    claims: tuple[Claim, ...] = ()

    @property
    def disks(self) -> list[Disk]:
        """The selected disks, in the order of their serial numbers."""
        return [item.disk for item in self.claims]

    @property
    def may_destroy(self) -> bool:
        """Whether both switches allow destruction; no boot destroys anything."""
        return self.config.may_destroy and not self.context.at_boot

    @property
    def new_state(self) -> str:
        """The state of a volume that this run makes."""
        return "recreated" if self.context.at_boot else "intact"


@dataclasses.dataclass(frozen=True)
class Decision:
    """A situation and the input of its actions besides the facts.

    state and owner are those of the plan. refusals: sentences, with REFUSED only. disks: those to use; erase: those
    of them to erase first. volumes: those that exist on the disks, or of which only the filesystem is
    missing. units: the image's services to start, or to mask if the disks are taken. blank_array: the array of an
    interrupted run is proved blank, though its members are not.
    """

    situation: Situation
    state: str = "none"
    owner: str = OWNER_NONE
    refusals: tuple[str, ...] = ()
    disks: t.Sequence[Disk] = ()
    erase: t.Sequence[Disk] = ()
    volumes: t.Sequence[dict[str, t.Any]] = ()
    units: t.Sequence[str] = ()
    blank_array: bool = False

    @property
    def makes_filesystems(self) -> bool:
        """Whether a filesystem is made."""
        return self.situation in (
            Situation.FRESH,
            Situation.REBUILD,
            Situation.NOTHING_MADE,
            Situation.SOME_MADE,
        )
