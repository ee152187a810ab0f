# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs of a validation would wait, without an end in sight, for nodes that take no jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import parse as slurm_parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import request as slurm_request
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import states
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

Node = Mapping[str, Any]
# A constraint that asks for all its features of every node; what the others ask for is left to Slurm.
_ALL_OF = re.compile(r"[\w.-]+(&[\w.-]+)*")


def waits(
    jobs: Sequence[Mapping[str, Any]], options: Mapping[str, Any], facts: Mapping[str, Any], resumed: Collection[str]
) -> list[str]:
    """A sentence for each wish that more nodes would have to fulfil than take jobs, with the jobs that have it.

    ``jobs`` are those of the model, ``options`` what sbatch is given beside their scripts, ``facts`` what
    ``slurm_info`` returned, ``resumed`` the nodes that are made to take jobs before the submission.
    """
    found: dict[str, list[str]] = {}
    for job in jobs:
        own = {line["name"]: line["value"] for line in job["directives"]}
        asked = {name: None if value is None else str(value) for name, value in {**own, **options}.items()}
        try:
            problem = _problem(asked, facts, resumed)
        except NodeError as exc:
            problem = str(exc)
        if problem:
            found.setdefault(problem, []).append(job["name"])
    return [f"{', '.join(names)}: {problem}." for problem, names in found.items()]


def _problem(options: slurm_request.Options, facts: Mapping[str, Any], resumed: Collection[str]) -> str | None:
    named = slurm_parse.expand(options.get("nodelist"))
    partitions = {entry["name"] for entry in slurm_request.chosen_partitions(options, facts)}
    gpus = slurm_request.gpus_per_node(options) or 0
    constraint = options.get("constraint") or ""
    features = set(constraint.split("&")) if _ALL_OF.fullmatch(constraint) else set()
    fitting = [
        node
        for node in facts["nodes"]
        if (node["name"] in named if named else partitions & set(node["partitions"]))
        and node["gpus"] >= gpus
        and features <= set(node["features"])
    ]
    away = {node["name"]: why for node in fitting for why in [_away(node)] if why and node["name"] not in resumed}
    wanted, left = max(slurm_request.node_count(options), len(named)), len(fitting) - len(away)
    if not away or left >= wanted:
        return None
    among = "those named" if named else f"partition {' or '.join(sorted(partitions))}"
    takers = f"only {left} of {among} take{'s' if left == 1 else ''}" if left else f"none of {among} takes"
    why = ", ".join(f"{name} is {word}" for name, word in away.items())
    return (
        f"{wanted} node{'s were' if wanted > 1 else ' was'} asked for and {takers} jobs ({why}): resume those that do "
        "not, or ask for others or fewer"
    )


def _away(node: Node) -> str | None:
    """Return why no job starts on a node until somebody acts; None where jobs start, if only later, or may start."""
    return str(node["availability_reason"]) if node["availability"] == states.CLOSED else None
