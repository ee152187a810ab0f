# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scripts on the Slurm of each distribution, submitted by an ordinary user with plain sbatch."""

from __future__ import annotations

import json
import re

import pytest
from testinfra.host import Host

RESULTS = "/srv/jobs/results"
ALICE = "runuser -u alice --"
ARRAY = "shards"
SUBMITTED = {"smoke", "nccl", "train", "fsx", "gpus", "disks", ARRAY}


@pytest.fixture(scope="module")
def numbers(host: Host) -> dict[str, str]:
    """Return the number of each job; alice has submitted them all at once, for each waits some time for its turn."""
    names = SUBMITTED - {ARRAY}
    return {name: host.check_output(f"{ALICE} sbatch --parsable /srv/jobs/{name}.sbatch") for name in sorted(names)}


def outcome(host: Host, name: str, number: str) -> tuple[int, str]:
    """Wait for the end of a job; return its exit status and what it wrote."""
    host.check_output(f"while squeue --noheader --jobs={number} | grep -q .; do sleep 0.1; done")
    shown = re.search(r" ExitCode=(\d+):(\d+) ", host.check_output(f"scontrol --oneliner show job {number}"))
    assert shown and shown[2] == "0", shown
    return int(shown[1]), host.file(f"{RESULTS}/{name}-{number}.out").content_string


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("/srv/jobs", 0o755),
        ("/srv/jobs/results", 0o1777),
        ("/srv/jobs/mlcluster.pyz", 0o755),
        ("/srv/jobs/smoke.sbatch", 0o755),
        ("/srv/jobs/mlcluster_data", 0o755),
        ("/srv/jobs/mlcluster_data/sharding", 0o755),
        ("/srv/jobs/mlcluster_data/sharding/preprocess.py", 0o644),
        ("/etc/mlcluster/slurm/prolog", 0o755),
        ("/etc/slurm/mlcluster_checks.conf", 0o644),
    ],
)
def test_files_are_writable_by_root_only(host: Host, path: str, mode: int) -> None:
    file = host.file(path)
    assert (file.user, file.group, file.mode) == ("root", "root", mode)


def test_every_script_is_submitted_here(host: Host) -> None:
    scripts = host.check_output("ls /srv/jobs/*.sbatch").split()
    assert {path.rpartition("/")[2].removesuffix(".sbatch") for path in scripts} == SUBMITTED


def test_user_runs_validation(host: Host, numbers: dict[str, str]) -> None:
    number = numbers["smoke"]
    status, output = outcome(host, "smoke", number)
    assert status == 0, output
    report = json.loads(host.file(f"{RESULTS}/smoke-{number}/report.json").content_string)
    assert {entry["status"] for entry in report["results"]} == {"pass", "not_applicable"}
    assert host.file(f"{RESULTS}/smoke-{number}.exit").content_string == "0\n"


def test_untestable_job_is_undeterminable(host: Host, numbers: dict[str, str]) -> None:
    status, output = outcome(host, "nccl", numbers["nccl"])
    assert status == 2
    assert "all_reduce_perf is not on" in output


def test_no_value_reaches_shell(host: Host, numbers: dict[str, str]) -> None:
    status, output = outcome(host, "train", numbers["train"])
    assert status == 0, output
    assert "it's $(id)" in output.splitlines()


def test_job_uses_tools_built_for_all_nodes(host: Host, numbers: dict[str, str]) -> None:
    built = json.loads(host.file("/srv/jobs/tools/ior-4.0.0/.mlcluster.json").content_string)
    assert built["version"] == "4.0.0"
    number = numbers["fsx"]
    status, output = outcome(host, "fsx", number)
    assert status == 0, output
    report = json.loads(host.file(f"{RESULTS}/fsx-{number}/report.json").content_string)
    assert {"io.ior.write", "io.ior.read", "io.mdtest"} <= {entry["id"] for entry in report["results"]}


def test_disks_are_measured_by_fio_of_distribution(host: Host, numbers: dict[str, str]) -> None:
    number = numbers["disks"]
    status, output = outcome(host, "disks", number)
    # A container has no instance store, so the figures are not judged.
    assert status == 2 and "io.fio.place" in output.replace(":", " ").split(), output
    (path,) = host.check_output(f"ls {RESULTS}/disks-{number}/fio-0-write-*.json").split()
    version = host.check_output("dpkg-query --show --showformat '${source:Upstream-Version}' fio")
    assert f'"fio version" : "fio-{version}"' in host.file(path).content_string
    assert host.check_output("ls /var/tmp | grep fio || true") == ""


def test_node_without_devices_is_reported(host: Host, numbers: dict[str, str]) -> None:
    number = numbers["gpus"]
    status, output = outcome(host, "gpus", number)
    report = json.loads(host.file(f"{RESULTS}/gpus-{number}/report.json").content_string)
    found = {entry["status"] for entry in report["results"]}
    assert found and status == (1 if "fail" in found else 2 if "undeterminable" in found else 0), output


def test_data_programs_are_installed_and_array_counts_inputs(host: Host) -> None:
    host.run("runuser -u alice -- sh -c 'mkdir -p /srv/jobs/results/texts; echo x >/srv/jobs/results/texts/a.txt'")
    collect = "collect /srv/jobs/results/texts --inputs 1 --output /srv/jobs/results/inputs"
    done = host.run(f"runuser -u alice -- sh -c 'cd /srv/jobs && python3 -m mlcluster_data {collect}'")
    assert done.rc == 0, done.stderr
    done = host.run("runuser -u alice -- /srv/jobs/shards.sbatch --parsable --wait")
    # The tokenizer's packages are not installed here, and the task reports that.
    assert done.rc == 1, done.stderr
    log = host.file(f"{RESULTS}/shards-{done.stdout.strip()}_0.out").content_string
    assert "ERROR: preprocess needs the Python package numpy, which is not installed" in log
    assert host.file(f"{RESULTS}/shards-{done.stdout.strip()}_0.exit").content_string == "1\n"


def test_slurm_runs_checks_and_job_has_own_directory(host: Host) -> None:
    settings = host.run("scontrol show config").stdout
    for name, script in (("Prolog", "prolog"), ("Epilog", "epilog"), ("HealthCheckProgram", "health_check")):
        assert re.search(rf"^{name}(\[0\])? += /etc/mlcluster/slurm/{script}$", settings, re.MULTILINE), settings
    assert re.search(r"^HealthCheckInterval += 60 sec$", settings, re.MULTILINE)
    done = host.run("runuser -u alice -- srun --chdir=/ sh -c 'echo $SLURM_JOB_ID $TMPDIR'")
    number, place = done.stdout.split()
    assert place == f"/var/lib/scratch/jobs/job-{number}/tmp"
