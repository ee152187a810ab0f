# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the contents of a training image, and check that it can be built. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.downloads import downloads
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.versions import at_least, version_key

_BASE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_REPOSITORY = re.compile(r"[A-Za-z0-9.-]+(?::\d+)?/[a-z0-9][a-z0-9._/-]*")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")

# Components of the container scan and their packages; names of NCCL and CUDA end in CUDA's major version.
_COMPONENTS = {
    "pytorch": r"torch",
    "megatron": r"megatron-core",
    "nccl": r"nvidia-nccl-cu\d+",
    "cuda": r"cuda-toolkit",
}
# Kernel module and limits belong to the hosts.
_EFA_ARGUMENTS = ("-y", "--skip-kmod", "--skip-limit-conf", "--no-verify")


def recipe(options: Mapping[str, Any], efa: Mapping[str, Any], requirements: str, template: str) -> dict[str, Any]:
    """Return the build plan, as the module training_image returns it, and ``problems``, sentences.

    ``options`` are those of that module; ``efa`` is the installer as an artifact; ``requirements`` is the text of a pip
    requirements file, where each package has its version and checksums; ``template`` that of the Dockerfile.
    """
    found = downloads(
        [efa],
        options["source"],
        options["mirror_url"],
        options["local_files"],
        options["checksums"],
        options["file_names"],
    )
    pins = _pins(requirements)
    versions = {name: _version(pins, pattern) for name, pattern in _COMPONENTS.items()}
    made = {
        "versions": {**{name: version for name, version in versions.items() if version}, "efa": efa["version"]},
        "archive": found["files"][0]["file"],
        "efa_arguments": [*_EFA_ARGUMENTS, *(["--disable-ngc"] if _knows_ngc(efa["version"]) else [])],
    }
    # Named by its contents: the same recipe is built once.
    whole = [made, options["base"], options["name"], requirements, template]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]
    push, arguments = options["push"], sorted(options["build_arguments"].items())
    return {
        **made,
        "problems": [*_setting_problems(options), *_requirement_problems(requirements, pins), *found["problems"]],
        "registries": _registries(options),
        "requirements": requirements,
        "files": found["files"],
        "build_arguments": [word for name, value in arguments for word in ("--build-arg", f"{name}={value}")],
        "tag": f"{options['name']}:{digest}",
        "remote": f"{push}:{digest}" if push else "",
    }


def _knows_ngc(version: str) -> bool:
    # awslabs/awsome-distributed-ai, nccl-tests.Dockerfile: without the argument, installer 1.50 treats an NGC CUDA
    # image as one that has its libraries already.
    return at_least(version_key(version), (1, 50, 0))


def _registries(options: Mapping[str, Any]) -> list[str]:
    """Return the registries whose password comes from a command."""
    names = [str(options[name]) for name in ("base", "push")]
    given = [str(entry.get("machine", "")) for entry in options["credentials"]]
    return sorted({*given, *(name.partition("/")[0] for name in names if _is_ecr(name))})


def _setting_problems(settings: Mapping[str, Any]) -> list[str]:
    found = []
    if not _BASE.fullmatch(str(settings["base"])):
        found.append(
            f"enroot_pyxis_image_base is {settings['base']!r}: use an image with Ubuntu 24.04 and the CUDA toolkit by "
            "its digest, NAME:TAG@sha256:..., as 'docker buildx imagetools inspect NAME:TAG' shows it"
        )
    if not _NAME.fullmatch(str(settings["name"])):
        found.append(
            f"enroot_pyxis_image_name is {settings['name']!r}: small letters, digits, '.', '_' and '-' make it"
        )
    directory = str(settings["directory"])
    if not directory.startswith("/") or ".." in directory.split("/"):
        found.append(f"enroot_pyxis_image_directory is {directory!r}: use an absolute path that all nodes see")
    if settings["push"] and not _REPOSITORY.fullmatch(str(settings["push"])):
        found.append(f"enroot_pyxis_image_push is {settings['push']!r}: use REGISTRY/REPOSITORY without a tag")
    for name, value in settings["build_arguments"].items():
        if not _ARGUMENT.fullmatch(str(name)) or re.search(r"[\r\n\0]", str(value)):
            found.append(f"enroot_pyxis_image_build_arguments has {name!r}: a name of letters, and a value of one line")
    return found


def _requirement_problems(text: str, pins: Mapping[str, str]) -> list[str]:
    problem = "the requirements of the image"
    found = []
    starts = [*_PIN.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    for match, end in zip(starts, ends):
        if not _HASH.search(text[match.start() : end]):
            name = match.group(1)
            found.append(f"{problem} have no checksum for {name}: lock them with 'uv pip compile --generate-hashes'")
    if re.search(r"^\s*(?:-e|--index-url|--extra-index-url|--trusted-host|git\+|https?:)", text, re.MULTILINE):
        found.append(f"{problem} name a place to fetch from: use packages with versions and checksums only")
    for component in ("pytorch", "megatron"):
        if _version(pins, _COMPONENTS[component]) is None:
            found.append(f"{problem} lack {_COMPONENTS[component]}, so no training would run in it")
    return found


def _pins(text: str) -> dict[str, str]:
    return dict(_PIN.findall(text))


def _version(pins: Mapping[str, str], pattern: str) -> str | None:
    return next((version for name, version in pins.items() if re.fullmatch(pattern, name)), None)


def _is_ecr(reference: str) -> bool:
    return re.match(r"\d{12}\.dkr\.ecr[.-]", reference) is not None
