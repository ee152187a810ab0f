# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, pcluster
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult

NONE = {"message": "Cluster 'c' does not exist or belongs to an incompatible ParallelCluster major version."}
DRY = {"message": "Request would have succeeded, but DryRun flag is set."}
# Shaped as CreateClusterBadRequestExceptionResponseContent in ParallelCluster's openapi.yaml.
REFUSED = {
    "message": "Invalid cluster configuration.",
    "configurationValidationErrors": [{"level": "ERROR", "type": "KeyPairValidator", "message": "no such key"}],
}


class Host:
    """Return answers in order, and record the calls."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def run(self, argv, timeout, check):
        self.asked.append(argv)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, CommandResult):
            return answer
        # The program exits with 1 for every message, also for a dry run that would work.
        return CommandResult(1 if "message" in answer else 0, json.dumps(answer, indent=2), "")


def program(*answers, profile=None):
    return pcluster.Pcluster(Host(*answers), "/opt/pcluster", "c", "us-east-1", profile)


def test_dry_run_is_judged_by_its_message():
    warned = {**DRY, "validationMessages": [{"level": "WARNING", "type": "V", "message": "costs"}]}
    assert program(warned).dry_run("f") == (True, DRY["message"], ["WARNING: costs (V)"])
    good, message, findings = program(REFUSED).dry_run("f")
    assert (good, message) == (False, "Invalid cluster configuration.")
    assert findings == ["ERROR: no such key (KeyPairValidator)"]


def test_command_is_list_of_arguments():
    one = program(DRY, profile="train")
    one.dry_run("/tmp/a b.yaml")
    assert one.host.asked == [
        ["/usr/bin/env", "AWS_PROFILE=train", "/opt/pcluster", "create-cluster", "--cluster-name", "c", "--region",
         "us-east-1", "--cluster-configuration", "/tmp/a b.yaml", "--dryrun", "true"]
    ]  # fmt: skip


def test_missing_cluster_is_none():
    assert program(NONE).describe() is None


def test_other_failure_is_raised():
    with pytest.raises(aws.AwsError, match="describe-cluster c: Bad Request: not allowed"):
        program({"message": "Bad Request: not allowed"}).describe()


def test_refused_creation_reports_every_reason():
    with pytest.raises(aws.AwsError, match=r"was refused: Invalid cluster configuration\.; ERROR: no such key"):
        program(REFUSED).create("f", True)


def test_missing_answer_is_reported():
    with pytest.raises(
        aws.AwsError, match="ended with status 1 and no JSON in the answer; it reported: AWS Credentials not found"
    ):
        program(CommandResult(1, "", "warning\nAWS Credentials not found.\n")).describe()


def test_missing_packages_of_program_are_reported():
    output = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'connexion'\n"
    with pytest.raises(
        aws.AwsError, match="reported: ModuleNotFoundError: No module named 'connexion'; make pcluster installs"
    ):
        program(CommandResult(1, "", output)).describe()


def test_missing_program_is_reported():
    missing = CommandError(["pcluster"], None, "", "", "not found")
    with pytest.raises(
        aws.AwsError, match="make pcluster installs AWS ParallelCluster, cluster_pcluster names the program"
    ):
        program(missing).describe()


def test_text_before_answer_is_skipped():
    assert pcluster.parse('DeprecationWarning: old\n{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="no JSON in the answer"):
        pcluster.parse("nothing")


def test_progress_counts_resources_by_their_newest_state():
    cluster = {"clusterName": "c", "clusterStatus": "CREATE_IN_PROGRESS", "creationTime": "2026-11-28T05:00:00.000Z"}
    events = [
        {"logicalResourceId": "Head", "resourceStatus": "CREATE_IN_PROGRESS"},
        {"logicalResourceId": "Role", "resourceStatus": "CREATE_COMPLETE"},
        {"logicalResourceId": "Role", "resourceStatus": "CREATE_IN_PROGRESS"},
    ]
    now = 1795842000 + 12 * 60
    assert (
        pcluster.progress(cluster, events, now) == "c: CREATE_IN_PROGRESS, 12 min, 1 of 2 resources complete, last Head"
    )
    assert pcluster.progress({**cluster, "creationTime": "?"}, [], now) == "c: CREATE_IN_PROGRESS"


def test_waiting_returns_with_news_and_not_with_minutes(monkeypatch):
    running = {"clusterName": "c", "clusterStatus": "CREATE_IN_PROGRESS", "creationTime": "2026-11-28T05:00:00Z"}
    events = {"events": []}
    waited = []
    monkeypatch.setattr(pcluster.time, "sleep", waited.append)
    done = {**running, "clusterStatus": "CREATE_COMPLETE"}
    one = program(running, events, running, events, done, events)
    cluster, line = one.wait("c: CREATE_IN_PROGRESS, 3 min", 3600)
    assert cluster == done
    assert line.startswith("c: CREATE_COMPLETE")
    assert len(waited) == 2


def test_patient_wait_ends_with_time_or_status(monkeypatch):
    running = {"clusterName": "c", "clusterStatus": "CREATE_IN_PROGRESS"}
    events = [
        {"events": [{"logicalResourceId": name, "resourceStatus": "CREATE_COMPLETE"}]} for name in ("a", "b", "c")
    ]
    waited = []
    monkeypatch.setattr(pcluster.time, "sleep", waited.append)
    done = {**running, "clusterStatus": "CREATE_FAILED"}
    one = program(running, events[0], running, events[1], done, events[2])
    assert one.wait("c: CREATE_IN_PROGRESS", 3600, status_only=True)[0] == done
    assert len(waited) == 2


def test_wait_ends_with_deletion():
    assert program(NONE).wait("", 60) == (None, "c: deleted")


@pytest.mark.parametrize(
    ("system", "user"),
    [("alinux2023", "ec2-user"), ("ubuntu2404", "ubuntu"), ("rocky9", "rocky"), ("rhel9", "ec2-user")],
)
def test_login_has_three_commands(system, user):
    head = {"instanceId": "i-1", "privateIpAddress": "10.0.0.10"}
    cluster = {"clusterName": "c", "region": "us-east-1", "headNode": head}
    assert pcluster.login_commands(cluster, system, "~/.ssh/k") == [
        "pcluster ssh --cluster-name c --region us-east-1 -i ~/.ssh/k",
        f"ssh -i ~/.ssh/k {user}@10.0.0.10",
        "aws ssm start-session --target i-1 --region us-east-1",
    ]
    public = {**cluster, "headNode": {**head, "publicIpAddress": "203.0.113.10"}}
    assert pcluster.login_commands(public, system, "")[1] == f"ssh {user}@203.0.113.10"
