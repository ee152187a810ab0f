# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the role fsx_lustre: names of file systems, the head node, the runtime."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre import names

REGIONS = ("fsx_lustre_region", "ec2_region", "cluster_region")
FROM_ENVIRONMENT = ("AWS_REGION", "AWS_DEFAULT_REGION")


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return file_systems with names instead of identifiers, head_node and runtime_sha256."""
    return {
        "file_systems": _file_systems(variables)[0],
        "head_node": is_head(variables),
        "runtime_sha256": _runtime.run_sum(constants.DEFAULT_LOCAL_TMP),
    }


def controller_problems(variables: Mapping[str, Any]) -> list[str]:
    """Return the errors in identifiers, in FSx's answer, and in an EFA set-up on the controller."""
    client = str(variables.get("fsx_lustre_efa_client") or "")
    return [*_file_systems(variables)[1], *_efa_client_problems(client, variables.get("fsx_lustre_efa_client_sha256"))]


def _efa_client_problems(client: str, wanted: Any) -> list[str]:
    """Check the sha256 of a file on the controller; a downloaded file is checked on the node."""
    if not client.startswith("/"):
        return []
    try:
        found = hashlib.sha256(Path(client).read_bytes()).hexdigest()
    except OSError as exc:
        return [f"fsx_lustre_efa_client is {client} and cannot be read ({exc.strerror or exc}): check that it exists"]
    if not wanted or found == wanted:
        return []
    problem = (
        f"{client} has the sha256 {found} and not that of fsx_lustre_efa_client_sha256, and nothing was set up: "
        "inspect the file"
    )
    return [problem]


def is_head(variables: Mapping[str, Any]) -> bool:
    """Return whether this node creates what all nodes share: as set, by its group, or as the boot hook found."""
    setting = variables.get("fsx_lustre_head_node")
    if setting is not None:
        return bool(boolean(setting, strict=False))
    return "head" in (variables.get("group_names") or ()) or variables.get("configure_node_kind") == "head"


def _file_systems(variables: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Return the file systems with their known names, and the problems. FSx is queried once in a run."""
    systems = variables.get("fsx_lustre_file_systems") or []
    problems = names.entry_problems(systems)
    wanted = names.unnamed(systems)
    known: dict[str, dict[str, Any]] = {}
    if wanted and not problems:
        region = _region(variables)
        if variables.get("configure_node_kind", "head") != "head":
            problems = [names.BOOT.format(ids=", ".join(wanted))]
        elif not region:
            problems = [names.NO_REGION]
        else:
            account = {"region": region, "profile": variables.get("fsx_lustre_profile") or None}
            folder = str(constants.DEFAULT_LOCAL_TMP)
            known, problems = names.ask_once(wanted, lambda: _identifiers_of_others(variables), account, folder)
    found, conflicts = names.with_names(systems, known)
    return found, [*problems, *conflicts]


def _region(variables: Mapping[str, Any]) -> str:
    candidates = [variables.get(name) for name in REGIONS] + [os.environ.get(name) for name in FROM_ENVIRONMENT]
    return next((str(region) for region in candidates if region), "")


def _identifiers_of_others(variables: Mapping[str, Any]) -> Iterator[str]:
    """Return the identifiers of the other hosts of the play, as far as their variables can be read."""
    hostvars = variables.get("hostvars") or {}
    for host in variables.get("ansible_play_hosts_all") or ():
        # Problems of another host's variables are reported by that host.
        with contextlib.suppress(AnsibleError, KeyError, TypeError):
            yield from names.unnamed(hostvars[host].get("fsx_lustre_file_systems") or [])
