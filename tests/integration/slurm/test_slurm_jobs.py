# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripts of the role slurm_jobs on a real Slurm, with stand-ins for the programs that need GPUs."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.integration.slurm.ran import Ran, install
from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm
SMALL = {"largest": "1K", "factor": 4}


@pytest.mark.newer
def test_tasks_of_two_nodes_start_in_expected_places(ran):
    smoke = ran({"name": "smoke", "kind": "node_smoke"}, gpus_per_node=8)
    assert (smoke.job.state, smoke.exit_file) == ("COMPLETED", "0\n")
    assert set(smoke.status.values()) == {"pass"} and len(smoke.status) == 4
    assert smoke.of("smoke.placement")[0]["found"] == {"n1": [0, 7], "n2": [8, 15]}


def test_tasks_in_another_order_fail(ran):
    smoke = ran({"name": "smoke", "kind": "node_smoke", "options": {"distribution": "cyclic"}})
    assert (smoke.job.exit_code, smoke.exit_file, smoke.status["smoke.placement"]) == (1, "1\n", "fail")


def test_job_submitted_inside_another_places_its_own_tasks(slurm, facts, runtime, tmp_path):
    role = scripts.Role(facts, jobs=[{"name": "smoke", "kind": "node_smoke"}], dir=str(tmp_path), gpus_per_node=2)
    role.install(runtime)
    inside = ("salloc", "--quiet", "--ntasks=1", "--mem-per-cpu=10", "srun", "--cpu-bind=none", "--chdir=/")
    number = int(slurm.run(*inside, "sbatch", "--parsable", str(tmp_path / "smoke.sbatch")).stdout)
    smoke = Ran(jobs.wait(slurm, number), tmp_path, "smoke")
    assert (smoke.job.state, smoke.exit_file) == ("COMPLETED", "0\n"), smoke.job.output
    assert smoke.of("smoke.placement")[0]["found"] == {"n1": [0, 1], "n2": [2, 3]}


def test_node_that_does_not_see_shared_directory_is_named(ran, slurm, runtime, facts):
    # In the rig, this path has other contents on each node, like a directory that is not mounted.
    job = {"name": "smoke", "kind": "node_smoke"}
    role = scripts.Role(facts, jobs=[job], dir=str(slurm.local), gpus_per_node=2)
    for node in ("n1", "n2"):
        folder = slurm.local_of(node)
        (folder / "results").mkdir()
        (folder / "mlcluster.pyz").write_bytes(runtime.read_bytes())
        for path, text in role.files().items():
            (folder / path.rpartition("/")[2]).write_text(text)
    number = int(slurm.run("sbatch", "--parsable", str(slurm.local_of("n1") / "smoke.sbatch")).stdout)
    smoke = Ran(jobs.wait(slurm, number), slurm.local_of("n1"), "smoke")
    (tasks,) = smoke.of("smoke.tasks")
    assert (smoke.job.exit_code, tasks["scope"]["node"], tasks["severity"]) == (1, "n2", "isolate")


def test_six_collectives_on_two_nodes(ran):
    nccl = ran({"name": "nccl", "kind": "nccl", **SMALL}, instance_type="p5.48xlarge")
    checked = {key: status for key, status in nccl.status.items() if "bandwidth" not in key}
    assert (len(checked), set(checked.values())) == (13, {"pass"})
    # The job's options: a rank for each GPU, twenty runs after five warm-up runs, and checked results.
    started = "nGpus 1 minBytes 8 maxBytes 1024 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 "
    printed = [path.read_text() for path in nccl.folder.glob("all.*.out")]
    assert len(printed) == 6 and all(started in text for text in printed)
    # There is no published bandwidth for two nodes with two GPUs, so the job does not pass.
    assert (nccl.job.exit_code, nccl.status["nccl.bandwidth.reduce"]) == (2, "undeterminable")


def test_launch_without_mpi_fails(ran):
    nccl = ran({"name": "nccl", "kind": "nccl", "collectives": ["all_reduce"], **SMALL}, mpi="none")
    assert (nccl.job.exit_code, nccl.exit_file) == (1, "1\n")
    assert "fail" in (nccl.status["nccl.correct.all_reduce"], nccl.status["nccl.fabric.all_reduce"])


def test_run_over_sockets_fails(ran):
    nccl = ran(
        {"name": "nccl", "kind": "nccl", "collectives": ["broadcast"], **SMALL},
        environment={"STAND_IN_SOCKET_HOST": "n2"},
    )
    assert (nccl.job.exit_code, nccl.status["nccl.fabric.broadcast"]) == (1, "fail")


def test_layout_each_runs_every_node_alone(ran):
    nccl = ran(
        {"name": "single", "kind": "nccl", "layout": "single", "nodes": 2, "collectives": ["all_reduce"], **SMALL},
        environment={"STAND_IN_WRONG_HOST": "n2"},
    )
    assert {entry["scope"]["node"]: entry["status"] for entry in nccl.of("nccl.correct.all_reduce")} == {
        "n1": "pass",
        "n2": "fail",
    }
    (node,) = nccl.of("nccl.nodes")
    assert (node["scope"]["node"], node["severity"]) == ("n2", "isolate")


@pytest.fixture
def nccom(ran, tmp_path):
    """Return ``nccom(**job)``: it runs the stand-in for nccom-test as a job of three sizes and one collective."""
    install("nccom_test", tmp_path / "nccom-test")

    def run(environment=None, **more):
        job = {"name": "nccom", "kind": "nccom", "workers_per_node": 4, "collectives": ["all_reduce"], **SMALL, **more}
        return ran(job, nccom_test=str(tmp_path / "nccom-test"), gpus_per_node=0, environment=environment or {})

    return run


@pytest.mark.parametrize("launch", ["slurm", pytest.param("mpi", marks=pytest.mark.slow)])
def test_neurons_collectives_on_two_nodes(nccom, launch):
    found = nccom(launch=launch)
    assert found.status == {
        "nccom.complete": "pass",
        "nccom.correct.all_reduce": "pass",
        # nccom-test does not report its transport, and these nodes have no counters.
        "nccom.fabric.all_reduce": "undeterminable",
        "nccom.bandwidth.all_reduce": "undeterminable",
    }
    assert (found.job.exit_code, found.exit_file) == (2, "2\n")
    # The rows are of eight workers, four on each node.
    rows = [line.split() for line in (found.folder / "all.all_reduce.out").read_text().splitlines()[1:-1]]
    assert [(row[0], row[2], row[-1]) for row in rows] == [(size, "fp32", "1.75") for size in ("8", "32", "128", "512")]


@pytest.fixture
def taken(slurm):
    """Occupy the ports that the next jobs would use by their numbers, and nccom-test's data collector port."""
    last = int(slurm.run("sbatch", "--parsable", "--output=/dev/null", "--wrap=true").stdout)
    with contextlib.ExitStack() as held:
        for port in (60006, *(20000 + number % 10000 for number in range(last + 1, last + 5))):
            # A port that another process holds is occupied, too.
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        yield last


@pytest.mark.parametrize("launch", ["mpi", "slurm"])
def test_neuron_ranks_meet_on_unused_port(nccom, taken, launch):
    found = nccom(launch=launch)
    assert taken < found.job.number <= taken + 4
    assert found.status["nccom.correct.all_reduce"] == "pass", (found.folder / "all.all_reduce.out").read_text()


def test_neurons_collectives_on_each_node_find_broken_one(nccom):
    found = nccom(layout="single", environment={"STAND_IN_BROKEN_HOST": "n2"})
    (node,) = found.of("nccom.nodes")
    assert (found.job.exit_code, node["scope"]["node"], node["severity"]) == (1, "n2", "isolate")


def test_missing_nccl_program_is_one_sentence(ran):
    nccl = ran({"name": "nccl", "kind": "nccl"}, nccl_tests_dir="/no/such")
    assert (nccl.job.exit_code, nccl.exit_file, nccl.results) == (2, "2\n", [])
    assert nccl.job.output == (
        "nccl: /no/such/all_reduce_perf is not on n1: set efa_nccl_tests: build, or slurm_jobs_nccl_tests_dir\n"
    )


def test_cancelled_job_has_its_status_in_exit_file(slow_to_kill, facts, runtime, tmp_path):
    """This holds also if the step does not get the signal, as a step that is starting may not."""
    (tmp_path / "all_reduce_perf").write_text(
        f"#!/bin/bash\ntrap '' TERM\necho deaf\nuntil [ -e {tmp_path}/end ]; do sleep 0.1; done\n"
    )
    (tmp_path / "all_reduce_perf").chmod(0o755)
    job = {"name": "nccl", "kind": "nccl", "collectives": ["all_reduce"]}
    role = scripts.Role(facts, jobs=[job], dir=str(tmp_path), gpus_per_node=1, nccl_tests_dir=str(tmp_path), mpi="none")
    role.install(runtime)
    number = int(slow_to_kill.run("sbatch", "--parsable", str(tmp_path / "nccl.sbatch")).stdout)
    printed = tmp_path / "results" / f"nccl-{number}" / "all.all_reduce.out"
    wait_for("the test to start", lambda: printed.exists() and printed.read_text().count("deaf") == 2)
    slow_to_kill.run("scancel", str(number))
    # Slurm reports the job as cancelled at once, while it still ends.
    wait_for("its end", (tmp_path / "results" / f"nccl-{number}.exit").exists)
    (tmp_path / "end").touch()
    ended = Ran(jobs.wait(slow_to_kill, number), tmp_path, "nccl")
    assert (ended.job.state, ended.exit_file) == ("CANCELLED", "143\n")


@pytest.fixture(scope="module")
def four():
    """Yield four nodes; a failing node must not be blamed on its neighbours."""
    cluster = Cluster(f"pytest-four-{os.getpid()}")
    yield cluster.up(Spec(nodes=4, gpus=1), owned=True)
    cluster.down()


@pytest.mark.parametrize("layout", ["pairs", "bisect"])
def test_node_that_fails_with_every_peer_is_found(four, run_module, runtime, programs, tmp_path, layout):
    job = {"name": "find", "kind": "nccl", "layout": layout, "nodes": 4, "collectives": ["all_reduce"], **SMALL}
    role = scripts.Role(
        run_module(slurm_info, four),
        jobs=[job],
        dir=str(tmp_path),
        nccl_tests_dir=str(programs),
        environment={"STAND_IN_SOCKET_HOST": "n3"},
    )
    role.install(runtime)
    number = int(four.run("sbatch", "--parsable", str(tmp_path / "find.sbatch")).stdout)
    found = Ran(jobs.wait(four, number), tmp_path, "find")
    assert found.job.exit_code == 1
    assert [(node["status"], node["scope"]["node"]) for node in found.of("nccl.nodes")] == [("fail", "n3")]
