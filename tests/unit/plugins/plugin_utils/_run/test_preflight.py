# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks before a run: each verdict good, bad and unknown."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import preflight

GOOD = {"rc": 0, "stdout": "", "stderr": ""}
GROUPS = {"all": ["n1"], "ungrouped": [], "compute": ["n1"], "web": []}


def lines(results):
    return [entry.line() for entry in results]


@pytest.mark.parametrize(
    ("core", "collections", "libraries", "start"),
    [
        ("2.19.3", {"a.b": ("2.0.0", "1.0.0")}, {"boto3": True}, ["PASS preflight.controller: ansible-core 2.19.3, 1"]),
        ("2.16.9", {}, {}, ["FAIL preflight.controller: ansible-core 2.16.9 runs here and 2.17.0 is the oldest"]),
        ("2.19.3", {"a.b": (None, "1.0.0")}, {}, ["FAIL preflight.controller: the collection a.b is not installed"]),
        ("2.19.3", {"a.b": ("1.9.0", "1.10.0")}, {}, ["FAIL preflight.controller: the collection a.b is 1.9.0 and"]),
        ("2.19.3", {}, {"boto3": False, "x": True}, ["FAIL preflight.controller: the Python that runs Ansible cannot"]),
    ],
)
def test_controller_versions_are_judged(core, collections, libraries, start):
    found = lines(preflight.controller(core, "2.17.0", collections, libraries))
    assert [line[: len(words)] for line, words in zip(found, start, strict=True)] == start


@pytest.mark.parametrize(
    ("hosts", "types", "start"),
    [
        (["n1"], {"n1": "p5.48xlarge"}, "PASS preflight.inventory: 1 node: compute 1"),
        (["n1"], {"n1": None}, "PASS preflight.inventory: 1 node: compute 1"),
        (["n1"], {"n1": "p99.huge"}, "???? preflight.inventory: nothing is known about the instance type p99.huge"),
        ([], {}, "FAIL preflight.inventory: none of the groups compute has a host; the inventory has compute, web"),
    ],
)
def test_inventory_is_judged(hosts, types, start):
    (line,) = lines(preflight.inventory(hosts, ["compute"], GROUPS, types))
    assert line.startswith(start)


API = {"source": "api", "kind": None, "count": 0, "efa_attached": 0}


@pytest.mark.parametrize(
    ("accelerators", "needed"),
    [
        (API, None),
        ({**API, "source": "table"}, "c9.huge"),
        ({**API, "kind": "gpu", "count": 8}, "c9.huge"),
        ({**API, "efa_attached": 1}, "c9.huge"),
        ({**API, "count": None}, "c9.huge"),
        ({"source": "api"}, "c9.huge"),
        (None, "c9.huge"),
    ],
)
def test_type_without_hardware_by_ec2_needs_no_table(accelerators, needed):
    assert preflight.table_type({"ec2_instance_type": "c9.huge", "ec2_accelerators": accelerators}) == needed
    assert preflight.table_type({"ec2_instance_type": None}) is None


@pytest.mark.parametrize(
    ("groups", "playbooks", "status"),
    [
        ({"all": ["localhost"], "ungrouped": ["localhost"]}, ["create_network"], "not_applicable"),
        ({"all": ["localhost"], "ungrouped": ["localhost"]}, [], "fail"),
        ({"all": [], "ungrouped": []}, ["create_network"], "fail"),
        ({"all": ["localhost"], "web": []}, ["create_network"], "fail"),
        ({"all": ["localhost", "n1"]}, ["create_network"], "fail"),
        ({"all": ["localhost"]}, ["create_network", "monitoring"], "fail"),
        ({"all": ["localhost"]}, ["mount_fsx"], "fail"),
    ],
)
def test_playbook_of_controller_needs_no_node(groups, playbooks, status):
    (entry,) = preflight.inventory([], ["compute"], groups, {}, playbooks)
    assert entry.status == status


def test_names_variables_and_artifacts_are_judged():
    assert preflight.spelling([], [])[0].status == "pass"
    assert lines(preflight.spelling(["no group head"], ["no role reads the variable x"])) == [
        "FAIL preflight.names: no group head. rename the group",
        "FAIL preflight.names: no role reads the variable x",
    ]
    assert preflight.variables({}, [])[0].status == "not_applicable"
    assert preflight.variables({}, ["efa_nccl"])[0].status == "pass"
    wrong = preflight.variables({"efa_nccl_hold is 3": [f"n{at}" for at in range(7)]}, ["efa_nccl"])
    assert lines(wrong) == ["FAIL preflight.variables: efa_nccl_hold is 3 (n0, n1, n2, n3, n4 and 2 more)"]
    assert preflight.artifacts({})[0].status == "not_applicable"
    assert preflight.artifacts({"a 1": {True}})[0].status == "pass"
    assert "the sha256 of b 2 is unknown, so" in lines(preflight.artifacts({"a 1": {True}, "b 2": {False, None}}))[0]
    (unsure,) = preflight.artifacts({"a 1": {True}, "b 2": {True, None}})
    assert (unsure.status, unsure.reason) == ("undeterminable", "no_answer") and "the sha256 of b 2" in unsure.message


def marker(version):
    return {"rc": 0, "stdout": f"# EFA installer version: {version}\r\n# Debug\r\nefa-2.1.amzn2.x86_64\r\n"}


@pytest.mark.parametrize(
    ("task", "keeps", "fetches"),
    [
        (None, False, True),
        (None, True, None),
        ({"skipped": True, "rc": 0}, True, None),
        ({"unreachable": True, "rc": 0, **marker("1.40.0")}, True, None),
        ({"rc": 1, "stdout": ""}, True, True),
        ({"rc": 0, "stdout": "nonsense"}, True, True),
        (marker("1.40.0"), True, False),
        (marker("1.40.0"), False, True),
        (marker("1.51.0"), False, False),
        (marker("1.52.0"), False, False),
    ],
)
def test_node_that_keeps_its_efa_fetches_none(task, keeps, fetches):
    assert preflight.fetches_efa(task, "1.51.0", keeps) is fetches


def probe(ssh=None, sudo=None, python=None):
    tasks = {"ssh": ssh, "sudo": sudo, "python": python}
    return {step: task for step, task in tasks.items() if task is not None}


ROOT = {**GOOD, "stdout": "0\r\n"}
PYTHON = {**GOOD, "stdout": "Python 3.11.2\r\n"}


def test_answering_nodes_pass():
    assert lines(preflight.nodes({"n1": probe(GOOD, ROOT, PYTHON), "n2": probe(GOOD, ROOT, PYTHON)})) == [
        "PASS preflight.ssh: 2 nodes: a shell answered",
        "PASS preflight.sudo: 2 nodes: the user becomes root",
        "PASS preflight.python: 2 nodes: Python 3.9 or newer is there",
    ]
    assert {entry.status for entry in preflight.nodes({})} == {"not_applicable"}


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ({"unreachable": True, "msg": "ubuntu@10.0.0.1: Permission denied (publickey)"}, "rejects the key"),
        ({"unreachable": True, "msg": "Host key verification failed."}, "ssh-keygen -R"),
        ({"unreachable": True, "msg": "ssh: Could not resolve hostname n1"}, "set an address in ansible_host"),
        ({"unreachable": True, "msg": "connect to host 10.0.0.1 port 22: timed out"}, "security group"),
        ({"failed": True, "rc": 127, "msg": "non-zero return code"}, "check that the node runs"),
        # Unknown is not good.
        ({}, "check that the node runs"),
    ],
)
def test_node_without_shell_fails(task, hint):
    first, *others = preflight.nodes({"n1": probe(task)})
    assert (first.id, first.status, first.scope.node) == ("preflight.ssh", "fail", "n1")
    assert hint in first.line() and "10.0.0.1" not in first.line()
    assert [entry.status for entry in others] == ["undeterminable"] * 2


def test_same_cause_of_many_nodes_is_one_line():
    probes = {
        f"n{at}": probe({"unreachable": True, "msg": f"connect to host 10.0.0.{at} port 22: timed out"})
        for at in range(80)
    }
    first, *_others = lines(preflight.nodes(probes))
    assert first.startswith("FAIL preflight.ssh: 80 nodes (n0, n1, n10, n11, n12 and 75 more): no shell answered")


@pytest.mark.parametrize(
    ("sudo", "status"),
    [
        (ROOT, "pass"),
        ({**GOOD, "stdout": "1000\n"}, "fail"),
        ({"failed": True, "rc": 1, "stdout": "", "stderr": "sudo: a password is required"}, "fail"),
        ({**GOOD, "stdout": ""}, "fail"),
        ({"stdout": "0"}, "fail"),
    ],
)
def test_user_without_root_fails(sudo, status):
    found = {entry.id: entry for entry in preflight.nodes({"n1": probe(GOOD, sudo, PYTHON)})}
    assert found["preflight.sudo"].status == status
    assert status == "pass" or "--ask-become-pass" in found["preflight.sudo"].hint


@pytest.mark.parametrize(
    ("python", "status", "start"),
    [
        (PYTHON, "pass", "is there"),
        ({**GOOD, "stdout": "Python 3.9.16"}, "pass", "is there"),
        ({**GOOD, "stdout": "Python 3.8.10"}, "fail", "its newest Python is 3.8"),
        ({**GOOD, "stderr": "Python 2.7.18"}, "fail", "its newest Python is 2.7"),
        ({"failed": True, "rc": 1, "stdout": ""}, "fail", "no Python was found"),
        ({"failed": True, "rc": 1, "stderr": "Shared connection to n1 closed."}, "fail", "no Python was found"),
        (
            {"failed": True, "rc": 127, "stdout": "/opt/shims/python3.13\r\npyenv: python3.13: command not found"},
            "fail",
            "/opt/shims/python3.13 does not start. repair it, or name another Python in ansible_python_interpreter",
        ),
        ({**GOOD, "stdout": "/usr/bin/python3.11\r\nPython 3.11.2\r\n"}, "pass", "is there"),
    ],
)
def test_python_version_is_judged(python, status, start):
    found = {entry.id: entry for entry in preflight.nodes({"n1": probe(GOOD, ROOT, python)})}
    assert found["preflight.python"].status == status and start in found["preflight.python"].line()


@pytest.mark.parametrize(
    ("answers", "unbound", "status", "start"),
    [
        ({"ec2:RunInstances": "allowed"}, [], "pass", "create.yml: all 1 actions are allowed"),
        ({"ec2:RunInstances": "implicitDeny"}, ["ec2:RunInstances"], "fail", "create.yml is denied ec2:RunInstances"),
        ({"s3:GetObject": "implicitDeny"}, [], "undeterminable", "depends on names or conditions of policies"),
        ({"ec2:RunInstances": "conditional"}, ["ec2:RunInstances"], "undeterminable", "whether ec2:RunInstances is"),
        ({"s3:GetObject": "explicitDeny"}, [], "fail", "is denied s3:GetObject"),
        ({"s3:GetObject": "somethingNew"}, [], "undeterminable", "s3:GetObject"),
        # IAM left it out of its answer.
        ({"s3:GetObject": "not reported"}, ["s3:GetObject"], "undeterminable", "s3:GetObject"),
        ({}, [], "undeterminable", "IAM gave no answer"),
    ],
)
def test_rights_are_judged_by_iam(answers, unbound, status, start):
    (entry,) = preflight.rights({"create": answers}, {"create": unbound})
    assert entry.status == status and start in entry.line()


def test_unrequested_or_unknown_rights_are_reported():
    assert preflight.rights({}, {})[0].status == "not_applicable"
    (entry,) = preflight.rights({}, {}, "IAM does not report what x may do: AccessDenied")
    assert entry.status == "undeterminable" and "iam:SimulatePrincipalPolicy" in entry.hint
