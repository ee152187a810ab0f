# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs in containers on a real Slurm, with a SPANK plugin whose containers see only their mounts."""

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
    """Yield two nodes whose srun has --container-image, and the cluster's facts."""
    library = tmp_path_factory.mktemp("spank") / "container.so"
    source = PROGRAMS / "spank_container.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, source], check=True)
    cluster = Cluster(f"pytest-spank-{os.getpid()}")
    # The containers of a node are on its own disk.
    yield cluster.up(Spec(gpus=2, plugstack=f"required {library} {cluster.local}\n"), owned=True)
    cluster.down()


@pytest.fixture
def image(tmp_path_factory):
    """Return an image with its own working directory and environment."""
    path = tmp_path_factory.mktemp("images") / "a.sqsh"
    path.write_text("WORKDIR=/workspace\nIMAGE_TEXT=hello\n")
    return path


@pytest.fixture
def ran_inside(contained, run_module, runtime, tmp_path, image):
    """Return ``ran_inside(job)``: it renders a job with that image, submits it and returns its results."""
    facts = run_module(slurm_info, contained)
    assert facts["container_options"] == 1

    def run(job, task="", before=None, **settings):
        role = scripts.Role(facts, jobs=[job], dir=str(tmp_path), container_image=str(image), **settings)
        assert role.problems == []
        role.install(runtime)
        number = int(contained.run("sbatch", "--parsable", "--hold", str(tmp_path / f"{job['name']}.sbatch")).stdout)
        if before:
            before(number)
        contained.run("scontrol", "release", str(number))
        # File names of an array have the job's number and the task's.
        return Ran(jobs.wait(contained, number)._replace(number=f"{number}{task}"), tmp_path, job["name"])

    return run


def test_tasks_run_in_containers_compared_with_their_hosts(ran_inside):
    done = ran_inside({"name": "inside", "kind": "container", "require": []})
    placed = {name: status for name, status in done.status.items() if name.rpartition(".")[2] in ("tasks", "placement")}
    assert placed == {"container.tasks": "pass", "container.placement": "pass"}
    # All steps ran in containers: the tasks and the steps that inspect the container.
    roots = done.of("container.task_root") + done.of("container.root")
    assert len(roots) == 3 and {entry["status"] for entry in roots} == {"pass"}
    assert done.of("container.placement")[0]["found"] == {"n1": [0, 1], "n2": [2, 3]}
    # Each node wrote its facts outside under its name, and each container read the file of its node.
    for node in ("n1", "n2"):
        assert json.loads((done.folder / f"host-{node}.json").read_text())["schema"].startswith("mlcluster.")
        report = json.loads((done.folder / f"node-{node}.json").read_text())
        assert "no facts of the host" not in json.dumps(report)
    assert {entry["scope"]["node"] for entry in done.of("container.mounts")} == {"n1", "n2"}
    assert done.job.exit_code == int(done.exit_file)


TIMES = {"minutes": 9, "monitor_seconds": 0, "notice_seconds": 0, "signal_seconds": 60, "grace_seconds": 30}


def test_training_sees_only_its_named_paths(ran_inside, tmp_path_factory, tmp_path):
    fsx, elsewhere = tmp_path_factory.mktemp("fsx"), tmp_path_factory.mktemp("elsewhere")
    (fsx / "code").mkdir()
    (fsx / "code" / "train.sh").write_text(
        'ls -d "$1" 2>/dev/null; echo "$(pwd) $IMAGE_TEXT" >"$MLCLUSTER_CHECKPOINTS/$RANK"\n'
    )
    # The README's example: an image, a directory and checkpoints, without mounts.
    job = {
        "name": "train",
        "kind": "training",
        **TIMES,
        "launcher": "srun",
        "command": ["/bin/sh", "train.sh", str(elsewhere)],
        "directory": str(fsx / "code"),
        "checkpoints": str(fsx / "checkpoints"),
    }
    done = ran_inside(job)
    assert (done.job.state, done.exit_file) == ("COMPLETED", "0\n"), done.job.output
    written = {path.name: path.read_text() for path in (fsx / "checkpoints").iterdir()}
    assert written == {str(rank): f"{fsx}/code hello\n" for rank in range(4)}
    assert str(elsewhere) not in (done.folder.parent / f"train-{done.job.number}.out").read_text()


def test_loader_paths_in_container_are_those_of_image(ran_inside, monkeypatch, image, tmp_path_factory):
    fsx = tmp_path_factory.mktemp("fsx")
    job = {
        "name": "train",
        "kind": "training",
        **TIMES,
        "launcher": "srun",
        "command": ["/bin/sh", "-c", f'echo "${{LD_LIBRARY_PATH-none}}" >{fsx}/c/$RANK'],
        "checkpoints": f"{fsx}/c",
    }
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/host/lib")
    ran_inside(job)
    assert {path.read_text() for path in (fsx / "c").iterdir()} == {"none\n"}
    image.write_text("LD_LIBRARY_PATH=/opt/image/lib\n")
    ran_inside(job)
    assert {path.read_text() for path in (fsx / "c").iterdir()} == {"/opt/image/lib\n"}


def test_files_written_beside_mounts_are_lost(ran_inside, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    job = {
        "name": "train",
        "kind": "training",
        **TIMES,
        "launcher": "srun",
        "command": ["/bin/sh", "-c", f"pwd; echo lost >{outside}/file; echo kept >{outside}/c/$RANK"],
        "checkpoints": f"{outside}/c",
    }
    done = ran_inside(job)
    assert done.exit_file == "0\n" and [path.name for path in outside.iterdir()] == ["c"]
    assert {path.read_text() for path in (outside / "c").iterdir()} == {"kept\n"}
    # Without an own directory it runs in the jobs' directory.
    assert done.job.output.count(f"{done.folder.parents[1]}\n") == 4


def test_preprocessing_in_container_keeps_its_shards(ran_inside, tmp_path_factory, tmp_path):
    fsx = tmp_path_factory.mktemp("fsx")
    for name in ("in", "tokenizer"):
        (fsx / name).mkdir()
    (fsx / "in" / "0.jsonl").write_text("{}\n")
    program = tmp_path_factory.mktemp("bin") / "python"
    # Stands in for the data programs, outside (array) and inside (preprocess); it accepts any arguments.
    program.write_text(
        '#!/bin/sh\nfor word; do case $word in --input=*|--tokenizer=*) ls "${word#*=}" >/dev/null || exit 9 ;;\n'
        '--output=*|--spool=*) pwd >"${word#*=}/file" || exit 9 ;; esac; done\n'
    )
    program.chmod(0o755)
    job = {
        "name": "shards",
        "kind": "preprocess",
        **{name: str(fsx / name) for name in ("output", "tokenizer", "spool")},
        "input": str(fsx / "in"),
        "minutes": 9,
        "container_mounts": [f"{program.parent}:{program.parent}:ro"],
    }
    done = ran_inside(job, "_0", data_python=str(program))
    assert (done.job.state, done.exit_file) == ("COMPLETED", "0\n"), done.job.output
    assert {(fsx / name / "file").read_text() for name in ("output", "spool")} == {f"{tmp_path}\n"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--container-image={image}", "--container-mounts=/no/such:/x"], "source path does not exist: /no/such"),
        (["--container-image={image}", "--container-mounts=:/x"], "--container-mounts: invalid format: :/x"),
        (["--container-image={image}", "--container-mounts=usr:/x"], "mount source must be a relative path, an absolu"),
        (["--container-image={image}", "--container-mounts=/usr:x"], "mount target must be a relative path or an abso"),
        # A comma separates mounts.
        (["--container-image={image}", "--container-mounts=/usr:/x:ro,noexec"], "Invalid --container-mounts argument"),
        (["--container-image={image}", "--container-workdir=/no/such"], "couldn't chdir to /no/such: No such file or"),
        (["--container-image=/no/such.sqsh"], "[ERROR] No such file or directory: /no/such.sqsh"),
        (["--container-image=./a.sqsh"], "[ERROR] No such file or directory: ./a.sqsh"),
        (["--container-image=/etc/hostname"], "[ERROR] Invalid image format: /etc/hostname"),
        (["--container-image={image}", "--container-image=/x"], "--container-image specified multiple times"),
        (["--container-mounts=/usr:/x"], "no --container-image: /usr:/x"),
        (["--container-image={image}", "--container-writeable"], "unrecognized option '--container-writeable'"),
    ],
)
def test_stand_in_rejects_what_pyxis_rejects(contained, image, options, words):
    done = contained.run("srun", "--chdir=/", *(word.format(image=image) for word in options), "true", check=False)
    assert done.returncode != 0 and words in done.stderr


@pytest.mark.parametrize("mount", ["{folder}", "{folder}:{folder}:fast"])
def test_stand_in_accepts_what_pyxis_accepts(contained, image, tmp_path, mount):
    """A mount without a target, and a flag that Enroot ignores: the mount is for writing."""
    options = (f"--container-image={image}", f"--container-mounts={mount.format(folder=tmp_path)}")
    contained.run("srun", "--nodes=1", "--chdir=/", *options, "touch", f"{tmp_path}/written")
    assert (tmp_path / "written").exists()


def test_stand_in_has_no_locale_of_host(contained, image, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    show = ("sh", "-c", "echo ${LC_ALL-none}")
    assert contained.run("srun", "--nodes=1", f"--container-image={image}", *show).stdout == "none\n"


LEFT = "[ERROR] File already exists: {}/pyxis_{}.0"


def leave_container(cluster, number):
    """Make the first container of a job on n2, as a node that died has it."""
    (cluster.local_of("n2") / f"pyxis_{number}.0").mkdir()


def test_stand_in_rejects_container_that_is_there(contained, image):
    number = jobs.submit(contained, f"srun --container-image={image} true", "--hold", "--nodelist=n2")
    leave_container(contained, number)
    contained.run("scontrol", "release", str(number))
    done = jobs.wait(contained, number)
    assert done.exit_code == 1 and LEFT.format(contained.local, number) in done.output
    # And a step that ends leaves none.
    assert list(contained.local_of("n1").glob("pyxis_*")) == []


def test_training_replaces_container_of_its_first_start(contained, ran_inside, tmp_path_factory, monkeypatch):
    """A requeued job has the same numbers, and on a node that died the container of its first start is still there."""
    monkeypatch.setenv("PYXIS_CONTAINER_WORKDIR", "/nowhere")
    job = {"name": "train", "kind": "training", **TIMES, "launcher": "srun", "command": ["/bin/true"]}
    outside = tmp_path_factory.mktemp("outside")
    done = ran_inside({**job, "checkpoints": f"{outside}/c"}, before=lambda number: leave_container(contained, number))
    assert (done.job.state, done.exit_file) == ("COMPLETED", "0\n"), done.job.output


def test_stand_in_isolates(contained, image, tmp_path):
    (tmp_path / "seen").touch()
    look = f"ls -d {image} {tmp_path}/seen /work /home; pwd; echo $IMAGE_TEXT; touch /usr/x; touch {tmp_path}/x"
    inside = ("srun", "--nodes=1", "--chdir=/", f"--container-image={image}")
    done = contained.run(*inside, f"--container-mounts={tmp_path}:{tmp_path}:ro", "sh", "-c", look, check=False)
    assert done.stdout.splitlines() == [f"{tmp_path}/seen", "/workspace", "hello"]
    assert done.stderr.count("Read-only file system") == 2
    thrown = f"mkdir -p {tmp_path}/lost && touch {tmp_path}/lost/file"
    assert contained.run(*inside, "sh", "-c", thrown, check=False).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen"]


def health(cluster, runtime, *options):
    """Run ``mlcluster health`` on n1, in its namespaces, as root and outside of Slurm."""
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


def test_health_report_includes_container_image(contained, runtime):
    image = "registry.example#train:1"
    found, done = health(contained, runtime, "--profile", "full", "--image", image, "--kind", "compute")
    assert found["container.image"]["status"] == "pass", done.stderr
    assert {entry["scope"]["device"] for key, entry in found.items() if key.startswith("container.")} == {image}
    assert found["slurm.controller"]["status"] == found["slurm.node"]["status"] == "pass"
    assert found["container.root"]["status"] == "pass"
    assert "no facts of the host" not in json.dumps(list(found.values()))


@pytest.mark.slow
def test_node_with_jobs_is_not_checked_by_container(contained, runtime):
    number = jobs.submit(contained, "sleep 600", "--nodelist=n1", "--gres=gpu:2")
    try:
        jobs.wait(contained, number, "RUNNING")
        found, _done = health(contained, runtime, "--profile", "full", "--image", "registry.example#train:1")
        assert found["container.image"]["reason"] == "jobs occupy the node, so no container was started"
        assert "container.root" not in found
    finally:
        contained.run("scancel", str(number))
        jobs.wait(contained, number)
