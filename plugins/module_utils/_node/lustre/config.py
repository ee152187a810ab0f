# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for Lustre on a node, with defaults and limits: file systems, directories, client tuning.

The same mapping is the argument spec of the modules, the content of /etc/mlcluster/lustre.json and the input of the
boot unit, so all of them reject the same values.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import typing as t

from ..storage.config import SYSTEM_MOUNTS
from ..system import argument_types
from ..system.config_file import read_config
from ..system.host import Host, NodeError
from . import layouts
from .acl import acl_problem
from .stripe import stripe_problem

CONFIG_PATH = "/etc/mlcluster/lustre.json"
CONFIG_SCHEMA = "mlcluster.lustre_config/1"
LOCAL_VOLUME = "/data"

_NAME = re.compile(r"[a-z_A-Z0-9][a-zA-Z0-9_.@-]{0,63}")
_PATH = re.compile(r"(?:/[A-Za-z0-9._+@=-]+)+")
_DNS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
_FSX_MOUNT_NAME = re.compile(r"[A-Za-z0-9_]{1,8}")
_PARAMETER = re.compile(r"[a-z]+(?:\.[A-Za-z0-9_*-]+)+")
_MODULE_OPTION = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+")
_VALUE = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")
_MOUNT_OPTION = re.compile(r"[A-Za-z0-9_.=:/+-]+")
_EFA_CLIENT = re.compile(r"(?:/|https://)[^@\s]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARGUMENT = re.compile(r"--?[a-z][a-z0-9=-]*")

FILE_SYSTEM_OPTIONS: dict[str, dict[str, t.Any]] = {
    "path": {"type": "str", "required": True},
    "dns_name": {"type": "str", "default": ""},
    "mount_name": {"type": "str", "default": ""},
    "efa": {"type": "bool", "default": False},
}
STRIPE_OPTIONS: dict[str, dict[str, t.Any]] = {
    "end": {"type": "str", "default": ""},
    "count": {"type": "int", "required": True},
    "size": {"type": "str", "default": ""},
}
DIRECTORY_OPTIONS: dict[str, dict[str, t.Any]] = {
    "path": {"type": "str", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "2775"},
    "acl": {"type": "list", "elements": "str", "default": []},
    "stripe": {"type": "list", "elements": "dict", "default": [], "options": STRIPE_OPTIONS},
    "purpose": {"type": "str", "default": ""},
}
ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "file_systems": {"type": "list", "elements": "dict", "default": [], "options": FILE_SYSTEM_OPTIONS},
    "nfs_mounts": {"type": "list", "elements": "str", "default": []},
    "directories": {"type": "list", "elements": "dict", "default": [], "options": DIRECTORY_OPTIONS},
    "tune": {"type": "bool", "default": True},
    "tuning": {"type": "dict", "default": {}},
    "module_options": {"type": "dict", "default": {}},
    "efa_interfaces": {"type": "int", "default": 0},
    "timeout": {"type": "int", "default": 30},
}
# Options that the boot unit needs; the others change too often to be copied to every node.
BOOT_KEYS = ("file_systems", "tune", "tuning", "timeout")
# Options that the boot unit needs if a site has set them.
BOOT_KEYS_SET = ("efa_interfaces",)
# Further options of the role fsx_lustre: its variables without their prefix. runtime_sha256: checksum of the runtime
# that the controller would install, empty for none. Without probe nothing is written to a mount. A file system may
# have an id instead of its names: the controller reads the names from FSx before it connects to a node.
ROLE_SPEC: dict[str, dict[str, t.Any]] = {
    **ARGUMENT_SPEC,
    "file_systems": {"type": "list", "elements": "dict", "default": []},
    "layout": {"type": "str", "choices": ["three", "one", "none"], "default": "none"},
    "models": {"type": "list", "elements": "str", "default": []},
    "places": {"type": "dict", "default": {}},
    "classes": {"type": "dict", "default": layouts.CLASSES},
    "directories": {"type": "list", "elements": "dict", "default": []},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "2775"},
    "acl": {"type": "list", "elements": "str", "default": []},
    "mount_options": {"type": "list", "elements": "str", "default": ["noatime", "flock", "_netdev", "nofail"]},
    "head_node": {"type": "bool"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "repository": {"type": "str", "default": ""},
    "hold": {"type": "bool", "default": True},
    "hold_packages": {"type": "list", "elements": "str", "default": []},
    "efa_client": {"type": "str", "default": ""},
    "efa_client_sha256": {"type": "str", "default": ""},
    "efa_client_arguments": {"type": "list", "elements": "str", "default": []},
    "safe_mode": {"type": "bool", "default": True},
    "image_build": {"type": "bool", "default": False},
    "runtime_sha256": {"type": "str", "default": ""},
    "probe": {"type": "bool", "default": True},
}


@dataclasses.dataclass(frozen=True)
class FileSystem:
    """One Lustre file system: its mount point; dns_name if the node mounts it; mount_name to identify it."""

    path: str
    dns_name: str = ""
    mount_name: str = ""
    efa: bool = False

    @property
    def source(self) -> str | None:
        """Its source in fstab; None if another program mounts it."""
        return f"{self.dns_name}@tcp:/{self.mount_name}" if self.dns_name else None


@dataclasses.dataclass(frozen=True)
class Directory:
    """A directory wanted on Lustre. acl are entries of setfacl, stripe components of {end, count, size}."""

    path: str
    owner: str = "root"
    group: str = "root"
    mode: str = "2775"
    acl: tuple[str, ...] = ()
    stripe: tuple[t.Mapping[str, t.Any], ...] = ()
    purpose: str = ""


@dataclasses.dataclass(frozen=True)
class LustreConfig:
    """All options. tuning and module_options change the values of the module ``tuning``; timeout in seconds.

    efa_interfaces 0 means the number that AWS sets up for the instance type.
    """

    file_systems: tuple[FileSystem, ...] = ()
    nfs_mounts: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ()
    tune: bool = True
    tuning: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    module_options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    efa_interfaces: int = 0
    timeout: int = 30


@dataclasses.dataclass(frozen=True)
class RoleConfig:
    """Options of the role fsx_lustre: ``lustre``, and the options of ``ROLE_SPEC`` that are not in it."""

    lustre: LustreConfig = dataclasses.field(default_factory=LustreConfig)
    mount_options: tuple[str, ...] = ("noatime", "flock", "_netdev", "nofail")
    head_node: bool = False
    packages: tuple[str, ...] = ()
    repository: str = ""
    hold: bool = True
    hold_packages: tuple[str, ...] = ()
    efa_client: str = ""
    efa_client_sha256: str = ""
    efa_client_arguments: tuple[str, ...] = ()
    safe_mode: bool = True
    image_build: bool = False
    runtime_sha256: str = ""
    probe: bool = True


def parse_role(raw: t.Mapping[str, t.Any]) -> RoleConfig:
    """Return a ``RoleConfig`` from options of ``ROLE_SPEC``; raise ``NodeError`` with all problems."""
    found = role_problems(raw)
    if found:
        raise NodeError("; ".join(found))
    names = [entry.name for entry in dataclasses.fields(RoleConfig) if entry.name != "lustre"]
    own = {key: raw[key] for key in names if raw.get(key) is not None}
    values: dict[str, t.Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    lustre = {key: raw[key] for key in ARGUMENT_SPEC if key in raw}
    return RoleConfig(lustre=parse_config({**lustre, "directories": layouts.expand(_layout(raw))}), **values)


def role_problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each option error, with the full variable names; such options work on no node."""
    unreadable = list(argument_types.problems(raw, ROLE_SPEC))
    if unreadable:
        return [_with_variable(problem) for problem in unreadable]
    layout = _layout(raw)
    found = layouts.problems(layout)
    directories = [] if found else layouts.expand(layout)
    # Unknown options too.
    others = {key: raw[key] for key in raw if key not in ROLE_SPEC or key in ARGUMENT_SPEC}
    others["file_systems"] = [_without_id(entry) for entry in raw.get("file_systems") or ()]
    found += problems({**others, "directories": directories})
    options = raw.get("mount_options")
    invalid = [str(word) for word in options or () if not _MOUNT_OPTION.fullmatch(str(word))]
    if invalid:
        found.append(f"mount_options has {', '.join(invalid)}: use one option an entry, such as noatime")
    if options is not None and "nofail" not in options:
        found.append(
            "mount_options lacks nofail: add it, since without it a node does not boot while its file system gives "
            "no answer"
        )
    return [_with_variable(problem) for problem in found + _efa_client_problems(raw)]


def _without_id(system: t.Any) -> t.Any:
    """Return a file system as it is after the controller has read its names."""
    return {key: value for key, value in system.items() if key != "id"} if isinstance(system, dict) else system


def _with_variable(problem: str) -> str:
    """Return a sentence that begins with an option, with the role's variable instead."""
    option = problem.partition(" ")[0]
    return f"fsx_lustre_{problem}" if option in ROLE_SPEC else problem


def _layout(raw: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the options that define directories; missing or null options have their defaults."""
    layout: dict[str, t.Any] = {
        key: ROLE_SPEC[key]["default"] if raw.get(key) is None else raw[key] for key in layouts.KEYS
    }
    layout["places"] = {**layouts.places(layout["layout"], raw.get("file_systems") or ()), **layout["places"]}
    return layout


def _efa_client_problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    found = []
    client, digest = str(raw.get("efa_client") or ""), str(raw.get("efa_client_sha256") or "")
    if client and not _EFA_CLIENT.fullmatch(client):
        found.append(f"efa_client is {client}: use an absolute path on the controller or an https address")
    if client and not _SHA256.fullmatch(digest):
        found.append("efa_client has no sha256: set fsx_lustre_efa_client_sha256 to 64 hexadecimal digits")
    invalid = [str(word) for word in raw.get("efa_client_arguments") or () if not _ARGUMENT.fullmatch(str(word))]
    if invalid:
        found.append(f"efa_client_arguments has {', '.join(invalid)}: use options of setup.sh, one an entry")
    return found


def parse_config(raw: t.Mapping[str, t.Any]) -> LustreConfig:
    """Return a ``LustreConfig`` from module parameters or lustre.json; raise ``NodeError`` with all problems."""
    found = problems(raw)
    if found:
        raise NodeError("; ".join(found))
    values = {key: raw[key] for key in ARGUMENT_SPEC if raw.get(key) is not None}
    values["file_systems"] = tuple(FileSystem(**_known(e, FILE_SYSTEM_OPTIONS)) for e in values.get("file_systems", ()))
    values["directories"] = tuple(_directory(entry) for entry in values.get("directories", ()))
    values["nfs_mounts"] = tuple(values.get("nfs_mounts", ()))
    return LustreConfig(**values)


def config_text(config: LustreConfig) -> str:
    """Return the content of lustre.json for the boot unit; equal configurations give equal texts."""
    plain = dataclasses.asdict(config)
    kept = {key: plain[key] for key in BOOT_KEYS}
    kept.update({key: plain[key] for key in BOOT_KEYS_SET if plain[key]})
    return json.dumps({"schema": CONFIG_SCHEMA, **kept}, indent=2, sort_keys=True) + "\n"


def problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each option error, in the order of the options; such options work on no node."""
    found = []
    unknown = sorted(set(raw) - set(ARGUMENT_SPEC) - {"schema"})
    if unknown:
        found.append(f"there are unknown options {', '.join(unknown)}: known are {', '.join(ARGUMENT_SPEC)}")
    systems = list(raw.get("file_systems") or ())
    found += _shape_problems("file_systems", systems, FILE_SYSTEM_OPTIONS)
    directories = list(raw.get("directories") or ())
    found += _shape_problems("directories", directories, DIRECTORY_OPTIONS)
    # The remaining checks need valid shapes.
    if found:
        return found
    found += _file_system_problems(systems)
    for path in raw.get("nfs_mounts") or ():
        if not _plain(path):
            found.append(f"nfs_mounts has {path!r}: use the absolute path where it is mounted, such as /home")
    found += _directory_problems(directories, [entry["path"] for entry in systems])
    found += _value_problems("tuning", raw.get("tuning") or {}, _PARAMETER, "osc.*OST*.max_rpcs_in_flight")
    found += _value_problems(
        "module_options", raw.get("module_options") or {}, _MODULE_OPTION, "ptlrpc.ptlrpcd_per_cpt_max"
    )
    for name, minimum, maximum in (("timeout", 1, 300), ("efa_interfaces", 0, 64)):
        value = raw.get(name)
        if value is not None and not minimum <= int(value) <= maximum:
            found.append(f"{name} is {value}: use {minimum} to {maximum}")
    return found


def below(path: str, mounts: t.Iterable[str]) -> str | None:
    """Return the mount above a path (the longest of several); None if there is none."""
    fitting = [mount for mount in mounts if path.startswith(f"{mount}/")]
    return max(fitting, key=len, default=None)


def _known(entry: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {key: entry[key] for key in options if entry.get(key) is not None}


def _directory(entry: t.Mapping[str, t.Any]) -> Directory:
    values = _known(entry, DIRECTORY_OPTIONS)
    values["acl"] = tuple(values.get("acl", ()))
    values["stripe"] = tuple(_known(part, STRIPE_OPTIONS) for part in values.get("stripe", ()))
    return Directory(**values)


def _shape_problems(name: str, entries: t.Sequence[t.Any], options: t.Mapping[str, t.Any]) -> list[str]:
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            found.append(f"{name} has {entry!r}: use a dictionary with a path")
            continue
        unknown = sorted(set(entry) - set(options))
        if unknown:
            found.append(f"{name} has {entry['path']} with {', '.join(unknown)}: known are {', '.join(options)}")
    return found


def _plain(path: t.Any) -> bool:
    return isinstance(path, str) and bool(_PATH.fullmatch(path)) and posixpath.normpath(path) == path


def _file_system_problems(systems: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    found, seen = [], set()
    for entry in systems:
        path, dns, name = entry["path"], entry.get("dns_name") or "", entry.get("mount_name") or ""
        if not _plain(path):
            found.append(f"file_systems has {path!r}: use an absolute path such as /fsx, without '..' and spaces")
        elif path in SYSTEM_MOUNTS:
            found.append(f"file_systems has {path}: the operating system lives there; choose a path such as /fsx")
        elif path == LOCAL_VOLUME or path.startswith(f"{LOCAL_VOLUME}/"):
            found.append(
                f"file_systems has {path}: {LOCAL_VOLUME} is the local NVMe volume; choose a path such as /fsx"
            )
        if path in seen:
            found.append(f"file_systems has {path} twice: list each file system once")
        seen.add(path)
        if dns and not name:
            found.append(f"{path} has a dns_name and no mount_name: set both, as FSx shows them")
        elif (dns and not _DNS.fullmatch(dns)) or (name and not _FSX_MOUNT_NAME.fullmatch(name)):
            found.append(
                f"{path} has dns_name {dns!r} and mount_name {name!r}: set them as FSx shows them, such as "
                "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com and abcdefgh"
            )
    return found


def _directory_problems(directories: t.Sequence[t.Mapping[str, t.Any]], mounts: t.Sequence[str]) -> list[str]:
    found, seen = [], set()
    for entry in directories:
        path, mode = entry["path"], str(entry.get("mode") or "2775")
        if not _plain(path):
            found.append(f"directories has {path!r}: use an absolute path without '..' and spaces")
        elif below(path, mounts) is None:
            mounts_text = ", ".join(mounts) or "none"
            found.append(
                f"directories has {path}, which is below none of file_systems ({mounts_text}): name its file system"
            )
        if path in seen:
            found.append(f"directories has {path} twice: list each directory once")
        seen.add(path)
        if not re.fullmatch(r"[0-7]{3,4}", mode):
            found.append(f"the mode of {path} is {mode!r}: use an octal mode in quotes, such as '2775'")
        elif int(mode, 8) & 0o002 and not int(mode, 8) & 0o1000:
            found.append(f"the mode of {path} is {mode}: all users could delete each other's files; use 2775 or 1777")
        for key in ("owner", "group"):
            if not _NAME.fullmatch(str(entry.get(key) or "root")):
                found.append(f"the {key} of {path} is {entry[key]!r}: use a name or a number")
        for problem in (acl_problem(entry.get("acl") or ()), stripe_problem(entry.get("stripe") or ())):
            if problem:
                found.append(f"{path}: {problem}")
    return found


def _value_problems(name: str, values: t.Any, pattern: re.Pattern[str], example: str) -> list[str]:
    if not isinstance(values, dict):
        return [f"{name} is {values!r}: use a dictionary such as {{{example}: 32}}"]
    found = []
    for key, value in values.items():
        if not pattern.fullmatch(str(key)):
            found.append(f"{name} has {key!r}: use a name such as {example}")
        # Null removes the default value.
        elif value is not None and not _VALUE.fullmatch(str(value)):
            found.append(f"{name} has {key} with {value!r}: use one plain value")
    return found


def load_config(host: Host, path: str) -> LustreConfig:
    """Return the options from lustre.json; raise ``NodeError`` with one sentence if it is missing or invalid."""
    raw = read_config(host, path, "fsx_lustre")
    if not isinstance(raw, dict) or set(raw) - {*BOOT_KEYS, *BOOT_KEYS_SET, "schema"}:
        raise NodeError(f"{path} has other content: run the role fsx_lustre again to write it")
    return parse_config(raw)
