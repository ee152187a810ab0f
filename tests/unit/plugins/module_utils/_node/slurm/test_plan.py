# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.mlcluster.aws.plugins.filter.slurm_plan import FilterModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import plan as slurm_plan
from hypothesis import given
from hypothesis import strategies as st

JUDGE = FilterModule().filters()["slurm_plan"]
MODELS = [{"name": f"model-{number}", "nodes": 11} for number in range(1, 7)] + [{"name": "model-7", "nodes": 14}]
PLAN = {
    "cluster": {"nodes": 80, "instance_type": "p5e.48xlarge", "price_per_node_hour": 34.6, "partition": "gpu"},
    "models": MODELS,
}


def changed(cluster: dict | None = None, **models) -> dict:
    plan = copy.deepcopy(PLAN)
    plan["cluster"].update(cluster or {})
    for model in plan["models"]:
        model.update(models.get(model["name"].replace("-", "_"), {}))
    return plan


def test_seven_models_on_eighty_nodes():
    found = JUDGE(PLAN)
    assert (found["problems"], found["notes"]) == ([], ["the models use 80 of 80 nodes and leave 0 free"])
    assert found["totals"] == {
        "nodes": 80,
        "gpus": 640,
        "vcpus": 15360,
        "memory_mib": 80 * 2097152,
        "gpus_used": 640,
        "cost_per_hour": 2768.0,
        "cost": 0.0,
    }
    assert [entry["name"] for entry in found["submissions"]] == ["model-7", *(f"model-{n}" for n in range(1, 7))]
    assert found["submissions"][0]["options"] == {
        "job-name": "model-7",
        "nodes": "14",
        "gpus-per-node": "8",
        "exclusive": True,
        "mem": "0",
        "partition": "gpu",
    }


def test_too_many_nodes_are_rejected_before_summing():
    share = {"nodes": 100_000, "gpus_per_node": 4, "exclusive": False}
    found = JUDGE({**PLAN, "models": [{"name": f"model-{number}", **share} for number in range(11)]})
    assert found["problems"] == ["the models want 1100000 nodes together: plan at most 1000000 at once"]


def test_missing_node_is_rejected_unless_minimum_fits():
    found = JUDGE(changed(model_7={"nodes": 15}))
    assert found["problems"] == [
        "the models need at least 81 nodes and the cluster has 80: take 1 away, or run some after others"
    ]
    assert found["submissions"] == []
    found = JUDGE(changed(model_7={"nodes": 15, "minimum": 12}))
    assert (found["problems"], found["submissions"][0]["options"]["nodes"]) == ([], "12-15")
    assert found["notes"] == ["the models want 81 of 80 nodes: those submitted last start with fewer, or wait"]


def test_cost_follows_from_hours_and_price():
    found = JUDGE(changed(model_1={"hours": 100}, model_7={"hours": 10}))
    assert found["totals"]["cost"] == round((11 * 100 + 14 * 10) * 34.6, 2)
    assert JUDGE({"cluster": {"nodes": 80, "gpus_per_node": 8}, "models": MODELS})["totals"] == {
        "nodes": 80,
        "gpus": 640,
        "vcpus": None,
        "memory_mib": None,
        "gpus_used": 640,
        "cost_per_hour": None,
        "cost": None,
    }


def in_blocks(blocks: dict[str, int], **models) -> dict:
    every = {f"model_{number}": {"one_block": True} for number in range(1, 8)}
    return JUDGE(changed({"blocks": blocks}, **{**every, **models}))


def test_models_in_one_block_are_placed():
    found = in_blocks({"a": 36, "b": 44})
    assert found["problems"] == []
    use = {"a": 0, "b": 0}
    for model in MODELS:
        use[found["blocks"][model["name"]]] += model["nodes"]
    assert use == {"a": 36, "b": 44}
    assert {entry["options"]["switches"] for entry in found["submissions"]} == {"1"}


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ({"a": 40, "b": 40}, "the models fit into blocks of 40, 40 nodes only if one is split: let one span blocks"),
        ({"a": 13, "b": 13, "c": 13, "d": 13, "e": 13, "f": 13, "g": 2}, "model model-7 needs 14 nodes in one block"),
        ({"a": 40}, "the blocks have 40 nodes and the cluster 80: make them agree"),
        ({"a": 0, "b": 80}, "cluster.blocks must map the name of each topology block to its number of nodes"),
        ({}, "model-1, model-2, model-3, model-4, model-5, model-6, model-7 must stay in one topology block and"),
    ],
)
def test_too_small_blocks_are_reported(blocks, sentence):
    (problem,) = in_blocks(blocks)["problems"]
    assert problem.startswith(sentence)


def test_aborted_search_is_a_problem(monkeypatch):
    monkeypatch.setattr(slurm_plan, "SEARCH_STEPS", 5)
    (problem,) = in_blocks({"a": 40, "b": 40})["problems"]
    assert problem.startswith("could not determine whether the models fit")


def test_models_share_nodes():
    plan = {
        "cluster": {"nodes": 3, "instance_type": "p5e.48xlarge", "price_per_node_hour": 10},
        "models": [
            {"name": "alone", "nodes": 1},
            {
                "name": "half",
                "nodes": 2,
                "gpus_per_node": 4,
                "exclusive": False,
                "memory_mib_per_node": 1000,
                "hours": 1,
            },
            {"name": "other", "nodes": 2, "gpus_per_node": 4, "exclusive": False, "hours": 1},
        ],
    }
    found = JUDGE(plan)
    assert (found["problems"], found["totals"]["gpus_used"], found["totals"]["cost"]) == ([], 24, 20.0)
    half = next(entry for entry in found["submissions"] if entry["name"] == "half")
    assert half["options"] == {
        "job-name": "half",
        "nodes": "2",
        "gpus-per-node": "4",
        "oversubscribe": True,
        "mem": "1000M",
        "cpus-per-gpu": "24",
    }
    other = next(entry for entry in found["submissions"] if entry["name"] == "other")
    assert other["options"]["mem"] == f"{2097152 * 95 * 4 // 800}M"
    plan["models"][1]["memory_mib_per_node"] = 2097152
    plan["models"][2]["memory_mib_per_node"] = 1
    assert JUDGE(plan)["problems"][0].startswith("the models need at least 5 nodes and the cluster has 3")
    del plan["cluster"]["instance_type"]
    assert JUDGE(plan)["problems"][0].startswith("models are to share nodes whose GPUs are not known")
    plan["cluster"]["gpus_per_node"] = 8
    assert JUDGE(plan)["problems"] == []
    plan["models"][2]["gpus_per_node"] = 5
    assert JUDGE(plan)["problems"][0].startswith("the models need at least 5 nodes and the cluster has 3")


def test_missing_and_unused_gpus_are_reported():
    found = JUDGE(changed(model_1={"gpus_per_node": 9, "memory_mib_per_node": 2097153}, model_2={"gpus_per_node": 6}))
    assert found["problems"] == [
        "model model-1 wants 9 GPUs of each node and a node has 8: request less",
        "model model-1 wants 2097153 MiB of memory of each node and a node has 2097152: request less",
    ]
    assert "model model-2 has its nodes to itself and leaves 22 GPUs on them unused" in found["notes"]


def test_neuron_devices_are_noted_as_uncounted():
    found = JUDGE(changed({"instance_type": "trn1.32xlarge"}))
    assert (found["problems"], found["totals"]["gpus"]) == ([], 0)
    assert found["notes"][0] == "trn1.32xlarge has 16 Neuron devices and no GPUs: the totals count GPUs alone"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1),
    st.lists(st.integers(1, 15), min_size=1, max_size=4),
)
def test_placement_never_overfills_block(sizes, rooms):
    blocks = {f"block{index}": room for index, room in enumerate(rooms)}
    placed = slurm_plan.place(sizes, blocks)
    if placed is None:
        # First fit, the largest first, is a placement wherever it succeeds.
        left = sorted(rooms)
        fits = True
        for size in sorted(sizes.values(), reverse=True):
            index = next((index for index, room in enumerate(left) if room >= size), None)
            if index is None:
                fits = False
                break
            left[index] -= size
        assert not fits
    else:
        for block, room in blocks.items():
            assert sum(sizes[name] for name, of in placed.items() if of == block) <= room
        assert set(placed) == set(sizes)
