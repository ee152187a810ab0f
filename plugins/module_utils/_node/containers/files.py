# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role writes on a node, each with its content."""

from __future__ import annotations

import posixpath
import typing as t

from ..system.units import starts_at_boot
from . import credentials as enroot_credentials
from . import docker as enroot_docker
from . import enroot_conf
from .config import CONFIG_PATH, EnrootConfig, config_text
from .host import EnrootHost
from .slurm import OWN_PLUGINS

UNIT = "mlcluster-containers.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
TMPFILES_PATH = "/etc/tmpfiles.d/mlcluster-enroot.conf"
SLURMD_PATH = "/etc/systemd/system/slurmd.service.d/50-mlcluster-enroot.conf"
SYSCTL_PATH = "/etc/sysctl.d/60-mlcluster-enroot.conf"
APPARMOR_PATH = "/etc/apparmor.d/mlcluster-enroot"
# The profile of Enroot's own package.
SHIPPED_APPARMOR = "/etc/apparmor.d/enroot"
# Names of both profiles in the kernel; older packages of Enroot name theirs after the program.
APPARMOR_PROFILES = ("mlcluster-enroot", "enroot", "/usr/bin/enroot-nsenter")
HOOKS = "/etc/enroot/hooks.d"
SHIPPED_HOOKS = "/usr/share/enroot/hooks.d"
RUNTIME_PATH = "/usr/local/lib/mlcluster/mlcluster.pyz"
COMMAND_PATH = "/usr/local/bin/mlcluster"
# Files that the role writes, or checks before it writes.
PATHS = (
    enroot_conf.CONF_PATH,
    enroot_conf.DROPIN_PATH,
    TMPFILES_PATH,
    CONFIG_PATH,
    UNIT_PATH,
    SLURMD_PATH,
    SYSCTL_PATH,
    APPARMOR_PATH,
    enroot_credentials.PATH,
    enroot_docker.DAEMON_PATH,
    enroot_docker.DROPIN_PATH,
    RUNTIME_PATH,
    COMMAND_PATH,
)
_HEADER = "# Written by the role mlcluster.aws.enroot_pyxis; changes are lost.\n"


def wanted_files(facts: t.Mapping[str, t.Any], config: EnrootConfig) -> list[dict[str, t.Any]]:
    """Return [{"path", "text", "part"}]; the text is None for a file of the role that is no longer wanted."""
    settings = enroot_conf.wanted_settings(config.conf, bool(config.credentials))
    own_conf = config.conf_owner == "role"
    slurm = facts["slurm"]
    sysctl = sysctl_text(facts["sysctl_text"], facts["kernel"], config)
    path_wanted = slurm["slurmd_unit"] and slurm["prefix"] not in ("/usr", "/usr/local")
    rows = [
        (enroot_conf.CONF_PATH if own_conf else enroot_conf.DROPIN_PATH, enroot_conf.conf_text(settings), "conf"),
        (TMPFILES_PATH, tmpfiles_text(config), "tmpfiles"),
        (CONFIG_PATH, config_text(config), "unit"),
        (UNIT_PATH, unit_text(), "unit"),
        (SLURMD_PATH, slurmd_text(slurm["bin_dir"]) if path_wanted else None, "slurmd"),
        (SYSCTL_PATH, sysctl, "sysctl"),
        (APPARMOR_PATH, apparmor_text() if _needs_profile(facts) else None, "apparmor"),
    ]
    rows.append((enroot_credentials.PATH, enroot_credentials.text(config.credentials), "credentials"))
    if own_conf:
        rows.append((enroot_conf.DROPIN_PATH, None, "conf"))
    return [{"path": path, "text": text, "part": part} for path, text, part in rows]


def run_directories(config: EnrootConfig) -> list[str]:
    """Return the directories in /run, which is empty after a boot."""
    own = [config.runtime_path] if config.runtime_path.startswith("/run/") else []
    return [enroot_conf.RUNTIME_DIRECTORY, *own]


def tmpfiles_text(config: EnrootConfig) -> str:
    """Return the tmpfiles.d file: all users may write to Enroot's directory, only root to that of Pyxis."""
    modes = dict.fromkeys(run_directories(config), "0755")
    modes[enroot_conf.RUNTIME_DIRECTORY] = "1777"
    return _HEADER + "".join(f"d {path} {mode} root root -\n" for path, mode in modes.items())


def unit_text() -> str:
    """Return the boot unit: it runs after services that mount local disks and before services that run jobs."""
    return _HEADER + (
        "[Unit]\n"
        "Description=Directory for container images on the local disks\n"
        "After=local-fs.target mlcluster-storage.service dlami-nvme.service setup-ephemeral.service\n"
        "Before=slurmd.service docker.service\n"
        f"ConditionPathExists={CONFIG_PATH}\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        "ExecStart=/usr/local/bin/mlcluster containers-boot\n"
        "TimeoutStartSec=60\n"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def unit_enabled(host: EnrootHost) -> bool:
    """Return whether systemd starts the boot unit at boot."""
    return starts_at_boot(host, UNIT)


def removable(host: EnrootHost, hooks: t.Iterable[str]) -> list[str]:
    """Return what a removal of the role deletes besides the files that it writes: links to hooks, and folders.

    A hook that is a file is a site's own, and so are environ.d, mounts.d and hooks.d, which Enroot reads beside the
    credentials.
    """
    paths = (posixpath.join(HOOKS, hook) for hook in hooks)
    links = [path for path in paths if (host.link_target(path) or "").startswith(f"{SHIPPED_HOOKS}/")]
    folder, own = posixpath.split(enroot_credentials.PATH)
    return [*links, OWN_PLUGINS, *([] if set(host.listdir(folder)) - {own} else [folder])]


def slurmd_text(bin_dir: str) -> str:
    """Return the drop-in that sets slurmd's PATH: Enroot's hooks call scontrol and would not find it."""
    return _HEADER + (
        f"[Service]\nEnvironment=PATH={bin_dir}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    )


def sysctl_text(now: str | None, kernel: t.Mapping[str, int | None], config: EnrootConfig) -> str | None:
    """Return the sysctl.d file that raises the limits, None if no limit needs it.

    Limits that the present file raises stay in it: without them the next boot would lower the limits.
    """
    kept = now or ""
    lines = []
    maximum = kernel["max_user_namespaces"]
    if (maximum is not None and maximum < config.max_user_namespaces) or "user.max_user_namespaces" in kept:
        lines.append(f"user.max_user_namespaces = {config.max_user_namespaces}")
    if kernel["unprivileged_userns_clone"] == 0 or "kernel.unprivileged_userns_clone" in kept:
        lines.append("kernel.unprivileged_userns_clone = 1")
    return _HEADER + "\n".join(lines) + "\n" if lines else None


def apparmor_text() -> str:
    """Return a profile that only permits user namespaces: Ubuntu 24.04 denies them to programs without a profile."""
    return _HEADER + (
        "abi <abi/4.0>,\n"
        "include <tunables/global>\n"
        "\n"
        "profile mlcluster-enroot /usr/bin/enroot-nsenter flags=(unconfined) {\n"
        "  userns,\n"
        "}\n"
    )


def _needs_profile(facts: t.Mapping[str, t.Any]) -> bool:
    return facts["kernel"]["apparmor_restrict_unprivileged_userns"] == 1 and not facts["shipped_apparmor"]
