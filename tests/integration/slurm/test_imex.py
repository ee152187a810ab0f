# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prolog and Epilog make and remove the IMEX domains of jobs; each node has a stand-in for the daemon."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys

import pytest

from tests.integration.slurm.imex_rig import CHANNELS, ETC, MAJOR, TYPE, ultra_cluster
from tests.rig.slurm import jobs
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
EXCLUSIVE = "--exclusive"
# Runs on the job's first node only, as srun does not work between addresses of the loopback network.
TABLE = "nvidia-imex-ctl -N"


@pytest.fixture(scope="module")
def rig():
    """Yield four nodes of one UltraServer."""
    with ultra_cluster(f"imex-{os.getpid()}") as found:
        yield found


@pytest.fixture
def ultra(rig):
    """Yield the cluster with reset nodes; after the test all nodes accept jobs again."""
    jobs.rest(rig.cluster)
    rig.reset()
    yield rig
    rig.cluster.configure(**rig.hooks())
    jobs.rest(rig.cluster)


def reason(ultra, node):
    """Return state and reason of a node."""
    text = ultra.cluster.run("scontrol", "--oneliner", "show", "node", node).stdout
    return text.split(" State=")[1].split()[0], text.split(" Reason=")[1].split(" [")[0] if " Reason=" in text else ""


def drained(ultra, node):
    """Wait until a node is drained, and return the reason."""
    wait_for(f"{node} to be drained", lambda: "DRAIN" in reason(ultra, node)[0])
    return reason(ultra, node)[1]


def down(ultra, *nodes):
    """Wait until the daemons of these nodes have ended."""
    wait_for("the daemons to end", lambda: all(ultra.daemon(node) is None for node in nodes))


def running(ultra, *options):
    """Start a job that runs until it is cancelled, and return its number."""
    number = jobs.submit(ultra.cluster, "echo up; sleep 300", EXCLUSIVE, *options)
    wait_for("the job itself", lambda: "up" in jobs.look(ultra.cluster, number).output)
    return number


def up(folder):
    """Return the outputs of jobs that had their domain."""
    return [path for path in folder.iterdir() if "Domain State: UP" in path.read_text(encoding="utf-8")]


def record(ultra, node):
    """Return the Prolog's record of its job, or an empty value without a record."""
    path = ultra.path(node, "/run/mlcluster/imex.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def prolog(ultra, number, nodes):
    """Return a shell command that runs the Prolog of a job on a node."""
    words = f"SLURM_JOB_ID={number} SLURM_NODELIST='{nodes}' SLURM_JOB_OVERSUBSCRIBE=NO SLURM_JOB_RESTART_COUNT=0"
    conf = f"{ultra.cluster.root}/etc/slurm.conf"
    return f"env {words} {ultra.folder}/mlcluster imex up --instance-type {TYPE} --slurm-conf {conf}"


@pytest.mark.newer
def test_job_has_its_domain_while_it_runs(ultra):
    job = jobs.finish(ultra.cluster, f"{TABLE}; ls -l {CHANNELS}", EXCLUSIVE, "--nodelist=n[1-2]")
    assert job.state == "COMPLETED" and job.output.count("Domain State: UP") == 1
    assert job.output.count("READY") == 2 and "channel0" in job.output
    assert ultra.members("n1") == ultra.members("n2") == [ultra.address("n1"), ultra.address("n2")]
    info = ultra.path("n1", f"{CHANNELS}/channel0").stat()
    assert (stat.S_ISCHR(info.st_mode), os.major(info.st_rdev), os.minor(info.st_rdev)) == (True, MAJOR, 0)
    assert stat.S_IMODE(info.st_mode) == 0o666
    down(ultra, "n1", "n2")
    assert ultra.mlcluster("n1", "status").returncode == 0


def test_two_jobs_at_once_have_domain_each(ultra):
    first, second = running(ultra, "--nodelist=n[1-2]"), running(ultra, "--nodelist=n[3-4]")
    assert ultra.members("n1") == [ultra.address("n1"), ultra.address("n2")]
    assert ultra.members("n4") == [ultra.address("n3"), ultra.address("n4")]
    assert ultra.settings("n1")["SERVER_PORT"] != ultra.settings("n3")["SERVER_PORT"]
    for node in ("n1", "n2", "n3", "n4"):
        found = json.loads(ultra.mlcluster(node, "status", "--json").stdout)["results"]
        assert {one["status"] for one in found} == {"pass"}, found
    ultra.cluster.run("scancel", str(first), str(second))
    down(ultra, "n1", "n2", "n3", "n4")


def test_killed_daemon_is_reported_on_its_node_and_by_its_peers(ultra):
    number = running(ultra, "--nodelist=n[1-3]")
    ultra.inside("n2", "kill", "-KILL", str(ultra.daemon("n2")))

    def found(node):
        results = json.loads(ultra.mlcluster(node, "status", "--json").stdout)["results"]
        return {one["id"]: one for one in results}

    service = found("n2")["imex.service"]
    assert (service["status"], service["severity"]) == ("fail", "reset") and f"job {number} needs it" in service[
        "message"
    ]
    wait_for("a peer to notice", lambda: found("n1")["imex.domain"]["status"] == "fail")
    domain = found("n1")["imex.domain"]
    assert domain["severity"] == "monitor" and ultra.address("n2") in domain["message"]
    ultra.cluster.run("scancel", str(number))
    down(ultra, "n1", "n3")
    # The next job has a domain again.
    assert jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodelist=n[1-3]").output.count("Domain State: UP") == 1


def test_next_job_with_another_node_has_another_list(ultra):
    jobs.finish(ultra.cluster, "true", EXCLUSIVE, "--nodelist=n[1-2]")
    before = ultra.settings("n1")["SERVER_PORT"]
    job = jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodelist=n[1,3]")
    assert job.output.count("Domain State: UP") == 1
    assert ultra.members("n1") == [ultra.address("n1"), ultra.address("n3")]
    assert ultra.settings("n1")["SERVER_PORT"] != before


def test_daemon_of_earlier_job_is_not_joined(ultra):
    # The Epilog did not run on this node: its daemon still has the list and port of that job.
    ultra.cluster.configure(Epilog="/bin/true")
    jobs.finish(ultra.cluster, "true", EXCLUSIVE, "--nodelist=n[1-2]")
    assert ultra.daemon("n2")
    ultra.cluster.configure(**ultra.hooks())
    job = jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodelist=n[2-3]")
    assert job.output.count("Domain State: UP") == 1 and ultra.members("n2") == ultra.members("n3")


def test_slow_daemon_is_waited_for(ultra):
    ultra.fault("n2", slow=2)
    job = jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodelist=n[1-2]")
    assert (job.state, job.output.count("Domain State: UP")) == ("COMPLETED", 1)


def test_version_mismatch_keeps_job_away(ultra):
    ultra.fault("n2", version="570.1")
    number = jobs.submit(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n[1-2]")
    drained_for = drained(ultra, "n2")
    assert drained_for.startswith("mlcluster health: imex.domain (") and "is not joined (!V!)" in drained_for
    assert jobs.look(ultra.cluster, number).output == ""
    ultra.cluster.run("scancel", str(number))


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"driver": "1"}, "is not matching with current GPU driver 1"),
        ({"masked": True}, "the unit of the IMEX daemon is masked"),
        ({"slow": 60}, "imex.domain"),
    ],
)
def test_domain_that_does_not_come_up_keeps_job_away(ultra, fault, problem):
    ultra.cluster.configure(**ultra.hooks(seconds=3))
    ultra.fault("n1", **fault)
    number = jobs.submit(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n1")
    drained_for = drained(ultra, "n1")
    assert drained_for.startswith("mlcluster health: imex.") and problem[:60] in drained_for
    jobs.wait(ultra.cluster, number, "PENDING")
    assert jobs.look(ultra.cluster, number).output == ""
    ultra.cluster.run("scancel", str(number))
    # The record outlives the job, so that the health check keeps the drain until a user has inspected the node.
    wait_for("the end of the job", lambda: ultra.mlcluster("n1", "status").returncode == 1)


def test_best_effort_reports_and_starts(ultra):
    ultra.cluster.configure(**ultra.hooks("best_effort", seconds=2))
    ultra.fault("n1", masked=True)
    assert jobs.finish(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n1").output == "ran\n"
    log = ultra.path("n1", "/var/log/mlcluster/imex.log").read_text(encoding="utf-8")
    assert "the unit of the IMEX daemon is masked" in log
    assert "DRAIN" not in reason(ultra, "n1")[0]


def test_port_in_use_is_reason(ultra):
    ultra.cluster.configure(**ultra.hooks(seconds=3))
    number = 1 + jobs.finish(ultra.cluster, "true", "--nodelist=n3").number
    port = 21000 + number % 8192
    taken = (
        f"import socket,signal; s=socket.socket(); s.bind(('{ultra.address('n1')}',{port})); s.listen(); signal.pause()"
    )
    holder = port_holder(ultra, taken)
    try:
        wait_for("the port", lambda: listening(ultra.address("n1"), port))
        assert jobs.submit(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n1") == number
        assert f"failed to bind to port {port}" in drained(ultra, "n1")
    finally:
        holder.kill()
        holder.wait()
    ultra.cluster.run("scancel", str(number))


def port_holder(ultra, code):
    """Return a process of this machine that holds a port."""
    return subprocess.Popen([sys.executable, "-c", code])


def listening(address, port):
    """Return whether a process listens there."""
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def test_job_that_shares_its_node_has_no_domain(ultra):
    assert jobs.finish(ultra.cluster, "echo ran", "--nodelist=n1", "--ntasks=1").output == "ran\n"
    assert ultra.daemon("n1") is None and ultra.members("n1") == ["0.0.0.0", "0.0.0.0"]


def test_prolog_of_site_is_left_unchanged(ultra):
    folder = ultra.folder / "prolog.d"
    folder.mkdir()
    (folder / "10_mlcluster").write_text((ultra.folder / "prolog").read_text())
    (folder / "91_imex").write_text("#!/bin/sh\n# would restart nvidia-imex\nexit 0\n")
    for path in folder.iterdir():
        path.chmod(0o755)
    ultra.cluster.configure(Prolog=f"{folder}/*")
    assert jobs.finish(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n1").output == "ran\n"
    assert ultra.daemon("n1") is None
    (one,) = {row["reason"] for row in json.loads(ultra.mlcluster("n1", "status", "--json").stdout)["results"]}
    assert "91_imex configures IMEX for jobs and is not changed" in one


def test_scripts_of_role_make_domains(ultra):
    ultra.cluster.configure(**ultra.role_hooks())
    job = jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodelist=n[1-2]")
    assert job.output.count("Domain State: UP") == 1
    down(ultra, "n1", "n2")
    ultra.fault("n2", masked=True)
    # A second node would wait for this node's daemon until the Prolog's time limit.
    number = jobs.submit(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n2")
    assert "the unit of the IMEX daemon is masked" in drained(ultra, "n2")
    assert jobs.look(ultra.cluster, number).output == ""
    ultra.cluster.run("scancel", str(number))


def test_tasks_of_array_have_domain_each(ultra):
    folder = ultra.cluster.root / "output"
    before = set(up(folder)) if folder.is_dir() else set()
    number = jobs.submit(ultra.cluster, f"{TABLE}; sleep 300", EXCLUSIVE, "--nodes=2", "--array=0-1")
    wait_for("both tasks", lambda: len(set(up(folder)) - before) == 2)
    assert ultra.members("n1") == ultra.members("n2") and ultra.members("n3") == ultra.members("n4")
    assert ultra.settings("n1")["SERVER_PORT"] != ultra.settings("n3")["SERVER_PORT"]
    ultra.cluster.run("scancel", str(number))
    down(ultra, "n1", "n2", "n3", "n4")


def test_requeued_job_does_not_join_daemon_of_last_start(ultra):
    number = running(ultra, "--nodelist=n[1-2]", "--requeue")
    before = ultra.settings("n1")["SERVER_PORT"], ultra.daemon("n1")
    ultra.cluster.run("scontrol", "requeue", str(number))
    jobs.wait(ultra.cluster, number, "PENDING")
    # Slurm delays a requeued job by two minutes. It cannot start at once, as slurmd has revoked its credential, which
    # has a resolution of one second.
    ultra.cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now+4")
    wait_for("the second start", lambda: ultra.settings("n1")["SERVER_PORT"] != before[0])
    wait_for("its domain", lambda: record(ultra, "n1").get("state") == "ready")
    assert (record(ultra, "n1")["job_id"], record(ultra, "n1")["restarts"]) == (number, 1)
    assert ultra.settings("n1")["SERVER_PORT"] == ultra.settings("n2")["SERVER_PORT"]
    ultra.cluster.run("scancel", str(number))
    down(ultra, "n1", "n2")


def test_components_of_heterogeneous_job_have_domain_each(ultra):
    number = jobs.submit(
        ultra.cluster, f"{TABLE}; sleep 300", EXCLUSIVE, "--nodelist=n[1-2]", ":", EXCLUSIVE, "--nodelist=n3"
    )
    wait_for("both components", lambda: all(record(ultra, node).get("state") == "ready" for node in ("n1", "n2", "n3")))
    assert ultra.members("n1") == [ultra.address("n1"), ultra.address("n2")]
    assert ultra.members("n3") == [ultra.address("n3")]
    ultra.cluster.run("scancel", str(number))
    down(ultra, "n1", "n2", "n3")


def test_second_prolog_of_start_changes_nothing(ultra):
    number = running(ultra, "--nodelist=n[1-2]")
    before = ultra.daemon("n1"), record(ultra, "n1")["job_id"]
    again = prolog(ultra, number, "n[1-2]")
    both = f"{again} & {again}; wait"
    assert ultra.inside("n1", "sh", "-c", both).stdout.count("PASS imex.domain") == 2
    assert (ultra.daemon("n1"), record(ultra, "n1")["job_id"]) == before
    ultra.cluster.run("scancel", str(number))
    down(ultra, "n1", "n2")


def test_jobs_in_quick_succession_all_have_their_domain(ultra):
    # By default systemd rejects the sixth start of a unit within ten seconds.
    starts = "; ".join(prolog(ultra, number, "n1") for number in range(9001, 9008))
    assert ultra.inside("n1", "sh", "-c", starts).stdout.count("PASS imex.domain") == 7


def test_node_without_epilog_run_stays_usable(ultra):
    ultra.cluster.configure(Epilog="/bin/true")
    jobs.finish(ultra.cluster, "true", EXCLUSIVE, "--nodelist=n[1-2]")
    ultra.inside("n2", "systemctl", "stop", "nvidia-imex.service")
    assert record(ultra, "n1")["state"] == "ready"
    found = ultra.mlcluster("n1", "status")
    assert found.returncode == 0 and "no job has a domain on this node" in found.stdout
    assert ultra.mlcluster("n1", "forget").returncode == 0 and record(ultra, "n1") == {}


def test_best_effort_starts_jobs_on_node_without_daemon(ultra):
    ultra.cluster.configure(**ultra.role_hooks("best_effort"))
    ultra.fault("n1", masked=True)
    for _start in range(2):
        assert jobs.finish(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n1").output == "ran\n"
    assert "DRAIN" not in reason(ultra, "n1")[0]


def test_file_in_place_of_channel_is_replaced(ultra):
    channel = ultra.path("n1", f"{CHANNELS}/channel0")
    channel.write_text("no device", encoding="ascii")
    assert jobs.finish(ultra.cluster, "true", EXCLUSIVE, "--nodelist=n1").state == "COMPLETED"
    assert stat.S_ISCHR(channel.stat().st_mode) and os.major(channel.stat().st_rdev) == MAJOR


def test_read_only_configuration_keeps_job_away(ultra):
    ultra.inside("n1", "mount", "--bind", ETC, ETC)
    ultra.inside("n1", "mount", "-o", "remount,bind,ro", ETC)
    try:
        number = jobs.submit(ultra.cluster, "echo ran", EXCLUSIVE, "--nodelist=n1")
        assert "Read-only file system" in drained(ultra, "n1")
    finally:
        ultra.inside("n1", "umount", ETC)
    assert jobs.look(ultra.cluster, number).output == ""
    ultra.cluster.run("scancel", str(number))


def test_reboot_in_between_makes_channel_again(ultra):
    jobs.finish(ultra.cluster, "true", EXCLUSIVE, "--nodelist=n[1-2]")
    down(ultra, "n1", "n2")
    ultra.path("n1", f"{CHANNELS}/channel0").unlink()
    # The enabled service starts at boot with the list of the last job.
    ultra.inside("n1", "systemctl", "start", "nvidia-imex.service")
    job = jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodelist=n[1-2]")
    assert job.output.count("Domain State: UP") == 1
    assert ultra.path("n1", f"{CHANNELS}/channel0").exists()


def test_job_over_two_ultraservers_has_domain_in_each():
    version = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (23, 11):
        pytest.skip("Slurm has topology/block since 23.11: run this by python -m tests.rig.slurm.newer")
    topology = "BlockName=u1 Nodes=n[1-2]\nBlockName=u2 Nodes=n[3-4]\nBlockSizes=2\n"
    with ultra_cluster(f"imexb-{os.getpid()}", topology=topology) as ultra:
        job = jobs.finish(ultra.cluster, TABLE, EXCLUSIVE, "--nodes=4", "--segment=2")
        assert (job.state, job.output.count("Domain State: UP"), job.output.count("READY")) == ("COMPLETED", 1, 2)
        assert ultra.members("n1") == ultra.members("n2") == [ultra.address("n1"), ultra.address("n2")]
        assert ultra.members("n3") == ultra.members("n4") == [ultra.address("n3"), ultra.address("n4")]
