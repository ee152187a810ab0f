# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rig: nodes, failures of nodes and daemons, MPI, and leftovers of a killed run."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.rig.slurm import jobs, processes, record
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import RigError, wait_for
from tests.rig.slurm.spec import FAST_FAILURE, Ports, Spec

pytestmark = needs_slurm
OWN = f"rig-{os.getpid()}"
CHECKOUT = Path(__file__).parents[3]
OPEN_MPI = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.rank, w.size, w.allreduce(w.rank))"


@pytest.fixture
def own_cluster():
    """Yield a cluster that the test may break."""
    made = []

    def make(spec: Spec, name: str = OWN) -> Cluster:
        made.append(Cluster(name))
        return made[-1].up(spec, owned=True)

    yield make
    for cluster in made:
        cluster.down()


@pytest.mark.newer
def test_each_node_has_its_name_its_disk_and_its_gpus(slurm):
    script = f"""
        #SBATCH --nodes=2 --gres=gpu:8
        srun bash -c 'hostname > {slurm.local}/name; sleep 0.2; echo $(cat {slurm.local}/name) $CUDA_VISIBLE_DEVICES'
    """.replace("\n        ", "\n").strip()
    job = jobs.finish(slurm, script)
    assert (job.state, sorted(job.output.split("\n"))[1:]) == (
        "COMPLETED",
        ["n1 0,1,2,3,4,5,6,7", "n2 0,1,2,3,4,5,6,7"],
    )
    assert (slurm.local_of("n2") / "name").read_text() == "n2\n"


def test_mpi_program_runs_over_two_nodes_if_launched_as_one(slurm):
    launch = ["srun", "-N2", "--ntasks-per-node=2", "/usr/bin/python3", "-c", OPEN_MPI]
    assert sorted(slurm.run("srun", "--mpi=pmix", *launch[1:]).stdout.splitlines()) == [f"{n} 4 6" for n in range(4)]
    assert slurm.run(*launch, check=False).returncode != 0


@pytest.mark.slow
def test_node_that_dies_requeues_its_job_and_comes_back(own_cluster):
    cluster = own_cluster(Spec(nodes=2, settings=FAST_FAILURE))
    number = jobs.submit(cluster, "echo run $SLURM_RESTART_COUNT; sleep 60", "--nodes=2", "--requeue")
    jobs.wait(cluster, number, "RUNNING")
    cluster.power_off("n2")
    jobs.wait(cluster, number, "PENDING")
    wait_for("n2 to be down", lambda: cluster.nodes_in("down"))
    cluster.power_on("n2")
    wait_for("n2 to be idle", lambda: "n2" in cluster.nodes_in("idle", "allocated"))
    jobs.release(cluster, number)
    wait_for("the second run", lambda: "run 1" in jobs.look(cluster, number).output)


@pytest.mark.slow
def test_paused_node_keeps_new_job(own_cluster):
    """A busy machine pauses nodes; with Slurm's default of ten seconds the job would be requeued for two minutes."""
    cluster = own_cluster(Spec(nodes=1))
    slurmd = cluster._slurmd("n1")
    os.kill(slurmd, signal.SIGSTOP)
    try:
        number = jobs.submit(cluster, "echo run ${SLURM_RESTART_COUNT:-0}")
        jobs.wait(cluster, number, "RUNNING")
        # The pause itself is tested; slurmctld's timeout causes no event to wait for.
        time.sleep(13)
    finally:
        os.kill(slurmd, signal.SIGCONT)
    assert jobs.wait(cluster, number).output == "run 0\n"


def test_job_continues_after_slurmd_is_killed(own_cluster):
    cluster = own_cluster(Spec(nodes=1))
    go = cluster.local_of("n1") / "go"
    number = jobs.submit(cluster, f"echo began; until [ -e {cluster.local}/go ]; do sleep 0.1; done; echo went on")
    # Slurm reports RUNNING before slurmd has started it.
    wait_for("the job itself", lambda: "began" in jobs.look(cluster, number).output)
    cluster.stop_slurmd("n1")
    cluster.start_slurmd("n1")
    go.touch()
    job = jobs.wait(cluster, number)
    assert (job.state, job.output) == ("COMPLETED", "began\nwent on\n")


def test_prolog_epilog_drain_and_partitions(own_cluster, tmp_path):
    log = tmp_path / "log"
    for name in ("prolog", "epilog"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $SLURM_JOB_ID >> {log}\n")
        (tmp_path / name).chmod(0o755)
    spec = Spec(
        settings={"Prolog": str(tmp_path / "prolog"), "PrologFlags": "Alloc", "Licenses": "matlab:1"},
        node_settings={"Feature": "p5"},
        partitions={"gpu": {"Nodes": "n[1-2]", "Default": "YES"}, "debug": {"Nodes": "n2"}},
        topology="SwitchName=s0 Nodes=n[1-2]\n",
    )
    cluster = own_cluster(spec)
    cluster.configure(Epilog=str(tmp_path / "epilog"))
    assert "Epilog" in cluster.record.spec.settings
    job = jobs.finish(cluster, "true", "--partition=debug", "--constraint=p5", "--licenses=matlab:1")
    assert (job.state, job.nodes) == ("COMPLETED", "n2")
    wait_for("the epilog", lambda: "epilog" in log.read_text())
    assert log.read_text().split() == ["prolog", str(job.number), "epilog", str(job.number)]
    assert "SwitchName=s0" in cluster.run("scontrol", "show", "topology").stdout
    cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
    wait_for("n2 to be drained", lambda: cluster.nodes_in("drained") == ["n2"])
    cluster.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    wait_for("both to be idle", lambda: cluster.nodes_in("idle") == ["n1", "n2"])


def test_accounting_remembers_job(slurm_accounting):
    job = jobs.finish(slurm_accounting, "exit 3", "--nodes=2", "--gres=gpu:8")
    query = ("sacct", "-X", "-n", "-P", "-j", str(job.number), "-o", "State,ExitCode,AllocTRES")

    def rows() -> list[str]:
        # The record is complete once it has resources: the end of a job may be recorded before its start.
        text = slurm_accounting.run(*query).stdout
        return text.split("|") if "FAILED" in text and "gres" in text else []

    assert wait_for("the job in the accounting", rows)[:2] == ["FAILED", "3:0"]
    assert "gres/gpu=16" in rows()[2]


def test_end_of_one_cluster_does_not_affect_another(slurm, own_cluster):
    other = own_cluster(Spec(nodes=1, gpus=0))
    assert other.nodes_in("idle") == ["n1"]
    assert other.down()
    assert slurm.nodes_in("idle") == ["n1", "n2"]


@pytest.mark.parametrize("role", ["slurmctld", "n1"])
def test_failed_daemon_ends_wait_for_it(own_cluster, monkeypatch, role):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        choose = record.choose_ports

        def ports(nodes: int) -> Ports:
            found = choose(nodes)
            if role == "n1":
                return dataclasses.replace(found, nodes=(number,))
            return dataclasses.replace(found, controller=number)

        monkeypatch.setattr(record, "choose_ports", ports)
        with pytest.raises(
            RigError, match=rf"(?s)without success: {role} has ended; its log ends:\n.*Address already in use"
        ):
            own_cluster(Spec(nodes=1))


def test_configuration_holds_for_next_job_on_pausing_node(own_cluster, tmp_path):
    (tmp_path / "prolog").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "prolog").chmod(0o755)
    cluster = own_cluster(Spec(nodes=1))
    slurmd = cluster._slurmd("n1")
    configured = threading.Event()

    def configure() -> None:
        cluster.configure(Prolog=str(tmp_path / "prolog"))
        configured.set()

    os.kill(slurmd, signal.SIGSTOP)
    thread = threading.Thread(target=configure)
    thread.start()
    try:
        done = "_slurm_rpc_reconfigure_controller: completed"
        wait_for("the controller", lambda: done in (cluster.root / "log/slurmctld.log").read_text())
        too_early = configured.wait(1)
    finally:
        os.kill(slurmd, signal.SIGCONT)
        thread.join()
    assert not too_early
    assert jobs.finish(cluster, "true").state == "COMPLETED" and (tmp_path / "ran").exists()


def test_ended_job_ends_wait_for_its_effect(slurm):
    number = jobs.finish(slurm, "echo its last words; exit 3").number
    with pytest.raises(
        RigError, match=rf"(?s)job {number} was waited for to be RUNNING, and has ended; .*its last words"
    ):
        jobs.wait(slurm, number, "RUNNING")
    with pytest.raises(
        RigError, match=r"waited for a file without success: the job has ended: .*state='FAILED'.*its last words"
    ):
        wait_for("a file", lambda: False, over=jobs.ended(slurm, number))
    over = jobs.ended(slurm, number)
    assert wait_for("what it did last", lambda: "last words" in jobs.look(slurm, number).output, over=over)


def test_processes_of_killed_run_are_ended_by_next(own_cluster):
    code = f"""
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.spec import FAST_FAILURE, Spec
import os, signal
cluster = Cluster("{OWN}-killed").up(Spec(nodes=1), owned=True)
cluster.run("sbatch", "--output=/dev/null", "--wrap=sleep 600")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False)
    assert done.returncode == -signal.SIGKILL
    left = record.load(record.folder(f"{OWN}-killed"))
    assert processes.marked(left.mark)
    own_cluster(Spec(nodes=1))
    assert processes.marked(left.mark) == []
    assert not record.folder(f"{OWN}-killed").exists()


def test_hosts_mounts_and_name_stay_as_they_are(own_cluster):
    cluster = own_cluster(Spec(nodes=1, private=("/mnt",)))
    assert jobs.finish(cluster, "hostname; touch /mnt/mine; ls /mnt").output == "n1\nmine\n"
    assert not Path("/mnt/mine").exists()
    assert str(cluster.root) not in Path("/proc/self/mountinfo").read_text()
    assert os.uname().nodename != "n1"
