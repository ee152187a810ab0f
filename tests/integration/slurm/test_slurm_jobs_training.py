# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A training on a real Slurm: signalled, saved, requeued, resumed, backed up, ended; with a stand-in for S3."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.integration.slurm.ran import PROGRAMS, install
from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import LIMIT, wait_for
from tests.rig.slurm.spec import FAST_FAILURE, Spec

pytestmark = needs_slurm


class Training:
    """A training on two nodes with two tasks each: its job, files and status."""

    def __init__(self, slurm, folder, runtime, facts, *words, gpus_per_node=2, **options):
        self.slurm, self.folder = slurm, folder
        self.checkpoints = folder / "checkpoints"
        install("aws", folder / "aws")
        job = {
            "name": "train",
            "kind": "training",
            "minutes": 9,
            "command": ["/usr/bin/python3", str(PROGRAMS / "training.py"), *words],
            "launcher": "srun",
            "checkpoints": str(folder / "checkpoints"),
            "backup": "s3://bucket/runs",
            "monitor_seconds": 0,
            "notice_seconds": 0,
            "signal_seconds": 60,
            "grace_seconds": 30,
            **options,
        }
        role = scripts.Role(facts, jobs=[job], dir=str(folder), gpus_per_node=gpus_per_node, aws=str(folder / "aws"))
        assert role.problems == []
        role.install(runtime)
        self.number = int(slurm.run("sbatch", "--parsable", str(folder / "train.sbatch")).stdout)

    @property
    def results(self):
        return self.folder / "results" / f"train-{self.number}"

    @property
    def events(self):
        path = self.results / "events.log"
        return path.read_text() if path.exists() else ""

    @property
    def output(self):
        path = self.folder / "results" / f"train-{self.number}.out"
        return path.read_text() if path.exists() else ""

    def complete(self):
        return sorted(path.parent.name for path in self.checkpoints.glob("step-*/complete"))

    def saved(self):
        # Without the claims on the places.
        return sorted(path.name for path in (self.folder / "s3/bucket/runs/train").glob("step-*") if path.is_dir())

    def waits_for(self, what):
        self.waits(f"{what!r} in the events", lambda: what in self.events)

    def waits_for_a_checkpoint(self):
        self.waits("a checkpoint", self.complete)

    def waits(self, what, probe, timeout=LIMIT):
        """Wait for a true value of ``probe``; fail if Slurm reports the end of the job before it."""
        wait_for(what, probe, timeout, over=jobs.ended(self.slurm, self.number))

    def ended(self):
        return (self.folder / "results" / f"train-{self.number}.exit").exists()

    def exit_status(self):
        return (self.folder / "results" / f"train-{self.number}.exit").read_text()


def cancelled(slurm, number):
    """Cancel a job and return whether it is gone; a job that is being requeued comes back."""
    slurm.run("scancel", str(number), check=False)
    return slurm.run("squeue", "--noheader", f"--jobs={number}", check=False).stdout == ""


@pytest.fixture(scope="module")
def three():
    """Yield three nodes with a short SlurmdTimeout."""
    cluster = Cluster(f"pytest-three-{os.getpid()}")
    yield cluster.up(Spec(nodes=3, gpus=1, settings=FAST_FAILURE), owned=True)
    cluster.down()


@pytest.fixture
def train(slurm, tmp_path, runtime, facts):
    started = []

    def start(*words, **options):
        started.append(Training(slurm, tmp_path, runtime, facts, *words, **options))
        return started[-1]

    yield start
    for training in started:
        wait_for("its end", lambda training=training: cancelled(slurm, training.number), 90, poll=0.5)


@pytest.mark.newer
def test_signal_saves_requeues_resumes_and_backs_up(train, slurm):
    training = train(60, 0, "held")
    training.waits_for_a_checkpoint()
    slurm.run("scancel", "--signal=USR1", "--batch", str(training.number))
    training.waits_for("goes back into the queue")
    assert "asks for a checkpoint" in training.events and "training ended with 75" in training.events
    stopped_at = training.complete()
    assert set(stopped_at) == set(training.saved())
    jobs.wait(slurm, training.number, "PENDING")
    jobs.release(slurm, training.number)
    done = jobs.wait(slurm, training.number)
    assert done.state == "COMPLETED", done
    assert training.exit_status() == "0\n"
    latest = max(stopped_at, key=lambda name: int(name.partition("-")[2]))
    assert f"restart 1: starts on n1 n2, resumes from {training.folder}/checkpoints/{latest}" in training.events
    step = latest.partition("-")[2]
    assert {f"rank {rank} of 4 on n{1 + rank // 2} from {step}" for rank in range(4)} <= set(
        training.output.splitlines()
    )
    # The newest three checkpoints stay here, and S3 has all complete ones.
    assert len(training.complete()) == 3 and "step-60" in training.complete()
    assert set(training.saved()) >= {*stopped_at, *training.complete()}


@pytest.mark.slow
def test_slurm_signals_training_before_time_limit(train, slurm):
    """Slurm checks time limits twice a minute."""
    training = train(60, 0, "held")
    training.waits_for_a_checkpoint()
    slurm.run("scontrol", "update", f"JobId={training.number}", "EndTime=now+100")
    training.waits("the requeue", lambda: "goes back into the queue" in training.events)
    assert "asks for a checkpoint" in training.events and training.complete() == training.saved() != []


def test_torchrun_numbers_nodes_as_slurm_does(train, slurm, tmp_path, monkeypatch):
    launcher = tmp_path / "bin" / "torchrun"
    launcher.parent.mkdir()
    # The first node starts last: torchrun could number nodes in the order of their arrival.
    launcher.write_text(
        f"""#!/bin/bash
if [ "$SLURM_NODEID" = 0 ]; then until [ -e {tmp_path}/seen.n2 ]; do sleep 0.05; done; fi
printf '%s\\n' "$@" >{tmp_path}/seen.part.$(hostname)
mv {tmp_path}/seen.part.$(hostname) {tmp_path}/seen.$(hostname)
"""
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{launcher.parent}:{os.environ['PATH']}")
    training = train("5", launcher="torchrun")
    assert jobs.wait(slurm, training.number).state == "COMPLETED", training.output
    program = ["/usr/bin/python3", str(PROGRAMS / "training.py"), "5"]
    port = next(word for word in (tmp_path / "seen.n1").read_text().split() if word.startswith("--master-port="))
    assert 20000 <= int(port.partition("=")[2]) <= 29999
    for place, node in enumerate(("n1", "n2")):
        assert (tmp_path / f"seen.{node}").read_text().splitlines() == [
            f"--node-rank={place}",
            "--nnodes=2",
            "--nproc-per-node=2",
            "--max-restarts=0",
            # The node's NodeAddr.
            "--master-addr=127.0.0.1",
            port,
            *program,
        ]


def test_failure_keeps_its_status_and_is_not_requeued(train, slurm):
    training = train(3, 41)
    done = jobs.wait(slurm, training.number)
    assert (done.state, done.exit_code, training.exit_status()) == ("FAILED", 41, "41\n")
    assert "goes back" not in training.events and training.saved() == ["step-3"]


def test_deaf_training_is_ended_before_slurm_kills_it(train, slurm):
    training = train(60, 0, "deaf", grace_seconds=1)
    training.waits_for_a_checkpoint()
    slurm.run("scancel", "--signal=USR1", "--batch", str(training.number))
    training.waits_for("goes back into the queue")
    assert training.complete() == training.saved()


def test_lost_copies_are_not_backups_and_keep_originals(train, slurm, tmp_path):
    (tmp_path / "LOSSY").touch()
    training = train(100, keep=1)
    jobs.wait(slurm, training.number)
    assert training.saved() == []
    assert len(training.complete()) == 5 and training.events.count("NOT backed up") == 5


def test_cancelled_training_is_backed_up(slow_to_kill, train, slurm):
    training = train(60, 0, "held")
    training.waits_for_a_checkpoint()
    slurm.run("scancel", str(training.number))
    assert jobs.wait(slurm, training.number).state == "CANCELLED"
    # Slurm reports the job as cancelled at once, while it still ends.
    wait_for("its end", training.ended)
    assert training.saved()
    assert training.exit_status() == "143\n"


def test_training_cancelled_during_save_is_saved(slow_to_kill, train, slurm, tmp_path):
    (tmp_path / "SLOW").touch()
    training = train(3)
    training.waits("the backup to begin", (tmp_path / "BEGAN").exists)
    slurm.run("scancel", str(training.number))
    wait_for("Slurm's notice in the job's output", lambda: "CANCELLED" in training.output)
    (tmp_path / "SLOW").unlink()
    wait_for("its end", training.ended)
    # The status is the training's, which had ended.
    assert (training.saved(), training.exit_status()) == (["step-3"], "0\n")


def test_directory_of_cancelled_training_is_kept_until_end(slow_to_kill, train, tmp_path):
    """The training may still write to it, so the next job must not start in it."""
    hold = [sys.executable, "-m", "mlcluster_data", "hold", str(tmp_path / "checkpoints")]

    def held():
        done = subprocess.run(hold, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return "is in use by process" in done.stderr

    save = 'mkdir "$MLCLUSTER_CHECKPOINTS/step-20"; touch "$MLCLUSTER_CHECKPOINTS/step-20/complete"'
    deaf = f"trap '' TERM; echo deaf; until [ -e {tmp_path}/end ]; do sleep 0.1; done; {save}"
    training = train(nodes=1, gpus_per_node=1, command=["/bin/bash", "-c", deaf])
    training.waits("the training to be deaf", lambda: "deaf" in training.output)
    slow_to_kill.run("scancel", str(training.number))
    wait_for("its status", training.ended)
    assert held() and training.saved() == []
    (tmp_path / "end").touch()
    wait_for("the directory to be free", lambda: not held())
    # The remaining steps are saved, too.
    assert (training.saved(), training.exit_status()) == (["step-20"], "143\n")


def test_every_node_is_watched_until_job_ends(train, slurm, tmp_path, monkeypatch):
    watcher = tmp_path / "bin" / "nvidia-smi"
    watcher.parent.mkdir()
    # A command line that no other run of these tests has.
    watching = f"sleep 601.{os.getpid()}"
    watcher.write_text(f'#!/bin/sh\necho "$$ on $(hostname)"\nexec {watching}\n')
    watcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{watcher.parent}:{os.environ['PATH']}")
    # The training ends once both nodes are watched.
    watched = " && ".join(f"[ -s {tmp_path}/results/train-$SLURM_JOB_ID/gpu-{node}.csv ]" for node in ("n1", "n2"))
    training = train(command=["/bin/sh", "-c", f"until {watched}; do sleep 0.1; done"], monitor_seconds=1)
    assert jobs.wait(slurm, training.number).state == "COMPLETED"
    found = {node: (training.results / f"gpu-{node}.csv").read_text().split() for node in ("n1", "n2")}
    assert [words[2] for words in found.values()] == ["n1", "n2"]
    assert watching not in slurm.run("ps", "-eo", "args").stdout


def test_end_of_capacity_block_asks_for_checkpoint(train):
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 62))
    training = train(60, 0, "held", ends_at=soon)
    training.waits_for("goes back into the queue")
    assert "asks for a checkpoint" in training.events and training.complete() == training.saved() != []


@pytest.fixture
def spot(monkeypatch):
    """Yield an event and serve a spot instance's metadata, which announce an interruption once the event is set."""
    announced = threading.Event()

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            self.answer(200, "token")

        def do_GET(self):
            known = self.path.endswith("/spot/instance-action") and self.headers["X-aws-ec2-metadata-token"] == "token"
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))
            self.answer(
                *((200, json.dumps({"action": "terminate", "time": at})) if known and announced.is_set() else (404, ""))
            )

        def answer(self, code, text):
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield announced
    server.shutdown()
    server.server_close()


def test_spot_interruption_asks_for_checkpoint(train, spot):
    training = train(60, 0, "held", notice_seconds=1)
    training.waits_for_a_checkpoint()
    assert "asks for a checkpoint" not in training.events
    spot.set()
    training.waits_for("goes back into the queue")
    assert "asks for a checkpoint" in training.events and training.complete() == training.saved() != []
    assert "spot terminate at" in (training.results / "notice.log").read_text()


def test_node_that_dies_is_survived(three, run_module, runtime, tmp_path):
    training = Training(three, tmp_path, runtime, run_module(slurm_info, three), 60, 0, "held", gpus_per_node=1)
    training.waits_for_a_checkpoint()
    node = jobs.look(three, training.number).nodes
    assert node == "n[1-2]"
    three.power_off("n2")
    # Slurm would do this by itself some 20 seconds later, as test_node_that_dies_requeues_its_job_and_comes_back shows.
    three.run("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=power")
    try:
        jobs.wait(three, training.number, "PENDING")
        jobs.release(three, training.number)
        assert jobs.wait(three, training.number).state == "COMPLETED"
    finally:
        three.power_on("n2")
    assert "restart 1: starts on n1 n3, resumes from" in training.events
