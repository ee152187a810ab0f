# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for a node's instance-store disks: defaults, limits and option errors.

The same mapping is the argument spec of the modules, the body of /etc/mlcluster/storage.json and the input of the
boot unit, so that all reject the same values.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import typing as t

from ..system.config_file import read_config
from ..system.host import Host, NodeError

CONFIG_PATH = "/etc/mlcluster/storage.json"
CONFIG_SCHEMA = "mlcluster.storage_config/1"

LAYOUTS = ("raid0", "per_disk", "none")
FILESYSTEMS = ("ext4", "xfs")
POLICIES = ("adopt", "replace", "fail")

# ext4 must name data=ordered even though it is the default: libcufile reads the option from the mount table
# (GPUDirect Storage troubleshooting guide). The short device timeout keeps a boot with blank disks from waiting the
# 90 seconds that systemd allows by default.
DEFAULT_MOUNT_OPTIONS = {
    "ext4": ["noatime", "data=ordered", "nofail", "x-systemd.device-timeout=15s"],
    "xfs": ["noatime", "nofail", "x-systemd.device-timeout=15s"],
}

# Warns on the volume itself that its data are not permanent.
MARKER_NAME = "EPHEMERAL.txt"

# The collection's state on the root filesystem: a volume mounted over it would hide its own record.
OWN_DIRECTORIES = ("/etc/mlcluster", "/var/lib/mlcluster", "/var/log/mlcluster", "/usr/local/lib/mlcluster")

# Options with which mount(8) does not mount the whole volume for writing.
FOREIGN_MOUNT_OPTIONS = frozenset("bind rbind move remount ro loop offset sizelimit noauto".split())

# Mount points of the operating system: a volume there would hide it, and a disk that has one is never used.
SYSTEM_MOUNTS = frozenset(
    "/ /bin /boot /boot/efi /dev /efi /etc /home /lib /lib64 /opt /proc /root /run /sbin /srv /sys /tmp /usr "
    "/usr/local /var /var/lib /var/log /var/tmp".split()
)

# The types of the argument spec, as Python types and in words.
TYPES: dict[str, tuple[t.Any, str]] = {
    "str": (str, "text"),
    "int": (int, "an integer"),
    "bool": (bool, "true or false"),
    "list": ((list, tuple), "a list"),
    "dict": (dict, "a dictionary"),
}

DIRECTORY_OPTIONS: dict[str, dict[str, t.Any]] = {
    "path": {"type": "str", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0755"},
    "purpose": {"type": "str", "default": ""},
    "per_user": {"type": "bool", "default": False},
}

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "layout": {"type": "str", "choices": list(LAYOUTS), "default": "raid0"},
    "mount_point": {"type": "str", "default": "/data"},
    "fstype": {"type": "str", "choices": list(FILESYSTEMS), "default": "ext4"},
    "chunk_kib": {"type": "int", "default": 512},
    "array_name": {"type": "str", "default": "mlcluster"},
    "label": {"type": "str", "default": "mlcluster"},
    "mount_options": {"type": "list", "elements": "str"},
    "existing": {"type": "str", "choices": list(POLICIES), "default": "adopt"},
    "safe_mode": {"type": "bool", "default": True},
    "devices": {"type": "list", "elements": "str"},
    "expected_disks": {"type": "int"},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0755"},
    "users": {"type": "list", "elements": "str", "default": []},
    "directories": {"type": "list", "elements": "dict", "default": [], "options": DIRECTORY_OPTIONS},
    "size_tolerance_percent": {"type": "int", "default": 10},
    "update_initramfs": {"type": "bool", "default": False},
}


@dataclasses.dataclass(frozen=True)
class Directory:
    """A directory wanted below the mount point; with per_user, one for each user inside it, mode 0700."""

    path: str
    owner: str = "root"
    group: str = "root"
    mode: str = "0755"
    purpose: str = ""
    per_user: bool = False


@dataclasses.dataclass(frozen=True)
class StorageConfig:
    """The requested storage. chunk_kib is in KiB. devices None means every instance-store disk.

    expected_disks None means the number of the instance type, if it is known.
    """

    layout: str = "raid0"
    mount_point: str = "/data"
    fstype: str = "ext4"
    chunk_kib: int = 512
    array_name: str = "mlcluster"
    label: str = "mlcluster"
    mount_options: tuple[str, ...] = tuple(DEFAULT_MOUNT_OPTIONS["ext4"])
    existing: str = "adopt"
    safe_mode: bool = True
    devices: t.Optional[tuple[str, ...]] = None
    expected_disks: t.Optional[int] = None
    owner: str = "root"
    group: str = "root"
    mode: str = "0755"
    users: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ()
    size_tolerance_percent: int = 10
    update_initramfs: bool = False

    @property
    def may_destroy(self) -> bool:
        """Whether data of others may be destroyed: both switches must allow it."""
        return self.existing == "replace" and not self.safe_mode

    def as_dict(self) -> dict[str, t.Any]:
        """Return the configuration as plain JSON types."""
        plain = dataclasses.asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def parse_config(raw: t.Mapping[str, t.Any]) -> StorageConfig:
    """Build a ``StorageConfig`` from module parameters or storage.json; raise ``NodeError`` with one sentence."""
    unknown = sorted(set(raw) - set(ARGUMENT_SPEC) - {"schema"})
    if unknown:
        raise NodeError(f"the storage configuration has unknown keys: {', '.join(unknown)}")
    values = _typed("", raw, ARGUMENT_SPEC)
    values["directories"] = tuple(_directory(entry) for entry in values.get("directories", ()))
    for key in ("mount_options", "devices", "users"):
        if key in values:
            values[key] = tuple(values[key])
    fstype = values.get("fstype", "ext4")
    _one_of("fstype", fstype, FILESYSTEMS)
    if not values.get("mount_options"):
        values["mount_options"] = tuple(DEFAULT_MOUNT_OPTIONS[fstype])
    config = StorageConfig(**values)
    _check(config)
    return config


def config_text(config: StorageConfig) -> str:
    """Return the text of storage.json for a configuration; equal configurations give equal texts."""
    return json.dumps({"schema": CONFIG_SCHEMA, **config.as_dict()}, indent=2, sort_keys=True) + "\n"


def mount_points(config: StorageConfig, disks: int) -> list[str]:
    """Return the mount points of the volumes for a number of disks."""
    if config.layout == "none":
        return []
    if config.layout == "per_disk":
        return [f"{config.mount_point}/disk{index}" for index in range(disks)]
    return [config.mount_point]


def _typed(where: str, raw: t.Mapping[str, t.Any], spec: dict[str, dict[str, t.Any]]) -> dict[str, t.Any]:
    """Return the given values without nulls. Raises NodeError for a type that differs from the spec."""
    values = {key: raw[key] for key in spec if raw.get(key) is not None}
    for key, value in values.items():
        _check_type(f"{where}{key}", value, spec[key]["type"])
        for item in value if spec[key]["type"] == "list" else ():
            _check_type(f"an entry of {where}{key}", item, spec[key]["elements"])
    return values


def _check_type(name: str, value: t.Any, kind: str) -> None:
    wanted, words = TYPES[kind]
    if not isinstance(value, wanted) or (kind == "int" and isinstance(value, bool)):
        raise NodeError(f"{name} is {value!r}: it must be {words}")


def _directory(entry: t.Mapping[str, t.Any]) -> Directory:
    unknown = sorted(set(entry) - set(DIRECTORY_OPTIONS))
    if unknown or not entry.get("path"):
        problem = f"unknown keys {', '.join(unknown)}" if unknown else "no path"
        raise NodeError(f"a directories entry has {problem}: known keys are {', '.join(DIRECTORY_OPTIONS)}")
    return Directory(**_typed("directories: ", entry, DIRECTORY_OPTIONS))


def _one_of(name: str, value: str, allowed: t.Sequence[str]) -> None:
    if value not in allowed:
        raise NodeError(f"{name} is {value!r}: it must be one of {', '.join(allowed)}")


def check_mode(name: str, mode: str) -> None:
    """Reject a mode that is not octal, or that is writable for all users without the sticky bit."""
    if not re.fullmatch(r"[0-7]{3,4}", mode):
        raise NodeError(f"{name} is {mode!r}: use an octal mode in quotes, such as '0755'")
    bits = int(mode, 8)
    if bits & 0o002 and not bits & 0o1000:
        raise NodeError(
            f"{name} is {mode}: all users could delete each other's files there; use 0755, a group with 2775, or 1777"
        )


def check_chunk(chunk_kib: int) -> None:
    """Reject a chunk size that md cannot use: it must be a power of two of at least 4 KiB (one page)."""
    if not 4 <= chunk_kib <= 65536 or chunk_kib & (chunk_kib - 1):
        raise NodeError(
            f"chunk_kib is {chunk_kib}: md needs a power of two from 4 to 65536, in KiB, such as 256, 512 or 1024"
        )


def check_array_name(name: str) -> None:
    """Reject an array name that udev and mdadm.conf do not support."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", name):
        raise NodeError(
            f"array_name is {name!r}: use 1 to 32 letters, digits, '_', '.' or '-', without spaces or ':', because "
            "udev makes a link of it"
        )


def _check(config: StorageConfig) -> None:
    _one_of("layout", config.layout, LAYOUTS)
    _one_of("existing", config.existing, POLICIES)
    _check_mount_point(config.mount_point)
    check_chunk(config.chunk_kib)
    check_array_name(config.array_name)
    longest = 12 if config.fstype == "xfs" else 16
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,%d}" % longest, config.label):
        raise NodeError(
            f"label is {config.label!r}: {config.fstype} takes 1 to {longest} characters, here letters, digits, "
            "'_', '.' and '-'"
        )
    _check_mount_options(config)
    check_mode("mode", config.mode)
    if config.devices == ():
        raise NodeError("devices is an empty list: name the disks, or leave it out for all; layout none uses none")
    if config.expected_disks is not None and config.expected_disks < 0:
        raise NodeError(f"expected_disks is {config.expected_disks}: use a count of 0 or more")
    if not 0 <= config.size_tolerance_percent <= 50:
        raise NodeError(f"size_tolerance_percent is {config.size_tolerance_percent}: use 0 to 50")
    for device in config.devices or ():
        if not device.isprintable():
            raise NodeError(f"devices has {device!r}: a path has printable characters only")
    for user in config.users:
        if not re.fullmatch(r"[a-z_A-Z0-9][a-zA-Z0-9_.@-]{0,63}", user):
            raise NodeError(f"users has {user!r}: it cannot be a directory name")
    _check_directories(config.directories)


def _check_mount_point(path: str) -> None:
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise NodeError(
            f"mount_point is {path!r}: use an absolute path without '..', '.', or a slash at the end, such as /data"
        )
    if re.search(r"[\s\\#\"']", path) or not path.isprintable():
        raise NodeError(f"mount_point is {path!r}: spaces, quotes, '#' and backslashes cannot stand in fstab")
    if path in SYSTEM_MOUNTS or path.startswith(("/dev/", "/proc/", "/sys/")):
        raise NodeError(f"mount_point is {path}: the operating system lives there; choose a path such as /data")
    if any(path == own or path.startswith(f"{own}/") for own in OWN_DIRECTORIES):
        raise NodeError(
            f"mount_point is {path}: data that must outlive the volume are kept there; choose one such as /data"
        )


def _check_mount_options(config: StorageConfig) -> None:
    for option in config.mount_options:
        if not re.fullmatch(r"[A-Za-z0-9_.:=/+-]+", option):
            raise NodeError(f"mount_options has {option!r}: use one entry for each option, such as noatime")
    if "discard" in config.mount_options:
        raise NodeError(
            "mount_options has 'discard': it slows every delete; the role enables fstrim.timer instead, so leave it out"
        )
    if "x-systemd.automount" in config.mount_options:
        raise NodeError(
            "mount_options has 'x-systemd.automount': its placeholder on the mount point would be taken for a foreign "
            "mount; leave it out, the boot unit mounts the volume"
        )
    for option in config.mount_options:
        if option.split("=")[0] in FOREIGN_MOUNT_OPTIONS:
            raise NodeError(
                f"mount_options has {option!r}: it mounts something else than the volume, or not to write; leave it out"
            )
    if "nofail" not in config.mount_options:
        raise NodeError("mount_options lacks 'nofail': without it a node with blank disks ends in emergency mode")


def _check_directories(directories: t.Sequence[Directory]) -> None:
    seen = set()
    for entry in directories:
        path = entry.path
        if path.startswith(("/", "..")) or posixpath.normpath(path) != path or path == ".":
            raise NodeError(f"directories has {path!r}: use a path below the mount point, such as scratch or cache/hf")
        if not path.isprintable() or path == MARKER_NAME or path.startswith(f"{MARKER_NAME}/"):
            raise NodeError(f"directories has {path!r}: use printable characters, and not the name {MARKER_NAME}")
        if path in seen:
            raise NodeError(f"directories has {path!r} twice")
        seen.add(path)
        check_mode(f"the mode of directory {path}", entry.mode)


def load_config(host: Host, path: str) -> StorageConfig:
    """Read storage.json; raise ``NodeError`` with one sentence if it is missing or invalid."""
    raw = read_config(host, path, "nvme_raid0")
    if not isinstance(raw, dict):
        raise NodeError(f"{path} holds no JSON object: run the role nvme_raid0 again to write it")
    return parse_config(raw)
