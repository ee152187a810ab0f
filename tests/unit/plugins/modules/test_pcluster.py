# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pcluster as Ansible runs it: the commands of each step, and those that check mode skips."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.modules import pcluster

NONE = {"message": "Cluster 'c' does not exist or belongs to an incompatible ParallelCluster major version."}
DRY = {"message": "Request would have succeeded, but DryRun flag is set."}
CONFIG = {"Region": "us-east-1", "Tags": [{"Key": "k", "Value": "{{ 7 * 7 }}"}]}


def cluster(status, **more):
    return {"clusterName": "c", "region": "us-east-1", "clusterStatus": status, **more}


class Host:
    """Answers each verb, and keeps what was asked and the configuration that was handed over."""

    def __init__(self, **answers):
        self.answers, self.asked, self.config, self.mode = answers, [], None, None

    def run(self, argv, timeout, check):
        verb = argv[1]
        self.asked.append(verb)
        if "--cluster-configuration" in argv:
            path = argv[argv.index("--cluster-configuration") + 1]
            self.mode = os.stat(path).st_mode & 0o777
            with open(path, encoding="utf-8") as stream:
                self.config = json.load(stream)
        answer = self.answers[verb.replace("-", "_")]
        return CommandResult(1 if "message" in answer else 0, json.dumps(answer), "")


@pytest.fixture
def step(run_module):
    """step(host, name, check=False, **options) runs one step."""

    def run(host, name, check=False, **options):
        return run_module(pcluster, host, check, name="c", region="us-east-1", step=name, **options)

    return run


@pytest.mark.parametrize("name", ["try", "create"])
def test_missing_configuration_calls_no_program(step, name):
    host = Host()
    assert f"step is {name} but all of the following are missing: config" in step(host, name)["msg"]
    assert host.asked == []


def test_configuration_is_passed_in_private_file(step):
    host = Host(describe_cluster=NONE, create_cluster=DRY)
    result = step(host, "try", config=CONFIG)
    assert (result["changed"], result["cluster"]) == (False, None)
    assert (host.config, host.mode) == (CONFIG, 0o600)


def test_rejected_dry_run_fails_with_all_findings(step):
    errors = [{"level": "ERROR", "type": "V", "message": text} for text in ("no key", "no subnet")]
    refused = {"message": "Invalid cluster configuration.", "configurationValidationErrors": errors}
    message = step(Host(describe_cluster=NONE, create_cluster=refused), "try", config=CONFIG)["msg"]
    assert message == "the dry run reported: Invalid cluster configuration.; ERROR: no key (V); ERROR: no subnet (V)"


@pytest.mark.parametrize(
    ("name", "there", "check", "changed", "asked"),
    [
        ("create", NONE, False, True, ["create-cluster"]),
        ("create", NONE, True, True, []),
        ("create", cluster("CREATE_COMPLETE"), False, False, []),
        # A dry run for an existing cluster would only report that it exists.
        ("try", cluster("CREATE_COMPLETE"), False, False, []),
        ("delete", NONE, False, False, []),
        ("delete", cluster("CREATE_COMPLETE"), True, True, []),
        ("delete", cluster("CREATE_FAILED"), False, True, ["delete-cluster"]),
        # No second request for a cluster that is being deleted.
        ("delete", cluster("DELETE_IN_PROGRESS"), False, True, []),
    ],
)
def test_each_step_calls_its_command(step, name, there, check, changed, asked):
    made = {"cluster": cluster("CREATE_IN_PROGRESS")}
    host = Host(describe_cluster=there, create_cluster=made, delete_cluster=made)
    result = step(host, name, check, config=CONFIG)
    assert (result["changed"], host.asked) == (changed, ["describe-cluster", *asked])


@pytest.mark.parametrize("status", ["CREATE_IN_PROGRESS", "CREATE_COMPLETE", "CREATE_FAILED"])
def test_finished_means_no_operation_in_progress(step, status):
    there = cluster(status, headNode={"instanceId": "i-1", "privateIpAddress": "10.0.0.1"})
    result = step(Host(describe_cluster=there), "describe", os="ubuntu2404", key_path="~/.ssh/k")
    assert result["finished"] is (status != "CREATE_IN_PROGRESS")
    assert result["login_commands"][1] == "ssh -i ~/.ssh/k ubuntu@10.0.0.1"


def test_cluster_without_head_node_has_no_login_commands(step):
    assert step(Host(describe_cluster=cluster("CREATE_IN_PROGRESS")), "describe")["login_commands"] == []
