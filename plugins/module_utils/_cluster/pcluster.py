# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of AWS ParallelCluster 3.16: its calls and their answers."""

from __future__ import annotations

import json
import time
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.aws import AwsError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, Host

# The message of a dry run that would have worked; its exit status is 1, like that of a failure.
DRY_RUN_MESSAGE = "Request would have succeeded, but DryRun flag is set."
MISSING_MESSAGE = "does not exist"
# make setup installs only the validators' packages; without the others the program fails.
MISSING_PACKAGES_MESSAGE = "ModuleNotFoundError"
INSTALL = "make pcluster installs AWS ParallelCluster, cluster_pcluster names the program"
ASK_SECONDS = 120
# All validators ask AWS one after the other, and CDK writes the template.
CREATE_SECONDS = 600
POLL_SECONDS = 10.0
RUNNING = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS")
Answer = dict[str, t.Any]


def parse(stdout: str) -> Answer:
    """Parse the JSON output; warnings of libraries may precede it. Raises ValueError."""
    start = stdout.find("{")
    if start < 0:
        raise ValueError("no JSON in the answer")
    answer = json.loads(stdout[start:])
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object")
    return answer


def findings(answer: Answer) -> list[str]:
    """Return the validators' messages, errors first."""
    messages = [*answer.get("configurationValidationErrors", []), *answer.get("validationMessages", [])]
    return [f"{entry.get('level', '')}: {entry.get('message', '')} ({entry.get('type', '')})" for entry in messages]


def progress(cluster: t.Mapping[str, t.Any], events: t.Sequence[t.Mapping[str, t.Any]], now: float) -> str:
    """Return one line: status, minutes since the creation began, complete resources, the last one that changed."""
    states: dict[str, str] = {}
    for event in events:
        # The newest event is the first.
        states.setdefault(event["logicalResourceId"], event["resourceStatus"])
    complete = sum(1 for state in states.values() if state.endswith("_COMPLETE"))
    text = f"{cluster['clusterName']}: {cluster['clusterStatus']}"
    minutes = _minutes(cluster.get("creationTime", ""), now)
    if minutes is not None:
        text += f", {minutes} min"
    if states:
        text += f", {complete} of {len(states)} resources complete, last {events[0]['logicalResourceId']}"
    return text


def _minutes(timestamp: str, now: float) -> int | None:
    import datetime

    try:
        # Python 3.9 does not parse Z.
        begun = datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    except ValueError:
        return None
    return max(0, int((now - begun.timestamp()) // 60))


class Pcluster:
    """The program, for one cluster in one region."""

    def __init__(self, host: Host, program: str, name: str, region: str, profile: str | None = None) -> None:
        self.host, self.program, self.name, self.region = host, program, name, region
        self.environment = ["/usr/bin/env", f"AWS_PROFILE={profile}"] if profile else []

    def call(self, verb: str, *options: str, seconds: float = ASK_SECONDS) -> Answer:
        """Return the answer of one verb, also a failure's message. Raises AwsError without an answer."""
        argv = [*self.environment, self.program, verb, "--cluster-name", self.name, "--region", self.region, *options]
        try:
            completed = self.host.run(argv, timeout=seconds, check=False)
        except CommandError as exc:
            raise AwsError(f"{exc}; {INSTALL}") from exc
        try:
            return parse(completed.stdout)
        except ValueError as exc:
            output = (completed.stderr.strip() or completed.stdout.strip() or "nothing").splitlines()[-1]
            advice = f"; {INSTALL}" if output.startswith(MISSING_PACKAGES_MESSAGE) else ""
            text = f"pcluster {verb} ended with status {completed.rc} and {exc}; it reported: {output}{advice}"
            raise AwsError(text) from exc

    def describe(self) -> Answer | None:
        """Return the cluster, None if it does not exist."""
        answer = self.call("describe-cluster")
        if "clusterStatus" in answer:
            return answer
        if MISSING_MESSAGE in str(answer.get("message", "")):
            return None
        raise AwsError(f"pcluster describe-cluster {self.name}: {answer.get('message', answer)}")

    def dry_run(self, config: str) -> tuple[bool, str, list[str]]:
        """Return whether the creation would work, pcluster's message, and the validators' messages."""
        answer = self.call(
            "create-cluster", "--cluster-configuration", config, "--dryrun", "true", seconds=CREATE_SECONDS
        )
        message = str(answer.get("message", ""))
        return message == DRY_RUN_MESSAGE, message, findings(answer)

    def create(self, config: str, rollback: bool) -> Answer:
        """Begin the creation. Raises AwsError with all reasons if it is refused."""
        answer = self.call(
            "create-cluster",
            "--cluster-configuration",
            config,
            "--rollback-on-failure",
            str(rollback).lower(),
            seconds=CREATE_SECONDS,
        )
        if "cluster" not in answer:
            reasons = "; ".join([str(answer.get("message", answer)), *findings(answer)])
            raise AwsError(f"pcluster create-cluster {self.name} was refused: {reasons}")
        return t.cast(Answer, answer["cluster"])

    def delete(self) -> Answer:
        """Begin the deletion."""
        answer = self.call("delete-cluster", seconds=CREATE_SECONDS)
        if "cluster" not in answer:
            raise AwsError(f"pcluster delete-cluster {self.name} was refused: {answer.get('message', answer)}")
        return t.cast(Answer, answer["cluster"])

    def wait(self, last_progress: str, seconds: float, status_only: bool = False) -> tuple[Answer | None, str]:
        """Wait for progress or for ``seconds``, and return the cluster and the line of progress.

        ``last_progress`` is an earlier line; a new status or resource is progress, new minutes are not.
        If ``status_only``, only a new status is.
        """
        limit = time.monotonic() + seconds
        while True:
            cluster = self.describe()
            if cluster is None:
                return None, f"{self.name}: deleted"
            events = self.call("get-cluster-stack-events").get("events", [])
            line = progress(cluster, events, time.time())
            over = cluster["clusterStatus"] not in RUNNING or time.monotonic() + POLL_SECONDS > limit
            if over or (not status_only and _without_minutes(line) != _without_minutes(last_progress)):
                return cluster, line
            time.sleep(POLL_SECONDS)


def _without_minutes(line: str) -> list[str]:
    return [part for part in line.split(", ") if not part.endswith(" min")]


def login_commands(cluster: t.Mapping[str, t.Any], system: str, key_path: str) -> list[str]:
    """Return three commands for a login to the head node; a private head node has no public address."""
    head = cluster.get("headNode", {})
    name, region = cluster["clusterName"], cluster["region"]
    address = head.get("publicIpAddress") or head.get("privateIpAddress", "ADDRESS")
    key = f" -i {key_path}" if key_path else ""
    return [
        f"pcluster ssh --cluster-name {name} --region {region}{key}",
        f"ssh{key} {user_of(system)}@{address}",
        f"aws ssm start-session --target {head.get('instanceId', 'INSTANCE')} --region {region}",
    ]


# pcluster.constants.OS_MAPPING of 3.16.1.
USERS = {"ubuntu": "ubuntu", "rocky": "rocky"}


def user_of(system: str) -> str:
    """Return the default user of an operating system, by its name in Image.Os."""
    return next((user for prefix, user in USERS.items() if system.startswith(prefix)), "ec2-user")
