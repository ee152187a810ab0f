# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/upgrade_nodes.yml with a real Slurm of two nodes and a role of the test that changes a node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.hook.conftest import ROOT, Program
from tests.rig.slurm import jobs
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm, slurm
from tests.rig.slurm.processes import wait_for
from tests.rig.slurm.spec import Spec

__all__ = ["slurm"]
pytestmark = [needs_slurm, pytest.mark.slow]


def states(cluster) -> dict[str, tuple[str, str]]:
    """Return {node: (state, reason)}, without Slurm's mark of a node that does not answer for a moment."""
    out = cluster.run("sinfo", "--noheader", "--Node", "--format", "%N|%T|%E").stdout
    return {
        name: (state.rstrip("*"), reason)
        for name, state, reason in (line.split("|") for line in out.split("\n") if line)
    }


def scontrol(cluster, node: str, field: str) -> str:
    """Return a field of ``scontrol show node``."""
    return re.search(rf" {field}=(\S+)", cluster.run("scontrol", "--oneliner", "show", "node", node).stdout)[1]


@pytest.fixture(autouse=True)
def nodes_are_idle(slurm) -> None:
    """Cancel jobs and resume drained nodes that a failed test has left."""
    if left := slurm.run("squeue", "--noheader", "--format", "%A").stdout.split():
        slurm.run("scancel", *left)
    for name, (state, _reason) in states(slurm).items():
        if "drain" in state:
            slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    wait_for("all nodes to be idle", lambda: len(slurm.nodes_in("idle")) == len(states(slurm)), 120, poll=0.2)


# The role that changes a node: it checks that no job runs, fails on the test's request, and writes a file per node.
ROLE = """---
- name: See that no job runs
  ansible.builtin.command: squeue --noheader --nodelist {{ inventory_hostname }}
  register: site_own_jobs
  changed_when: false
  failed_when: site_own_jobs.stdout != ''
- name: Fail where the test asks for it
  ansible.builtin.stat:
    path: FOLDER/fail-{{ inventory_hostname }}
  register: site_own_fail
  failed_when: site_own_fail.stat.exists
- name: Keep a file
  ansible.builtin.copy:
    content: new
    mode: "0644"
    dest: FOLDER/driver-{{ inventory_hostname }}
"""


# No sshd listens on this port.
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def command(cluster, folder, gone=(), **settings) -> tuple[list[str], dict[str, str]]:
    """Return the playbook's command and environment; nodes are this machine, those of ``gone`` do not answer."""
    role = folder / "collections" / "ansible_collections" / "site" / "own" / "roles" / "driver" / "tasks"
    role.mkdir(parents=True, exist_ok=True)
    (role / "main.yml").write_text(ROLE.replace("FOLDER", str(folder)))
    (folder / "change.yml").write_text(
        "- name: Change\n  ansible.builtin.lineinfile:\n    create: true\n    mode: '0644'\n"
        f"    path: {folder}/changed\n    line: '{{{{ inventory_hostname }}}}'\n"
    )
    nodes = {name: GONE if name in gone else {} for name in states(cluster)}
    common = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "slurm_jobs_slurm_conf": f"{cluster.root}/etc/slurm.conf",
    }
    children = {"head": {"hosts": {"controller": {}}}, "compute": {"hosts": nodes}}
    (folder / "inventory.json").write_text(json.dumps({"all": {"vars": common, "children": children}}))
    given = {
        "ansible_become": False,
        "upgrade_nodes_method": "reboot",
        # Nodes are this machine, which must not reboot.
        "upgrade_nodes_reboot": False,
        "upgrade_nodes_tasks": str(folder / "change.yml"),
        "upgrade_nodes_poll_seconds": 1,
        "upgrade_nodes_back_minutes": 10,
        "upgrade_nodes_memory": str(folder / "upgrades"),
        **settings,
    }
    argv = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *("-i", str(folder / "inventory.json"), "-e", json.dumps(given), "playbooks/upgrade_nodes.yml"),
    ]
    paths = f"{folder}/collections:{ROOT / '.collections'}"
    return argv, {**cluster.environment(), "ANSIBLE_COLLECTIONS_PATH": paths, "ANSIBLE_NOCOLOR": "true"}


def upgrade(cluster, folder, **settings):
    """Run the playbook and return the finished process."""
    argv, environment = command(cluster, folder, **settings)
    return subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def roles(**settings):
    """Return the settings of the method "roles" with the role of the test."""
    return {"upgrade_nodes_method": "roles", "upgrade_nodes_roles": ["site.own.driver"], **settings}


def changed(output: str) -> dict[str, int]:
    """Return {node: number of changed tasks}."""
    found = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", output, re.M)
    return {name: int(count) for name, count in found if name != "localhost"}


def test_canary_is_upgraded_first_and_drain_of_user_stays(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    slurm.run("scontrol", "update", f"NodeName={second}", "State=DRAIN", "Reason=GPU 3 is slow")
    done = upgrade(slurm, tmp_path, upgrade_nodes_proof=["true"])
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "changed").read_text().split()[0] == first
    assert states(slurm)[first][0] == "idle"
    assert states(slurm)[second] == ("drained", "GPU 3 is slow")


def test_failed_canary_stays_drained_and_stops_rest(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    done = upgrade(slurm, tmp_path, upgrade_nodes_proof=["false"])
    assert done.returncode != 0
    assert f"{first} was not upgraded, for 'Prove the node' failed" in " ".join(done.stdout.split())
    assert states(slurm)[first] == ("drained", "mlcluster upgrade: reboot")
    assert states(slurm)[second][0] == "idle"
    assert (tmp_path / "changed").read_text().split() == [first]
    # The next run recognizes its own drain.
    again = upgrade(slurm, tmp_path, upgrade_nodes_proof=["true"])
    assert again.returncode == 0, again.stdout
    assert [state for state, _reason in states(slurm).values()] == ["idle"] * len(states(slurm))


def test_roles_wait_for_job_and_second_run_changes_nothing(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    # The job ends only after the playbook has begun to wait for it.
    job = jobs.submit(slurm, f"while [ ! -e {tmp_path}/go ]; do sleep 0.2; done; echo whole", f"--nodelist={first}")
    jobs.wait(slurm, job, "RUNNING")
    argv, environment = command(slurm, tmp_path, **roles(upgrade_nodes_proof=["true"], upgrade_nodes_release="570.1"))
    playing = Program(argv, environment, ROOT)
    try:
        playing.until("the canary to drain", lambda: states(slurm)[first][0] == "draining")
        assert states(slurm)[second][0] == "idle"
        assert jobs.look(slurm, job).state == "RUNNING"
        assert not (tmp_path / f"driver-{first}").exists()
    finally:
        # Neither job nor playbook would end by itself.
        (tmp_path / "go").touch()
        playing.wait()
    assert playing.returncode == 0, playing.output()
    ended = jobs.wait(slurm, job)
    assert (ended.state, ended.output) == ("COMPLETED", "whole\n")
    assert [(tmp_path / f"driver-{name}").read_text() for name in (first, second)] == ["new", "new"]
    assert {state for state, _reason in states(slurm).values()} == {"idle"}
    again = upgrade(slurm, tmp_path, **roles(upgrade_nodes_proof=["true"], upgrade_nodes_release="570.1"))
    assert again.returncode == 0, again.stdout
    assert set(changed(again.stdout).values()) == {0}
    assert f"{first} has had 570.1" in again.stdout


def test_failed_node_stops_next_batch_only(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    (tmp_path / f"fail-{first}").touch()
    done = upgrade(slurm, tmp_path, **roles(upgrade_nodes_proof=["true"], upgrade_nodes_batches=[2]))
    assert done.returncode != 0
    assert "Fail where the test asks for it' failed" in " ".join(done.stdout.split())
    assert states(slurm)[first] == ("drained", "mlcluster upgrade: roles")
    assert states(slurm)[second][0] == "idle"
    assert (tmp_path / f"driver-{second}").exists()


def test_unreachable_node_stays_drained(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    done = upgrade(slurm, tmp_path, gone=[first], upgrade_nodes_proof=["true"], upgrade_nodes_batches=[2])
    assert done.returncode != 0
    assert f"{first} cannot be reached any more: " in " ".join(done.stdout.split())
    assert states(slurm)[first] == ("drained", "mlcluster upgrade: reboot")
    assert states(slurm)[second][0] == "idle"
    assert (tmp_path / "changed").read_text().split() == [second]


def test_job_that_does_not_end_is_kept(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    job = jobs.submit(slurm, "sleep 600", f"--nodelist={first}")
    jobs.wait(slurm, job, "RUNNING")
    done = upgrade(slurm, tmp_path, **roles(upgrade_nodes_drain_minutes=1, upgrade_nodes_poll_seconds=30))
    assert done.returncode != 0
    assert f"the jobs {job} did not end within 1 minutes, so that nothing was changed" in " ".join(done.stdout.split())
    assert jobs.look(slurm, job).state == "RUNNING"
    assert states(slurm)[first][0] in ("mixed", "allocated")
    assert states(slurm)[second][0] == "idle"
    assert not (tmp_path / f"driver-{first}").exists()
    slurm.run("scancel", str(job))
    jobs.wait(slurm, job)


@pytest.fixture
def saving(tmp_path):
    """Yield a cluster with stand-ins for ParallelCluster's programs, which power nodes down and up again.

    In ParallelCluster, the daemon clustermgtd replaces the instance of a static node that goes down.
    """
    name = f"pytest-power-{os.getpid()}"
    down, up, booted = (tmp_path / program for program in ("down", "up", "slurmd"))
    # Slurm runs these programs with an almost empty environment. It accepts a resumed node only after a boot, which
    # slurmd -b reports.
    rig = f"export PATH={tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin; cd {ROOT} && {sys.executable} -m tests.rig.slurm"
    booted.write_text('#!/bin/sh\nexec /usr/sbin/slurmd -b "$@"\n')
    down.write_text(
        f"#!/bin/sh\n{rig} power-off --name {name} $1\n"
        "(for _ in $(seq 6000); do\n"
        "  scontrol --oneliner show node $1 | grep -q POWERED_DOWN && break; sleep 0.1\n"
        "done\nscontrol update NodeName=$1 State=POWER_UP) > /dev/null 2>&1 &\n"
    )
    up.write_text(f"#!/bin/sh\n{rig} power-on --name {name} $1\n")
    for program in (down, up, booted):
        program.chmod(0o755)
    settings = {"SuspendProgram": str(down), "ResumeProgram": str(up), "SuspendTime": "86400", "SuspendTimeout": "3"}
    settings |= {"ResumeTimeout": "600", "MinJobAge": "2"}
    cluster = Cluster(name)
    yield cluster.up(Spec(settings=settings), owned=True)
    cluster.down()


def test_reimage_replaces_instance_of_each_node(saving, tmp_path):
    before = {name: scontrol(saving, name, "SlurmdStartTime") for name in states(saving)}
    done = upgrade(saving, tmp_path, upgrade_nodes_method="reimage", upgrade_nodes_release="ami-1")
    assert done.returncode == 0, done.stdout
    assert {state for state, _reason in states(saving).values()} == {"idle"}
    assert [name for name, since in before.items() if scontrol(saving, name, "SlurmdStartTime") == since] == []
    again = upgrade(saving, tmp_path, upgrade_nodes_method="reimage", upgrade_nodes_release="ami-1")
    assert set(changed(again.stdout).values()) == {0}


def test_unknown_method_is_rejected(slurm, tmp_path):
    done = upgrade(slurm, tmp_path, upgrade_nodes_method="magic")
    assert done.returncode != 0 and "set -e upgrade_nodes_method=roles, reboot or reimage" in done.stdout
