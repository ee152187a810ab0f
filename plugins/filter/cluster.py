# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters for a cluster: its configuration, the review of one, and its network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import network
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import config as _cluster_config
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import deletion as _cluster_deletion
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import lint as _cluster_lint
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import problems as _cluster_problems
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import stage as _cluster_stage


def cluster_plan(
    settings: dict[str, Any], network: dict[str, Any] | None = None, identifiers: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return problems of the variables, placeholders and unjudged values, the configuration, and its totals."""
    settings = _cluster_problems.coerce_settings(settings)
    problems = _cluster_problems.problems(settings)
    answer = {"problems": problems, "placeholders": _cluster_problems.placeholders(settings, network or {})}
    if problems:
        return {**answer, "notes": [], "config": None, "totals": None}
    config = _cluster_config.render(settings, network or _cluster_config.NETWORK, identifiers or {})
    answer["notes"] = _cluster_problems.notes(settings)
    return {**answer, "config": config, "totals": _cluster_config.totals(settings)}


def cluster_review(config: dict[str, Any], offered: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the known mistakes of a configuration, and a corrected copy."""
    return _cluster_lint.review(config, offered)


def cluster_verdict(review: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Merge our review and ParallelCluster's own answer."""
    return _cluster_lint.verdict(review, answer)


def cluster_deletion_plan(config: str) -> dict[str, Any]:
    """Return what is deleted and what is kept when the cluster of this configuration is deleted."""
    return _cluster_deletion.deletion_plan(config)


def network_plan(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the missing parts of a network."""
    port = argument_types.coerce("an integer", wanted["grafana_port"])
    return network.plan(found, {**wanted, "grafana_port": port})


def stage_plan(uploads: list[dict[str, Any]], buckets: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the problems of buckets and uploads, and the uploads with all their keys."""
    return _cluster_stage.plan(buckets, uploads)


def bucket_policy(existing: str, own: dict[str, Any]) -> dict[str, Any]:
    """Return a bucket's policy with our statements added to existing ones."""
    return _cluster_stage.policy(existing, own)


class FilterModule:
    """The filters ``mlcluster.aws.cluster_plan`` and the others of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "cluster_plan": cluster_plan,
            "cluster_review": cluster_review,
            "cluster_verdict": cluster_verdict,
            "cluster_deletion_plan": cluster_deletion_plan,
            "network_plan": network_plan,
            "stage_plan": stage_plan,
            "bucket_policy": bucket_policy,
        }
