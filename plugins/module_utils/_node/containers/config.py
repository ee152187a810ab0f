# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a site wants of containers on its nodes: the options, their defaults and their limits."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ..system.config_file import read_config
from ..system.host import NodeError
from . import credentials as enroot_credentials
from . import enroot_conf, pyxis_options
from . import local_directories as enroot_local
from .host import EnrootHost

CONFIG_PATH = "/etc/mlcluster/enroot.json"
CONFIG_SCHEMA = "mlcluster.enroot_config/1"

ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "slurm_prefix": {"type": "str", "default": ""},
    "slurm_conf_dir": {"type": "str", "default": ""},
    "plugin_options": {"type": "dict", "default": {}},
    "plugstack_mode": {"type": "str", "choices": ["optional", "required"], "default": "optional"},
    "plugstack_include": {"type": "str", "choices": ["auto", "glob", "file"], "default": "auto"},
    "manage_plugstack": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
    "duplicates": {"type": "str", "choices": ["report", "remove"], "default": "report"},
    "local_dir": {"type": "str", "default": ""},
    "local_subdirectory": {"type": "str", "default": "containers"},
    "fallback_dir": {"type": "str", "default": "/var/lib/mlcluster-containers"},
    "conf": {"type": "dict", "default": {}},
    "conf_owner": {"type": "str", "choices": ["dropin", "role"], "default": "dropin"},
    "hooks": {"type": "list", "elements": "str", "default": []},
    "runtime_min_mib": {"type": "int", "default": 256},
    "max_user_namespaces": {"type": "int", "default": 65536},
    "caps": {"type": "bool", "default": True},
    "credentials": {"type": "list", "elements": "dict", "default": [], "options": enroot_credentials.OPTIONS},
    "docker": {"type": "bool", "default": False},
    "docker_data_root": {"type": "str", "default": "auto"},
    "docker_daemon": {"type": "dict", "default": {}},
    "toolkit_version": {"type": "str", "default": ""},
    "smoke_image": {"type": "str", "default": ""},
    "smoke_users": {"type": "list", "elements": "str", "default": []},
    "smoke_seconds": {"type": "int", "default": 120},
}

# The hooks that Enroot ships besides the ones it always runs (conf/hooks/extra of NVIDIA/enroot).
HOOKS = ("50-mig-config.sh", "50-sharp.sh", "50-slurm-pmi.sh", "50-slurm-pytorch.sh")


@dataclasses.dataclass(frozen=True)
class EnrootConfig:
    """The wishes, by the names of the module's options; sizes in MiB, times in seconds."""

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
        """The part that the boot unit goes by."""
        return enroot_local.LocalConfig(self.local_dir, self.local_subdirectory, self.fallback_dir)

    @property
    def runtime_path(self) -> str:
        """Where Pyxis keeps a job's own files (its default is in config.c of NVIDIA/pyxis)."""
        return str(self.plugin_options.get("runtime_path", "/run/pyxis"))


def config_text(config: EnrootConfig) -> str:
    """What CONFIG_PATH has to hold for the boot unit to want the same."""
    return json.dumps({"schema": CONFIG_SCHEMA, **dataclasses.asdict(config)}, indent=2, sort_keys=True) + "\n"


def parse_config(raw: t.Mapping[str, t.Any]) -> EnrootConfig:
    """The wishes from the module's parameters; those left out or null have their defaults."""
    values = {key: raw[key] for key in ARGUMENT_SPEC if raw.get(key) is not None}
    for key in ("hooks", "smoke_users", "credentials"):
        if key in values:
            values[key] = tuple(values[key])
    return EnrootConfig(**values)


def problems(config: EnrootConfig) -> list[str]:
    """Every reason, a sentence each, why no node could carry the wishes out."""
    found = pyxis_options.option_problems(config.plugin_options, "999")
    found += enroot_conf.setting_problems(config.conf)
    found += enroot_local.config_problems(config.local)
    found += enroot_credentials.problems(config.credentials)
    root = config.docker_data_root
    if root not in ("", "auto") and (not root.startswith("/") or ".." in root.split("/") or root == "/"):
        found.append(f"docker_data_root is {root!r}: give auto, nothing, or an absolute path without '..'")
    if "data-root" in config.docker_daemon:
        found.append("docker_daemon has data-root: set docker_data_root for that")
    for hook in config.hooks:
        if hook not in HOOKS:
            found.append(f"there is no hook {hook} that Enroot ships besides its own: it has {', '.join(HOOKS)}")
    for name in ("slurm_prefix", "slurm_conf_dir"):
        path = getattr(config, name)
        if path and not re.fullmatch(r"/[A-Za-z0-9._/+-]+", path):
            found.append(f"{name} is {path!r}: give an absolute path of letters, digits, '.', '_', '-', '+' and '/'")
    if config.smoke_image and not config.smoke_image.startswith("/"):
        found.append(f"smoke_image is {config.smoke_image!r}: give the absolute path of a .sqsh file")
    if config.smoke_image and not config.smoke_users:
        found.append("smoke_image is set and smoke_users is empty: name one ordinary user, better two, to try it as")
    found += [f"smoke_users has {user!r}: that is no user name" for user in config.smoke_users if not _is_user(user)]
    if "root" in config.smoke_users:
        found.append("smoke_users has root: what works for root proves nothing for the people who run jobs")
    for name, least in (("runtime_min_mib", 0), ("max_user_namespaces", 2), ("smoke_seconds", 5)):
        if getattr(config, name) < least:
            found.append(f"{name} is {getattr(config, name)}: it has to be {least} or more")
    return found


def _is_user(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}", name) is not None


def load_config(host: EnrootHost, path: str) -> EnrootConfig:
    """Read enroot.json. Raises NodeError with one sentence where it is missing or wrong."""
    raw = read_config(host, path, "enroot_pyxis")
    if not isinstance(raw, dict) or raw.get("schema") != CONFIG_SCHEMA:
        raise NodeError(f"{path} is not of {CONFIG_SCHEMA}: run the role enroot_pyxis again to write it")
    config = parse_config(raw)
    found = problems(config)
    if found:
        raise NodeError(f"{path}: {'; '.join(found)}")
    return config
