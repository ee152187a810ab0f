# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a validation that would wait indefinitely for nodes that take no jobs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..system.host import NodeError
from . import parse as slurm_parse
from . import request as slurm_request
from . import states

Node = Mapping[str, Any]
# A constraint that requires all its features on every node; other constraints are left to Slurm.
_ALL_OF = re.compile(r"[\w.-]+(&[\w.-]+)*")


def find_shortages(
    asked: Mapping[str, slurm_request.Options], facts: Mapping[str, Any], resumed: Collection[str] = ()
) -> list[str]:
    """Return a message for each request that needs more nodes than take jobs, with the jobs that make it.

    ``asked``: the options of each job by its name; ``facts``: the look at the cluster; ``resumed``: the nodes that are
    resumed before the submission.
    """
    found: dict[str, list[str]] = {}
    for name, options in asked.items():
        try:
            problem = _problem(options, facts, resumed)
        except NodeError as exc:
            problem = str(exc)
        if problem:
            found.setdefault(problem, []).append(name)
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
    unavailable = {
        node["name"]: why
        for node in fitting
        for why in [_unavailable_reason(node)]
        if why and node["name"] not in resumed
    }
    wanted, available = max(slurm_request.node_count(options), len(named)), len(fitting) - len(unavailable)
    if not unavailable or available >= wanted:
        return None
    place = "those named" if named else f"partition {' or '.join(sorted(partitions))}"
    takers_phrase = (
        f"only {available} of {place} take{'s' if available == 1 else ''}" if available else f"none of {place} takes"
    )
    why = ", ".join(f"{name} is {word}" for name, word in unavailable.items())
    return (
        f"{wanted} node{'s were' if wanted > 1 else ' was'} requested and {takers_phrase} jobs ({why}): resume those "
        "that do not, or request other or fewer nodes"
    )


def _unavailable_reason(node: Node) -> str | None:
    """Return why no job starts on a node until a person acts; None if jobs start now or later, or may start."""
    return str(node["availability_reason"]) if node["availability"] == states.CLOSED else None
