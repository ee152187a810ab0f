# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several models on one cluster, as data: does the plan fit, what is submitted, what does it add up to. Pure.

A plan: {"cluster": CLUSTER_KEYS, "models": [MODEL_KEYS, ...]}.
"""

from __future__ import annotations

import re
import typing as t

from .._data import instance_types

CLUSTER_KEYS = {
    "nodes",
    "instance_type",
    "gpus_per_node",
    "vcpus_per_node",
    "memory_mib_per_node",
    "price_per_node_hour",
    "partition",
    "blocks",
}
MODEL_KEYS = {
    "name",
    "nodes",
    "minimum",
    "gpus_per_node",
    "memory_mib_per_node",
    "exclusive",
    "one_block",
    "hours",
    "script",
    "options",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Steps of the search for a place in the blocks; seven models take a few dozen.
SEARCH_STEPS = 200_000

Plan = t.Mapping[str, t.Any]
Model = dict[str, t.Any]


def _positive(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def hardware(cluster: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What a node has: gpus, vcpus and memory_mib, stated or from the table of instance types, else None."""
    known = instance_types.lookup(cluster.get("instance_type")) or {}
    accelerators = known.get("accelerators") or {}
    gpus = accelerators.get("count") if accelerators.get("kind") == "gpu" else (0 if known else None)
    return {
        "gpus": cluster.get("gpus_per_node", gpus),
        "vcpus": cluster.get("vcpus_per_node", known.get("vcpus")),
        "memory_mib": cluster.get("memory_mib_per_node", known.get("memory_mib")),
    }


def shape_problems(plan: t.Any) -> list[str]:
    """What is wrong with the plan as data, before anything is added up."""
    if (
        not isinstance(plan, dict)
        or not isinstance(plan.get("cluster"), dict)
        or not isinstance(plan.get("models"), list)
    ):
        return ["a plan needs a mapping `cluster` and a list `models`"]
    cluster, models = plan["cluster"], plan["models"]
    problems = _unknown("cluster", cluster, CLUSTER_KEYS)
    if not _positive(cluster.get("nodes")):
        problems.append(f"cluster.nodes is {cluster.get('nodes')!r}: give the number of nodes")
    blocks = cluster.get("blocks", {})
    if not isinstance(blocks, dict) or not all(_positive(size) for size in blocks.values()):
        problems.append("cluster.blocks must map the name of each topology block to its number of nodes")
    elif blocks and _positive(cluster.get("nodes")) and sum(blocks.values()) != cluster["nodes"]:
        problems.append(
            f"the blocks have {sum(blocks.values())} nodes and the cluster {cluster['nodes']}: make them agree"
        )
    for key in ("gpus_per_node", "vcpus_per_node", "memory_mib_per_node"):
        if key in cluster and not (_positive(cluster[key]) or (key == "gpus_per_node" and cluster[key] == 0)):
            problems.append(f"cluster.{key} is {cluster[key]!r}: give a whole number")
    price = cluster.get("price_per_node_hour")
    if price is not None and (isinstance(price, bool) or not isinstance(price, (int, float)) or price < 0):
        problems.append(f"cluster.price_per_node_hour is {price!r}: give a number")
    if not models:
        problems.append("the plan has no models: give at least one")
    names = [model.get("name") for model in models if isinstance(model, dict)]
    for index, model in enumerate(models):
        problems += _model_problems(index, model, names)
    return problems


def _unknown(what: str, found: t.Mapping[str, t.Any], allowed: set[str]) -> list[str]:
    unknown = sorted(str(key) for key in found if key not in allowed)
    return [f"{what} has unknown keys {', '.join(unknown)}: it takes {', '.join(sorted(allowed))}"] if unknown else []


def _model_problems(index: int, model: t.Any, names: t.Sequence[t.Any]) -> list[str]:
    if not isinstance(model, dict):
        return [f"model {index + 1} is {model!r}: give a mapping with name and nodes"]
    name = model.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return [f"model {index + 1} is called {name!r}: give a name of letters, digits, '.', '_' and '-'"]
    problems = _unknown(f"model {name}", model, MODEL_KEYS)
    if names.index(name) != index and names.count(name) > 1:
        problems.append(f"two models are called {name}: give each its own name, for jobs and directories go by it")
    for key in ("nodes", "minimum", "gpus_per_node", "memory_mib_per_node"):
        if (key in model or key == "nodes") and not _positive(model.get(key)):
            problems.append(f"{key} of model {name} is {model.get(key)!r}: give a whole number above 0")
    if _positive(model.get("nodes")) and _positive(model.get("minimum")) and model["minimum"] > model["nodes"]:
        problems.append(
            f"minimum of model {name} is {model['minimum']} and its nodes {model['nodes']}: give at most that"
        )
    hours = model.get("hours", 0)
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or hours < 0:
        problems.append(f"hours of model {name} is {hours!r}: give a number")
    if not isinstance(model.get("options", {}), dict):
        problems.append(f"options of model {name} must be a mapping of sbatch's long options")
    return problems


def share(plan: Plan, models: t.Sequence[Model]) -> int:
    """How many nodes the models that share nodes need together, by their GPUs and their memory.

    The fullest node that still has room is used first, so that few are broken into. What no node holds is left out.
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
    """A block for each model, so that none is split; None where there is no such placement.

    Raises OverflowError when SEARCH_STEPS were not enough to know.
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
            # Two blocks with equal room are one choice.
            tried.add(free[block])
            free[block] -= sizes[name]
            chosen[name] = block
            if put(position + 1):
                return True
            free[block] += sizes[name]
        return False

    return chosen if put(0) else None


def _wants(plan: Plan) -> list[Model]:
    """The models with what they leave open filled in: gpus of each node, memory_mib, exclusive, minimum."""
    node = hardware(plan["cluster"])
    return [
        {
            **model,
            "gpus": model.get("gpus_per_node", node["gpus"] or 0),
            "memory_mib": model.get("memory_mib_per_node", 0),
            "exclusive": model.get("exclusive", True),
            "minimum": model.get("minimum", model["nodes"]),
        }
        for model in plan["models"]
    ]


def fit_problems(plan: Plan) -> tuple[list[str], list[str], dict[str, str]]:
    """What does not fit, what is worth knowing, and the block of each model that wants one."""
    cluster, node, models = plan["cluster"], hardware(plan["cluster"]), _wants(plan)
    problems, notes = [], []
    if node["gpus"] is None and not all(model["exclusive"] for model in models):
        problems.append("models are to share nodes whose GPUs are not known: give cluster.gpus_per_node")
    for model in models:
        for key, unit in (("gpus", "GPUs"), ("memory_mib", "MiB of memory")):
            if node[key] is not None and model[key] > node[key]:
                wants = f"model {model['name']} wants {model[key]} {unit} of each node"
                problems.append(f"{wants} and a node has {node[key]}: ask for less")
        if model["exclusive"] and node["gpus"] and model["gpus"] < node["gpus"]:
            idle = (node["gpus"] - model["gpus"]) * model["nodes"]
            notes.append(f"model {model['name']} has its nodes to itself and leaves {idle} GPUs on them unused")
    alone = [model for model in models if model["exclusive"]]
    shared = share(plan, [model for model in models if not model["exclusive"]])
    least = sum(model["minimum"] for model in alone) + shared
    wanted = sum(model["nodes"] for model in alone) + shared
    if least > cluster["nodes"]:
        problems.append(
            f"the models need at least {least} nodes and the cluster has {cluster['nodes']}: "
            f"take {least - cluster['nodes']} away, or run some after others"
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
        return {}, [f"{names} must stay in one topology block and the cluster names none: give cluster.blocks"]
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
            "could not find out whether the models fit into the blocks without being split: let some span blocks"
        ]
    if placed is None:
        sizes = ", ".join(str(size) for size in sorted(blocks.values(), reverse=True))
        return {}, [f"the models fit into blocks of {sizes} nodes only if one is split: let one span blocks"]
    return placed, []


def submissions(plan: Plan) -> list[dict[str, t.Any]]:
    """One submission a model, largest first, so that small ones do not break into the nodes of large ones.

    Shape: name, script, options (those of the module slurm_job).
    """
    cluster = plan["cluster"]
    found = []
    for model in sorted(_wants(plan), key=lambda model: (-model["nodes"], model["name"])):
        span = f"{model['minimum']}-{model['nodes']}" if model["minimum"] < model["nodes"] else str(model["nodes"])
        options: dict[str, t.Any] = {"job-name": model["name"], "nodes": span}
        if model["gpus"]:
            options["gpus-per-node"] = str(model["gpus"])
        if model["exclusive"]:
            options["exclusive"] = True
            # All the memory of the node: with memory-based scheduling a job is otherwise given the default share.
            options["mem"] = "0"
        elif model["memory_mib"]:
            options["mem"] = f"{model['memory_mib']}M"
        if cluster.get("partition"):
            options["partition"] = cluster["partition"]
        if model.get("one_block"):
            options["switches"] = "1"
        found.append(
            {"name": model["name"], "script": model.get("script"), "options": {**options, **model.get("options", {})}}
        )
    return found


def totals(plan: Plan) -> dict[str, t.Any]:
    """What the cluster adds up to, and what the models use; a number that nobody stated is None.

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
    """problems (a sentence each; none: the plan holds), notes, submissions, blocks and totals."""
    problems = shape_problems(plan)
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
