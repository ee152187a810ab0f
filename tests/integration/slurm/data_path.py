# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data path on a cluster of the rig: data programs as Slurm jobs, the training by the role's job script."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.processes import wait_for

CHECKOUT = Path(__file__).parents[3]
DATA = CHECKOUT / "roles" / "slurm_jobs" / "files"
PYTHON = CHECKOUT / ".venv-data" / "bin" / "python"
# Limit in seconds of steps that a busy machine does within a minute.
PATIENCE = 150
PREPARE = """
import sys
from pathlib import Path
from tests.data.support import sample_corpus as corpus
folder, count = Path(sys.argv[1]), int(sys.argv[2])
texts = corpus.documents(count)
corpus.tokenizer(folder / "tokenizer", texts, 400)
(folder / "texts").mkdir()
for number, text in enumerate(texts):
    (folder / "texts" / f"{number:04d}.txt").write_text(text)
"""


class DataPath:
    """The folders and jobs of a run of the data path."""

    def __init__(self, slurm: Cluster, folder: Path, runtime: Path, facts: dict[str, Any], nodes: int, epochs: int):
        self.slurm, self.folder, self.runtime, self.facts = slurm, folder, runtime, facts
        self.nodes, self.epochs = nodes, epochs
        self.number = 0

    # Programs as jobs

    def program(self, *words: str) -> str:
        """Return a shell line that runs a data program."""
        return f"cd {DATA} && OMP_NUM_THREADS=1 {PYTHON} -m mlcluster_data {' '.join(words)}"

    def job(self, *words: str, environment: dict[str, str] | None = None) -> str:
        """Run a data program as a job and return its output."""
        exports = "".join(f"export {name}={value}\n" for name, value in (environment or {}).items())
        done = jobs.finish(self.slurm, exports + self.program(*words), timeout=PATIENCE)
        assert (done.state, done.exit_code) == ("COMPLETED", 0), done
        return done.output

    def prepare(self, documents: int) -> None:
        """Write documents and train a tokenizer."""
        subprocess.run([PYTHON, "-c", PREPARE, self.folder, str(documents)], cwd=CHECKOUT, check=True)

    def collect(self, inputs: int) -> None:
        """Collect the documents into input files."""
        self.job("collect", str(self.folder / "texts"), f"--output={self.folder}/inputs", f"--inputs={inputs}")

    def install(self, job: dict[str, Any]) -> None:
        """Write a job and the data programs into the folder, as the role does."""
        role = scripts.Role(self.facts, jobs=[job], dir=str(self.folder), gpus_per_node=2, data_python=str(PYTHON))
        assert role.problems == []
        role.install(self.runtime)

    def preprocess(self) -> int:
        """Make shards by the role's job, which submits itself as an array; return the job's number."""
        job = {
            "name": "pre", "kind": "preprocess", "minutes": 9, "limit": 2, "cpus_per_task": 1,
            "input": f"{self.folder}/inputs", "output": f"{self.folder}/shards",
            "tokenizer": f"{self.folder}/tokenizer", "arguments": ["--length=32", "--shard-tokens=800"],
        }  # fmt: skip
        self.install(job)
        number = int(self.slurm.run("bash", str(self.folder / "pre.sbatch"), "--parsable").stdout)
        self._ends(number)
        return number

    def preprocess_with_a_killed_task(self, killed_task: int) -> None:
        """Make shards by an array of which one task is killed while it runs and requeued."""
        array = subprocess.run(
            [PYTHON, "-m", "mlcluster_data", "array", str(self.folder / "inputs"), "--limit", "2"],
            cwd=DATA, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        work = self.program(
            "preprocess", f"--input={self.folder}/inputs", f"--output={self.folder}/shards", "--length=32",
            f"--tokenizer={self.folder}/tokenizer", "--processes=1", "--shard-tokens=800",
        )  # fmt: skip
        script = f"""
if [ "$SLURM_ARRAY_TASK_ID" = {killed_task} ] && [ -z "$SLURM_RESTART_COUNT" ]; then
  ({work}) &
  until ls {self.folder}/shards/shard-0000{killed_task}-*.tar >/dev/null 2>&1; do sleep 0.02; done
  pkill -9 -P $! || kill -9 $!
  scontrol requeue "$SLURM_JOB_ID"
  sleep 600
fi
{work}
"""
        number = jobs.submit(self.slurm, script, f"--array={array}", "--requeue", f"--output={self.folder}/pre-%A_%a")
        self._restarted(f"{number}_{killed_task}")
        self._ends(number)

    def _ends(self, number: int) -> None:
        """Wait until every task of an array has ended, and check that all succeeded."""
        ask = ("squeue", "--noheader", "--array", "--states=all", "--format=%T", f"--jobs={number}")

        def states() -> set[str]:
            found = set(self.slurm.run(*ask).stdout.split())
            return found if found <= jobs.ENDED else set()

        found = wait_for("the array to end", states, PATIENCE)
        assert found == {"COMPLETED"}, found

    def _restarted(self, task: str) -> None:
        """Check that a task was requeued, and let it start soon."""

        def there() -> bool:
            shown = self.slurm.run("scontrol", "--oneliner", "show", "job", task, check=False).stdout
            return "Restarts=1" in shown and "JobState=PENDING" in shown

        wait_for(f"task {task} to be requeued", there, PATIENCE)
        self.slurm.run("scontrol", "update", f"JobId={task}", "StartTime=now+5")

    # The training

    def submit_training(self) -> None:
        """Submit the role's training job with the program train."""
        command = [
            "/usr/bin/env", "OMP_NUM_THREADS=1", "PYTHONUNBUFFERED=1", str(PYTHON), "-m", "mlcluster_data", "train",
            f"--data-dir={self.folder}/shards", f"--local-dir={self.slurm.local}/checkpoints",
            f"--log-dir={self.folder}/log", f"--output-dir={self.folder}/output", "--model-name=small",
            f"--epochs={self.epochs}", "--batch-size=2", "--workers=1", "--width=16", "--layers=1", "--heads=2",
            "--warmup-steps=5", "--learning-rate=0.01", "--checkpoint-freq=10", "--log-freq=1", "--record-samples",
            "--distributed-backend=gloo",
        ]  # fmt: skip
        job = {
            "name": "train", "kind": "training", "nodes": self.nodes, "minutes": 9, "launcher": "srun",
            "command": command, "directory": str(self.folder), "checkpoints": str(self.folder / "checkpoints"),
            "monitor_seconds": 0, "notice_seconds": 0, "signal_seconds": 60, "grace_seconds": 50,
        }  # fmt: skip
        self.install(job)
        self.number = int(self.slurm.run("sbatch", "--parsable", str(self.folder / "train.sbatch")).stdout)

    @property
    def events(self) -> str:
        """Return the notes of the training job."""
        path = self.folder / "results" / f"train-{self.number}" / "events.log"
        return path.read_text() if path.exists() else ""

    def published(self) -> list[int]:
        """Return the steps of the published checkpoints."""
        found = (self.folder / "checkpoints").glob("step-*/complete")
        return sorted(int(path.parent.name.partition("-")[2]) for path in found)

    def train(self) -> int:
        """Train, request a checkpoint during the run, resume and finish; return the step of the request."""
        self.submit_training()
        try:
            wait_for("a checkpoint", self.published, PATIENCE, over=jobs.ended(self.slurm, self.number))
            self.slurm.run("scancel", "--signal=USR1", "--batch", str(self.number))
            wait_for("the requeue", lambda: "goes back into the queue" in self.events, PATIENCE)
            jobs.wait(self.slurm, self.number, "PENDING", timeout=PATIENCE)
            stopped_at = self.published()[-1]
            self.slurm.run("scontrol", "update", f"JobId={self.number}", "StartTime=now+5")
            done = jobs.wait(self.slurm, self.number, timeout=PATIENCE)
            assert done.state == "COMPLETED", (done, self.events)
        except BaseException:
            print(self.events, *(path.read_text() for path in self.folder.glob("results/train-*.out")))
            raise
        finally:
            self.slurm.run("scancel", str(self.number), check=False)
        return stopped_at

    # Observations

    def journal(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a journal of the training."""
        return [json.loads(line) for line in (self.folder / "log" / name).read_text().splitlines()]

    def samples(self, epoch: int) -> Counter[int]:
        """Return how often each sample was used in an epoch, by all ranks together."""
        found: Counter[int] = Counter()
        for rank in range(2 * self.nodes):
            for line in self.journal(f"small-samples-{rank:05d}.jsonl"):
                if line["epoch"] == epoch:
                    found.update(line["ids"])
        return found

    def check_samples(self) -> None:
        """Check that every sample was used once in every epoch."""
        dataset = json.loads((self.folder / "shards" / "manifest.json").read_text())
        every = self.samples(0)
        assert len(every) == dataset["samples"]
        for epoch in range(self.epochs):
            found = self.samples(epoch)
            assert set(found.values()) == {1} and found.keys() == every.keys(), epoch

    def losses(self) -> list[float]:
        """Return the loss of each step."""
        return [line["loss"] for line in self.journal("small-metrics.jsonl") if "loss" in line]


class S3:
    """A local S3 for jobs, in the environment in which the data programs are tested."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([PYTHON, "-m", "tests.rig.local_s3"], cwd=CHECKOUT, text=True, **pipes)
        url = self.process.stdout.readline().strip()
        assert url, f"the local S3 ended with status {self.process.wait()}"
        self.environment = {
            "AWS_ENDPOINT_URL_S3": url, "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip
        make = "import boto3; boto3.client('s3').create_bucket(Bucket='bucket')"
        subprocess.run([PYTHON, "-c", make], env={**os.environ, **self.environment}, check=True)

    def close(self) -> None:
        """End the server."""
        self.process.communicate()
