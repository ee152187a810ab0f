# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a validation that would wait for nodes that take no jobs."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import parse as slurm_parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.shortages import find_shortages

THEN = "resume those that do not, or request other or fewer nodes."
NONE = "1 node was requested and none of those named takes jobs (g3 is drained)"
ONE = "2 nodes were requested and only 1 of those named takes jobs (g3 is drained)"
STATES = {
    "g1": "IDLE+CLOUD+POWERED_DOWN",
    "g2": "ALLOCATED+CLOUD",
    "g3": "IDLE+CLOUD+DRAIN",
    "g4": "DOWN*+CLOUD",
    "g5": "DOWN+CLOUD+POWERING_DOWN",
    "g6": "MIXED+FAIL",
}


def node(name, state, partition="gpu", gpus=8, features=("p5",)):
    # The relevant keys of `scontrol --oneliner show node`.
    gres = f"gpu:{gpus}" if gpus else "(null)"
    (found,) = slurm_parse.nodes(
        f"NodeName={name} AvailableFeatures={','.join(features)} Gres={gres} State={state} Partitions={partition}"
    )
    return found


FACTS = {
    "partitions": [{"name": "gpu", "default": True}, {"name": "cpu", "default": False}],
    "nodes": [
        *(node(name, state) for name, state in STATES.items()),
        *(node(f"c{number}", "IDLE", "cpu", 0, ["c7i"]) for number in (1, 2)),
    ],
}


def job(name="nccl", **directives):
    lines = {"nodes": 2, "exclusive": None, **{key.replace("_", "-"): value for key, value in directives.items()}}
    return name, {key: None if value is None else str(value) for key, value in lines.items()}


def shortages(*jobs, resumed=(), **options):
    return find_shortages(
        {name: {**own, **job(**options)[1]} if options else own for name, own in jobs}, FACTS, resumed
    )


@pytest.mark.parametrize("nodes", [1, 2, 3, "3", "3-6"])
def test_busy_and_powered_down_nodes_count(nodes):
    assert shortages(job(nodes=nodes)) == []


def test_nodes_without_new_jobs_are_named():
    why = "g3 is drained, g4 is down, g6 is failing"
    sentence = f"4 nodes were requested and only 3 of partition gpu take jobs ({why}): {THEN}"
    assert shortages(job(nodes=4)) == [f"nccl: {sentence}"]
    # Options of sbatch override the script, and equal requests are reported together.
    assert shortages(job(), job("smoke"), nodes=4) == [f"nccl, smoke: {sentence}"]
    assert shortages(job(nodes=5), resumed=["g3", "g4"]) == []


@pytest.mark.parametrize(
    "state",
    [
        # After `scontrol reboot ASAP`, which Slurm 22.05 shows with the first and 25.05 with the second.
        "MIXED+DRAIN+REBOOT_REQUESTED NextState=RESUME",
        "MIXED+DRAIN+REBOOT_REQUESTED NextState=UNDRAIN",
        "IDLE+REBOOT_ISSUED",
        "IDLE+CLOUD+POWER_DOWN",
        "IDLE+BLOCKED",
        "IDLE+RESERVED",
        "IDLE+FLAG_OF_2030",
    ],
)
def test_returning_node_counts(state):
    facts = {**FACTS, "nodes": [node("g1", "IDLE"), node("g2", state)]}
    assert find_shortages(dict([job()]), facts) == []


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("MIXED+DRAIN+REBOOT_REQUESTED", "drained"),
        ("IDLE+DRAIN+REBOOT_REQUESTED NextState=DOWN", "drained"),
        ("IDLE+REBOOT_REQUESTED NextState=DOWN", "to be down after its reboot"),
        ("IDLE+INVALID_REG", "registered with less than slurm.conf states"),
        ("DOWN*", "down"),
    ],
)
def test_closed_node_is_named(state, why):
    facts = {**FACTS, "nodes": [node("g1", "IDLE"), node("g2", state)]}
    (found,) = find_shortages(dict([job()]), facts)
    assert f"only 1 of partition gpu takes jobs (g2 is {why})" in found


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"nodelist": "g[2-3]"}, f"{ONE}: {THEN}"),
        ({"nodelist": "g3", "nodes": 1}, f"{NONE}: {THEN}"),
        ({"nodelist": "g1,g2"}, None),
        # Nodes that do not fit are ignored, drained or not.
        ({"partition": "cpu"}, None),
        ({"partition": "cpu,gpu", "constraint": "c7i"}, None),
        ({"partition": "cpu,gpu", "gpus_per_node": 8, "nodes": 4}, "only 3 of partition cpu or gpu take jobs"),
        ({"partition": "cpu,gpu", "constraint": "p5&p5", "nodes": 4}, "only 3 of partition cpu or gpu take jobs"),
        ({"partition": "cpu,gpu", "constraint": "p5|c7i", "nodes": 4}, None),
        # More nodes than exist are reported by the check of the partition.
        ({"partition": "cpu", "nodes": 3}, None),
        ({"partition": "none"}, None),
        ({"nodelist": "g[1-99999]"}, "of which Slurm accepts 65536 at most: check where it comes from."),
    ],
)
def test_only_fitting_nodes_count(asked, sentence):
    found = shortages(job(**asked))
    assert (found == []) if sentence is None else (len(found) == 1 and sentence in found[0]), found


def test_job_without_gpus_needs_node_without_gpus():
    facts = {**FACTS, "nodes": [node("c1", "IDLE", "cpu", 0), node("c2", "IDLE+DRAIN", "cpu", 0)]}
    (found,) = find_shortages(dict([job(partition="cpu")]), facts)
    assert found == f"nccl: 2 nodes were requested and only 1 of partition cpu takes jobs (c2 is drained): {THEN}"


def test_named_nodes_are_all_needed():
    found = shortages(job(nodelist="g[1-4]", nodes=1))
    why = "(g3 is drained, g4 is down)"
    assert found == [f"nccl: 4 nodes were requested and only 2 of those named take jobs {why}: {THEN}"]
