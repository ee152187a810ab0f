# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs in containers on a real Slurm with a real SPANK plugin, whose containers are the nodes themselves."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.integration.slurm.ran import PROGRAMS, Ran
from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm


@pytest.fixture(scope="module")
def contained(tmp_path_factory):
    """Two nodes whose srun has --container-image, and what slurm_info's own code says of them."""
    library = tmp_path_factory.mktemp("spank") / "container.so"
    source = PROGRAMS / "spank_container.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source], check=True)
    cluster = Cluster(f"pytest-spank-{os.getpid()}")
    yield cluster.up(Spec(gpus=2, plugstack=f"required {library}\n"), owned=True)
    cluster.down()


@pytest.fixture
def ran_inside(contained, run_module, runtime, tmp_path):
    """ran_inside(job) renders a job with the image a.sqsh, submits it and gives what became of it."""
    facts = run_module(slurm_info, contained)
    assert facts["container_options"] == 1

    def run(job):
        role = scripts.Role(facts, jobs=[job], dir=str(tmp_path), container_image="/images/a.sqsh")
        assert role.problems == []
        role.install(runtime)
        number = int(contained.run("sbatch", "--parsable", str(tmp_path / f"{job['name']}.sbatch")).stdout)
        return Ran(jobs.wait(contained, number), tmp_path, job["name"])

    return run


def test_tasks_are_placed_in_containers_which_are_compared_with_their_hosts(ran_inside):
    done = ran_inside({"name": "inside", "kind": "container", "require": []})
    placed = {name: status for name, status in done.status.items() if name.rpartition(".")[2] in ("tasks", "placement")}
    assert placed == {"container.tasks": "pass", "container.placement": "pass"}
    assert done.of("container.placement")[0]["found"] == {"n1": [0, 1], "n2": [2, 3]}
    # The facts were written outside, by each node under its own name, and both containers found theirs.
    for node in ("n1", "n2"):
        assert json.loads((done.folder / f"host-{node}.json").read_text())["schema"].startswith("mlcluster.")
        report = json.loads((done.folder / f"node-{node}.json").read_text())
        assert "no facts of the host" not in json.dumps(report)
    assert {entry["scope"]["node"] for entry in done.of("container.mounts")} == {"n1", "n2"}
    assert done.job.exit_code == int(done.exit_file)


def test_every_step_of_a_training_is_in_its_container_and_the_batch_step_is_not(ran_inside, tmp_path):
    tell = 'echo "${STAND_IN_IMAGE:-bare} ${STAND_IN_MOUNTS:-none}" > $MLCLUSTER_CHECKPOINTS/$RANK'
    times = {"minutes": 9, "monitor_seconds": 0, "signal_seconds": 60, "grace_seconds": 30}
    what = {"launcher": "srun", "command": ["/bin/sh", "-c", tell], "checkpoints": str(tmp_path / "c")}
    job = {"name": "train", "kind": "training", **times, **what}
    done = ran_inside(job)
    assert (done.job.state, done.exit_file) == ("COMPLETED", "0\n")
    told = {path.name: path.read_text() for path in (tmp_path / "c").iterdir()}
    assert told == {str(rank): f"/images/a.sqsh {tmp_path}:{tmp_path}\n" for rank in range(4)}
    assert "STAND_IN" not in (done.folder.parent / f"train-{done.job.number}.out").read_text()


def health(cluster, runtime, *options):
    """The verb health on n1, in its namespaces, as root and outside of Slurm."""
    inside = ["nsenter", f"--target={cluster._init('n1')}", "--mount", "--uts", "--pid", "--"]
    command = [
        "/usr/bin/python3",
        "-I",
        str(runtime),
        "health",
        "--json",
        f"--slurm-conf={cluster.root}/etc/slurm.conf",
    ]
    done = cluster.run(*inside, *command, *options, check=False)
    return {entry["id"]: entry for entry in json.loads(done.stdout)["results"]}, done


def test_the_health_of_a_node_has_that_of_an_image_on_it(contained, runtime):
    image = "registry.example#train:1"
    found, done = health(contained, runtime, "--profile", "full", "--image", image, "--kind", "compute")
    assert found["container.image"]["status"] == "pass", done.stderr
    assert {entry["scope"]["device"] for key, entry in found.items() if key.startswith("container.")} == {image}
    assert found["slurm.controller"]["status"] == found["slurm.node"]["status"] == "pass"
    # The stand-in's containers are the nodes themselves, which is exactly what must not look like a container.
    assert found["container.root"]["status"] == "fail"
    assert "no facts of the host" not in json.dumps(list(found.values()))


@pytest.mark.slow
def test_a_node_that_jobs_hold_is_left_to_them(contained, runtime):
    number = jobs.submit(contained, "sleep 600", "--nodelist=n1", "--gres=gpu:2")
    try:
        jobs.wait(contained, number, "RUNNING")
        found, _done = health(contained, runtime, "--profile", "full", "--image", "registry.example#train:1")
        assert found["container.image"]["reason"] == "jobs hold the node, so no container was tried"
        assert "container.root" not in found
    finally:
        contained.run("scancel", str(number))
        jobs.wait(contained, number)
