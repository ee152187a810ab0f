# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the role nvme_raid0: those of the storage, and those of the other parts of the role."""

from __future__ import annotations

import dataclasses
import typing as t

from ..system.argument_types import spec_of
from ..system.host import NodeError
from .config import ARGUMENT_SPEC, StorageConfig
from .config import parse_config as parse_storage

ROLE = "nvme_raid0"
# Default directories of a volume, made again with each new volume.
DIRECTORIES: list[dict[str, t.Any]] = [
    {"path": "scratch", "mode": "1777", "purpose": "temporary files of jobs"},
    {"path": "cache", "per_user": True, "purpose": "what can be fetched again"},
    {"path": "enroot", "per_user": True, "purpose": "unpacked container images"},
    {"path": "hf", "per_user": True, "purpose": "Hugging Face cache (HF_HOME)"},
    {"path": "checkpoints", "per_user": True, "purpose": "checkpoints on their way to durable storage"},
]


@dataclasses.dataclass(frozen=True)
class RoleConfig:
    """The role's options: ``storage``, and the other options of ``ROLE_SPEC``."""

    storage: StorageConfig = dataclasses.field(default_factory=StorageConfig)
    required: bool = True
    fstrim_timer_enabled: bool = True
    image_build: bool = False
    runtime_sha256: str = ""
    probe: bool = True


# runtime_sha256 is the checksum of the runtime that the controller would install, empty if it installs none; without
# probe nothing is written to the volume.
ROLE_SPEC: dict[str, dict[str, t.Any]] = {
    **ARGUMENT_SPEC,
    "mount_options": {"type": "list", "elements": "str", "default": []},
    "directories": {**ARGUMENT_SPEC["directories"], "default": DIRECTORIES},
    **spec_of(RoleConfig),
}


def parse_config(raw: t.Mapping[str, t.Any]) -> RoleConfig:
    """Build a ``RoleConfig`` from options that have no ``problems``."""
    own = {key: raw[key] for key in ROLE_SPEC if key not in ARGUMENT_SPEC and raw.get(key) is not None}
    return RoleConfig(storage=parse_storage(_storage_options(raw)), **own)


def problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return the first option error, with the name of the role's variable."""
    try:
        parse_storage(_storage_options(raw))
    except NodeError as exc:
        text = str(exc)
        return [f"{ROLE}_{text}" if text.partition(" ")[0] in ARGUMENT_SPEC else f"{ROLE}: {text}"]
    return []


def _storage_options(raw: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {key: raw[key] for key in ARGUMENT_SPEC if key in raw}
