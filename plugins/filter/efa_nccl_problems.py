# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the settings of the role efa_nccl on the controller, before a node is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_OPTION = re.compile(r"--?[a-z][a-z0-9=,-]*")
_NAME = re.compile(r"[a-z0-9][A-Za-z0-9+._-]*")
_UNIT = re.compile(r"[A-Za-z0-9@._-]+\.service")


def _installer(settings: Mapping[str, Any]) -> Iterator[str]:
    version, sha256 = settings["installer_version"], settings["installer_sha256"]
    if not _VERSION.fullmatch(str(version)):
        yield f"efa_nccl_installer_version is {version!r}: give a version such as 1.51.0"
    for name, value in (("installer_sha256", sha256), ("tests_sha256", settings["tests_sha256"])):
        if value and not _SHA256.fullmatch(str(value)):
            yield f"efa_nccl_{name} is {value!r}: give 64 hexadecimal digits"
    if not re.fullmatch(r"[0-9A-F]{40}", settings["fingerprint"]):
        yield f"efa_nccl_fingerprint is {settings['fingerprint']!r}: give 40 hexadecimal digits in capitals, no spaces"
    arguments = settings["installer_arguments"]
    strange = [word for word in arguments if not _OPTION.fullmatch(word) or word in ("-u", "--uninstall")]
    if strange:
        yield (
            f"efa_nccl_installer_arguments has {', '.join(strange)}: give options of efa_installer.sh, one an entry, "
            "without --uninstall"
        )
    if settings["installer_timeout"] < 60:
        yield f"efa_nccl_installer_timeout is {settings['installer_timeout']}: give 60 seconds or more"


def _source(settings: Mapping[str, Any]) -> Iterator[str]:
    source, mirror, file = settings["installer_source"], settings["mirror"], settings["installer_file"]
    if source == "mirror" and not re.fullmatch(r"(https?|s3)://[^\s/][^\s]*", mirror):
        yield (
            f"efa_nccl_mirror is {mirror!r}: give the base of the mirror, such as https://mirror.example.com/efa or "
            "s3://bucket/efa"
        )
    if source == "local" and not (file and os.path.isfile(file)):
        yield (
            f"efa_nccl_installer_file is {file!r} and there is no such file on the controller: give the path of "
            "aws-efa-installer-VERSION.tar.gz"
        )
    key = settings["signing_key"]
    if key and not os.path.isfile(key):
        yield f"efa_nccl_signing_key is {key!r} and there is no such file on the controller"


def _packages(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    for name, packages in lists.items():
        for package in packages:
            if not _NAME.fullmatch(package["name"]):
                yield f"{name} has {package['name']!r}: that is no name of a package"
            if re.search(r"[\s*?]|^$", package["version"]):
                yield f"{name} has {package['name']} {package['version']!r}: give one whole version"
            if package.get("url") and not _SHA256.fullmatch(package.get("sha256") or ""):
                yield f"{name} has {package['name']} with a url and no sha256: give its 64 hexadecimal digits"


def _paths(settings: Mapping[str, Any]) -> Iterator[str]:
    for name in ("tests_dir", "cuda_home", "mpi_home"):
        path = settings[name]
        if not os.path.isabs(path) or os.path.normpath(path) != path or path == "/":
            yield f"efa_nccl_{name} is {path!r}: give an absolute path of a directory of its own, without '..'"


def _node(settings: Mapping[str, Any]) -> Iterator[str]:
    units = [unit for unit in settings["limit_units"] if not _UNIT.fullmatch(unit)]
    if units:
        yield f"efa_nccl_limit_units has {', '.join(units)}: give names of services, such as slurmd.service"
    kept = [name for name in settings["needrestart_keep"] if not re.fullmatch(r"[A-Za-z0-9@._-]+", name)]
    if kept:
        yield f"efa_nccl_needrestart_keep has {', '.join(kept)}: give names of services, such as slurmd"
    if settings["ptrace_scope"] not in (-1, 0, 1, 2, 3):
        yield f"efa_nccl_ptrace_scope is {settings['ptrace_scope']}: give 0 to 3, or -1 to leave it alone"
    if not 0 <= settings["wait_seconds"] <= 600:
        yield f"efa_nccl_wait_seconds is {settings['wait_seconds']}: give 0 to 600"


def _environment(judged: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for entry in judged:
        if entry["verdict"] == "rename":
            yield f"efa_nccl_environment has {entry['name']}, which must be {entry['to']}: {_reason(entry)}"
        elif entry["verdict"] == "harmful":
            instead = f"; use {entry['to_value']}" if entry.get("to_value") else ""
            shown = f"{entry['name']}={entry['value']}"
            yield f"efa_nccl_environment has {shown}, which does harm: {_reason(entry)}{instead}"


def _reason(entry: Mapping[str, Any]) -> str:
    since = f", since {entry['since']}" if entry.get("since") else ""
    return f"{entry['why']} ({entry['source']}{since})"


def efa_nccl_problems(
    settings: Mapping[str, Any],
    packages: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    judged: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """A sentence for everything that no node could carry out.

    ``settings`` are the role's variables without their prefix, ``packages`` its lists of packages by variable,
    ``judged`` what the filter nccl_env_lint says of the user's environment.
    """
    return [
        *_installer(settings),
        *_source(settings),
        *_packages(packages or {}),
        *_paths(settings),
        *_node(settings),
        *_environment(judged),
    ]


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"efa_nccl_problems": efa_nccl_problems}
