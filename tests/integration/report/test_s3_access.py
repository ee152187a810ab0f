# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""S3 access as a node sees it, against a server that enforces user policies."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import botocore.config
import botocore.exceptions
import botocore.session
import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import s3 as health_s3
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.s3 import Bucket
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

from tests.rig.ec2.client import client

ALL = ("list", "read", "write")
ACTIONS = {"list": "s3:ListBucket", "read": "s3:GetObject", "write": "s3:PutObject", "remove": "s3:DeleteObject"}


class Server:
    """A server with a bucket "data" and users that have some of the rights in ``ACTIONS``."""

    def __init__(self):
        # Policies and users are global to all moto servers of a process.
        self.moto = subprocess.Popen(
            [sys.executable, "-m", "tests.rig.local_s3"],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url, self.clients = self.moto.stdout.readline().strip(), {}
        assert self.url, f"moto's server ended with status {self.moto.wait()}"
        self.s3, self.iam = (client(self.url, service) for service in ("s3", "iam"))
        with self.unguarded():
            self._fill()

    def _fill(self):
        self.s3.create_bucket(Bucket="data")
        self.s3.put_object(Bucket="data", Key="full/a", Body=b"a")
        self.s3.put_object(Bucket="data", Key="hollow/a", Body=b"")
        self.keys = {name: self._user(name, rights) for name, rights in USERS.items()}

    def _user(self, name, rights):
        self.iam.create_user(UserName=name)
        actions = [ACTIONS[right] for right in rights] or ["s3:GetBucketLocation"]
        allow = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        text = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        self.iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=text)
        return self.iam.create_access_key(UserName=name)["AccessKey"]

    def _guard_after(self, requests):
        order = urllib.request.Request(  # noqa: S310
            f"{self.url}/moto-api/reset-auth", data=str(requests).encode(), headers={"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(order) as answer:  # noqa: S310
            assert answer.status == 200

    @contextlib.contextmanager
    def unguarded(self):
        """Disable the policies inside the block."""
        self._guard_after("inf")
        try:
            yield
        finally:
            self._guard_after(0)

    def names(self):
        """Return all keys of the bucket."""
        with self.unguarded():
            return [entry["Key"] for entry in self.s3.list_objects_v2(Bucket="data")["Contents"]]

    def stop(self):
        self.moto.communicate()


USERS = {
    "all": ("list", "read", "write", "remove"),
    "reader": ("list", "read"),
    "lister": ("list",),
    "writer": ("write", "remove"),
    "keeper": ("list", "read", "write"),
    "denied": (),
}


@pytest.fixture(scope="module")
def server():
    found = Server()
    yield found
    found.stop()


def parser():
    """Return a parser for the used part of ``aws s3api``; other arguments end the test."""
    found = argparse.ArgumentParser(exit_on_error=False)
    found.add_argument("verb", choices=["list-objects-v2", "get-object", "put-object", "delete-object"])
    for name in ("bucket", "prefix", "key", "body", "range", "max-keys", "output"):
        found.add_argument(f"--{name}")
    for name in ("cli-connect-timeout", "cli-read-timeout"):
        found.add_argument(f"--{name}", type=int, required=True)
    found.add_argument("--no-paginate", action="store_true")
    found.add_argument("outfile", nargs="?")
    return found


class Node(Host):
    """This machine with an AWS CLI that runs in this process, and without another Python."""

    program = "/usr/bin/aws"

    def __init__(self, server, user):
        self.server, self.key = server, server.keys.get(user) or {"AccessKeyId": "AKIAUNKNOWN", "SecretAccessKey": "no"}

    def which(self, program):
        return self.program if program == "aws" else None

    def listdir(self, path):
        return []

    def run(self, argv, timeout=120, check=True, stdin=None):
        assert argv[:4] == ["env", "AWS_MAX_ATTEMPTS=2", "AWS_PAGER=", self.program] and argv[4] == "s3api"
        try:
            return CommandResult(0, self._asked(parser().parse_intermixed_args(argv[5:])), "")
        except botocore.exceptions.ClientError as exc:
            return CommandResult(254, "", f"\n{exc}\n")
        except botocore.exceptions.EndpointConnectionError as exc:
            return CommandResult(255, "", f"\n{exc}\n")

    def _asked(self, given):
        s3, where = self._client(), {"Bucket": given.bucket, "Key": given.key}
        if given.verb == "list-objects-v2":
            found = s3.list_objects_v2(Bucket=given.bucket, Prefix=given.prefix, MaxKeys=int(given.max_keys))
            # For an empty listing version 2 prints the existing fields, old versions 1 print nothing.
            names = [{"Key": one["Key"]} for one in found.get("Contents", [])]
            return json.dumps({"Contents": names}) if names else ""
        if given.verb == "get-object":
            Path(given.outfile).write_bytes(s3.get_object(**where, Range=given.range)["Body"].read())
        elif given.verb == "put-object":
            s3.put_object(**where, Body=Path(given.body).read_bytes())
        else:
            s3.delete_object(**where)
        return "{}"

    def _client(self):
        clients, name = self.server.clients, self.key["AccessKeyId"]
        if name not in clients:
            # One client for each user, as creating a client is slower than all its requests.
            session = botocore.session.Session()
            session.set_credentials(name, self.key["SecretAccessKey"])
            once = botocore.config.Config(retries={"total_max_attempts": 1, "mode": "standard"})
            where = {"region_name": "us-east-1", "endpoint_url": self.server.url}
            clients[name] = session.create_client("s3", config=once, **where)
        return clients[name]


class Bare(Host):
    """This machine with the given AWS CLI, or none, and only this Python."""

    def __init__(self, program=None):
        self.program = program

    def which(self, program):
        return self.program if program == "aws" else None

    def listdir(self, path):
        return []


@pytest.fixture
def judged(server):
    """Return ``judged(user, place)``, which returns the status of each right."""

    def ask(user, *places, **options):
        node = Node(server, user)
        ask.results = health_s3.check_buckets(node, places, **options)
        output = json.dumps([one.to_dict() for one in ask.results])
        assert node.key["SecretAccessKey"] not in output.split('"') and node.key["AccessKeyId"] not in output
        assert all(one.seconds is not None for one in ask.results)
        return {one.id: one.status for one in ask.results}

    return ask


def test_rights_match_server_policies(judged, server):
    place = Bucket("data", "full/", ALL)
    assert judged("all", place) == {"s3.list": "pass", "s3.read": "pass", "s3.write": "pass"}
    assert judged("reader", place) == {"s3.list": "pass", "s3.read": "pass", "s3.write": "fail"}
    denied = next(one for one in judged.results if one.status == "fail")
    assert denied.message == "access is denied (AccessDenied)" and "allow s3:PutObject" in denied.hint
    assert judged("lister", place) == {"s3.list": "pass", "s3.read": "fail", "s3.write": "fail"}
    assert judged("denied", place)["s3.list"] == "fail"
    assert server.names() == ["full/a", "hollow/a"]


def test_empty_prefix_is_judged(judged, server):
    empty = Bucket("data", "new/", ALL)
    assert judged("all", empty) == {"s3.list": "pass", "s3.read": "pass", "s3.write": "pass"}
    assert judged("reader", Bucket("data", "new/")) == {"s3.list": "pass", "s3.read": "undeterminable"}
    assert judged("writer", Bucket("data", "new/", ("write",))) == {"s3.write": "pass"}
    assert judged("reader", Bucket("data", "hollow/")) == {"s3.list": "pass", "s3.read": "pass"}
    assert judged("reader", Bucket("data", "", ("read",), "full/gone")) == {"s3.read": "fail"}
    assert server.names() == ["full/a", "hollow/a"]


def test_key_that_aws_cli_would_expand_is_not_read(judged, server):
    for name in ("-x", "file:///etc/hostname", "fileb:///etc/hostname", "http://127.0.0.1/x"):
        with server.unguarded():
            server.s3.create_bucket(Bucket="hostile")
            server.s3.put_object(Bucket="hostile", Key=name, Body=b"x")
        assert judged("reader", Bucket("hostile", "")) == {"s3.list": "pass", "s3.read": "undeterminable"}
        assert "set key" in judged.results[1].reason
        with server.unguarded():
            server.s3.delete_object(Bucket="hostile", Key=name)
            server.s3.delete_bucket(Bucket="hostile")


def test_missing_bucket_and_invalid_credentials_are_reported(judged):
    assert judged("all", Bucket("nowhere-at-all", "x/", ALL)) == {
        "s3.list": "fail",
        "s3.read": "undeterminable",
        "s3.write": "fail",
    }
    assert "there is no bucket nowhere-at-all" in judged.results[0].message
    assert judged(None, Bucket("data", "full/", ("list",))) == {"s3.list": "fail"}
    assert "this node has no valid credentials (InvalidAccessKeyId)" in judged.results[0].message


def test_probe_that_stays_behind_is_named(judged, server):
    assert judged("keeper", Bucket("data", "kept/", ("write",))) == {"s3.write": "fail"}
    (left,) = [name for name in server.names() if name.startswith("kept/mlcluster-health-probe/")]
    assert left in judged.results[0].message
    with server.unguarded():
        server.s3.delete_object(Bucket="data", Key=left)


def test_check_mode_writes_nothing(judged, server):
    place = Bucket("data", "full/", ("list", "write"))
    assert judged("all", place, may_write=False) == {"s3.list": "pass", "s3.write": "undeterminable"}
    assert judged("all", place, may_write=False) and server.names() == ["full/a", "hollow/a"]


def test_missing_server_is_undeterminable(judged, server, monkeypatch):
    monkeypatch.setattr(server, "url", "http://127.0.0.1:1")
    monkeypatch.setattr(server, "clients", {})
    assert judged("all", Bucket("data", "full/", ("list",))) == {"s3.list": "undeterminable"}
    assert "S3 did not answer" in judged.results[0].reason


@pytest.fixture
def patient(monkeypatch):
    """Remove the time limit, as programs may start slowly on a busy machine."""
    monkeypatch.setattr(health_s3, "SECONDS", 600)


PROGRAMS = [None, *filter(None, [os.environ.get("MLCLUSTER_TEST_AWS_CLI")])]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("program", PROGRAMS)
def test_real_programs_find_rights(server, monkeypatch, program):
    """Covers a Python with boto3, and the AWS CLI if one is configured, in separate processes as on a node."""
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": server.keys["reader"]["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": server.keys["reader"]["SecretAccessKey"],
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)
    found = health_s3.check_buckets(Bare(program), [Bucket("data", "full/", ("read", "write"))])
    assert {one.id: one.status for one in found} == {"s3.read": "pass", "s3.write": "fail"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.keys["all"]["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.keys["all"]["SecretAccessKey"])
    found = health_s3.check_buckets(Bare(program), [Bucket("data", "new/", ("write",))])
    assert [one.line() for one in found] == ["PASS s3.write (s3://data/new/): found a probe, which is removed again"]
    assert server.names() == ["full/a", "hollow/a"]


@pytest.mark.usefixtures("patient")
def test_without_program_nothing_is_proved(monkeypatch, tmp_path):
    stranger = tmp_path / "python"
    stranger.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'boto3'\" >&2; exit 1\n")
    stranger.chmod(0o755)
    monkeypatch.setattr(health_s3.sys, "executable", str(stranger))
    found = health_s3.check_buckets(Bare(), [Bucket("data", "full/")])
    assert {one.status for one in found} == {"undeterminable"}
    assert "neither the AWS CLI nor a Python with boto3" in found[0].reason
