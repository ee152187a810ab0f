# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""System packages: what is missing, and how it is installed."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from . import containers

PINNED_RELEASE = ("debian", "12")


class SetupError(Exception):
    """Set-up cannot continue; the message is one sentence for the user."""


@dataclass(frozen=True)
class Package:
    """One line of the package list.

    ``name`` is the Debian package, ``glob`` the version pattern that was tested.
    """

    name: str
    glob: str


def parse_list(text: str) -> list[Package]:
    """Read ``NAME=GLOB`` lines; blank lines and ``#`` comments are skipped."""
    packages = []
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            name, _sep, glob = line.partition("=")
            packages.append(Package(name, glob or "*"))
    return packages


def release(text: str) -> tuple[str, str, bool]:
    """Read os-release text: (ID, VERSION_ID, whether it is of the Debian family)."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    fields = {key: value.strip("\"'") for key, value in fields.items()}
    family = {fields.get("ID", ""), *fields.get("ID_LIKE", "").split()}
    return fields.get("ID", "unknown"), fields.get("VERSION_ID", "unknown"), bool(family & {"debian", "ubuntu"})


def installed(names: list[str]) -> dict[str, str]:
    """Return the version of each installed package of ``names``, by dpkg."""
    query = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${db:Status-Status}\n", *names],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split("\t") for line in query.stdout.splitlines()]
    return {name: version for name, version, status in rows if status == "installed"}


def other_versions(packages: list[Package], have: dict[str, str]) -> list[str]:
    """Return ``name version`` of each package whose installed version is not the tested one."""
    return [
        f"{package.name} {have[package.name]}"
        for package in packages
        if package.name in have and not fnmatch.fnmatchcase(have[package.name], package.glob)
    ]


def apt_command(euid: int, has_sudo: bool, interactive: bool) -> list[str] | None:
    """Return how apt-get is called here, or None when this user may not install packages."""
    options = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q"]
    if euid == 0:
        return options
    if not has_sudo:
        return None
    # Without a terminal a password prompt would hang for ever: fail at once instead.
    return ["sudo", *([] if interactive else ["-n"]), *options]


def ensure(list_file: Path, show) -> None:
    """Install what is missing of the packages in ``list_file``.

    ``show`` prints one progress line. Raises SetupError naming the missing packages when they
    cannot be installed.
    """
    name, version, debian_like = release(Path("/etc/os-release").read_text(encoding="utf-8"))
    packages = parse_list(list_file.read_text(encoding="utf-8"))
    if not debian_like or not shutil.which("dpkg-query"):
        raise SetupError(
            f"The build needs Debian or Ubuntu packages and this is {name} {version}: "
            f"run it on Debian 12, or in a Debian 12 virtual machine."
        )
    pinned = (name, version) == PINNED_RELEASE
    have = installed([package.name for package in packages])
    missing = [package for package in packages if package.name not in have]
    if not pinned:
        show(f"WARNING: tested on Debian 12, this is {name} {version}: package versions are taken as they come.")
    elif strange := other_versions(packages, have):
        show(f"WARNING: not the tested versions, kept as they are: {', '.join(strange)}.")
    if not missing:
        return
    names = " ".join(package.name for package in missing)
    command = apt_command(os.geteuid(), shutil.which("sudo") is not None, sys.stdin is not None and sys.stdin.isatty())
    if command is None:
        raise SetupError(
            f"These packages are missing and neither root nor sudo is at hand: "
            f"ask an administrator to run: apt-get install {names}"
        )
    show(f"apt: installing {names}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    wanted = [f"{package.name}={package.glob}" if pinned else package.name for package in missing]
    # The option above is for installing alone: two that update the lists at once do not wait for each other.
    with containers.locked("apt"):
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *wanted]):
            if subprocess.run([*command, *arguments], env=environment, stdin=None, check=False).returncode:
                raise SetupError(
                    f"apt-get {arguments[0]} failed (its words are above): "
                    f"mend that, or install these by hand and try again: {names}"
                )
