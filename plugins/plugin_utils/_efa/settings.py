# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the settings of the role efa_nccl on the controller, before a node is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.versions import minima_problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import environment as nccl_env
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA256_WANTED = "give 64 hexadecimal digits in lower case"
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
# getopt(1) of the installer takes clusters of short options and any beginning of a long one.
_OPTION = re.compile(r"-[a-tv-z]|--(?!u[a-z]*(?:=|\Z))[a-z][a-z0-9-]*(?:=[a-z0-9.,_-]+)?")
_MAKE_ARGUMENT = re.compile(r"(?!(?:MPI|MPI_HOME|CUDA_HOME|SHELL|MAKEFLAGS)=)[A-Z][A-Z0-9_]*=[^\n]*")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
_PACKAGE_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~^_-]*")
_PACKAGE_URL = re.compile(r"https?://[^\s/@]+/\S+")
_HELD = re.compile(r"[A-Za-z0-9*][A-Za-z0-9+._*-]*")
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._-]*(?<!@)\.service")
_DAEMON = re.compile(r"[A-Za-z0-9@._-]+")


def _strange(words: Iterable[Any], pattern: re.Pattern[str]) -> str:
    """Those that are not of the pattern, in one line."""
    return ", ".join(repr(word) for word in words if not pattern.fullmatch(str(word)))


def _unset(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} has no value: give it one, or leave it out" for name, value in values.items() if value is None]


_SPEC: argument_types.Spec = {
    **{f"efa_nccl_{name}": {"type": "dict"} for name in ("environment", "minima")},
    **{
        f"efa_nccl_{name}": {"type": "list", "elements": "str"}
        for name in ("installer_arguments", "tests_arguments", "limit_units", "needrestart_keep", "hold_packages")
    },
}


def _of_another_kind(values: Mapping[str, Any], packages: Mapping[str, Any]) -> list[str]:
    pinned = {name: {"type": "list", "elements": "dict"} for name in packages}
    return list(argument_types.problems(values, {**_SPEC, **pinned}))


def _installer(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, example in (("installer_version", "1.51.0"), ("tests_version", "2.19.6")):
        if not _VERSION.fullmatch(str(settings[name])):
            yield f"efa_nccl_{name} is {settings[name]!r}: give a version such as {example}"
    for name in ("installer_sha256", "tests_sha256"):
        if settings[name] and not _SHA256.fullmatch(str(settings[name])):
            yield f"efa_nccl_{name} is {settings[name]!r}: {_SHA256_WANTED}"
    if not re.fullmatch(r"[0-9A-F]{40}", str(settings["fingerprint"])):
        yield f"efa_nccl_fingerprint is {settings['fingerprint']!r}: give 40 hexadecimal digits in capitals, no spaces"
    strange = _strange(settings["installer_arguments"], _OPTION)
    if strange:
        yield (
            f"efa_nccl_installer_arguments has {strange}: give options of efa_installer.sh, one an entry, without "
            "--uninstall"
        )
    strange = _strange(settings["tests_arguments"], _MAKE_ARGUMENT)
    if strange:
        yield (
            f"efa_nccl_tests_arguments has {strange}: give variables for make, such as NVCC_GENCODE=...; MPI is always "
            "on, and its and CUDA's places are efa_nccl_mpi_home and efa_nccl_cuda_home"
        )
    if settings["installer_timeout"] < 60:
        yield f"efa_nccl_installer_timeout is {settings['installer_timeout']}: give 60 seconds or more"


def _source(settings: Mapping[str, Any]) -> Iterator[str]:
    source, mirror = settings["installer_source"], str(settings["mirror"])
    if source == "mirror" and not re.fullmatch(r"(?:https?|s3)://[^\s/@?#]+(?:/[^\s?#]*)?", mirror):
        # Without the value where it may hold a password.
        shown = "has a name or password in it" if "@" in mirror else f"is {mirror!r}"
        yield (
            f"efa_nccl_mirror {shown}: give the base of the mirror and nothing else, such as "
            "https://mirror.example.com/efa or s3://bucket/efa"
        )
    file, key = str(settings["installer_file"]), str(settings["signing_key"])
    needed = {}
    if source == "local":
        needed["efa_nccl_installer_file"] = file
        if settings["check_signature"] and file:
            needed["the signature beside efa_nccl_installer_file"] = f"{file}.sig"
            if not key:
                needed["the signing key beside efa_nccl_installer_file"] = os.path.join(
                    os.path.dirname(file), "aws-efa-installer.key"
                )
    if key:
        needed["efa_nccl_signing_key"] = key
    for what, path in needed.items():
        if not os.path.isabs(path):
            yield f"{what} is {path!r}: give an absolute path on the controller"
        elif not os.path.isfile(path):
            yield f"{what} is {path!r} and there is no such file on the controller"


def _package(package: Mapping[str, Any]) -> Iterator[str]:
    name, version, url = str(package["name"]), str(package["version"]), package.get("url")
    if not _PACKAGE.fullmatch(name):
        yield f"{name!r}: that is no name of a package"
    if not _PACKAGE_VERSION.fullmatch(version):
        yield f"{name} {version!r}: give one whole version"
    if "url" in package and not _PACKAGE_URL.fullmatch(str(url)):
        yield f"{name} with a url that is none: give http:// or https://, a host and a path, without a password"
    if "url" in package and not _SHA256.fullmatch(str(package.get("sha256"))):
        yield f"{name} with a url and no sha256: {_SHA256_WANTED}"


def _packages(lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    seen: dict[str, Mapping[str, Any]] = {}
    for variable, packages in lists.items():
        for package in packages:
            for problem in _package(package):
                yield f"{variable} has {problem}"
            before = seen.setdefault(str(package["name"]), package)
            if before != package:
                yield f"{variable} has {package['name']}, which is pinned elsewhere in another way: pin it once"


def _paths(settings: Mapping[str, Any]) -> Iterator[str]:
    for name in ("tests_dir", "cuda_home", "mpi_home", "modulefile_dir"):
        path = str(settings[name])
        if name == "modulefile_dir" and not path:
            continue
        if not re.fullmatch(r"(?:/[A-Za-z0-9._+@-]+)+", path) or os.path.normpath(path) != path:
            yield (
                f"efa_nccl_{name} is {path!r}: give an absolute path of a directory of its own, without '..', of "
                "letters, digits and . _ + @ -"
            )


def _node(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, pattern, wanted in (
        ("limit_units", _UNIT, "names of services, such as slurmd.service"),
        ("needrestart_keep", _DAEMON, "names of services, such as slurmd"),
        ("hold_packages", _HELD, "names of packages, * for anything"),
    ):
        strange = _strange(settings[name], pattern)
        if strange:
            yield f"efa_nccl_{name} has {strange}: give {wanted}"
    if settings["ptrace_scope"] not in (-1, 0, 1, 2, 3):
        yield f"efa_nccl_ptrace_scope is {settings['ptrace_scope']}: give 0 to 3, or -1 to leave it alone"
    for name, least, most in (("wait_seconds", 0, 600), ("expected_devices", 0, 1000), ("huge_pages", 0, 1 << 24)):
        if name in settings and not least <= settings[name] <= most:
            yield f"efa_nccl_{name} is {settings[name]}: give {least} to {most}"
    for problem in minima_problems(settings["minima"]):
        yield f"efa_nccl_minima: {problem}"
    if not settings["tests_builder_known"]:
        yield "efa_nccl_tests_builder names no host of the inventory: give the name of one, or leave it out"


def _names_and_values(environment: Mapping[str, Any]) -> Iterator[str]:
    try:
        nccl_env.refuse_bad({str(name): str(value) for name, value in environment.items()})
    except NodeError as exc:
        yield f"efa_nccl_environment: {exc}"


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
    values = {**{f"efa_nccl_{name}": value for name, value in settings.items()}, **(packages or {})}
    unreadable = _unset(values) + _of_another_kind(values, packages or {})
    # The rest cannot be judged.
    if unreadable:
        return unreadable
    return [
        *_installer(settings),
        *_source(settings),
        *_packages(packages or {}),
        *_paths(settings),
        *_node(settings),
        *_names_and_values(settings["environment"]),
        *_environment(judged),
    ]
