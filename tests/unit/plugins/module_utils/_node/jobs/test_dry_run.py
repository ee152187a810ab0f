# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of --dry-run for the smallest job of each kind: all that a job would run, compared line by line."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import dry_run
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Container
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.unit.fakes.fake_job_work import spec_of

EACH = "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --mpi=none"
ALL = "srun --ntasks=4 --ntasks-per-node=2"
RUNTIME = "python3 /fsx/jobs/mlcluster.pyz"
R = "/fsx/jobs/results/x-JOBID"
REPORT = f"--output={R}/node-%N.json --error={R}/node-%N.err"
INSIDE = "--container-image=/x.sqsh --container-mounts=/fsx:/fsx --container-workdir=/fsx"
IMAGE = Container("/x.sqsh", ("/fsx:/fsx",), "/fsx")
FIO = (
    "fio --name=data --directory=/local/mlcluster-fio-JOBID-TIME --direct=1 --ioengine=libaio --iodepth=32 --size=4G "
    "--numjobs=4 --time_based --runtime=30 --group_reporting --output-format=json"
)
NCCL = f"{ALL} --mpi=pmix".replace("srun", "srun --nodes=2 --nodelist=node1,node2")
COUNT = f"{EACH} --time=2 {RUNTIME} efa-counters >{R}/counters"
NCCOM = (
    "--nworkers 64 --nnodes 2 --minbytes 8 --maxbytes 1073741824 --stepfactor 2 --iters 20 --warmup_iters 5 "
    "--datatype fp32 --check --non-interactive"
)
PLACE = "/fsx/jobs/results/mlcluster-io-JOBID-TIME"
MPI = f"{ALL} --mpi=pmix --kill-on-bad-exit=1"
CASES = {
    "node_smoke": ({}, [f"{ALL} --mpi=none {RUNTIME} job-task {R}"]),
    "gpu_efa": ({}, [f"{EACH} {REPORT} {RUNTIME} health --profile full --json"]),
    "container": (
        {"container": IMAGE, "require": ["cuda", "nccl=2.28"]},
        [
            f"{ALL} --mpi=none {INSIDE} {RUNTIME} job-task {R}",
            f"{EACH} --error={R}/host-%N.err {RUNTIME} host-facts --output {R}/host-%N.json",
            (
                f"{EACH} {REPORT} {INSIDE} {RUNTIME} health --profile container --json --host-facts {R}/host-%N.json "
                "--require cuda --require nccl=2.28"
            ),
        ],
    ),
    "gds_io": (
        {"modes": ["nvfs", "p2pdma"], "least_gib": 2, "mounts": ["/fsx", "/local disk"]},
        [
            (
                f"{EACH} {REPORT} {RUNTIME} gds --json --active --bandwidth --bandwidth-mib 1024 --baseline 2.0 "
                "--require nvfs --require p2pdma /fsx '/local disk'"
            )
        ],
    ),
    "local_io": (
        {},
        [
            "# needs fio",
            f"{EACH} test -d /local -a -w /local",
            f"{EACH} {RUNTIME} job-node /fsx/jobs/x.json 0 /local/mlcluster-fio-JOBID-TIME",
            "#   on each node: makes /local/mlcluster-fio-JOBID-TIME",
            f"#   on each node: writes {R}/place-0-NODE.json",
            *(
                f"#   on each node: {FIO} --rw={mode} --bs={size} >{R}/fio-0-{mode}-NODE.json "
                f"2>{R}/fio-0-{mode}-NODE.err"
                for mode, size in (("write", "1M"), ("read", "1M"), ("randread", "4k"))
            ),
            "#   on each node: removes /local/mlcluster-fio-JOBID-TIME, whatever ends the job",
        ],
    ),
    "fsx_io": (
        {},
        [
            "# needs ior",
            "# needs mdtest",
            f"# makes {PLACE}",
            f"lfs getstripe -d {PLACE} >{R}/stripes.txt 2>/dev/null",
            (
                f"{MPI} ior -a POSIX -w -r -e -F -C -Q 2 -t 1m -b 1127m -o {PLACE}/ior -O summaryFormat=JSON "
                f"-O summaryFile={R}/ior.json >{R}/ior.out 2>&1"
            ),
            f"{MPI} mdtest -F -u -n 1000 -d {PLACE}/mdtest >{R}/mdtest.out 2>&1",
            f"# writes {R}/ran.json",
            f"# removes {PLACE}, whatever ends the job",
        ],
    ),
    "nccl": (
        {"collectives": ["reduce"], "largest": "1K"},
        [
            "# needs /opt/nccl-tests/reduce_perf",
            f"{COUNT}.0.before 2>/dev/null",
            (
                f"{NCCL} --kill-on-bad-exit=1 --time=15 env 'A=b c' /opt/nccl-tests/reduce_perf -b 8 -e 1K -f 2 "
                f"-n 20 -w 5 -c 1 -g 1 >{R}/all.reduce.out 2>&1"
            ),
            f"{COUNT}.0.after 2>/dev/null",
        ],
    ),
    "nccom": (
        {"collectives": ["all_reduce"], "arguments": ["--debug", "a b"]},
        [
            "# needs nccom-test",
            f"{COUNT}.0.before 2>/dev/null",
            (
                f"timeout 15m env 'A=b c' nccom-test {NCCOM} --debug 'a b' --slurm-mode --slurm-job-id JOBID "
                f"all_reduce >{R}/all.all_reduce.out 2>&1"
            ),
            f"{COUNT}.0.after 2>/dev/null",
        ],
    ),
    "preprocess": (
        {"tokenizer": "/fsx/it's", "spool": "/spool"},
        [
            "# started by hand it submits itself:",
            "scontrol show config 2>/dev/null",
            "python3 -m mlcluster_data array /fsx/in --limit 16 --tasks 0",
            "sbatch --array=RANGE /fsx/jobs/x.sbatch",
            "# each task:",
            (
                f"srun --ntasks=1 --cpus-per-task=8 --mpi=none env PYTHONUNBUFFERED=1 {RUNTIME} job-exec --spool -- "
                "python3 -m mlcluster_data preprocess --input=/fsx/in --output=/fsx/out "
                """'--tokenizer=/fsx/it'"'"'s' --spool=/spool"""
            ),
        ],
    ),
    "training": (
        {"backup": "s3://bucket/runs", "notice_seconds": 0, "directory": "/fsx/src", "command": ["train.py", "$(id)"]},
        [
            "# PYTHONPATH=/fsx/jobs, until the end of the job:",
            "python3 -m mlcluster_data hold /fsx/c",
            "# beside the training:",
            (
                f"{EACH} --overlap --output={R}/gpu-%N.csv nvidia-smi --format=csv --loop=30 --query-gpu=timestamp,"
                "index,utilization.gpu,memory.used,temperature.gpu,power.draw,clocks.sm,ecc.errors.uncorrected.volatile.total"
            ),
            (
                "srun --nodes=2 --ntasks-per-node=1 --ntasks=2 --mpi=none --cpu-bind=none --kill-on-bad-exit=1 "
                "--chdir=/fsx/src env 'A=b c' MLCLUSTER_CHECKPOINTS=/fsx/c MLCLUSTER_RESUME=LATEST "
                "MLCLUSTER_CHECKPOINT_REQUEST=/fsx/c/checkpoint-now "
                "MLCLUSTER_STEP_FILE=/dev/shm/mlcluster-steps.JOBID MASTER_ADDR=ADDRESS MASTER_PORT=20000 "
                f"{RUNTIME} job-exec --node-rank -- torchrun --nnodes=2 --nproc-per-node=2 --max-restarts=0 "
                "--master-addr=ADDRESS --master-port=20000 train.py '$(id)'"
            ),
            "# for each complete checkpoint that is not backed up, the newest first:",
            "aws s3 ls s3://bucket/runs/x/CHECKPOINT/",
            ("aws s3 cp --only-show-errors /fsx/c/CHECKPOINT/complete s3://bucket/runs/x/CHECKPOINT.CONTENT.begun"),
            "aws s3 ls s3://bucket/runs/x/CHECKPOINT.",
            (
                "aws s3 sync --size-only --only-show-errors --exclude .backed-up --exclude .backup-begun "
                "--exclude complete /fsx/c/CHECKPOINT s3://bucket/runs/x/CHECKPOINT"
            ),
            "# with /fsx/c/CHECKPOINT/complete as input:",
            "aws s3 cp --only-show-errors - s3://bucket/runs/x/CHECKPOINT/complete",
            (
                "aws s3 sync --size-only --dryrun --exclude .backed-up --exclude .backup-begun /fsx/c/CHECKPOINT "
                "s3://bucket/runs/x/CHECKPOINT"
            ),
            "# after a request, unless the training ended with 0, at most 20 times:",
            "scontrol requeue JOBID",
            "# keeps the newest 3 complete checkpoints and removes older ones that are backed up",
        ],
    ),
}


class SmallHost(Host):
    """A node with 2 GiB of memory on which no port is taken."""

    def read_text(self, path):
        return "MemTotal:        2097152 kB\n" if path == "/proc/meminfo" else ""


@pytest.mark.parametrize("kind", CASES)
def test_every_step_of_smallest_job(kind):
    options, expected = CASES[kind]
    first, nodes, results, *steps = dry_run.lines(spec_of(kind, **options), SmallHost())
    assert first == f"# x: {JOB_KINDS[kind].title}"
    assert (nodes, results) == ("# nodes: node1 node2", f"# results: {R}, exit status: {R}.exit")
    verdict = [f"# verdict: the judge of kind {kind}, into {R}/report.json"] if JOB_KINDS[kind].judge else []
    assert steps == expected + verdict


def test_nodes_may_be_named():
    lines = dry_run.lines(spec_of("nccl", layout="single", collectives=["reduce"]), SmallHost(), ("a", "b", "c"))
    assert lines[1] == "# nodes: a b c"
    assert [line.split()[2] for line in lines if "_perf -b" in line] == [f"--nodelist={node}" for node in "abc"]
    assert [line[-2:] for line in lines if "_perf -b" in line] == [" &"] * 3 and "wait" in lines


def test_ranks_of_neuron_meet_at_first_host():
    lines = dry_run.lines(spec_of("nccom", launch="mpi", collectives=["all_reduce"]), SmallHost())
    (line,) = [line for line in lines if line.startswith("timeout")]
    assert " env 'A=b c' NEURON_RT_ROOT_COMM_ID=node1:20000 nccom-test " in line
    assert f" {NCCOM} all_reduce --hosts node1 node2 >" in line


def test_launcher_srun_has_task_for_each_gpu():
    lines = dry_run.lines(spec_of("training", launcher="srun", container=IMAGE, directory="/fsx/src"), SmallHost())
    (line,) = [line for line in lines if "MLCLUSTER_RESUME" in line]
    assert "--ntasks-per-node=2 --ntasks=4 " in line and f" {INSIDE} env " in line and "--chdir" not in line
    assert line.endswith(f"{RUNTIME} job-exec --without NCCL_NET_PLUGIN=none --ranks -- train")


def test_nccl_in_image_clears_disabled_plugin_without_python():
    lines = dry_run.lines(spec_of("nccl", container=IMAGE, collectives=["reduce"], largest="1K"), SmallHost())
    (line,) = [line for line in lines if "reduce_perf" in line]
    cleared = """sh -c 'if [ "$NCCL_NET_PLUGIN" = none ]; then unset NCCL_NET_PLUGIN; fi; exec "$@"' sh"""
    assert f" {INSIDE} env " in line and f" {cleared} /opt/nccl-tests/reduce_perf -b 8 -e 1K " in line
