# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in the data of a plan of models, found before anything is added up. Pure."""

from __future__ import annotations

import re
import typing as t

from ..._data import instance_types
from . import request as slurm_request

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
# Options of sbatch that the plan computes, and their source in the plan: other values would make the sums wrong.
DECIDED = {
    "job-name": "name of the model",
    "nodes": "nodes and minimum of the model",
    "ntasks": "nodes of the model",
    "gpus": "gpus_per_node of the model",
    "gpus-per-node": "gpus_per_node of the model",
    "gpus-per-task": "gpus_per_node of the model",
    "gpus-per-socket": "gpus_per_node of the model",
    "gres": "gpus_per_node of the model",
    "cpus-per-gpu": "gpus_per_node of the model",
    "mem": "memory_mib_per_node of the model",
    "mem-per-cpu": "memory_mib_per_node of the model",
    "mem-per-gpu": "memory_mib_per_node of the model",
    "exclusive": "exclusive of the model",
    "oversubscribe": "exclusive of the model",
    "share": "exclusive of the model",
    "switches": "one_block of the model",
    "partition": "partition of the cluster",
}
# More nodes than any cluster has; the sums go through a list with an entry for each.
MAX_NODES = 100_000
# All models together: the same list has an entry for each node of each.
MAX_WANTED = 10 * MAX_NODES
MAX_VALUE = 10**9
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PARTITION = re.compile(r"[\w.+-]+(,[\w.+-]+)*")
_SCRIPT = re.compile(r"/[^\0\n]*[^/\0\n]")


def _positive(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_VALUE


def _nodes(value: t.Any) -> bool:
    return _positive(value) and value <= MAX_NODES


def _amount(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_VALUE


def _whole(value: t.Any) -> bool:
    return _positive(value) or (isinstance(value, int) and value == 0 and not isinstance(value, bool))


def _text(pattern: re.Pattern[str]) -> t.Callable[[t.Any], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


def _is_true(value: t.Any) -> bool:
    return isinstance(value, bool)


# The check and the description of each key; a missing key is skipped.
_CLUSTER_CHECKS: dict[str, tuple[t.Callable[[t.Any], bool], str]] = {
    "gpus_per_node": (_whole, "an integer"),
    "vcpus_per_node": (_positive, "an integer above 0"),
    "memory_mib_per_node": (_positive, "an integer above 0"),
    "price_per_node_hour": (lambda value: value is None or _amount(value), "a number"),
    "partition": (
        lambda value: value is None or value == "" or _text(_PARTITION)(value),
        "the name of a partition, or several joined by commas",
    ),
    "instance_type": (
        lambda value: instance_types.lookup(value) is not None,
        "a type that the table of the collection has, or leave it out and describe the node",
    ),
}
_MODEL_CHECKS: dict[str, tuple[t.Callable[[t.Any], bool], str]] = {
    "nodes": (_nodes, f"an integer from 1 to {MAX_NODES}"),
    "minimum": (_nodes, f"an integer from 1 to {MAX_NODES}"),
    "gpus_per_node": (_positive, "an integer above 0"),
    "memory_mib_per_node": (_positive, "an integer above 0"),
    "exclusive": (_is_true, "true or false"),
    "one_block": (_is_true, "true or false"),
    "hours": (_amount, "a number"),
    "script": (lambda value: value is None or _text(_SCRIPT)(value), "the absolute path of a script"),
}


def problems(plan: t.Any) -> list[str]:
    """Return the errors in a plan, one sentence each."""
    if (
        not isinstance(plan, dict)
        or not isinstance(plan.get("cluster"), dict)
        or not isinstance(plan.get("models"), list)
    ):
        return ["a plan needs a dictionary `cluster` and a list `models`"]
    cluster, models = plan["cluster"], plan["models"]
    found = _unknown("the plan", plan, {"cluster", "models"}) + _cluster_problems(cluster)
    if not models:
        found.append("the plan has no models: add at least one")
    names = [model.get("name") for model in models if isinstance(model, dict)]
    for index, model in enumerate(models):
        found += _model_problems(index, model, names)
    total = sum(model["nodes"] for model in models if isinstance(model, dict) and _nodes(model.get("nodes")))
    if total > MAX_WANTED:
        found.append(f"the models want {total} nodes together: plan at most {MAX_WANTED} at once")
    return found + _same_scripts([model for model in models if isinstance(model, dict)])


def _cluster_problems(cluster: t.Mapping[str, t.Any]) -> list[str]:
    found = _unknown("cluster", cluster, CLUSTER_KEYS)
    if not _nodes(cluster.get("nodes")):
        found.append(f"cluster.nodes is {cluster.get('nodes')!r}: use the number of nodes, 1 to {MAX_NODES}")
    blocks = cluster.get("blocks", {})
    if not isinstance(blocks, dict) or not all(
        isinstance(name, str) and _positive(size) for name, size in blocks.items()
    ):
        found.append("cluster.blocks must map the name of each topology block to its number of nodes")
    elif blocks and _nodes(cluster.get("nodes")) and sum(blocks.values()) != cluster["nodes"]:
        found.append(
            f"the blocks have {sum(blocks.values())} nodes and the cluster {cluster['nodes']}: make them agree"
        )
    found += [
        f"cluster.{key} is {cluster[key]!r}: use {what}"
        for key, (check, what) in _CLUSTER_CHECKS.items()
        if key in cluster and not check(cluster[key])
    ]
    known = (instance_types.lookup(cluster.get("instance_type")) or {}).get("accelerators") or {}
    gpus_of_type = known.get("count", 0) if known.get("kind") == "gpu" else 0
    gpus = cluster.get("gpus_per_node")
    if instance_types.lookup(cluster.get("instance_type")) and isinstance(gpus, int) and gpus > gpus_of_type:
        found.append(
            f"cluster.gpus_per_node is {gpus} and {cluster['instance_type']} has {gpus_of_type}: use at most that"
        )
    return found


def _unknown(what: str, found: t.Mapping[str, t.Any], allowed: set[str]) -> list[str]:
    unknown = sorted(str(key) for key in found if key not in allowed)
    return [f"{what} has unknown keys {', '.join(unknown)}: it takes {', '.join(sorted(allowed))}"] if unknown else []


def _model_problems(index: int, model: t.Any, names: t.Sequence[t.Any]) -> list[str]:
    if not isinstance(model, dict):
        return [f"model {index + 1} is {model!r}: use a dictionary with name and nodes"]
    name = model.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return [f"model {index + 1} is called {name!r}: use a name of letters, digits, '.', '_' and '-'"]
    found = _unknown(f"model {name}", model, MODEL_KEYS)
    if names.index(name) != index and names.count(name) > 1:
        found.append(f"two models are called {name}: give each its own name, for jobs and directories go by it")
    found += [
        f"{key} of model {name} is {model.get(key)!r}: use {what}"
        for key, (check, what) in _MODEL_CHECKS.items()
        if (key in model or key == "nodes") and not check(model.get(key))
    ]
    if _nodes(model.get("nodes")) and _nodes(model.get("minimum")) and model["minimum"] > model["nodes"]:
        found.append(f"minimum of model {name} is {model['minimum']} and its nodes {model['nodes']}: use at most that")
    return found + _option_problems(name, model.get("options", {}))


def _option_problems(name: str, options: t.Any) -> list[str]:
    """Return errors in sbatch options, including options that the plan decides."""
    if not isinstance(options, dict):
        return [f"options of model {name} must be a dictionary of sbatch's long options"]
    found = [
        f"options of model {name} has {key}, which the plan decides: it comes from the {DECIDED[option]}"
        for key, option in ((key, str(key).replace("_", "-")) for key in options)
        if option in DECIDED
    ]
    try:
        slurm_request.parse_options(options)
    except slurm_request.RequestError as exc:
        found += [f"model {name}: {problem}" for problem in exc.problems]
    return found


def _same_scripts(models: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return errors for models with the same script, which has one directory of results and one of checkpoints."""
    users: dict[str, list[str]] = {}
    for model in models:
        if isinstance(model.get("script"), str) and isinstance(model.get("name"), str):
            users.setdefault(model["script"], []).append(model["name"])
    return [
        f"models {' and '.join(names)} have the same script {script}: give each its own, or they write into the same "
        "checkpoints"
        for script, names in users.items()
        if len(set(names)) > 1
    ]
