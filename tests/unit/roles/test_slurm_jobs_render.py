# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripts of the role slurm_jobs: their content, and rejected settings."""

from __future__ import annotations

import copy
import json
import re
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import dry_run
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.rig.slurm.scripts import FACTS, Role

HOSTILE = ["$(touch /tmp/x)", "`id`", "'; rm -rf ~; '", 'a"b', "two words", "-n", "a\nb", "~", "*", "{1,2}", "!!", ""]
TRAINING = {"kind": "training", "minutes": 60, "checkpoints": "/fsx/c"}
PREPROCESS = {"kind": "preprocess", "minutes": 60, "input": "/fsx/in", "output": "/fsx/out", "tokenizer": "/fsx/it's"}
# Every layout and option once, with and without a container.
JOBS = [
    {"name": "node_smoke", "kind": "node_smoke"},
    *({"name": f"nccl_{layout}", "kind": "nccl", "layout": layout} for layout in ("all", "single", "pairs", "bisect")),
    {"name": "gpu_efa", "kind": "gpu_efa"},
    {
        "name": "container",
        "kind": "container",
        "container_image": "/fsx/it's.sqsh",
        "container_mounts": ["/data:/data"],
    },
    {"name": "local_io", "kind": "local_io"},
    {"name": "gds_io", "kind": "gds_io", "mounts": ["/fsx", "/local"], "modes": ["nvfs", "p2pdma"], "least_gib": 1.5},
    {"name": "fsx_io", "kind": "fsx_io", "minutes": 60, "options": {"comment": "x"}},
    {"name": "torch", "command": ["train.py", "--a", "$(id)"], **TRAINING},
    {"name": "ranks", "command": ["./t"], "launcher": "srun", "backup": "s3://bucket/x", "container_image": "/x.sqsh",
     "ends_at": "2026-12-01T11:30:00Z", "directory": "/fsx/src", **TRAINING, "checkpoints": "/fsx/ranks"},
    {"name": "shards", "partition": "main", "limit": 4, "arguments": ["--eos", "<|end|> $(id)"], **PREPROCESS},
    {"name": "shards_image", "tasks": 9, "spool": "/local", "container_image": "/x.sqsh", **PREPROCESS,
     "output": "/fsx/image"},
    {"name": "nccl_image", "kind": "nccl", "container_image": "docker://nvcr.io#nvidia/pytorch:25.10-py3"},
]  # fmt: skip
NEURON = [
    {"name": f"nccom_{layout}_{launch}", "kind": "nccom", "layout": layout, "launch": launch, "workers_per_node": 32,
     "arguments": ["--debug", "a b"]}
    for layout, launch in (("all", "slurm"), ("all", "mpi"), ("single", "slurm"), ("pairs", "mpi"), ("bisect", "mpi"))
]  # fmt: skip
WITH_PYXIS = {**FACTS, "container_options": 1}


def texts(**settings):
    return {path.rpartition("/")[2][: -len(".sbatch")]: text for path, text in Role(**settings).scripts().items()}


def specs(**settings):
    """Return {name: spec} of the jobs, read as the runner reads them."""
    files = {path: text for path, text in Role(**settings).files().items() if path.endswith(".json")}
    return {spec.name: spec for spec in (parse(text, path, JOB_KINDS) for path, text in files.items())}


def steps(spec):
    """The steps of a job as --dry-run prints them, on nodes n1 and n2, without what is not a step."""
    printed = dry_run.lines(spec, Host(), ("n1", "n2"))
    return [line for line in printed if not line.startswith("#")]


def every_script():
    found = texts(facts=WITH_PYXIS, jobs=JOBS, instance_type="p5.48xlarge")
    assert list(found) == [job["name"] for job in JOBS], Role(facts=WITH_PYXIS, jobs=JOBS).problems
    neuron = texts(jobs=NEURON, instance_type="trn1.32xlarge")
    assert list(neuron) == [job["name"] for job in NEURON], Role(jobs=NEURON, instance_type="trn1.32xlarge").problems
    return {**found, **neuron}


def test_every_script_is_sound_shell(tmp_path):
    for name, text in every_script().items():
        path = tmp_path / name
        path.write_text(text)
        assert subprocess.run(["bash", "-n", path], check=False).returncode == 0, name
        done = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stdout}"


def test_each_script_is_read_at_glance():
    for name, text in every_script().items():
        assert len(text.splitlines()) <= 25, name
        (command,) = [line for line in text.splitlines() if line and not line.startswith("#")]
        runtime = "/usr/bin/python3 /fsx/mlcluster/jobs/mlcluster.pyz"
        file = f"/fsx/mlcluster/jobs/{name}.json"
        assert command in (f"exec {runtime} job {file}", f'exec {runtime} job {file} "$@"')
        assert f"# Its steps: {runtime} job --dry-run {file}\n" in text
        assert not re.search(r"^#SBATCH --(container|export)", text, re.MULTILINE), name


def test_container_is_steps_and_not_batch_scripts():
    spec = specs(facts=WITH_PYXIS, jobs=[JOBS[-1]], instance_type="p5.48xlarge")["nccl_image"]
    launches = [line for line in steps(spec) if "_perf" in line]
    image = "docker://nvcr.io#nvidia/pytorch:25.10-py3"
    inside = f"'--container-image={image}' --container-mounts=/fsx/mlcluster/jobs:/fsx/mlcluster/jobs "
    assert len(launches) == 6 and all(inside in line for line in launches)
    assert "container" not in next(line for line in steps(spec) if "efa-counters" in line)


@pytest.mark.parametrize(("offered", "launch"), [(["none", "pmix", "pmi2"], "pmix"), (["pmi2", "none"], "pmi2")])
def test_mpi_is_what_cluster_offers(offered, launch):
    spec = specs(facts={**FACTS, "mpi_types": offered}, jobs=JOBS[1:2])["nccl_all"]
    assert spec.mpi == launch and any(f" --mpi={launch} " in line for line in steps(spec))


def test_cluster_without_mpi_is_refused():
    assert Role(facts={**FACTS, "mpi_types": ["none"]}, jobs=JOBS[1:2]).problems == [
        "job nccl_all: its ranks connect over pmix or pmi2, and srun offers none: install Slurm's PMIx plugin"
    ]
    (problem,) = Role(jobs=JOBS[1:2], mpi="pmix_v9").problems
    assert problem.startswith("job nccl_all: mpi is pmix_v9 and srun offers none, pmi2, pmix")


@pytest.mark.parametrize("value", [text for text in HOSTILE if "\n" not in text])
def test_no_value_is_more_than_word(value, tmp_path):
    """Neither in the script, nor in a line that --dry-run prints for people to paste."""
    job = {**JOBS[-1], "container_image": f"r#{value}", "collectives": ["reduce"]}
    settings = {"facts": WITH_PYXIS, "jobs": [job], "nccl_tests_dir": value, "python": f"/{value}"}
    (line,) = [line for line in steps(specs(**settings)["nccl_image"]) if "_perf" in line]
    words = line.partition(" >")[0].removeprefix("srun ")
    command = next(line for line in texts(**settings)["nccl_image"].splitlines() if line.startswith("exec "))
    script = tmp_path / "part.sh"
    script.write_text(f'printf "%s\\0" {words}\nprintf "%s\\0" {command.removeprefix("exec ")}\n')
    done = subprocess.run(["bash", "-u", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    found = done.stdout.split("\0")
    assert {f"--container-image=r#{value}", f"{value}/reduce_perf", f"/{value}"} <= set(found)
    assert [path.name for path in tmp_path.iterdir()] == ["part.sh"]


def test_everything_that_is_wrong_with_settings_at_once():
    role = Role(
        dir="/fsx/my jobs",
        partition="gpu; rm",
        instance_type="p5.48xlarge",
        gpus_per_node=9,
        container_mounts=["/a"],
        jobs=[
            {"name": "a b", "kind": "nccl"},
            {"name": "x", "kind": "dance"},
            {"name": "y", "kind": "nccl", "layout": "star", "collectives": ["allreduce"], "factor": 1, "colour": 1},
            {"name": "y", "kind": "node_smoke", "nodes": 0, "options": {"wrap": "id", "comment": "a b"}},
            {"name": "z", "kind": "node_smoke", "options": {"output": "/x", "comment": "a'b"}},
        ],
    )
    starts = [":".join(problem.split(":")[:2])[:20] for problem in role.problems]
    assert len(role.problems) == len(set(role.problems)) == 15, role.problems
    assert starts[0] == "dir is '/fsx/my jobs"
    assert {"job y: two jobs have", "job x: kind is 'danc", "job y: layout is 'st"} <= set(starts)
    assert role.scripts() == {}


def test_impossible_jobs_are_found_before_submission():
    facts = copy.deepcopy(FACTS)
    facts["accounting"] = True
    jobs = [
        {"name": "big", "kind": "node_smoke", "nodes": 3, "account": "nobody"},
        {"name": "where", "kind": "node_smoke", "partition": "moon"},
        {"name": "image", "kind": "nccl", "container_image": "/x.sqsh"},
    ]
    lines = [problem.split(":")[0] + problem.split(":")[1] for problem in Role(facts=facts, jobs=jobs).problems]
    assert [line[:50] for line in lines] == [
        "job big 3 nodes were requested and partition main ",
        "job big 8 GPUs a node were requested on 3 nodes, a",
        "job big account nobody does not exist",
        "job where partition moon does not exist here",
        "job image it runs in a container and srun offers n",
    ]


def test_variables_come_from_table_and_harmful_ones_are_refused():
    spec = specs(jobs=JOBS[1:2], instance_type="p5.48xlarge")["nccl_all"]
    text = "\n".join(steps(spec))
    assert "NCCL_DEBUG=INFO NCCL_NET=Libfabric" in text
    (problem,) = Role(jobs=JOBS[1:2], environment={"NCCL_IFNAME": "eth0"}).problems
    assert problem.startswith("job nccl_all: ") and "NCCL_IFNAME" in problem


@pytest.mark.parametrize("image", ["nemo.sqsh", "images/nemo.sqsh", "~/nemo.sqsh", "./nemo", "../x.SQSH"])
def test_relative_path_of_image_is_refused(image):
    sentence = f"container_image is '{image}': use the absolute path of a .sqsh file, or the name of an image in a "
    (of_job,) = Role(jobs=[{"name": "x", "kind": "nccl", "container_image": image}], facts=WITH_PYXIS).problems
    assert of_job == f"job x: {sentence}registry"
    (of_all,) = Role(jobs=[], container_image=image).problems
    assert of_all == f"{sentence}registry"


@pytest.mark.parametrize("image", ["/fsx/nemo.sqsh", "nvcr.io#nvidia/nemo:25.07", "ubuntu", "docker://r#n.sqsh"])
def test_image_of_registry_or_with_absolute_path_is_taken(image):
    assert Role(jobs=[{"name": "x", "kind": "nccl", "container_image": image}], facts=WITH_PYXIS).problems == []


def test_a_job_for_other_accelerators_is_left_out():
    assert list(texts(jobs=JOBS[:2], instance_type="trn1.32xlarge")) == ["node_smoke"]


def test_training_that_would_have_no_time_to_save_is_refused():
    job = {"name": "t", "kind": "training", "command": ["x"], "checkpoints": "/c"}
    (short,) = Role(jobs=[{**job, "minutes": 10}]).problems
    assert short.startswith("job t: signal_seconds is 600 and the job has 600")
    (grace,) = Role(jobs=[{**job, "minutes": 60, "grace_seconds": 600}]).problems
    assert grace.startswith("job t: grace_seconds is 600 and signal_seconds 600")
    missing = Role(jobs=[{"name": "t", "kind": "training", "backup": "s3://b/$(id)", "ends_at": "soon"}]).problems
    assert [problem.split(" is ")[0] for problem in missing] == [
        "job t: backup",
        "job t: ends_at",
        "job t: command",
        "job t: checkpoints",
    ]


@pytest.mark.parametrize(
    "when",
    ["2026-13-41T99:99:99Z", "2026-02-30T00:00:00Z", "2026-12-01T11:30:60Z", "2026-12-01T11:30:00+99:00",
     "2026-12-01T11:30:00", "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_end_that_no_calendar_has_is_refused(when):
    job = {"name": "t", "command": ["x"], **TRAINING}
    (own,) = Role(jobs=[{**job, "ends_at": when}]).problems
    assert own == f"job t: ends_at is '{when}': use a time such as 2026-12-01T11:30:00Z, or never"
    (common,) = Role(jobs=[job], ends_at=when).problems
    assert common == f"ends_at is '{when}': use a time such as 2026-12-01T11:30:00Z"
    assert Role(jobs=[{**job, "ends_at": "2028-02-29T11:30:00+0530"}]).problems == []


def test_training_is_signalled_requeued_and_appended_to():
    text = every_script()["ranks"]
    for line in ("--signal=B:USR1@600", "--requeue", "--open-mode=append", "--ntasks-per-node=8", "--gpus-per-node=8"):
        assert f"#SBATCH {line}\n" in text
    torch = every_script()["torch"]
    assert "#SBATCH --ntasks-per-node=1\n" in torch


def test_all_nodes_of_partition():
    text = texts(jobs=[{"name": "a", "kind": "node_smoke", "nodes": "all"}])["a"]
    assert "#SBATCH --nodes=2\n" in text and "#SBATCH --gpus-per-node=8\n" in text


def test_unsupported_nccom_options_are_rejected():
    jobs = [
        {"name": "a", "kind": "nccom", "collectives": ["all_reduce", "broadcast"]},
        {"name": "b", "kind": "nccom", "workers_per_node": 32, "layout": "pairs"},
        {"name": "c", "kind": "gds_io"},
    ]
    assert [problem.partition(":")[2].split(":")[0] for problem in Role(jobs=jobs).problems] == [
        " workers_per_node is missing",
        " nccom-test has no broadcast",
        " layout is pairs and nccom-test takes all nodes of a job by slurm",
        " mounts is missing",
    ]


def test_neuron_jobs_get_bytes_and_variables_without_type():
    spec = specs(jobs=NEURON[:1])["nccom_all_slurm"]
    (line, *_others) = [line for line in steps(spec) if "nccom-test" in line]
    assert "--minbytes 8 --maxbytes 1073741824 --stepfactor 2" in line
    assert "FI_PROVIDER=efa" in line and "NCCL_" not in line
    assert " --slurm-mode --slurm-job-id JOBID all_reduce >" in line


CAPACITY = [
    {"type": "capacity-block", "end": "2026-12-01T11:30:00+00:00"},
    {"type": "capacity-block", "end": "2026-12-01T12:30:00+02:00"},
    {"type": "capacity-block", "end": None},
    {"type": "default", "end": "2026-11-01T00:00:00+00:00"},
]


@pytest.mark.parametrize(
    ("hosts", "settings", "job", "ends"),
    [
        (CAPACITY, {}, {}, "2026-12-01T10:00:00Z"),
        (CAPACITY, {"ends_at": "2026-12-24T18:00:00Z"}, {}, "2026-12-24T18:00:00Z"),
        (CAPACITY, {}, {"ends_at": "2026-12-02T00:00:00Z"}, "2026-12-02T00:00:00Z"),
        (CAPACITY, {}, {"ends_at": "never"}, None),
        (CAPACITY, {"nodes_group": "others"}, {}, None),
        (CAPACITY[3:], {}, {}, None),
    ],
)
def test_training_is_signalled_before_capacity_block_ends(hosts, settings, job, ends):
    wanted = {"name": "t", "command": ["x"], **TRAINING, **job}
    known = {f"i-{number}": {"ec2_capacity": capacity} for number, capacity in enumerate(hosts)}
    inventory = {"groups": {"compute": [*known, "i-x"]}, "hostvars": {**known, "i-x": {"ec2_capacity": None}}}
    assert specs(jobs=[wanted], inventory=inventory, **settings)["t"].values["ends_at"] == (ends or "")


def test_requirements_are_in_script_header():
    jobs = [
        {"name": "n", "kind": "nccl", "collectives": ["reduce"]},
        {"name": "i", "kind": "nccl", "container_image": "/fsx/a.sqsh"},
        {"name": "r", "kind": "nccl", "container_image": "nvcr.io#x"},
        {"name": "f", "kind": "fsx_io", "minutes": 9, "directory": "/fsx/io"},
        {"name": "t", "command": ["x"], "directory": "/fsx/src", "backup": "s3://bucket/x", **TRAINING},
    ]
    found = texts(facts=WITH_PYXIS, jobs=jobs, ior="/fsx/ior", aws="/usr/bin/aws", baseline="/fsx/b.json")
    assert {name: re.findall("^# Needs (.*)$", text, re.MULTILINE) for name, text in found.items()} == {
        "n": ["program /opt/nccl-tests/build/reduce_perf", "file /fsx/b.json"],
        "i": ["file /fsx/b.json", "image /fsx/a.sqsh"],
        "r": ["file /fsx/b.json"],
        "f": ["program /fsx/ior", "directory /fsx/io"],
        "t": ["program /usr/bin/aws", "directory /fsx/src"],
    }


def test_jobs_take_tools_that_role_builds():
    jobs = [
        {"name": "fsx", "kind": "fsx_io", "minutes": 9},
        {"name": "disks", "kind": "local_io"},
        {"name": "nccl", "kind": "nccl", "collectives": ["reduce"]},
    ]
    found = texts(jobs=jobs, build=["ior", "fio", "nccl-tests"], build_versions={"fio": "9.1"})
    tools = "/fsx/mlcluster/jobs/tools"
    assert {name: re.findall("^# Needs program (.*)$", text, re.MULTILINE) for name, text in found.items()} == {
        "fsx": [f"{tools}/ior-4.0.0/bin/ior", f"{tools}/ior-4.0.0/bin/mdtest"],
        "disks": [f"{tools}/fio-9.1/bin/fio"],
        "nccl": [f"{tools}/nccl-tests-2.19.6/build/reduce_perf"],
    }
    (problem,) = Role(jobs=jobs, build=["fio"], build_versions={"fio": "../x"}).problems
    assert problem.startswith("build_versions has '../x' for fio")


def test_array_submits_itself_with_task_for_each_input():
    text = every_script()["shards"]
    directives = re.findall("^#SBATCH --(.*)$", text, re.MULTILINE)
    assert {"array=0", "cpus-per-task=8", "nodes=1", "ntasks-per-node=1", "partition=main", "requeue"} <= set(
        directives
    )
    assert not [line for line in directives if line.startswith(("exclusive", "mem", "gpus"))]
    assert "output=/fsx/mlcluster/jobs/results/shards-%A_%a.out" in directives
    found = specs(facts=WITH_PYXIS, jobs=JOBS, instance_type="p5.48xlarge")
    lines = steps(found["shards"])
    assert "python3 -m mlcluster_data array /fsx/in --limit 4 --tasks 0" in lines
    assert "sbatch --array=RANGE /fsx/mlcluster/jobs/shards.sbatch" in lines
    assert lines[-1].endswith(""" '--tokenizer=/fsx/it'"'"'s' --eos '<|end|> $(id)'""")
    assert "python3 -m mlcluster_data array /fsx/in --limit 16 --tasks 9" in steps(found["shards_image"])


def test_array_that_cannot_be_meant_is_refused_all_at_once():
    wrong = {"nodes": 2, "limit": 0, "cpus_per_task": 0, "output": "s3://b/$(id)", "input": "in", "spool": "/a b",
             "tokenizer": "-x", "tasks": -1, "options": {"array": "0-9"}}  # fmt: skip
    problems = Role(jobs=[{"name": "p", "kind": "preprocess", **wrong}]).problems
    assert sorted(problem.split(" is ")[0].split(":")[1].strip() for problem in problems) == sorted(
        "nodes limit cpus_per_task output input spool tokenizer tasks".split() + ["options has array"]
    )
    missing = Role(jobs=[{"name": "p", "kind": "preprocess"}]).problems
    assert [problem.split(":")[1] for problem in missing] == [
        f" {key} is missing" for key in ("input", "output", "tokenizer")
    ]


@pytest.mark.parametrize(
    ("job", "mounts", "workdir"),
    [
        # The second example of the README, which has no mounts of its own.
        (
            {"kind": "training", "command": ["train.py"], "directory": "/fsx/src", "checkpoints": "/fsx/c"},
            "/fsx/c:/fsx/c,/fsx/jobs:/fsx/jobs,/fsx/src:/fsx/src",
            "/fsx/src",
        ),
        (
            {"kind": "training", "command": ["t"], "checkpoints": "/fsx/c", "container_mounts": ["/fsx:/fsx"]},
            "/fsx:/fsx",
            "/fsx/jobs",
        ),
        (
            {
                "kind": "preprocess",
                "input": "/fsx/in",
                "output": "s3://buck/x",
                "tokenizer": "gpt2",
                "spool": "/local",
            },
            "/fsx/in:/fsx/in,/fsx/jobs:/fsx/jobs,/local:/local",
            "/fsx/jobs",
        ),
        (
            {"kind": "preprocess", "input": "/fsx/in", "output": "/fsx/out", "tokenizer": "/fsx/t/tokenizer.json"},
            "/fsx/in:/fsx/in,/fsx/jobs:/fsx/jobs,/fsx/out:/fsx/out,/fsx/t/tokenizer.json:/fsx/t/tokenizer.json",
            "/fsx/jobs",
        ),
        ({"kind": "nccl"}, "/fsx/jobs:/fsx/jobs", "/fsx/jobs"),
        ({"kind": "container"}, "/fsx/jobs:/fsx/jobs", "/fsx/jobs"),
    ],
)
def test_container_sees_every_path_that_its_job_names(job, mounts, workdir):
    jobs = [{"name": "x", "container_image": "/x.sqsh", "minutes": 50, **job}]
    container = specs(facts=WITH_PYXIS, jobs=jobs, dir="/fsx/jobs")["x"].container
    assert (",".join(container.mounts), container.workdir) == (mounts, workdir)


def test_mount_that_hides_what_job_names_is_refused():
    job = {"name": "x", "kind": "training", "command": ["t"], "checkpoints": "/fsx/c", "container_image": "/x.sqsh"}
    (problem,) = Role(jobs=[{**job, "container_mounts": ["/data:/fsx"]}], dir="/data/jobs", facts=WITH_PYXIS).problems
    assert problem.startswith("job x: checkpoints is /fsx/c, and with /data:/fsx in container_mounts that is /data/c ")


@pytest.mark.parametrize("name", JOB_KINDS)
def test_smallest_job_of_each_kind_is_sound_script(name):
    job = {"name": "smallest", "kind": name, "partition": "main", **JOB_KINDS[name].example}
    days = [{**partition, "max_seconds": 172800} for partition in FACTS["partitions"]]
    cluster = {**FACTS, "container_options": 1, "partitions": days}
    kind = "trn1.32xlarge" if name == "nccom" else "p5.48xlarge"
    role = Role(cluster, jobs=[job], local_dir="/local", instance_type=kind)
    assert role.problems == []
    (text,) = role.scripts().values()
    assert "#SBATCH --job-name=smallest" in text
    assert len(text.splitlines()) <= 25
    spec = parse(role.files()["/fsx/mlcluster/jobs/smallest.json"], "smallest.json", JOB_KINDS)
    assert steps(spec)


def test_job_program_is_in_directory_of_script():
    files = Role(jobs=[{"name": "x", "kind": "node_smoke"}]).files()
    assert list(files) == ["/fsx/mlcluster/jobs/x.json", "/fsx/mlcluster/jobs/x.sbatch"]
    assert json.loads(files["/fsx/mlcluster/jobs/x.json"])["schema"] == "mlcluster.job/1"
    (problem,) = Role(jobs=[{"name": "x", "kind": "node_smoke"}], baseline="/fsx/mlcluster/jobs/x.json").problems
    assert problem.startswith("baseline is /fsx/mlcluster/jobs/x.json and the job x has that file for itself")


def test_script_changes_with_what_it_runs():
    """A digest of the script decides whether two jobs are the same."""
    job = {"name": "x", "kind": "nccl", "collectives": ["reduce"]}
    first, again, other = (texts(jobs=[one])["x"] for one in (job, job, {**job, "iterations": 7}))
    assert first == again != other


def test_segment_of_job_on_ultraservers():
    job = {"name": "domains", "kind": "nccl", "layout": "domains", "options": {"segment": 1}}
    lines = texts(jobs=[job])["domains"].splitlines()
    assert {"#SBATCH --segment=1", "#SBATCH --nodes=2", "#SBATCH --exclusive"} <= set(lines)
