# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for containers on nodes, with their defaults and limits."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ..system import argument_types
from ..system.config_file import read_config
from ..system.host import NodeError
from . import credentials as enroot_credentials
from . import enroot_conf, pyxis_options
from . import local_directories as enroot_local
from .host import EnrootHost

CONFIG_PATH = "/etc/mlcluster/enroot.json"
CONFIG_SCHEMA = "mlcluster.enroot_config/1"


# The hooks that Enroot ships besides the ones it always runs (conf/hooks/extra of NVIDIA/enroot).
HOOKS = ("50-mig-config.sh", "50-sharp.sh", "50-slurm-pmi.sh", "50-slurm-pytorch.sh")


@dataclasses.dataclass(frozen=True)
class EnrootConfig:
    """Options by the names of the module's options; sizes in MiB, times in seconds."""

    slurm_prefix: str = ""
    slurm_conf_dir: str = ""
    plugin_options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    plugstack_mode: str = "optional"
    plugstack_include: str = "auto"
    manage_plugstack: str = "auto"
    duplicates: str = "report"
    local_dir: str = ""
    local_subdirectory: str = "containers"
    fallback_dir: str = "/var/lib/mlcluster-containers"
    conf: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    conf_owner: str = "dropin"
    hooks: tuple[str, ...] = ()
    runtime_min_mib: int = 256
    max_user_namespaces: int = 65536
    caps: bool = True
    credentials: tuple[t.Mapping[str, t.Any], ...] = ()
    docker: bool = False
    docker_data_root: str = "auto"
    docker_daemon: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    toolkit_version: str = ""
    smoke_image: str = ""
    smoke_users: tuple[str, ...] = ()
    smoke_seconds: int = 120

    @property
    def local(self) -> enroot_local.LocalConfig:
        """The options that the boot unit reads."""
        return enroot_local.LocalConfig(self.local_dir, self.local_subdirectory, self.fallback_dir)

    @property
    def runtime_path(self) -> str:
        """The directory of a job's Pyxis files (the default is from config.c of NVIDIA/pyxis)."""
        return str(self.plugin_options.get("runtime_path", "/run/pyxis"))


ARGUMENT_SPEC = argument_types.spec_of(
    EnrootConfig,
    plugstack_mode={"choices": ["optional", "required"]},
    plugstack_include={"choices": ["auto", "glob", "file"]},
    manage_plugstack={"choices": ["auto", "always", "never"]},
    duplicates={"choices": ["report", "remove"]},
    conf_owner={"choices": ["dropin", "role"]},
    credentials={"options": enroot_credentials.OPTIONS},
)


@dataclasses.dataclass(frozen=True)
class RoleConfig:
    """Options of the role enroot_pyxis: ``enroot``, and the options of ``ROLE_SPEC`` that are not in it."""

    enroot: EnrootConfig = dataclasses.field(default_factory=EnrootConfig)
    source: str = "auto"
    mirror_url: str = ""
    local_files: str = ""
    checksums: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    file_names: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    enroot_version: str = "4.1.2"
    pyxis_version: str = "0.24.0"
    prebuilt: tuple[t.Mapping[str, t.Any], ...] = ()
    upgrade: bool = False
    docker_packages: tuple[str, ...] = ()
    toolkit_packages: tuple[str, ...] = ("nvidia-container-toolkit",)
    hold: bool = True
    slurmd_restart: str = "idle"
    safe_mode: bool = True
    artifacts: tuple[t.Mapping[str, t.Any], ...] = ()
    runtime_sha256: str = ""
    probe: str = "unproved"

    @property
    def replacements(self) -> list[str]:
        """One sentence for each file or line of another author that safe mode does not let the role replace."""
        found = []
        if self.safe_mode and self.enroot.conf_owner == "role":
            found.append(
                "enroot_pyxis_conf_owner: role would replace an enroot.conf that this role did not write, and safe "
                "mode "
                "forbids it: set enroot_pyxis_safe_mode: false as well"
            )
        if self.safe_mode and self.enroot.duplicates == "remove":
            found.append(
                "enroot_pyxis_duplicates: remove would change lines that this role did not write, and safe mode "
                "forbids "
                "it: set enroot_pyxis_safe_mode: false as well"
            )
        return found

    @property
    def build_version(self) -> str:
        """The version of Pyxis to build if no plugin fits; empty if the role installs nothing."""
        return "" if self.source == "preinstalled" else self.pyxis_version


# Further options of the role enroot_pyxis: its variables without their prefix, and four more. docker: whether this
# node gets Docker. artifacts: the table of ``downloads.artifact``. runtime_sha256: checksum of the runtime that the
# controller would install, empty for none. probe: when the look starts a container: always, never, or unproved (it
# finds nothing to do and no proof of an earlier start).
ROLE_SPEC = {
    **ARGUMENT_SPEC,
    "plugin_options": {"type": "dict", "default": {"container_scope": "global"}},
    "hooks": {"type": "list", "elements": "str", "default": ["50-slurm-pmi.sh", "50-slurm-pytorch.sh"]},
    **argument_types.spec_of(
        RoleConfig,
        source={"choices": ["auto", "preinstalled", "mirror", "local", "upstream"]},
        slurmd_restart={"choices": ["idle", "none"]},
        probe={"choices": ["never", "unproved", "always"]},
    ),
}


def parse_role(raw: t.Mapping[str, t.Any]) -> RoleConfig:
    """Return a ``RoleConfig`` from options of ``ROLE_SPEC``; missing or null options have their defaults."""
    own = argument_types.given(raw, {key: ROLE_SPEC[key] for key in ROLE_SPEC if key not in ARGUMENT_SPEC})
    return RoleConfig(enroot=parse_config(raw), **own)


def role_problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each option error, with the full variable names; such options work on no node."""
    unreadable = list(argument_types.problems(raw, ROLE_SPEC))
    if unreadable:
        return unreadable
    config = parse_role(raw)
    found = [_with_variable(problem) for problem in problems(config.enroot)]
    found += config.replacements
    for name, checksum in config.checksums.items():
        if not re.fullmatch(r"[0-9a-f]{64}", str(checksum)):
            found.append(f"{name} in enroot_pyxis_checksums is not a sha256: use 64 hexadecimal digits")
    return found


def _with_variable(problem: str) -> str:
    """Return a sentence that begins with an option, with the role's variable instead."""
    return f"enroot_pyxis_{problem}" if problem.partition(" ")[0] in ROLE_SPEC else problem


def config_text(config: EnrootConfig) -> str:
    """Return the content of CONFIG_PATH, which gives the boot unit the same options."""
    return json.dumps({"schema": CONFIG_SCHEMA, **dataclasses.asdict(config)}, indent=2, sort_keys=True) + "\n"


def parse_config(raw: t.Mapping[str, t.Any]) -> EnrootConfig:
    """Return an ``EnrootConfig`` from the module's parameters; missing or null parameters have their defaults."""
    return EnrootConfig(**argument_types.given(raw, ARGUMENT_SPEC))


def problems(config: EnrootConfig) -> list[str]:
    """Return one sentence for each option error; such options work on no node."""
    found = pyxis_options.option_problems(config.plugin_options, "999")
    found += enroot_conf.setting_problems(config.conf)
    found += enroot_local.config_problems(config.local)
    found += enroot_credentials.problems(config.credentials)
    root = config.docker_data_root
    if root not in ("", "auto") and (not root.startswith("/") or ".." in root.split("/") or root == "/"):
        found.append(f"docker_data_root is {root!r}: use auto, an empty string, or an absolute path without '..'")
    if "data-root" in config.docker_daemon:
        found.append("docker_daemon has the key data-root: set the directory with docker_data_root instead")
    for hook in config.hooks:
        if hook not in HOOKS:
            found.append(f"hooks has {hook}, which is not an optional hook of Enroot: choose from {', '.join(HOOKS)}")
    for name in ("slurm_prefix", "slurm_conf_dir"):
        path = getattr(config, name)
        if path and not re.fullmatch(r"/[A-Za-z0-9._/+-]+", path):
            found.append(f"{name} is {path!r}: use an absolute path of letters, digits, '.', '_', '-', '+' and '/'")
    if config.smoke_image and not config.smoke_image.startswith("/"):
        found.append(f"smoke_image is {config.smoke_image!r}: use the absolute path of a .sqsh file")
    if config.smoke_image and not config.smoke_users:
        found.append("smoke_image is set and smoke_users is empty: name at least one ordinary user, better two")
    found += [f"smoke_users has {user!r}: use a user name" for user in config.smoke_users if not _is_user(user)]
    if "root" in config.smoke_users:
        found.append(
            "smoke_users has root: use ordinary users, since a container of root does not prove that they can start one"
        )
    for name, minimum in (("runtime_min_mib", 0), ("max_user_namespaces", 2), ("smoke_seconds", 5)):
        if getattr(config, name) < minimum:
            found.append(f"{name} is {getattr(config, name)}: it must be {minimum} or more")
    return found


def _is_user(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}", name) is not None


def load_config(host: EnrootHost, path: str) -> EnrootConfig:
    """Return the options from enroot.json. Raises NodeError with one sentence if it is missing or invalid."""
    raw = read_config(host, path, "enroot_pyxis")
    if not isinstance(raw, dict) or raw.get("schema") != CONFIG_SCHEMA:
        raise NodeError(f"{path} does not have the schema {CONFIG_SCHEMA}: run the role enroot_pyxis again to write it")
    config = parse_config(raw)
    found = problems(config)
    if found:
        raise NodeError(f"{path}: {'; '.join(found)}")
    return config
