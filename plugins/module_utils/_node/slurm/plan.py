# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan of several models on one cluster, as data: problems, submissions and totals. Pure.

A plan: {"cluster": CLUSTER_KEYS, "models": [MODEL_KEYS, ...]}, with the keys of slurm_plan_shape.
"""

from __future__ import annotations

import typing as t

from ..._data import instance_types
from . import plan_shape as slurm_plan_shape

# Steps of the search for a place in the blocks; seven models take a few dozen.
SEARCH_STEPS = 200_000
# Percent of a node's memory that Slurm may allocate (ParallelCluster, SchedulableMemory: the default).
SCHEDULABLE_PERCENT = 95

Plan = t.Mapping[str, t.Any]
Model = dict[str, t.Any]


def hardware(cluster: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return gpus, vcpus and memory_mib of a node, as stated or from the table of instance types, else None."""
    known = instance_types.lookup(cluster.get("instance_type")) or {}
    accelerators = known.get("accelerators") or {}
    gpus = accelerators.get("count") if accelerators.get("kind") == "gpu" else (0 if known else None)
    return {
        "gpus": cluster.get("gpus_per_node", gpus),
        "vcpus": cluster.get("vcpus_per_node", known.get("vcpus")),
        "memory_mib": cluster.get("memory_mib_per_node", known.get("memory_mib")),
    }


def share(plan: Plan, models: t.Sequence[Model]) -> int:
    """Return how many nodes the models that share nodes need together, by their GPUs and their memory.

    The fullest node with enough room is used first, so that few nodes are shared. Models that no node fits are skipped.
    """
    node = hardware(plan["cluster"])
    size = (node["gpus"] or 0, node["memory_mib"] or 0)
    room: list[tuple[int, int]] = []
    for model in sorted(models, key=lambda model: (-model["gpus"], -model["memory_mib"], -model["nodes"])):
        need = (model["gpus"], model["memory_mib"] if node["memory_mib"] else 0)
        if need[0] > size[0] or need[1] > size[1]:
            continue
        fitting = [index for index, free in enumerate(room) if free[0] >= need[0] and free[1] >= need[1]]
        used = sorted(fitting, key=lambda index: room[index])[: model["nodes"]]
        for index in used:
            room[index] = (room[index][0] - need[0], room[index][1] - need[1])
        room += [(size[0] - need[0], size[1] - need[1])] * (model["nodes"] - len(used))
    return len(room)


def place(sizes: t.Mapping[str, int], blocks: t.Mapping[str, int]) -> t.Optional[dict[str, str]]:
    """Return a block for each model, so that none is split; None if there is no such placement.

    Raises OverflowError if SEARCH_STEPS were not enough.
    """
    order = sorted(sizes, key=lambda name: (-sizes[name], name))
    free = dict(blocks)
    chosen: dict[str, str] = {}
    steps = 0

    def put(position: int) -> bool:
        nonlocal steps
        if position == len(order):
            return True
        name = order[position]
        tried = set()
        for block in sorted(free, key=lambda block: (free[block], block)):
            if free[block] < sizes[name] or free[block] in tried:
                continue
            steps += 1
            if steps > SEARCH_STEPS:
                raise OverflowError
            # Two blocks with equal room are equivalent.
            tried.add(free[block])
            free[block] -= sizes[name]
            chosen[name] = block
            if put(position + 1):
                return True
            free[block] += sizes[name]
        return False

    return chosen if put(0) else None


def _wants(plan: Plan) -> list[Model]:
    """Return the models with defaults for gpus of each node, memory_mib, exclusive and minimum.

    The default memory of a model that shares its nodes is in proportion to its GPUs; 0: not known.
    """
    node = hardware(plan["cluster"])
    found = []
    for model in plan["models"]:
        gpus, exclusive = model.get("gpus_per_node", node["gpus"] or 0), model.get("exclusive", True)
        part = 0
        if not exclusive and node["gpus"] and node["memory_mib"]:
            part = node["memory_mib"] * SCHEDULABLE_PERCENT * gpus // (100 * node["gpus"])
        found.append(
            {
                **model,
                "gpus": gpus,
                "memory_mib": model.get("memory_mib_per_node", part),
                "exclusive": exclusive,
                "minimum": model.get("minimum", model["nodes"]),
            }
        )
    return found


def _node_problems(node: t.Mapping[str, t.Any], models: t.Sequence[Model]) -> list[str]:
    """Return problems with models that need more than a node has, or whose node is not known well enough."""
    problems = []
    sharing = [model for model in models if not model["exclusive"]]
    names = ", ".join(model["name"] for model in sharing)
    if sharing and node["gpus"] is None:
        problems.append("models are to share nodes whose GPUs are not known: set cluster.gpus_per_node")
    elif sharing and node["gpus"] == 0:
        problems.append(f"{names} are to share nodes by their GPUs and a node has none: leave exclusive out")
    elif not all(model["memory_mib"] for model in sharing):
        problems.append("models are to share nodes whose memory is not known: set cluster.memory_mib_per_node")
    for model in models:
        for key, unit in (("gpus", "GPUs"), ("memory_mib", "MiB of memory")):
            if node[key] is not None and model[key] > node[key]:
                wants = f"model {model['name']} wants {model[key]} {unit} of each node"
                then = "request less" if node[key] else "leave gpus_per_node out"
                problems.append(f"{wants} and a node has {node[key]}: {then}")
    return problems


def _idle(cluster: t.Mapping[str, t.Any], node: t.Mapping[str, t.Any], models: t.Sequence[Model]) -> list[str]:
    """Return notes on unused GPUs and uncounted devices."""
    known = (instance_types.lookup(cluster.get("instance_type")) or {}).get("accelerators") or {}
    notes = []
    if known.get("kind") == "neuron":
        devices = f"{cluster['instance_type']} has {known['count']} Neuron devices and no GPUs"
        notes.append(f"{devices}: the totals count GPUs alone")
    for model in models:
        if model["exclusive"] and node["gpus"] and model["gpus"] < node["gpus"]:
            idle = (node["gpus"] - model["gpus"]) * model["nodes"]
            notes.append(f"model {model['name']} has its nodes to itself and leaves {idle} GPUs on them unused")
    return notes


def fit_problems(plan: Plan) -> tuple[list[str], list[str], dict[str, str]]:
    """Return problems, notes, and the block of each model that has to stay in one."""
    cluster, node, models = plan["cluster"], hardware(plan["cluster"]), _wants(plan)
    problems, notes = _node_problems(node, models), _idle(cluster, node, models)
    alone = [model for model in models if model["exclusive"]]
    shared = share(plan, [model for model in models if not model["exclusive"]])
    needed_nodes = sum(model["minimum"] for model in alone) + shared
    wanted = sum(model["nodes"] for model in alone) + shared
    if needed_nodes > cluster["nodes"]:
        problems.append(
            f"the models need at least {needed_nodes} nodes and the cluster has {cluster['nodes']}: "
            f"take {needed_nodes - cluster['nodes']} away, or run some after others"
        )
    elif wanted > cluster["nodes"]:
        notes.append(
            f"the models want {wanted} of {cluster['nodes']} nodes: those submitted last start with fewer, or wait"
        )
    else:
        notes.append(f"the models use {wanted} of {cluster['nodes']} nodes and leave {cluster['nodes'] - wanted} free")
    blocks, block_problems = _blocks(cluster, [model for model in models if model.get("one_block")])
    return problems + block_problems, notes, blocks


def _blocks(cluster: t.Mapping[str, t.Any], models: t.Sequence[Model]) -> tuple[dict[str, str], list[str]]:
    blocks = cluster.get("blocks") or {}
    if not models:
        return {}, []
    if not blocks:
        names = ", ".join(model["name"] for model in models)
        return {}, [f"{names} must stay in one topology block and the cluster names none: set cluster.blocks"]
    largest = max(blocks.values())
    too_large = [model for model in models if model["minimum"] > largest]
    if too_large:
        return {}, [
            f"model {model['name']} needs {model['minimum']} nodes in one block and the largest has {largest}: "
            "let it span blocks, or give it fewer nodes"
            for model in too_large
        ]
    try:
        placed = place({model["name"]: min(model["nodes"], largest) for model in models}, blocks)
        placed = placed or place({model["name"]: model["minimum"] for model in models}, blocks)
    except OverflowError:
        return {}, [
            "could not determine whether the models fit into the blocks without being split: let some span blocks"
        ]
    if placed is None:
        sizes = ", ".join(str(size) for size in sorted(blocks.values(), reverse=True))
        return {}, [f"the models fit into blocks of {sizes} nodes only if one is split: let one span blocks"]
    return placed, []


def submissions(plan: Plan) -> list[dict[str, t.Any]]:
    """Return one submission a model, largest first, so that small ones do not occupy the nodes of large ones.

    Keys: name, script, options (those of the module slurm_job).
    """
    cluster, node = plan["cluster"], hardware(plan["cluster"])
    found = []
    for model in sorted(_wants(plan), key=lambda model: (-model["nodes"], model["name"])):
        span = f"{model['minimum']}-{model['nodes']}" if model["minimum"] < model["nodes"] else str(model["nodes"])
        options: dict[str, t.Any] = {"job-name": model["name"], "nodes": span}
        if model["gpus"]:
            options["gpus-per-node"] = str(model["gpus"])
        if model["exclusive"]:
            options["exclusive"] = True
            # All the memory of the node: with memory-based scheduling a job otherwise gets the default share.
            options["mem"] = "0"
        else:
            # Each overrides a line of the script, which by default requests whole nodes.
            options["oversubscribe"] = True
            options["mem"] = f"{model['memory_mib']}M"
            if node["vcpus"] and node["gpus"]:
                options["cpus-per-gpu"] = str(max(node["vcpus"] // node["gpus"], 1))
        if cluster.get("partition"):
            options["partition"] = cluster["partition"]
        if model.get("one_block"):
            options["switches"] = "1"
        found.append(
            {"name": model["name"], "script": model.get("script"), "options": {**options, **model.get("options", {})}}
        )
    return found


def totals(plan: Plan) -> dict[str, t.Any]:
    """Return the totals of the cluster and of the models; an unknown number is None.

    nodes, gpus, vcpus, memory_mib, cost_per_hour of the whole cluster; gpus_used; cost of the models that state hours,
    for their own nodes (models that share a node are charged by their part of its GPUs).
    """
    cluster, node, models = plan["cluster"], hardware(plan["cluster"]), _wants(plan)
    count, price = cluster["nodes"], cluster.get("price_per_node_hour")

    def times(value: t.Optional[float]) -> t.Optional[float]:
        return None if value is None else value * count

    def part(model: Model) -> float:
        return 1.0 if model["exclusive"] or not node["gpus"] else model["gpus"] / node["gpus"]

    cost = None if price is None else sum(part(m) * m["nodes"] * m.get("hours", 0) * price for m in models)
    return {
        "nodes": count,
        "gpus": times(node["gpus"]),
        "vcpus": times(node["vcpus"]),
        "memory_mib": times(node["memory_mib"]),
        "gpus_used": sum(model["gpus"] * model["nodes"] for model in models),
        "cost_per_hour": None if price is None else round(price * count, 2),
        "cost": None if cost is None else round(cost, 2),
    }


def judge(plan: t.Any) -> dict[str, t.Any]:
    """Return problems (one sentence each; empty: the plan fits), notes, submissions, blocks and totals."""
    problems = slurm_plan_shape.problems(plan)
    if problems:
        return {"problems": problems, "notes": [], "submissions": [], "blocks": {}, "totals": {}}
    problems, notes, blocks = fit_problems(plan)
    return {
        "problems": problems,
        "notes": notes,
        "submissions": [] if problems else submissions(plan),
        "blocks": blocks,
        "totals": totals(plan),
    }
