# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan whose values have a wrong type or name."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import plan_shape as slurm_plan_shape

from tests.unit.plugins.module_utils._node.slurm.test_plan import JUDGE, changed


@pytest.mark.parametrize(
    ("plan", "sentences"),
    [
        (None, ["a plan needs a dictionary `cluster` and a list `models`"]),
        (
            {"cluster": {"nodes": 0, "node": 1}, "models": []},
            [
                f"cluster has unknown keys node: it takes {', '.join(sorted(slurm_plan_shape.CLUSTER_KEYS))}",
                "cluster.nodes is 0: use the number of nodes, 1 to 100000",
                "the plan has no models: add at least one",
            ],
        ),
        (
            {
                "cluster": {"nodes": 2, "price_per_node_hour": "much", "vcpus_per_node": -1},
                "models": [
                    {"name": "a", "nodes": 1, "minimum": 2, "hours": -1, "options": []},
                    {"name": "a", "nodes": "1"},
                    {"name": "x y", "nodes": 1},
                    "b",
                ],
            },
            [
                "cluster.vcpus_per_node is -1: use an integer above 0",
                "cluster.price_per_node_hour is 'much': use a number",
                "hours of model a is -1: use a number",
                "minimum of model a is 2 and its nodes 1: use at most that",
                "options of model a must be a dictionary of sbatch's long options",
                "two models are called a: give each its own name, for jobs and directories go by it",
                "nodes of model a is '1': use an integer from 1 to 100000",
                "model 3 is called 'x y': use a name of letters, digits, '.', '_' and '-'",
                "model 4 is 'b': use a dictionary with name and nodes",
            ],
        ),
    ],
)
def test_invalid_plan_is_reported(plan, sentences):
    assert JUDGE(plan) == {"problems": sentences, "notes": [], "submissions": [], "blocks": {}, "totals": {}}


def test_wrong_types_are_reported_together():
    found = JUDGE(
        {
            "cluster": {"nodes": 80, "instance_type": "p5e.48xlarg", "price_per_node_hour": float("nan"),
                        "gpus_per_node": None, "partition": ["gpu"], "blocks": {1: 80}},
            "models": [
                {"name": "a", "nodes": 1, "exclusive": "no", "one_block": 1, "hours": float("inf"),
                 "script": "a.sbatch", "options": {"nodes": 100, "gpus_per_node": 1, "time": {}, "-x": 1}},
                {"name": "b", "nodes": 1, "script": "/x"},
                {"name": "c", "nodes": 1, "script": "/x"},
            ],
            "follow": True,
        }
    )  # fmt: skip
    assert [problem.split(":", maxsplit=1)[0] for problem in found["problems"]] == [
        "the plan has unknown keys follow",
        "cluster.blocks must map the name of each topology block to its number of nodes",
        "cluster.gpus_per_node is None",
        "cluster.price_per_node_hour is nan",
        "cluster.partition is ['gpu']",
        "cluster.instance_type is 'p5e.48xlarg'",
        "exclusive of model a is 'no'",
        "one_block of model a is 1",
        "hours of model a is inf",
        "script of model a is 'a.sbatch'",
        "options of model a has nodes, which the plan decides",
        "options of model a has gpus_per_node, which the plan decides",
        "model a",
        "model a",
        "models b and c have the same script /x",
    ]
    assert found["submissions"] == []


@pytest.mark.parametrize(
    ("cluster", "model", "problems"),
    [
        ({"gpus_per_node": 9}, {}, ["cluster.gpus_per_node is 9 and p5e.48xlarge has 8: use at most that"]),
        ({"instance_type": "trn1.32xlarge"}, {"gpus_per_node": 16},
         ["model model-1 wants 16 GPUs of each node and a node has 0: leave gpus_per_node out"]),
        ({"instance_type": "trn1.32xlarge"}, {"exclusive": False},
         ["model-1 are to share nodes by their GPUs and a node has none: leave exclusive out"]),
    ],
)  # fmt: skip
def test_more_gpus_than_type_has_are_reported(cluster, model, problems):
    assert JUDGE(changed(cluster, model_1=model))["problems"] == problems


def test_sharing_needs_known_memory():
    plan = {"cluster": {"nodes": 1, "gpus_per_node": 8}, "models": [{"name": "a", "nodes": 1, "exclusive": False}]}
    assert JUDGE(plan)["problems"] == [
        "models are to share nodes whose memory is not known: set cluster.memory_mib_per_node"
    ]
    plan["cluster"]["memory_mib_per_node"] = 1000
    assert JUDGE(plan)["submissions"][0]["options"]["mem"] == "950M"


ODD = (None, [], {}, 5, -1, "x", "", True, float("nan"), float("inf"), [None], {"x": None}, 10**400)


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_any_value_gives_sentences(value):
    """Any value of any key is accepted or rejected without an exception."""
    for what in (value, {"cluster": value, "models": []}, {"cluster": {}, "models": value}):
        assert JUDGE(what)["problems"]
    for key in sorted(slurm_plan_shape.CLUSTER_KEYS):
        JUDGE(changed({key: value}))
        JUDGE(changed({key: value}, model_1={"exclusive": False, "gpus_per_node": 4}))
    for key in sorted(slurm_plan_shape.MODEL_KEYS):
        found = JUDGE(changed(model_1={key: value}))
        assert found["problems"] or len(found["submissions"]) == 7
        JUDGE(changed(model_1={"options": {key: value}}))
    for index in range(2):
        plan = changed()
        plan["models"][index] = value
        assert JUDGE(plan)["problems"]
