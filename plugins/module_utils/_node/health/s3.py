# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that this node may list, read and write places in S3, with the node's own credentials.

They use the AWS CLI if it is installed, else a Python with boto3, such as ParallelCluster's: both find region and
credentials as every other program of the node does. Of their output only the error code is reported.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import posixpath
import re
import sys
import tempfile
import typing as t
import uuid

from ..system.files import write_new
from ..system.host import CommandError, Host
from ..verdict.result import Result, Scope, failed, passed, undeterminable

RIGHTS = ("list", "read", "write")
DEFAULT_RIGHTS = ("list", "read")
# For one request, including program start, credentials and one retry.
SECONDS = 20
PROBE_FOLDER = "mlcluster-health-probe"
PARCLUSTER_PYTHONS = "/opt/parallelcluster/pyenv/versions"
# The rules for bucket names (Amazon S3 user guide, "Bucket naming rules").
_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([^\0]*))?")
# Error line of the AWS CLI and boto3, with the code of Amazon S3's error response.
_ERROR = re.compile(r"An error occurred \((\w+)\) when calling the \w+ operation")
_DENIED = ("AccessDenied", "403", "Forbidden", "AllAccessDisabled")
_NO_BUCKET = ("NoSuchBucket",)
_NO_KEY = ("NoSuchKey", "404")
_NO_CREDENTIALS = ("Unable to locate credentials", "NoCredentials", "ExpiredToken", "InvalidAccessKeyId",
                   "InvalidToken", "SignatureDoesNotMatch", "TokenRefreshRequired")  # fmt: skip
_UNREACHABLE = ("Could not connect to the endpoint", "Connect timeout", "Read timeout", "Connection was closed")
# The AWS CLI replaces a value like these by the content of the file (version 1 also of the URL), and takes a value with
# a hyphen as an option; anyone who may write to a bucket chooses the names in it.
_UNSAFE_NAME = re.compile(r"(?:fileb?|https?)://|-")
NO_BOTO3 = "No module named 'boto3'"

_BOTO3_PROGRAM = """
import json, sys, boto3, botocore.config
verb, bucket, key, path = sys.argv[1:]
settings = botocore.config.Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2})
s3 = boto3.client("s3", config=settings)
if verb == "list":
    found = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
    sys.stdout.write(json.dumps({"Contents": [{"Key": entry["Key"]} for entry in found]}))
elif verb == "read":
    s3.get_object(Bucket=bucket, Key=key, Range="bytes=0-0")["Body"].read()
elif verb == "write":
    s3.put_object(Bucket=bucket, Key=key, Body=open(path, "rb").read())
else:
    s3.delete_object(Bucket=bucket, Key=key)
"""


@dataclasses.dataclass(frozen=True)
class Bucket:
    """A place and the rights that this node needs there; key: an object to read, below the prefix or not."""

    bucket: str
    prefix: str
    rights: tuple[str, ...] = DEFAULT_RIGHTS
    key: str | None = None

    @property
    def url(self) -> str:
        """Return the URL for messages."""
        return f"s3://{self.bucket}/{self.prefix}"


def bucket_problems(where: str, given: object) -> list[str]:
    """Return the errors in a list of places, one sentence each.

    An entry is a string s3://BUCKET/PREFIX or a mapping of url, rights (of ``RIGHTS``) and key.
    """
    if not isinstance(given, (list, tuple)):
        return [f"{where} is {given!r:.60}: use a list of s3://BUCKET/PREFIX, or of dictionaries with url and rights"]
    found = []
    for number, entry in enumerate(given):
        fields = {"url": entry} if isinstance(entry, str) else entry
        if not isinstance(fields, dict) or set(fields) - {"url", "rights", "key"} or "url" not in fields:
            found.append(f"{where}[{number}] is {entry!r:.80}: set url, and perhaps rights and key")
            continue
        place = _URL.fullmatch(fields["url"]) if isinstance(fields["url"], str) else None
        rights = fields.get("rights", list(DEFAULT_RIGHTS))
        if not place:
            found.append(f"{where}[{number}].url is {fields['url']!r:.80}: use s3://BUCKET or s3://BUCKET/PREFIX")
        known = isinstance(rights, (list, tuple)) and bool(rights) and all(right in RIGHTS for right in rights)
        if not known:
            found.append(f"{where}[{number}].rights is {rights!r:.60}: use a list of {', '.join(RIGHTS)}")
        elif place and "write" in rights and not (place.group(2) or "").strip("/"):
            found.append(f"{where}[{number}] has the right write: use a prefix, s3://BUCKET/PREFIX, for the probe")
        if not isinstance(fields.get("key", ""), str) or fields.get("key", "?") == "":
            found.append(f"{where}[{number}].key is {fields['key']!r:.60}: use the whole name of an object")
        for name, text in (("key", fields.get("key")), ("prefix", place.group(2) if place else None)):
            if isinstance(text, str) and (_UNSAFE_NAME.match(text.lstrip("/")) or _UNSAFE_NAME.match(text)):
                advice = "use one that begins neither with - nor like a file or a URL"
                found.append(f"{where}[{number}] has the {name} {text!r:.60}: {advice}")
    return found


def parse_bucket(given: t.Any) -> Bucket:
    """Return an entry as ``Bucket``; it must have passed ``bucket_problems``."""
    fields = {"url": given} if isinstance(given, str) else given
    bucket, prefix = t.cast("re.Match[str]", _URL.fullmatch(fields["url"])).groups()
    prefix = (prefix or "").lstrip("/")
    rights = tuple(right for right in RIGHTS if right in fields.get("rights", DEFAULT_RIGHTS))
    if "write" in rights and not prefix.endswith("/"):
        prefix += "/"
    return Bucket(bucket, prefix, rights, fields.get("key"))


@dataclasses.dataclass(frozen=True)
class Answer:
    """The outcome of one request: ``error`` is None, or denied, bucket, key, credentials, unreachable, tool or other,
    with S3's error code.
    """

    error: str | None = None
    code: str = ""
    text: str = ""


class Client:
    """A client that sends requests to S3 through a program of the node."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.commands = self._find()

    def _find(self) -> list[list[str]]:
        """Return the beginnings of possible commands; the first that has the AWS CLI or boto3 is used."""
        program = self.host.which("aws")
        if program:
            return [[program]]
        pythons = [sys.executable, self.host.which("python3") or ""]
        for version in self.host.listdir(PARCLUSTER_PYTHONS):
            folder = f"{PARCLUSTER_PYTHONS}/{version}/envs"
            pythons += [f"{folder}/{name}/bin/python3" for name in self.host.listdir(folder)]
        return [[python, "-I", "-c", _BOTO3_PROGRAM] for python in dict.fromkeys(pythons) if python]

    def ask(self, verb: str, bucket: str, key: str, path: str) -> Answer:
        """Send one request; verb is list (key: a prefix), read, write (the file ``path``) or remove."""
        for command in self.commands:
            answer = self._ask(command, verb, bucket, key, path)
            if answer.error != "tool":
                return answer
        return Answer("tool")

    def _ask(self, command: t.Sequence[str], verb: str, bucket: str, key: str, path: str) -> Answer:
        argv = [*command, verb, bucket, key, path] if len(command) > 1 else [*command, *_cli(verb, bucket, key, path)]
        try:
            completed = self.host.run(["env", "AWS_MAX_ATTEMPTS=2", "AWS_PAGER=", *argv], timeout=SECONDS, check=False)
        except CommandError as exc:
            return Answer("unreachable", "no answer in time" if "no answer" in str(exc) else "could not be started")
        if completed.rc == 0:
            return Answer(text=completed.stdout)
        return _classify_error(completed.stderr, verb)


def _cli(verb: str, bucket: str, key: str, path: str) -> list[str]:
    """Return the arguments of the AWS CLI, versions 1 and 2."""
    where = ["--bucket", bucket, "--prefix" if verb == "list" else "--key", key]
    more = {
        "list": ["list-objects-v2", *where, "--max-keys", "1", "--no-paginate"],
        "read": ["get-object", *where, "--range", "bytes=0-0"],
        "write": ["put-object", *where, "--body", path],
        "remove": ["delete-object", *where],
    }[verb]
    limits = ["--cli-connect-timeout", "3", "--cli-read-timeout", "5", "--output", "json"]
    # The output file is the last argument.
    return ["s3api", *more, *limits, *([path] if verb == "read" else [])]


def _classify_error(stderr: str, verb: str) -> Answer:
    matched = _ERROR.search(stderr)
    code = matched.group(1) if matched else ""
    if code == "InvalidRange" and verb == "read":
        # An empty object: it is readable.
        return Answer()
    for error, codes in (
        ("denied", _DENIED),
        ("bucket", _NO_BUCKET),
        ("key", _NO_KEY),
        ("credentials", _NO_CREDENTIALS),
    ):
        if code in codes:
            return Answer(error, code)
    if code:
        return Answer("other", code)
    for error, words in (("credentials", _NO_CREDENTIALS), ("unreachable", _UNREACHABLE), ("tool", (NO_BOTO3,))):
        reported = next((word for word in words if word in stderr), None)
        if reported:
            return Answer(error, reported)
    return Answer("other", "an error without a code")


def check_buckets(host: Host, buckets: t.Sequence[Bucket], may_write: bool = True) -> list[Result]:
    """Return s3.list, s3.read and s3.write for each place; places are checked in parallel.

    Without ``may_write`` nothing is written, and s3.write is undeterminable.
    """
    client = Client(host)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        groups = list(pool.map(lambda bucket: _check(client, bucket, may_write), buckets))
    return [verdict for group in groups for verdict in group]


def _check(client: Client, place: Bucket, may_write: bool) -> list[Result]:
    began, found, probe_answer = client.host.monotonic(), [], None
    listed, target = None, place.key
    with tempfile.TemporaryDirectory(prefix="mlcluster-s3-") as folder:
        if "list" in place.rights or ("read" in place.rights and target is None):
            listed = client.ask("list", place.bucket, place.prefix, "-")
            target = target or _first(listed.text)
        if "list" in place.rights and listed:
            found.append(_judge("s3.list", place, listed, "its names"))
        if "write" in place.rights:
            verdict, probe_answer = _write(client, place, folder, may_write, "read" in place.rights and target is None)
            found.append(verdict)
        if "read" in place.rights:
            found.insert(len(found) - ("write" in place.rights), _read(client, place, folder, target, probe_answer))
    seconds = round(client.host.monotonic() - began, 3)
    return [dataclasses.replace(verdict, seconds=seconds) for verdict in found]


def _read(client: Client, place: Bucket, folder: str, target: str | None, probe_answer: Answer | None) -> Result:
    """Return s3.read for an existing object, else for reading the probe back."""
    if target is not None:
        answer = client.ask("read", place.bucket, target, os.path.join(folder, "read"))
        return _judge("s3.read", place, answer, target)
    if probe_answer is not None:
        return _judge("s3.read", place, probe_answer, "the probe that was written")
    message = "no readable object is known: set key"
    return undeterminable("s3.read", message, scope=Scope(device=place.url))


def _write(
    client: Client, place: Bucket, folder: str, may_write: bool, read_back: bool
) -> tuple[Result, Answer | None]:
    """Return s3.write, and with ``read_back`` the answer to reading the probe."""
    if not may_write:
        return undeterminable("s3.write", "nothing is written in check mode", scope=Scope(device=place.url)), None
    key, path = posixpath.join(place.prefix, PROBE_FOLDER, uuid.uuid4().hex), os.path.join(folder, "probe")
    write_new(path, b"a health check of mlcluster.aws wrote this and removes it\n")
    written = client.ask("write", place.bucket, key, path)
    if written.error:
        return _judge("s3.write", place, written, key), None
    probe_answer = client.ask("read", place.bucket, key, os.path.join(folder, "back")) if read_back else None
    removed = client.ask("remove", place.bucket, key, "-")
    if removed.error:
        message = f"{key} was written and cannot be removed ({removed.code}): remove it, and allow s3:DeleteObject"
        return failed("s3.write", message, scope=Scope(device=place.url)), probe_answer
    return _judge("s3.write", place, written, "a probe, which is removed again"), probe_answer


def _first(listing: str) -> str | None:
    """Return the first name of a JSON listing that can be requested; for an empty bucket the CLI prints nothing."""
    try:
        contents = json.loads(listing or "{}").get("Contents") or []
        names = [entry["Key"] for entry in contents if isinstance(entry["Key"], str)]
        return next((name for name in names if not _UNSAFE_NAME.match(name)), None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


_ALLOW = {"list": "s3:ListBucket on the bucket", "read": "s3:GetObject", "write": "s3:PutObject"}


def _judge(check: str, place: Bucket, answer: Answer, what: str) -> Result:
    fields: dict[str, t.Any] = {"scope": Scope(device=place.url)}
    right = check.rpartition(".")[2]
    if answer.error is None:
        return passed(check, what, **fields)
    if answer.error == "denied":
        hint = f"allow {_ALLOW[right]} in the policy of the instance's role, and check the bucket's policy"
        return failed(check, f"access is denied ({answer.code})", hint=hint, **fields)
    if answer.error == "bucket":
        return failed(check, f"there is no bucket {place.bucket}", hint="check its name and its region", **fields)
    if answer.error == "key":
        return failed(check, f"there is no object {what}", hint="set key to an existing object", **fields)
    if answer.error == "credentials":
        hint = "give the instance a role (instance profile), and check that its keys are valid"
        return failed(check, f"this node has no valid credentials ({answer.code})", hint=hint, **fields)
    if answer.error == "unreachable":
        hint = "check the route to S3: its gateway endpoint, the proxy, the name server"
        return undeterminable(check, f"S3 did not answer ({answer.code})", hint=hint, **fields)
    if answer.error == "tool":
        message = "neither the AWS CLI nor a Python with boto3 is on this node"
        return undeterminable(check, message, hint="install the AWS CLI", **fields)
    hint = f"run 'aws s3 ls {place.url}' on the node"
    return undeterminable(check, f"S3 or the program that called it ended with {answer.code}", hint=hint, **fields)
