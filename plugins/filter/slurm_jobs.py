# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of the role slurm_jobs: what each script says, and how a value becomes one word of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import parse as slurm_parse
from ansible_collections.mlcluster.aws.plugins.plugin_utils._slurm import jobs as _slurm_jobs


def slurm_jobs_model(settings: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The jobs, and everything that is wrong with the settings or does not fit the cluster."""
    return _slurm_jobs.model(settings, facts)


def slurm_jobs_quote(value: object) -> str:
    """A value as one word of a shell. Raises AnsibleFilterError for what is no single text."""
    try:
        return _slurm_jobs.quote(value)
    except ValueError as exc:
        raise AnsibleFilterError(f"slurm_jobs_quote: {exc}") from exc


def slurm_nodes(text: str) -> list[dict[str, Any]]:
    """The nodes in what ``scontrol --oneliner show node`` prints, judged by the one table of states."""
    return slurm_parse.nodes(text)


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "slurm_jobs_model": slurm_jobs_model,
            "slurm_jobs_quote": slurm_jobs_quote,
            "slurm_nodes": slurm_nodes,
        }
