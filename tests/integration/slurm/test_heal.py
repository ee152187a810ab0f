# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drain, reboot, proof and resume on a real Slurm, within the budget; a node that fails again and again is given up."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.integration.slurm.health_rig import checked_cluster, state_of
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
MARKER = "/var/lib/mlcluster/drain.json"
# Where a reset would need a GPU, a reboot is what a rig can do.
POLICY = {"schema": "mlcluster.heal/1", "actions": ["reset", "reboot"], "most": 1, "times": 3}
DRAINED = "mlcluster health: node.drain_marker (reboot): the driver hangs"


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    program = tmp_path_factory.mktemp("reboot") / "program"
    program.write_text(f"#!/bin/sh\nhostname >> {program}.log\n", encoding="utf-8")
    program.chmod(0o755)
    with checked_cluster(f"heal-{os.getpid()}", RebootProgram=str(program), ResumeTimeout="120") as (cluster, scripts):
        yield cluster, scripts, program.with_name("program.log")


def node(cluster, name):
    line = cluster.run("scontrol", "--oneliner", "show", "node", name).stdout
    state = line.split(" State=")[1].split()[0]
    return state, line.split(" Reason=")[1].split(" [")[0] if " Reason=" in line else ""


def drain(cluster, name):
    cluster.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={DRAINED}")


def heal(rig, name="n1", *words):
    """The verb in the namespaces of a node, which has a disk of its own; n1 is the head node as well."""
    cluster, scripts, _log = rig
    inside = ["nsenter", f"--target={cluster._init(name)}", "--mount", "--uts", "--pid", "--"]
    conf = ["--slurm-conf", f"{cluster.root}/etc/slurm.conf", "--config", f"{cluster.root}/heal.json"]
    return cluster.run(*inside, scripts["command"], "heal", *conf, *words, check=False).stderr


def reboot(rig, name):
    """What the machine does once Slurm has called its RebootProgram."""
    cluster, _scripts, log = rig
    wait_for(f"the reboot of {name}", lambda: log.exists() and name in log.read_text(encoding="utf-8").split())
    log.write_text("", encoding="utf-8")
    cluster.power_off(name)
    # Slurm counts in seconds, and takes a boot in the second of its order for an earlier one.
    ordered = time.time()
    wait_for("a later second", lambda: time.time() > ordered + 2)
    cluster.power_on(name, rebooted=True)
    wait_for(f"{name} to be back", lambda: "REBOOT" not in node(cluster, name)[0])


@pytest.mark.slow
def test_drained_nodes_are_rebooted_within_the_budget_and_resume_by_proof_alone(rig):
    cluster, _scripts, log = rig
    (cluster.root / "heal.json").write_text(json.dumps(POLICY), encoding="utf-8")
    for name in ("n1", "n2"):
        drain(cluster, name)
    # n1 is also where the head's part runs; a reboot of n2 leaves that alone.
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=disk swap on Monday")
    assert "n2: reboot (node.drain_marker): severity reboot" in heal(rig)
    assert node(cluster, "n2")[1].startswith("mlcluster heal: reboot (node.drain_marker): severity reboot")
    # A second run and a second fault: nothing is done twice, and the budget of one is used up.
    drain(cluster, "n1")
    told = heal(rig)
    assert "n2" not in told and "n1: wait (node.drain_marker): reboot has to wait: 1 of at most 1" in told
    cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert "n2 waits for its reboot" in heal(rig, "n2", "--node")
    reboot(rig, "n2")
    state, reason = node(cluster, "n2")
    assert state == "IDLE+DRAIN" and reason.startswith("mlcluster heal: reboot "), "it returned without proof"
    # The fault is still there after the first boot.
    state_of(cluster, "n2", MARKER).write_text("still broken", encoding="utf-8")
    assert "n2 stays drained: mlcluster health: node.drain_marker" in heal(rig, "n2", "--node")
    assert "n2: again (node.drain_marker)" in heal(rig)
    # A marker asks for isolation, for which no action is switched on here; the next verdict asks for a reboot.
    assert node(cluster, "n2")[1].startswith("mlcluster health: node.drain_marker (isolate): ")
    drain(cluster, "n2")
    assert "n2: reboot" in heal(rig)
    state_of(cluster, "n2", MARKER).unlink()
    reboot(rig, "n2")
    told = heal(rig, "n2", "--node")
    assert "n2 takes jobs again: the full check proved node.drain_marker" in told, told
    wait_for("n2 to answer", lambda: node(cluster, "n2") == ("IDLE", ""))
    assert "n2: resumed (node.drain_marker)" in heal(rig)
    drain(cluster, "n2")
    assert "n2: isolated (node.drain_marker): this is time 3 in 7 days" in heal(rig)
    assert node(cluster, "n2") == (
        "IDLE+DRAIN",
        "mlcluster heal: isolated (node.drain_marker): this is time 3 in 7 days",
    )
    assert heal(rig) == ""
    inside = ["nsenter", f"--target={cluster._init('n1')}", "--mount", "--"]
    journal = cluster.run(*inside, rig[1]["command"], "heal", "--journal").stdout.splitlines()
    assert [line.split()[2] for line in journal] == ["reboot", "again", "reboot", "resumed", "isolated"]
    assert log.read_text(encoding="utf-8") == ""
