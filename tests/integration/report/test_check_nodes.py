# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook check_nodes, run for real over this machine under several names and a port where nobody answers.

The machine is not a training node, so most of its checks have no meaning or cannot be proved; that the page says so is
what is tested. The instance type is given, for nothing tells it here.
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
NOBODY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


@pytest.fixture
def check(tmp_path):
    """check(groups, *options) runs the playbook; returns its exit status, output and the folder of the report."""

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
    """Two files of run_validation; gives the variables of the host where they lie."""
    (folder / "jobs" / "results").mkdir(parents=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for number, found in enumerate(([], results)):
        path = folder / "jobs" / "results" / f"validation-{number}.json"
        path.write_text(json.dumps(scene.validation(*found, time=now)), encoding="utf-8")
        os.utime(path, (number, number))
    return {**HERE, "slurm_jobs_dir": str(folder / "jobs")}


def test_one_page_on_all_nodes_silent_one_too(check, tmp_path):
    head = kept(tmp_path, scene.bandwidth(1.0, "n1+n2"))
    everywhere = {"compute": group(n1=HERE, n2=HERE, lost=NOBODY), "head": group(h1=head)}
    status, said, report = check(everywhere, "-e", json.dumps(SITE))
    assert status == 2, said
    document = json.loads((report / "report.json").read_text(encoding="utf-8"))
    nodes = {node["name"]: node for node in document["nodes"]}
    assert set(nodes) == {"n1", "n2", "lost", "h1"}
    assert (nodes["lost"]["answered"], nodes["lost"]["status"]) == (False, "undeterminable")
    assert "node.answer: the node did not answer" in said
    assert all(len(nodes[name]["results"]) > 5 for name in ("n1", "n2", "h1"))
    assert (nodes["h1"]["kind"], nodes["n1"]["kind"], document["cluster"]) == ("head", "compute", "train")
    # What the site expects is merged for each node by its type; nobody here can ask S3 or start containers.
    first = {entry["id"]: entry for entry in nodes["n1"]["results"]}
    assert first["expect.disks"]["status"] == "pass"
    mounts = [entry["status"] for entry in nodes["n1"]["results"] if entry["id"] == "expect.mount"]
    assert mounts == ["pass", "fail"]
    assert first["s3.list"]["status"] in ("undeterminable", "fail")
    assert first["container.image"]["status"] == "undeterminable"
    assert all(entry["seconds"] is not None for entry in nodes["n1"]["results"])
    # The newest of the head's files is fetched.
    assert document["pairs"] == [
        {"a": "n1", "b": "n2", "collective": "all_reduce_perf", "busbw": 479.53, "status": "pass"}
    ]
    newest = f"h1:{tmp_path}/jobs/results/validation-1.json, written 1970-01-01T00:00:01Z"
    assert document["jobs_source"] == newest
    assert "changed=0" in said and "changed=1" not in said
    assert {path.name for path in report.iterdir()} == {
        "report.html", "report.md", "report.json", "junit.xml", "mlcluster.prom", "diag.json", "nhc.conf",
    }  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in report.iterdir()} == {0o600}

    unread = {**HERE, "ec2_queue_name": "{{ 1 / 0 }}"}
    status, said, report = check({"compute": group(n1=HERE, new=HERE, unread=unread)})
    again = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert (again["changes"]["joined"], again["changes"]["left"]) == (["new", "unread"], ["h1", "lost", "n2"])
    nodes = {node["name"]: node["status"] for node in again["nodes"]}
    assert (status, nodes["unread"]) == (2, "undeterminable")


@pytest.fixture
def hanging(tmp_path):
    """A Python that never gets to its first line; when the test is over it ends, whatever still waits for it."""
    gate, python = tmp_path / "gate", tmp_path / "python"
    os.mkfifo(gate)
    python.write_text(f"#!/bin/sh\nexec cat {gate}\n", encoding="utf-8")
    python.chmod(0o755)
    yield python
    # Nobody reads it any more where what ran out of time was ended with its task.
    with contextlib.suppress(OSError):
        os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))


def test_node_or_place_of_results_that_hangs_keeps_page_from_nobody(check, hanging):
    """It lets everybody in, and then nothing of it comes back, as where its root or its /home does not answer."""
    # Its own limits are short; the others have all the time that there is, however busy this machine.
    limits = {"check_nodes_patience": 5, "check_nodes_options": {"seconds": 1}}
    stuck = {**HERE, "ansible_python_interpreter": str(hanging), **limits}
    status, said, report = check({"compute": group(n1=HERE), "head": group(stuck=stuck)})
    nodes = {node["name"]: node for node in json.loads((report / "report.json").read_text(encoding="utf-8"))["nodes"]}
    assert (status, nodes["stuck"]["status"]) == (2, "undeterminable"), said
    assert "node.answer: the node was not judged" in said and "DEPRECATION" not in said
    # Neither ended by itself: the look at the node, and the one at the place of results.
    assert "Timed out after 6 second" in said and "Timed out after 5 second" in said
    assert len(nodes["n1"]["results"]) > 5


def test_nothing_is_written_in_check_mode_and_verdict_is_same(check):
    status, said, report = check({"compute": group(lost=NOBODY)}, "--check")
    assert status == 2 and "1 not proved of 1 node; 1 did not answer" in said
    assert not report.exists()


def test_cluster_without_head_node_asks_no_empty_host(check):
    status, said, report = check({"compute": group(lost=NOBODY)})
    assert status == 2 and "Empty hostname" not in said and "delegate_to" not in said, said
    assert report.exists()


def test_inventory_without_nodes_is_no_good_cluster(check):
    status, said, report = check({"others": group(n1=HERE)})
    assert status == 2 and "no node was checked: the inventory has no host in head:login:compute" in said
    assert not report.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check_nodes_validation": "/nowhere/run.json"}, "validation /nowhere/run.json cannot be read"),
        ({"check_nodes_directory": "/proc/mlcluster"}, "the report cannot be written to /proc/mlcluster"),
        ({"check_nodes_formats": ["pdf"]}, "pdf"),
    ],
)
def test_bad_options_have_one_sentence(check, options, words):
    status, said, _report = check({"compute": group(lost=NOBODY)}, "-e", json.dumps(options))
    assert status == 2 and words in said


def test_variable_with_nothing_after_its_colon_is_as_one_that_is_missing(check):
    """Else every node counts as one that did not answer."""
    names = ("check_nodes_buckets", "check_nodes_formats", "check_nodes_options", "node_health_expectations")
    options = json.dumps(dict.fromkeys(names))
    _status, said, report = check({"compute": group(n1=HERE)}, "-e", options)
    assert "did not answer" not in said, said
    assert (report / "report.json").exists()
