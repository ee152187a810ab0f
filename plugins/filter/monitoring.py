# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the playbooks monitor_cluster and check_nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import heal
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _prometheus


def prometheus_config(text: str, rule_file: str, jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return prometheus.yml with our rules and scrape jobs."""
    try:
        return _prometheus.merged(text, rule_file, jobs)
    except ValueError as exc:
        raise AnsibleFilterError(f"prometheus.yml was not changed: {exc}") from exc


def heal_journal(text: str) -> list[str]:
    """Return a line for each event in the journal of ``mlcluster heal``, the newest last."""
    return [heal.shown(event) for event in heal.parse_journal(text)]


class FilterModule:
    """The filters of this file, for Ansible's loader."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "heal_journal": heal_journal,
            "prometheus_config": prometheus_config,
            "prometheus_jobs": _prometheus.scrape_jobs,
            "prometheus_targets": _prometheus.targets,
        }
