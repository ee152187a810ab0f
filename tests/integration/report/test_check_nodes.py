# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook check_nodes, run on this machine under several names and on a closed port.

The machine is not a training node, so most checks are not applicable or undeterminable; the page has to report that.
The instance type is set, because there is no metadata service here.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.unit.fakes import fake_cluster as scene

CHECKOUT = Path(__file__).parents[3]
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


@pytest.fixture
def check(tmp_path):
    """Return ``check(groups, *options)``: it runs the playbook; returns exit status, output and report folder."""

    def run(groups, *options):
        inventory = tmp_path / "nodes.yml"
        inventory.write_text(yaml.safe_dump(groups), encoding="utf-8")
        report = tmp_path / "report"
        done = subprocess.run(
            [
                CHECKOUT / ".venv/bin/ansible-playbook",
                "-i", inventory, "playbooks/check_nodes.yml", "-e", f"check_nodes_directory={report}", *options,
            ],
            cwd=CHECKOUT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORKS": "4"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr, report

    return run


def group(**hosts):
    return {"hosts": hosts, "vars": {"ec2_instance_type": "m7i.4xlarge", "ec2_cluster_name": "train"}}


SITE = {
    "node_health_expectations": {"mounts": ["/", "/nowhere"], "types": {"m7i*": {"disks": 0}, "p5*": {"disks": 8}}},
    "check_nodes_buckets": [{"url": "s3://corpus/tokens", "rights": ["list"]}],
    "check_nodes_image": "registry.example#train:1",
    "check_nodes_formats": ["html", "markdown", "json", "junit", "prometheus", "diag", "nhc"],
}


def kept(folder, *results):
    """Write two files of run_validation and return the variables of the host that has them."""
    (folder / "jobs" / "results").mkdir(parents=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for number, found in enumerate(([], results)):
        path = folder / "jobs" / "results" / f"validation-{number}.json"
        path.write_text(json.dumps(scene.validation(*found, time=now)), encoding="utf-8")
        os.utime(path, (number, number))
    return {**HERE, "slurm_jobs_dir": str(folder / "jobs")}


def test_page_has_all_nodes_including_silent_ones(check, tmp_path):
    head = kept(tmp_path, scene.bandwidth(1.0, "n1+n2"))
    everywhere = {"compute": group(n1=HERE, n2=HERE, lost=UNREACHABLE), "head": group(h1=head)}
    status, output, report = check(everywhere, "-e", json.dumps(SITE))
    assert status == 2, output
    document = json.loads((report / "report.json").read_text(encoding="utf-8"))
    nodes = {node["name"]: node for node in document["nodes"]}
    assert set(nodes) == {"n1", "n2", "lost", "h1"}
    assert (nodes["lost"]["answered"], nodes["lost"]["status"]) == (False, "undeterminable")
    assert "node.answer: the node did not answer" in output
    assert all(len(nodes[name]["results"]) > 5 for name in ("n1", "n2", "h1"))
    assert (nodes["h1"]["kind"], nodes["n1"]["kind"], document["cluster"]) == ("head", "compute", "train")
    # The site's expectations are merged by node type; neither S3 nor containers work here.
    first = {entry["id"]: entry for entry in nodes["n1"]["results"]}
    assert first["expect.disks"]["status"] == "pass"
    mounts = [entry["status"] for entry in nodes["n1"]["results"] if entry["id"] == "expect.mount"]
    assert mounts == ["pass", "fail"]
    assert first["s3.list"]["status"] in ("undeterminable", "fail")
    assert first["container.image"]["status"] == "undeterminable"
    assert all(entry["seconds"] is not None for entry in nodes["n1"]["results"])
    # The newest file of the head node is fetched.
    assert document["pairs"] == [
        {"a": "n1", "b": "n2", "collective": "all_reduce_perf", "busbw": 479.53, "status": "pass"}
    ]
    newest = f"h1:{tmp_path}/jobs/results/validation-1.json, written 1970-01-01T00:00:01Z"
    assert document["jobs_source"] == newest
    assert "changed=0" in output and "changed=1" not in output
    assert {path.name for path in report.iterdir()} == {
        "report.html", "report.md", "report.json", "junit.xml", "mlcluster.prom", "diag.json", "nhc.conf",
    }  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in report.iterdir()} == {0o600}

    unread = {**HERE, "ec2_queue_name": "{{ 1 / 0 }}"}
    status, output, report = check({"compute": group(n1=HERE, new=HERE, unread=unread)})
    again = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert (again["changes"]["joined"], again["changes"]["left"]) == (["new", "unread"], ["h1", "lost", "n2"])
    nodes = {node["name"]: node["status"] for node in again["nodes"]}
    assert (status, nodes["unread"]) == (2, "undeterminable")


@pytest.fixture
def hanging(tmp_path):
    """Yield a Python that hangs at its start until the test is over."""
    gate, python = tmp_path / "gate", tmp_path / "python"
    os.mkfifo(gate)
    python.write_text(f"#!/bin/sh\nexec cat {gate}\n", encoding="utf-8")
    python.chmod(0o755)
    yield python
    # The pipe has no reader if the timeout has ended the program.
    with contextlib.suppress(OSError):
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))


def test_hanging_node_does_not_stop_report(check, hanging):
    """The node accepts the login and then hangs, as with a /home that does not answer."""
    # Only this node has short time limits, so that a busy machine does not affect the others.
    limits = {"check_nodes_connect_timeout": 5, "check_nodes_options": {"seconds": 1}}
    stuck = {**HERE, "ansible_python_interpreter": str(hanging), **limits}
    status, output, report = check({"compute": group(n1=HERE), "head": group(stuck=stuck)})
    nodes = {node["name"]: node for node in json.loads((report / "report.json").read_text(encoding="utf-8"))["nodes"]}
    assert (status, nodes["stuck"]["status"]) == (2, "undeterminable"), output
    assert "node.answer: the node was not judged" in output and "DEPRECATION" not in output
    # Both looks timed out: at the node and at the results directory.
    assert "Timed out after 6 second" in output and "Timed out after 5 second" in output
    assert len(nodes["n1"]["results"]) > 5


def test_check_mode_writes_nothing_and_has_same_verdict(check):
    status, output, report = check({"compute": group(lost=UNREACHABLE)}, "--check")
    assert status == 2 and "1 not proved of 1 node; 1 did not answer" in output
    assert not report.exists()


def test_cluster_without_head_node_delegates_to_no_host(check):
    status, output, report = check({"compute": group(lost=UNREACHABLE)})
    assert status == 2 and "Empty hostname" not in output and "delegate_to" not in output, output
    assert report.exists()


def test_inventory_without_nodes_is_undeterminable(check):
    status, output, report = check({"others": group(n1=HERE)})
    assert status == 2 and "no node was checked: the inventory has no host in head:login:compute" in output
    assert not report.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check_nodes_validation": "/nowhere/run.json"}, "validation /nowhere/run.json cannot be read"),
        ({"check_nodes_directory": "/proc/mlcluster"}, "the report cannot be written to /proc/mlcluster"),
        ({"check_nodes_formats": ["pdf"]}, "pdf"),
    ],
)
def test_bad_options_are_rejected_in_one_sentence(check, options, words):
    status, output, _report = check({"compute": group(lost=UNREACHABLE)}, "-e", json.dumps(options))
    assert status == 2 and words in output


def test_empty_variable_counts_as_missing(check):
    """Otherwise every node would count as silent."""
    names = ("check_nodes_buckets", "check_nodes_formats", "check_nodes_options", "node_health_expectations")
    options = json.dumps(dict.fromkeys(names))
    _status, output, report = check({"compute": group(n1=HERE)}, "-e", options)
    assert "did not answer" not in output, output
    assert (report / "report.json").exists()
