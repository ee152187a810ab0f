# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.s3 import (
    NO_BOTO3,
    PARCLUSTER_PYTHONS,
    Bucket,
    bucket_problems,
    check_buckets,
    parse_bucket,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

LISTED = json.dumps({"Contents": [{"Key": "tokens/a"}]})
ALL = Bucket("data", "out/", ("list", "read", "write"))
VERBS = {"list-objects-v2": "list", "get-object": "read", "put-object": "write", "delete-object": "remove"}


def error(code, operation="GetObject"):
    return CommandResult(254, "", f"\nAn error occurred ({code}) when calling the {operation} operation: no\n")


class Node(Host):
    """A node whose AWS CLI answers each verb; a verb without an answer succeeds."""

    def __init__(self, program="/usr/bin/aws", **answers):
        self.program, self.answers, self.asked = program, answers, []

    def which(self, program):
        return self.program if program == "aws" else None

    def listdir(self, path):
        return []

    def run(self, argv, timeout=120, check=True, stdin=None):
        assert argv[:5] == ["env", "AWS_MAX_ATTEMPTS=2", "AWS_PAGER=", self.program, "s3api"] and not check
        verb = VERBS[argv[5]]
        self.asked.append((verb, argv[argv.index("--prefix" if verb == "list" else "--key") + 1]))
        answer = self.answers.get(verb, CommandResult(0, LISTED if verb == "list" else "", ""))
        if isinstance(answer, Exception):
            raise answer
        return answer


def verdicts(host, *places, **more):
    return {one.id: one for one in check_buckets(host, places, **more)}


def test_granted_rights_pass():
    host = Node()
    found = verdicts(host, ALL)
    assert [(one.id, one.status, one.scope.device) for one in found.values()] == [
        ("s3.list", "pass", "s3://data/out/"),
        ("s3.read", "pass", "s3://data/out/"),
        ("s3.write", "pass", "s3://data/out/"),
    ]
    (_listed, written, removed, read) = host.asked
    # The probe has a unique name and is removed; the object that is read existed before.
    assert written[1] == removed[1] and written[1].startswith("out/mlcluster-health-probe/")
    assert (written[0], removed[0], read) == ("write", "remove", ("read", "tokens/a"))


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (error("AccessDenied"), "fail", "access is denied (AccessDenied)"),
        (error("403"), "fail", "access is denied (403)"),
        (error("NoSuchBucket"), "fail", "there is no bucket data"),
        (error("NoSuchKey"), "fail", "there is no object tokens/a"),
        (error("ExpiredToken"), "fail", "no valid credentials (ExpiredToken)"),
        (error("SlowDown"), "undeterminable", "ended with SlowDown"),
        # An empty object is readable.
        (error("InvalidRange"), "pass", ""),
        (CommandResult(255, "", "Unable to locate credentials\n"), "fail", "no valid credentials"),
        (CommandResult(255, "", "Connect timeout on endpoint URL\n"), "undeterminable", "S3 did not answer"),
        (CommandResult(1, "", "Traceback\n"), "undeterminable", "ended with an error without a code"),
        (CommandError(["aws"], None, "", "", "no answer within 20 seconds"), "undeterminable", "no answer in time"),
        (CommandError(["aws"], None, "", "", "not found"), "undeterminable", "could not be started"),
    ],
)
def test_s3_answer_decides_verdict(answer, status, words):
    one = verdicts(Node(read=answer), Bucket("data", "tokens", ("read",)))["s3.read"]
    assert one.status == status and words in (one.message or one.reason or "")


@pytest.mark.parametrize("verb", ["list", "write"])
def test_invalid_range_is_accepted_only_for_read(verb):
    found = verdicts(Node(**{verb: error("InvalidRange")}), Bucket("data", "out/", (verb,)))[f"s3.{verb}"]
    assert found.status == "undeterminable" and "ended with InvalidRange" in found.reason


def test_each_denied_right_names_its_permission():
    denied = {verb: error("AccessDenied") for verb in ("list", "read", "write")}
    found = verdicts(Node(**denied), Bucket("data", "out/", ALL.rights, key="out/k"))
    assert {one.status for one in found.values()} == {"fail"}
    assert [one.hint.split(" in the policy")[0] for one in found.values()] == [
        "allow s3:ListBucket on the bucket",
        "allow s3:GetObject",
        "allow s3:PutObject",
    ]


def test_unremovable_probe_fails_and_is_named():
    host = Node(remove=error("AccessDenied", "DeleteObject"))
    one = verdicts(host, Bucket("data", "out/", ("write",)))["s3.write"]
    assert one.status == "fail" and f"{host.asked[0][1]} was written and cannot be removed" in one.message


def test_probe_is_read_back_in_empty_bucket():
    host = Node(list=CommandResult(0, "", ""))
    found = verdicts(host, ALL)
    assert [one.status for one in found.values()] == ["pass"] * 3
    assert [verb for verb, _key in host.asked] == ["list", "write", "read", "remove"]
    host = Node(list=CommandResult(0, "", ""), read=error("AccessDenied"))
    assert verdicts(host, ALL)["s3.read"].status == "fail"


@pytest.mark.parametrize(
    "listing", ["", "{}", "[]", "{", '{"Contents": [{"Key": 5}]}', '{"Contents": [{"Key": "file:///etc/shadow"}]}']
)
def test_listing_without_usable_name_is_undeterminable(listing):
    host = Node(list=CommandResult(0, listing, ""))
    found = verdicts(host, Bucket("data", "", ("list", "read")))
    assert (found["s3.list"].status, found["s3.read"].status) == ("pass", "undeterminable")
    assert [verb for verb, _key in host.asked] == ["list"]


def test_check_mode_writes_nothing():
    host = Node()
    one = verdicts(host, Bucket("data", "out/", ("write",)), may_write=False)["s3.write"]
    assert (one.status, host.asked) == ("undeterminable", [])


class Pythons(Node):
    """A node without an AWS CLI, where one of ParallelCluster's Pythons has boto3."""

    def __init__(self, *good):
        super().__init__(program=None)
        self.good, self.tried = good, []

    def listdir(self, path):
        return {PARCLUSTER_PYTHONS: ["3.12"], f"{PARCLUSTER_PYTHONS}/3.12/envs": ["cookbook", "node"]}.get(path, [])

    def run(self, argv, timeout=120, check=True, stdin=None):
        python = argv[3]
        assert argv[4:6] == ["-I", "-c"]
        self.tried.append(python)
        if python not in self.good:
            return CommandResult(1, "", f"ModuleNotFoundError: {NO_BOTO3}\n")
        return CommandResult(0, LISTED, "")


def test_python_with_boto3_replaces_missing_cli():
    good = f"{PARCLUSTER_PYTHONS}/3.12/envs/node/bin/python3"
    host = Pythons(good)
    assert verdicts(host, Bucket("data", "", ("list",)))["s3.list"].status == "pass"
    assert host.tried[-1] == good and len(host.tried) == 3
    one = verdicts(Pythons(), Bucket("data", "", ("list",)))["s3.list"]
    assert one.status == "undeterminable" and "neither the AWS CLI nor a Python with boto3" in one.reason


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("s3://data", Bucket("data", "")),
        ("s3://data//a/b", Bucket("data", "a/b")),
        ({"url": "s3://data/a", "rights": ["write", "list"]}, Bucket("data", "a/", ("list", "write"))),
        ({"url": "s3://data/a/", "rights": ["write"]}, Bucket("data", "a/", ("write",))),
        ({"url": "s3://data", "key": "a/b"}, Bucket("data", "", key="a/b")),
    ],
)
def test_entry_is_parsed_to_bucket(given, place):
    assert bucket_problems("buckets", [given]) == [] and parse_bucket(given) == place


def test_places_are_judged_separately():
    found = check_buckets(Node(), [Bucket("one", "", ("list",)), Bucket("two", "", ("list",))])
    assert [(one.scope.device, one.status) for one in found] == [("s3://one/", "pass"), ("s3://two/", "pass")]
