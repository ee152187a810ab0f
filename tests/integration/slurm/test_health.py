# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health checks in a real Slurm: in Prolog and HealthCheckProgram, and with a disk that does not answer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.slurm.health_rig import USER, as_user, checked_cluster, render, state_of
from tests.rig.slurm import jobs
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
MARKER = "/var/lib/mlcluster/drain.json"


@pytest.fixture(scope="module")
def rig():
    """Yield a cluster of two nodes with an open gate (undeterminable checks pass), and its scripts."""
    with checked_cluster(f"health-{os.getpid()}") as found:
        yield found


@pytest.fixture
def cluster(rig):
    """Yield the cluster; reset it after the test."""
    yield rig[0]
    for node in ("n1", "n2"):
        state_of(rig[0], node, MARKER).unlink(missing_ok=True)
    rig[0].configure(Prolog=rig[1]["prolog"], Epilog=rig[1]["epilog"], HealthCheckInterval="0")
    jobs.rest(rig[0])


def node(cluster, name="n1"):
    """Return state with flags, and reason, of a node."""
    text = cluster.run("scontrol", "--oneliner", "show", "node", name).stdout
    state = text.split(" State=")[1].split()[0]
    return state, text.split(" Reason=")[1].split(" [")[0] if " Reason=" in text else ""


def drained(cluster, name="n1"):
    wait_for(f"{name} to be drained", lambda: "DRAIN" in node(cluster, name)[0])
    return node(cluster, name)[1]


def back(cluster, name="n1"):
    wait_for(f"{name} to take jobs again", lambda: "DRAIN" not in node(cluster, name)[0])


def conf(cluster):
    return f"{cluster.root}/etc/slurm.conf"


def mark(cluster, text='{"reason": "the driver did not build"}'):
    state_of(cluster, "n1", MARKER).write_text(text, encoding="utf-8")


def health(rig, *options):
    """Run ``mlcluster health`` on n1, in its namespaces."""
    cluster, scripts = rig
    inside = ["nsenter", f"--target={cluster._init('n1')}", "--mount", "--uts", "--pid", "--"]
    return cluster.run(*inside, scripts["command"], "health", "--profile", "prolog", *options, check=False)


@pytest.mark.newer
def test_failed_prolog_drains_node_until_it_is_well(rig, cluster):
    mark(cluster)
    number = jobs.submit(cluster, "echo ran on $(hostname)", *as_user(cluster, USER, "--nodelist=n1"))
    assert drained(cluster) == "mlcluster health: node.drain_marker (isolate): the driver did not build"
    jobs.wait(cluster, number, "PENDING")
    # The job is held for a user to inspect, as it may have caused the failure.
    assert "held" in cluster.run("scontrol", "show", "job", str(number)).stdout
    # The other node still runs jobs.
    assert jobs.finish(cluster, "hostname", *as_user(cluster, USER)).output == "n2\n"
    state_of(cluster, "n1", MARKER).unlink()
    checked = health(rig, "--undrain")
    assert "n1 takes jobs again; it was drained for node.drain_marker" in checked.stderr
    back(cluster)
    cluster.run("scontrol", "release", str(number))
    jobs.release(cluster, number)
    assert jobs.wait(cluster, number).output == "ran on n1\n"


def test_undeterminable_check_stops_jobs_only_with_closed_gate(rig, cluster, tmp_path):
    # The expected number of EFA devices of this machine is unknown.
    checked = health(rig, "--json")
    found = {one["id"]: one["status"] for one in json.loads(checked.stdout)["results"]}
    assert (found["efa.devices"], checked.returncode) == ("undeterminable", 2)
    assert (health(rig, "--fail-open").returncode, health(rig, "--fail-closed").returncode) == (0, 1)
    assert jobs.finish(cluster, "echo open", *as_user(cluster, USER, "-wn1")).output == "open\n"
    closed = render(tmp_path, f"{cluster.local}/jobs", conf(cluster), gate="closed")
    cluster.configure(Prolog=closed["prolog"])
    number = jobs.submit(cluster, "echo closed", *as_user(cluster, USER, "-wn1"))
    assert re.match(r"mlcluster health: efa\.devices(,[a-z_.]+\?)* \(none\): ", drained(cluster))
    jobs.wait(cluster, number, "PENDING")
    cluster.run("scancel", str(number))


def test_missing_runtime_stops_jobs_only_with_closed_gate(cluster, tmp_path):
    for gate in ("open", "closed"):
        folder = tmp_path / gate
        folder.mkdir()
        scripts = render(folder, f"{cluster.local}/jobs", conf(cluster), gate=gate)
        Path(scripts["command"]).unlink()
        cluster.configure(Prolog=scripts["prolog"])
        number = jobs.submit(cluster, "echo ran", *as_user(cluster, USER, "-wn1"))
        if gate == "open":
            # Without the runtime no directory was made either, which the job reports.
            output = jobs.wait(cluster, number).output
            assert "node n1 has no directory for job" in output
            assert output.endswith("\nran\n")
        else:
            assert drained(cluster) == "Prolog error"
            cluster.run("scancel", str(number))


@pytest.mark.slow
def test_health_check_drains_and_resumes_except_users_drain(rig, cluster):
    running = jobs.submit(cluster, "echo up; sleep 600", *as_user(cluster, USER, "-wn1"))
    # Slurm reports RUNNING while the Prolog runs.
    wait_for("the job itself", lambda: "up" in jobs.look(cluster, running).output)
    cluster.configure(HealthCheckProgram=rig[1]["health_check"], HealthCheckInterval="2")
    mark(cluster, "no local disk\n")
    assert drained(cluster) == "mlcluster health: node.drain_marker (isolate): no local disk"
    # A running job continues.
    assert jobs.look(cluster, running).state == "RUNNING"
    mark(cluster, "no driver either\n")
    wait_for("the new reason", lambda: node(cluster)[1].endswith("no driver either"))
    state_of(cluster, "n1", MARKER).unlink()
    back(cluster)
    assert jobs.look(cluster, running).state == "RUNNING"
    cluster.run("scancel", str(running))
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=disk swap on Monday")
    mark(cluster)
    before = state_of(cluster, "n1", "/var/log/mlcluster/health.log").stat().st_size
    wait_for(
        "the next look",
        lambda: (
            b"drained already: disk swap"
            in state_of(cluster, "n1", "/var/log/mlcluster/health.log").read_bytes()[before:]
        ),
    )
    state_of(cluster, "n1", MARKER).unlink()
    assert health(rig, "--undrain", "--fail-open").returncode == 0
    assert (drained(cluster), node(cluster, "n2")[1]) == ("disk swap on Monday", "")


@pytest.fixture
def frozen(cluster, tmp_path):
    """Yield a filesystem of n1 that can be frozen: then every process that writes to it hangs in the kernel."""
    image, place = tmp_path / "disk", cluster.local_of("n1") / "slow"
    with image.open("wb") as stream:
        stream.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    place.mkdir(mode=0o755)
    inside = ["nsenter", f"--target={cluster._init('n1')}", "--mount", "--"]
    path = f"{cluster.local}/slow"
    subprocess.run([*inside, "mount", "-o", "loop", image, path], check=True)

    @contextlib.contextmanager
    def freeze():
        subprocess.run([*inside, "fsfreeze", "--freeze", path], check=True)
        try:
            yield
        finally:
            subprocess.run([*inside, "fsfreeze", "--unfreeze", path], check=True)

    yield f"{path}/jobs", freeze
    wait_for("the mount to be free", lambda: not subprocess.run([*inside, "umount", path], check=False).returncode)
    place.rmdir()


@pytest.mark.slow
def test_hanging_disk_does_not_delay_jobs(cluster, frozen, tmp_path):
    base, freeze = frozen
    scripts = render(tmp_path, base, conf(cluster), epilog_seconds=1)
    cluster.configure(Prolog=scripts["prolog"], Epilog=scripts["epilog"])
    first = jobs.finish(cluster, "true", *as_user(cluster, USER, "-wn1"))
    assert first.state == "COMPLETED"
    with freeze():
        # While the filesystem is frozen, a process that waits for it does not end.
        job = jobs.finish(cluster, "echo ${MLCLUSTER_SCRATCH:-none}", *as_user(cluster, USER, "-wn1"))
        assert (job.state, job.output) == ("COMPLETED", "none\n")
        log = state_of(cluster, "n1", "/var/log/mlcluster/scratch.log").read_text()
        assert "scratch.make: no answer within 2.0 seconds" in log
        assert "cannot be ended and is left behind" in log
        # The next job does not try to use the disk.
        job = jobs.finish(cluster, "echo again", *as_user(cluster, USER, "-wn1"))
        assert job.output == "again\n"
        log = state_of(cluster, "n1", "/var/log/mlcluster/scratch.log").read_text()
        assert "of an earlier run of this check still hangs in the kernel" in log
