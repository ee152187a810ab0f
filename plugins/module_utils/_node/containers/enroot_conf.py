# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""enroot.conf as Enroot reads it, and the settings that the role wants.

The first value that Enroot reads wins: the environment, then enroot.conf, then enroot.conf.d/*.conf in the order of
their names (config::export in enroot.in of NVIDIA/enroot). So a drop-in cannot change what enroot.conf sets.
Values are evaluated by bash.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t

from ..system.host import Host
from .credentials import CONFIG_PATH_VALUE

CONF_PATH = "/etc/enroot/enroot.conf"
# Before every other drop-in, since the first value wins.
DROPIN_PATH = "/etc/enroot/enroot.conf.d/00-mlcluster.conf"
OWN_COMMENT = "# Written by the role mlcluster.aws.enroot_pyxis; changes are lost."

RUNTIME_DIRECTORY = "/run/enroot"
# Link to the directory for images on the disks that the last boot found; see local_directories.
LOCAL_LINK = "/run/mlcluster/enroot"
_LOCAL = f"$(readlink -f {LOCAL_LINK})/user-$(id -u)"

# Without compression, images are unpacked as fast as local disks write. EFA needs /dev. The directory of a user is the
# first level below a directory that all users may write to; otherwise the second user could not create one.
DEFAULTS: dict[str, str] = {
    "ENROOT_RUNTIME_PATH": f"{RUNTIME_DIRECTORY}/user-$(id -u)",
    "ENROOT_DATA_PATH": f"{_LOCAL}/data",
    "ENROOT_CACHE_PATH": f"{_LOCAL}/cache",
    # Enroot creates the two directories above and their parent, but not ENROOT_TEMP_PATH: so it is that parent.
    "ENROOT_TEMP_PATH": _LOCAL,
    "ENROOT_CONFIG_PATH": "${HOME}/.config/enroot",
    "ENROOT_SQUASH_OPTIONS": "-noI -noD -noF -noX -no-duplicates",
    "ENROOT_ROOTFS_WRITABLE": "yes",
    "ENROOT_MOUNT_HOME": "no",
    "ENROOT_REMAP_ROOT": "no",
    "ENROOT_RESTRICT_DEV": "no",
}

_KEY = re.compile(r"(?:ENROOT_[A-Z_]+|(?:MELLANOX_|NVIDIA_)[A-Z_]*|SSL_CERT_(?:DIR|FILE)|(?:all|no|http|https)_proxy)")
_SPLIT = re.compile(r"[ \t]*([^ \t=]+)[ \t]*=?[ \t]*(.*)")


@dataclasses.dataclass(frozen=True)
class Setting:
    """A value and the file that sets it."""

    value: str
    source: str


def parse(text: str) -> dict[str, str]:
    """Return the settings of one file; the first value of a key wins. Other lines are skipped."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        found = _SPLIT.match(line)
        if found and _KEY.fullmatch(found.group(1)):
            settings.setdefault(found.group(1), found.group(2).rstrip())
    return settings


def effective(host: Host) -> dict[str, Setting]:
    """Return the effective settings of the node, each with its file."""
    settings: dict[str, Setting] = {}
    names = [name for name in host.listdir(CONF_PATH + ".d") if name.endswith(".conf") and not name.startswith(".")]
    for path in [CONF_PATH, *(posixpath.join(CONF_PATH + ".d", name) for name in names)]:
        for key, value in parse(host.read_text(path) or "").items():
            settings.setdefault(key, Setting(value, path))
    return settings


def wanted_settings(extra: t.Mapping[str, t.Any], credentials: bool = False) -> dict[str, str]:
    """Return the defaults updated with a site's settings; null removes a default.

    If the site has credentials, users without their own configuration use the site's.
    """
    merged: dict[str, t.Any] = {**DEFAULTS, **extra}
    if credentials and "ENROOT_CONFIG_PATH" not in extra:
        merged["ENROOT_CONFIG_PATH"] = CONFIG_PATH_VALUE
    return {key: _text(value) for key, value in merged.items() if value is not None}


def setting_problems(extra: t.Mapping[str, t.Any]) -> list[str]:
    """Return one sentence for each setting that Enroot would not read as intended."""
    problems = []
    for key, value in sorted(extra.items()):
        if not _KEY.fullmatch(key):
            problems.append(f"{key} is not a setting that Enroot reads: they begin with ENROOT_, NVIDIA_ or MELLANOX_")
        if value is not None and re.search(r"[\r\n]", str(value)):
            problems.append(f"the value of {key} has more than one line: Enroot reads one line a setting")
        if value is not None and re.search(r"[;&|<>`]", _without_substitutions(str(value))):
            problems.append(
                f"the value of {key} is {value!r}: Enroot gives it to bash, to which ; & | < > and ` are commands"
            )
    return problems


def conf_text(settings: t.Mapping[str, str]) -> str:
    """Return the content of a configuration file with these settings."""
    width = max(map(len, settings), default=0)
    return "\n".join([OWN_COMMENT, *(f"{key:{width}} {value}" for key, value in settings.items())]) + "\n"


def shadowed(host: Host, settings: t.Mapping[str, str], own: str) -> list[str]:
    """Return one sentence for each setting of the file ``own`` that an earlier file overrides with another value."""
    sentences = []
    for key, value in settings.items():
        now = effective(host).get(key)
        if now and now.source != own and now.value != value and (now.source == CONF_PATH or now.source < own):
            sentences.append(
                f"{now.source} sets {key} to {now.value} and the first value wins, so {own} cannot set it to {value}: "
                "set enroot_pyxis_conf_owner: role to replace enroot.conf (a copy is kept), or remove the line"
            )
    return sentences


def base_of(value: str) -> str | None:
    """Return the leading directory of a value, up to the first part that bash evaluates; None if there is none."""
    literal = re.split(r"[$`]", value, maxsplit=1)[0]
    if not literal.startswith("/"):
        return None
    return posixpath.normpath(literal if literal == value else posixpath.dirname(literal)) or None


def _text(value: t.Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _without_substitutions(value: str) -> str:
    return re.sub(r"\$\([^()]*\)|\$\{[^{}]*\}", "", value)
