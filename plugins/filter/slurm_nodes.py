# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's data on its nodes, for playbooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import parse as slurm_parse


def slurm_nodes(text: str) -> list[dict[str, Any]]:
    """Parse the nodes in the output of ``scontrol --oneliner show node``, with the shared table of states."""
    return slurm_parse.nodes(text)


class FilterModule:
    """The filter of this file, for Ansible's loader."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"slurm_nodes": slurm_nodes}
