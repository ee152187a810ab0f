# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the role enroot_pyxis: artifacts with checksums, and whether Docker is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible import constants
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts, _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._data.artifacts import ARTIFACTS, PUBLISHED

NAMES = ("enroot", "enroot-caps", "pyxis")


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return artifacts, docker and runtime_sha256; without a readable lock only checksums of the table."""
    return {
        "artifacts": artifact_table(_locks()[0]),
        "docker": wants_docker(variables),
        "runtime_sha256": _runtime.run_sum(constants.DEFAULT_LOCAL_TMP),
    }


def controller_problems(variables: Mapping[str, Any]) -> list[str]:
    """Return why the artifact lock cannot be read, a sentence; empty if it can, or if there is no lock."""
    return _locks()[1]


def _locks() -> tuple[list[dict[str, Any]], list[str]]:
    try:
        return _artifacts.read_lock(_artifacts.collection_lock()), []
    except _artifacts.ArtifactError as exc:
        return [], [str(exc)]


def wants_docker(variables: Mapping[str, Any]) -> bool:
    """Return whether Docker belongs on this node: images are not built on a login node."""
    groups = set(variables.get("group_names") or ())
    only_login = "login" in groups and not groups & {"head", "compute"}
    return bool(boolean(variables.get("enroot_pyxis_docker_enabled", True), strict=False)) and not only_login


def artifact_table(locks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each artifact of the role by name and platform, with its url and the known sha256 by version.

    The node determines the version it needs: that of the installed Enroot, for its capabilities.
    """
    found = []
    for row in ARTIFACTS:
        if row["name"] not in NAMES:
            continue
        known = [
            entry for entry in locks if (entry.get("name"), entry.get("platform")) == (row["name"], row["platform"])
        ]
        versions = [row["version"], *PUBLISHED.get(row["name"], {"sha256": {}})["sha256"]]
        versions += [str(entry["version"]) for entry in known if entry.get("version")]
        sums = {
            version: _artifacts.find(row["name"], row["platform"], version, list(map(dict, locks)))["sha256"]
            for version in dict.fromkeys(versions)
        }
        kept = {version: digest for version, digest in sums.items() if digest}
        found.append({"name": row["name"], "platform": row["platform"], "url": row["url"], "sums": kept})
    return found
