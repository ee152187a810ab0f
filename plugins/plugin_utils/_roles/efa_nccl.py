# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the role efa_nccl: downloads, its own files, and the host that builds nccl-tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts

_ROW = ("url", "sha256", "sha256_source", "signature_url", "key_url")


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of the download table, and whether this node builds nccl-tests."""
    builder = str(variables["efa_nccl_tests_builder"])
    locks = _locks(variables)
    wanted = (
        ("artifact", "aws-efa-installer", variables["efa_nccl_installer_version"]),
        ("tests_artifact", "nccl-tests", variables["efa_nccl_tests_version"]),
    )
    rows = {option: _artifacts.find(name, version=str(version), locks=locks) for option, name, version in wanted}
    return {
        **{option: {key: row[key] for key in _ROW} for option, row in rows.items()},
        "builds_tests": builder in ("", str(variables["inventory_hostname"])),
    }


def controller_problems(variables: Mapping[str, Any]) -> list[str]:
    """Return the errors in files on the controller and in the name of the host that builds nccl-tests."""
    found = [*_file_problems(variables), *_builder_problems(variables)]
    try:
        _own_lock(variables)
    except _artifacts.ArtifactError as exc:
        found.append(f"efa_nccl_lock_file: {exc}")
    return found


def _own_lock(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _artifacts.read_lock(variables["efa_nccl_lock_file"]) if "efa_nccl_lock_file" in variables else []


def _locks(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of both locks, and a problem for an unreadable lock, which has none."""
    locks: list[dict[str, Any]] = []
    with contextlib.suppress(_artifacts.ArtifactError):
        locks += _own_lock(variables)
    return locks + _artifacts.read_lock(_artifacts.collection_lock())


def _file_problems(variables: Mapping[str, Any]) -> Iterator[str]:
    file, key = str(variables["efa_nccl_installer_file"]), str(variables["efa_nccl_signing_key"])
    needed = {}
    if variables["efa_nccl_installer_source"] == "local":
        needed["efa_nccl_installer_file"] = file
        if file and boolean(variables["efa_nccl_check_signature"], strict=False):
            needed["the signature beside efa_nccl_installer_file"] = f"{file}.sig"
            if not key:
                needed["the signing key beside efa_nccl_installer_file"] = os.path.join(
                    os.path.dirname(file), "aws-efa-installer.key"
                )
    if key:
        needed["efa_nccl_signing_key"] = key
    for what, path in needed.items():
        if not os.path.isabs(path):
            yield f"{what} is {path!r}: use an absolute path on the controller"
        elif not os.path.isfile(path):
            yield f"{what} is {path!r} and there is no such file on the controller"


def _builder_problems(variables: Mapping[str, Any]) -> Iterator[str]:
    builder = str(variables["efa_nccl_tests_builder"])
    # With an unknown host name no host would build them.
    if builder and "groups" in variables and builder not in variables["groups"].get("all", [builder]):
        yield "efa_nccl_tests_builder is not a host of the inventory: set it to the name of one, or leave it out"
