# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Healing on a real Slurm: drain, reboot, check and resume within the budget; nodes that keep failing are isolated."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.integration.slurm.health_rig import PRIVATE, checked_cluster, state_of
from tests.rig.aws import Aws
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
MARKER = "/var/lib/mlcluster/drain.json"
# The rig can do a reboot; a reset needs a GPU.
POLICY = {"schema": "mlcluster.heal/1", "actions": ["reset", "reboot"], "most": 1, "times": 3}
ROOT = Path(__file__).parents[3]
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
    """Run ``mlcluster heal`` in the namespaces of a node; n1 is also the head node."""
    cluster, scripts, _log = rig
    inside = ["nsenter", f"--target={cluster._init(name)}", "--mount", "--uts", "--pid", "--"]
    conf = ["--slurm-conf", f"{cluster.root}/etc/slurm.conf", "--config", f"{cluster.root}/heal.json"]
    return cluster.run(*inside, scripts["command"], "heal", *conf, *words, check=False).stderr


def reboot(rig, name):
    """Simulate the reboot after Slurm has called its RebootProgram."""
    cluster, _scripts, log = rig
    wait_for(f"the reboot of {name}", lambda: log.exists() and name in log.read_text(encoding="utf-8").split())
    log.write_text("", encoding="utf-8")
    cluster.power_off(name)
    # Slurm counts whole seconds: a boot in the second of the request counts as an earlier one.
    ordered = time.time()
    wait_for("a later second", lambda: time.time() > ordered + 2)
    cluster.power_on(name, rebooted=True)
    wait_for(f"{name} to be back", lambda: "REBOOT" not in node(cluster, name)[0])


@pytest.mark.slow
def test_drained_nodes_reboot_in_budget_and_resume(rig):
    cluster, _scripts, log = rig
    (cluster.root / "heal.json").write_text(json.dumps(POLICY), encoding="utf-8")
    for name in ("n1", "n2"):
        drain(cluster, name)
    # The head node's part runs on n1, which a reboot of n2 does not affect.
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=disk swap on Monday")
    assert "n2: reboot (node.drain_marker): severity reboot" in heal(rig)
    assert node(cluster, "n2")[1].startswith("mlcluster heal: reboot (node.drain_marker): severity reboot")
    # In a second run with a second fault nothing is done again, as the budget of one reboot is used up.
    drain(cluster, "n1")
    output = heal(rig)
    assert "n2" not in output and "n1: wait (node.drain_marker): reboot has to wait: 1 of at most 1" in output
    cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert "n2 waits for its reboot" in heal(rig, "n2", "--node")
    reboot(rig, "n2")
    state, reason = node(cluster, "n2")
    assert state == "IDLE+DRAIN" and reason.startswith("mlcluster heal: reboot "), "it returned without proof"
    # The fault persists after the first boot.
    state_of(cluster, "n2", MARKER).write_text("still broken", encoding="utf-8")
    assert "n2 stays drained: mlcluster health: node.drain_marker" in heal(rig, "n2", "--node")
    assert "n2: again (node.drain_marker)" in heal(rig)
    # The marker requests isolation, which the policy does not allow; the next verdict requests a reboot.
    assert node(cluster, "n2")[1].startswith("mlcluster health: node.drain_marker (isolate): ")
    drain(cluster, "n2")
    assert "n2: reboot" in heal(rig)
    state_of(cluster, "n2", MARKER).unlink()
    reboot(rig, "n2")
    output = heal(rig, "n2", "--node")
    assert "n2 takes jobs again: the full check proved node.drain_marker" in output, output
    wait_for("n2 to answer", lambda: node(cluster, "n2")[0] == "IDLE")
    assert "n2: resumed (node.drain_marker)" in heal(rig)
    drain(cluster, "n2")
    assert "n2: isolated (node.drain_marker): this would be action 3 in 7 days" in heal(rig)
    assert node(cluster, "n2") == (
        "IDLE+DRAIN",
        "mlcluster heal: isolated (node.drain_marker): this would be action 3 in 7 days",
    )
    assert heal(rig) == ""
    inside = ["nsenter", f"--target={cluster._init('n1')}", "--mount", "--"]
    journal = cluster.run(*inside, rig[1]["command"], "heal", "--journal").stdout.splitlines()
    assert [line.split()[2] for line in journal] == ["reboot", "again", "reboot", "resumed", "isolated"]
    assert log.read_text(encoding="utf-8") == ""


def inside(rig, name="n1"):
    """Return the command prefix that runs a command on a node."""
    return ["nsenter", f"--target={rig[0]._init(name)}", "--mount", "--uts", "--pid", "--"]


@pytest.fixture
def fresh(rig):
    """Return the rig with idle nodes, no journal and the policy of this file."""
    cluster, _scripts, _log = rig
    (cluster.root / "heal.json").write_text(json.dumps(POLICY), encoding="utf-8")
    state_of(cluster, "n1", "/var/lib/mlcluster/heal.jsonl").unlink(missing_ok=True)
    yield rig
    for name in ("n1", "n2"):
        cluster.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)


def test_check_nodes_shows_healing_actions(fresh, tmp_path):
    """The playbook reads the journal that ``mlcluster heal`` wrote on the head node."""
    cluster, _scripts, _log = fresh
    cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", f"Reason={DRAINED.replace('reboot', 'reset')}")
    assert "n2: reset (node.drain_marker): severity reset" in heal(fresh)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(inside(fresh))} /usr/bin/python3 "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    head = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
    inventory = {"head": {"hosts": {"n1": head}, "vars": {"ec2_instance_type": "m7i.4xlarge"}}}
    (tmp_path / "nodes.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", tmp_path / "nodes.yml"]
    command += ["-e", f"check_nodes_directory={tmp_path}/report", "-e", "ansible_become=false"]
    done = subprocess.run(
        [*command, "-e", '{"check_nodes_options": {"seconds": 20}}', "playbooks/check_nodes.yml"],
        cwd=ROOT, env={**cluster.environment(), "ANSIBLE_NOCOLOR": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    shown = re.findall(r"\d{4}-\d\d-\d\dT[\d:]+Z (n2: .*)", done.stdout)
    assert shown and shown[0].startswith("n2: reset (node.drain_marker): severity reset"), done.stdout + done.stderr


# nvidia-smi while a process or a monitoring agent uses a GPU; the value of the exit status is invented.
NVIDIA_SMI = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
"--query-compute-apps=pid --format=csv,noheader") cat {busy} ;;
--gpu-reset)
    if [ -s {busy} ] || [ -e {held} ]; then
        echo "GPU 00000000:51:00.0 is currently in use by another process." >&2
        exit 19
    fi
    echo "GPU 00000000:51:00.0 was successfully reset." ;;
*) exit 9 ;;
esac
"""


@pytest.fixture
def gpus(fresh, tmp_path):
    """Yield a folder for nvidia-smi of a node: it has the record of calls, and files that make GPUs busy."""
    programs = tmp_path / "programs"
    programs.mkdir()
    tmp_path.chmod(0o755)
    names = {name: tmp_path / name for name in ("log", "busy", "held")}
    names["busy"].touch()
    names["log"].touch()
    (programs / "nvidia-smi").write_text(NVIDIA_SMI.format(**names), encoding="utf-8")
    (programs / "nvidia-smi").chmod(0o755)
    fresh[0].run(*inside(fresh, "n2"), "mount", "--bind", str(programs), "/usr/local/sbin")
    yield tmp_path
    fresh[0].run(*inside(fresh, "n2"), "umount", "/usr/local/sbin")


def reset_is_due(rig):
    cluster = rig[0]
    cluster.run("scontrol", "update", "NodeName=n2", "State=DRAIN", f"Reason={DRAINED.replace('reboot', 'reset')}")
    assert "n2: reset (node.drain_marker): severity reset" in heal(rig)


@pytest.mark.parametrize(
    "fault, problem",
    [("busy", "processes have GPUs: 4711"), ("held", "GPU 00000000:51:00.0 is currently in use by another process")],
)
def test_gpus_in_use_are_not_reset_and_reboot_is_requested(fresh, gpus, fault, problem):
    (gpus / fault).write_text("4711\n", encoding="utf-8")
    reset_is_due(fresh)
    output = heal(fresh, "n2", "--node")
    assert f"n2 could not reset its GPUs: {problem}" in output or problem in output, output
    assert ("--gpu-reset" in (gpus / "log").read_text(encoding="utf-8")) is (fault == "held")
    state, reason = node(fresh[0], "n2")
    assert "DRAIN" in state and reason.startswith("mlcluster health: node.drain_marker (reboot): the reset failed: ")
    assert "n2: reboot" in heal(fresh, "n1", "--dry-run")


@pytest.mark.newer
def test_gpus_are_reset_once_and_node_resumes_by_full_check(fresh, gpus):
    reset_is_due(fresh)
    output = heal(fresh, "n2", "--node")
    assert "n2 takes jobs again: the full check proved node.drain_marker" in output, output
    assert (gpus / "log").read_text(encoding="utf-8").split("\n").count("--gpu-reset") == 1
    # Slurm 24.11 keeps the reason after the node is resumed.
    wait_for("n2 to answer", lambda: node(fresh[0], "n2")[0] == "IDLE")
    assert "n2: resumed (node.drain_marker)" in heal(fresh)
    assert heal(fresh, "n2", "--node") == ""


# Stands in for ParallelCluster's programs: launches an EC2 instance for a node that Slurm powers up, and terminates it.
POWER = """#!{python}
import os, subprocess, sys
import boto3
keys = {{"aws_access_key_id": "x", "aws_secret_access_key": "x"}}
ec2 = boto3.client("ec2", endpoint_url={url!r}, region_name="us-east-1", **keys)
verb, node = {verb!r}, sys.argv[1]
if verb == "power-on":
    tags = [{{"ResourceType": "instance", "Tags": [{{"Key": "Name", "Value": node}}]}}]
    ec2.run_instances(ImageId={image!r}, MinCount=1, MaxCount=1, InstanceType="p5.48xlarge", TagSpecifications=tags)
else:
    found = ec2.describe_instances(Filters=[{{"Name": "tag:Name", "Values": [node]}},
                                            {{"Name": "instance-state-name", "Values": ["running"]}}])
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for r in found["Reservations"] for one in r["Instances"]])
os.environ["PATH"] = {path!r}
subprocess.run([sys.executable, "-m", "tests.rig.slurm", verb, "--name", {name!r}, node], cwd={root!r}, check=True)
"""


@pytest.fixture
def cloud(tmp_path):
    """Yield a cluster of n1 and the dynamic node c1, and the EC2 client of its account."""
    name = f"replace-{os.getpid()}"
    aws = Aws(tmp_path)
    image = aws.client("ec2", "us-east-1").describe_images()["Images"][0]["ImageId"]
    programs = {}
    for verb in ("power-on", "power-off"):
        programs[verb] = tmp_path / verb
        filled = {"python": sys.executable, "url": aws.url, "verb": verb, "image": image, "name": name}
        programs[verb].write_text(
            POWER.format(**filled, root=str(ROOT), path=f"{tmp_path}:{os.environ['PATH']}"), encoding="utf-8"
        )
        programs[verb].chmod(0o755)
    # With -b, slurmd reports a boot at its start.
    (tmp_path / "slurmd").write_text('#!/bin/sh\nexec /usr/sbin/slurmd -b "$@"\n', encoding="utf-8")
    (tmp_path / "slurmd").chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dynamic = f"c1 NodeHostname=c1 NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=1000 State=CLOUD"
    settings = {"NodeName": dynamic, "SuspendProgram": str(programs["power-off"]), "SuspendTime": "86400"}
    # ParallelCluster's setting: without it, Slurm hides a dynamic node that has no instance.
    settings |= {"PartitionName": "dynamic Nodes=c1 State=UP", "PrivateData": "cloud"}
    settings |= {"ResumeProgram": str(programs["power-on"]), "SuspendTimeout": "3", "ResumeTimeout": "600"}
    with checked_cluster(name, nodes=1, **settings) as (cluster, scripts):
        (cluster.root / "spool/c1").mkdir()
        with (cluster.root / "etc/hosts").open("a", encoding="utf-8") as hosts:
            hosts.write("127.0.0.1 c1\n")
        for index in range(len(PRIVATE) + 1):
            (cluster.root / "nodes/c1" / str(index)).mkdir(parents=True)
        yield (cluster, scripts, None), aws.client("ec2", "us-east-1")
    aws.stop()


def instances(ec2, *states):
    found = ec2.describe_instances(Filters=[{"Name": "tag:Name", "Values": ["c1"]}])["Reservations"]
    return [one["InstanceId"] for each in found for one in each["Instances"] if one["State"]["Name"] in states]


def powered_up(cluster, ec2):
    """Power c1 up, as Slurm does for a job; return its instance."""
    cluster.run("scontrol", "update", "NodeName=c1", "State=POWER_UP")
    wait_for("c1 to take jobs", lambda: node(cluster, "c1")[0] == "IDLE+CLOUD")
    (instance,) = instances(ec2, "running")
    return instance


@pytest.mark.slow
def test_dynamic_node_is_replaced_and_its_instance_terminated(cloud):
    rig, ec2 = cloud
    cluster = rig[0]
    (cluster.root / "heal.json").write_text(json.dumps({**POLICY, "actions": ["replace"]}), encoding="utf-8")
    first = powered_up(cluster, ec2)
    # A node that Slurm does not power up is not replaced.
    for name in ("c1", "n1"):
        reason = DRAINED.replace("reboot", "isolate")
        cluster.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")
    output = heal(rig)
    assert "c1: replace (node.drain_marker): severity isolate" in output
    assert "n1: wait (node.drain_marker): replace is for nodes that Slurm powers up and down" in output
    wait_for("the instance to end", lambda: instances(ec2, "terminated", "shutting-down") == [first])
    wait_for("c1 to be down", lambda: "POWERED_DOWN" in node(cluster, "c1")[0])
    assert "c1" not in heal(rig, "n1", "--dry-run").replace("c1: resumed", "")
    cluster.run("scontrol", "update", "NodeName=c1", "State=RESUME", check=False)
    second = powered_up(cluster, ec2)
    assert second != first
    assert "c1: resumed (node.drain_marker)" in heal(rig) + heal(rig, "n1", "--journal")
