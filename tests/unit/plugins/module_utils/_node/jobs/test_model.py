# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import model as jobs
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.model import model

from tests.rig.slurm.scripts import FACTS, Role

WITH_PYXIS = {**FACTS, "container_options": 1}


@pytest.fixture(scope="module")
def settings():
    """The settings of the role as its defaults give them."""
    return Role().settings


def job(kind, **changes):
    return {"name": kind.replace("_", "-"), "kind": kind, "minutes": 60, **JOB_KINDS[kind].example, **changes}


def made(settings, *given, facts=WITH_PYXIS, **changes):
    """Return the one job of the model."""
    found = model({**settings, "jobs": list(given), **changes}, facts)
    assert found["problems"] == []
    (one,) = found["jobs"]
    return one


def directives(one):
    return {line["name"]: line["value"] for line in one["directives"]}


def test_option_with_number_beyond_counting_is_sentence(settings):
    given = {**settings, "jobs": [job("node_smoke", options={"array": "9" * 5000})]}
    assert model(given, WITH_PYXIS)["problems"] == [
        "job node-smoke: array has a number with more digits than Slurm can count: correct it"
    ]


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_job_has_values_for_script_and_verdict(settings, kind):
    one = made(settings, job(kind))
    asked = json.loads(one["asked"])
    assert (asked["kind"], asked["name"], asked["gpus_per_node"]) == (kind, one["name"], 8)
    assert set(JOB_KINDS[kind].asked) <= set(asked)
    assert one["spec"]["path"].startswith(settings["dir"]) and len(one["spec"]["sha256"]) == 16
    lines = directives(one)
    assert lines["open-mode"] == "append" and lines["job-name"] == one["name"]
    # Either all of its nodes, or the cores that it asks for.
    assert ("exclusive" in lines) != ("array" in lines)


@pytest.mark.parametrize(
    ("given", "partition", "facts", "count"),
    [
        ({"gpus_per_node": 2, "instance_type": "p5.48xlarge"}, "main", FACTS, 2),
        ({"gpus_per_node": 0, "instance_type": "p5.48xlarge"}, "main", FACTS, 0),
        ({"gpus_per_node": None, "instance_type": "g6.xlarge"}, "main", FACTS, 1),
        ({"gpus_per_node": None, "instance_type": None}, "main", FACTS, 8),
        ({"gpus_per_node": None, "instance_type": None}, "moon", FACTS, 0),
        ({"gpus_per_node": None, "instance_type": None}, "main", None, 0),
    ],
)
def test_accelerators_of_node(given, partition, facts, count):
    assert jobs.per_node(given, partition, facts) == count


def test_nodes_that_differ_count_as_smallest():
    facts = copy.deepcopy(FACTS)
    facts["nodes"][1]["gpus"] = 4
    assert jobs.per_node({"gpus_per_node": None, "instance_type": None}, "main", facts) == 4
    facts["nodes"][1]["partitions"] = ["other"]
    assert jobs.per_node({"gpus_per_node": None, "instance_type": None}, "main", facts) == 8


def test_gpu_count_rendered_empty_by_old_core_is_unset(settings):
    one = made(settings, job("node_smoke"), gpus_per_node="", instance_type="g6.xlarge")
    assert one["gpus"] == 1 and directives(one)["gpus-per-node"] == 1


def test_all_nodes_of_partition_are_counted_by_cluster(settings):
    assert made(settings, job("node_smoke", nodes="all"))["nodes"] == 2
    assert made(settings, job("node_smoke", nodes="all"), facts=None)["nodes"] == 1


def test_container_sees_its_job_directory_and_what_it_names(settings):
    image = {"container_image": "/fsx/x.sqsh"}
    one = made(settings, job("training", checkpoints="/fsx/c", **image))
    assert one["image"] == "/fsx/x.sqsh" and ("image", "/fsx/x.sqsh") in one["needs"]
    assert any(mount.startswith("/fsx") for mount in one["mounts"])
    assert made(settings, job("training"))["mounts"] == []


def test_job_for_other_accelerators_is_left_out(settings):
    given = {**settings, "jobs": [job("nccl"), job("nccom")], "instance_type": "p5.48xlarge"}
    assert [one["name"] for one in model(given, WITH_PYXIS)["jobs"]] == ["nccl"]
    given["instance_type"] = "trn1.32xlarge"
    (neuron,) = model(given, WITH_PYXIS)["jobs"]
    # Slurm has no GPUs to give on these.
    assert neuron["name"] == "nccom" and "gpus-per-node" not in directives(neuron)


def test_single_problem_leaves_no_job(settings):
    given = {**settings, "jobs": [job("node_smoke"), job("nccl", container_image="/fsx/x.sqsh")]}
    found = model(given, FACTS)
    assert found["jobs"] == []
    assert found["problems"] == [
        "job nccl: it runs in a container and srun offers no --container-image here: enable Pyxis first"
    ]
