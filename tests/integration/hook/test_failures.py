# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures before the first role: each is one clear message, and the next run configures the node."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hooks.mlcluster_boot.main import UNKNOWN_TYPE
from tests.integration.hook.conftest import BOOT, BUCKET, HOOK, Node, build_bundle
from tests.integration.hook.faults import Answer, error, times

BUNDLE_PATH = f"/{BUCKET}/bundle.tar.gz"


def failed(node: Node, ran, *parts: str):
    """Check that the node is drained with one message, the same in status, marker and log."""
    assert (ran.rc, ran.status["state"], ran.status["schema"]) == (0, "drained", "mlcluster.node/1"), ran.out
    message = ran.status["message"]
    assert "\n" not in message and message[:150] == node.reason()[:150]
    for part in parts:
        assert part in message, message
    assert f"ERROR: {message}" in ran.log
    assert node.clean()


def finished(node: Node, ran, changed: int = 1):
    """Check that the node is configured and has no drain marker."""
    assert (ran.rc, ran.status["state"]) == (0, "configured"), ran.out
    assert ran.status["roles"][0]["changed"] == changed
    assert not node.marker.exists() and node.clean()


def test_second_run_does_not_download_bundle_again(node, wanted, proxy):
    words = [*wanted, "--vars", f"s3://{BUCKET}/vars.json"]
    finished(node, node.run(*words))
    assert node.marks() == ["from-s3 False"]
    assert proxy.paths() == [BUNDLE_PATH, f"/{BUCKET}/vars.json"]
    finished(node, node.run(*words), changed=0)
    # The bundle is unpacked already; only the variables are requested.
    assert proxy.paths()[2:] == [f"/{BUCKET}/vars.json"]


def test_overload_and_cut_body_are_retried(node, wanted, proxy, tmp_path):
    proxy.faults = [
        times(1, error(503, "SlowDown", "Please reduce your request rate.")),
        times(1, error(500, "InternalError")),
        times(1, Answer(200, b"", cut=True)),
    ]
    ran = node.run(*wanted, PATH=restless(node, tmp_path / "bin"))
    finished(node, ran)
    assert proxy.paths() == [BUNDLE_PATH] * 4
    assert "try 1 for s3://mlcluster-test/bundle.tar.gz failed:" in ran.log and "SlowDown" in ran.log


def test_presigned_address_needs_only_curl_and_stays_secret(node, bundle, stored, proxy, moto):
    url = stored.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "bundle.tar.gz"})
    proxy.faults = [times(1, error(503, "SlowDown")), times(1, Answer(200, b"", cut=True))]
    (node.root.parent / "bin").mkdir()
    for program in node.programs.iterdir():
        (node.root.parent / "bin" / program.name).symlink_to(program)
    ran = node.run(
        *("--bundle", url.replace(moto, proxy.url), "--sha256", bundle[1], "--roles", "mark"),
        PATH=str(node.root.parent / "bin"),
    )
    finished(node, ran)
    assert "Signature" not in ran.log + json.dumps(ran.status) and len(proxy.requests) == 3


def test_wrong_checksum_is_rejected_before_unpacking(node, wanted, proxy):
    ran = node.run(*wanted[:3], "1" * 64, *wanted[4:])
    failed(node, ran, f"has sha256 {wanted[3]} and not {'1' * 64}", "nothing of it was unpacked")
    assert not list((node.root / "opt/mlcluster/bundles").iterdir())
    assert len(proxy.requests) == 1
    written = [node.root / "var/log/mlcluster/status.json", node.marker]
    assert [oct(path.stat().st_mode)[-3:] for path in written] == ["600", "600"]
    finished(node, node.run(*wanted))


@pytest.mark.parametrize("answer", [Answer(200, b"", hang=True), Answer(200, b"", slow=60)], ids=["hangs", "is_slow"])
def test_endless_answer_is_ended_at_deadline(node, wanted, proxy, answer):
    proxy.faults = [times(99, answer)]
    ran = node.run(*wanted[:-1], "3")
    failed(node, ran, "could not get s3://mlcluster-test/bundle.tar.gz", "no answer until the deadline")
    proxy.faults = []
    finished(node, node.run(*wanted))


def restless(node: Node, folder: Path) -> str:
    """Return a PATH with the node's programs and a sleep without pause, so that all retries happen at once."""
    folder.mkdir()
    for program in node.programs.iterdir():
        if program.name != "sleep":
            (folder / program.name).symlink_to(program)
    (folder / "sleep").symlink_to(shutil.which("true"))
    return str(folder)


def test_bucket_in_another_region_is_followed_there(node, wanted, proxy):
    def elsewhere(request):
        if request.region != "eu-west-1":
            return error(301, "PermanentRedirect", "must be addressed elsewhere", x_amz_bucket_region="eu-west-1")
        return None

    proxy.faults = [elsewhere]
    config = node.root / "etc/parallelcluster/cfnconfig"
    config.parent.mkdir(parents=True)
    config.write_text('cfn_region="us-west-2"\ncfn_node_type=ComputeFleet\n')
    ran = node.run(*wanted)
    finished(node, ran)
    assert [request.region for request in proxy.requests] == ["us-west-2", "eu-west-1"]
    assert ran.status["node"]["kind"] == "compute"


def test_bucket_of_another_account_is_not_used(node, wanted, proxy, tmp_path):
    def stranger(request):
        return error(403, "AccessDenied") if request.owner not in ("", "111122223333") else None

    proxy.faults = [stranger]
    words = [*wanted, "--log-prefix", f"s3://{BUCKET}/logs"]
    ran = node.run(*words, "--bucket-owner", "999999999999", PATH=restless(node, tmp_path / "bin"))
    failed(node, ran, "could not get s3://mlcluster-test/bundle.tar.gz", "AccessDenied")
    assert {request.owner for request in proxy.requests} == {"999999999999"}
    assert "the log could not be copied to" in ran.log
    finished(node, node.run(*words, "--bucket-owner", "111122223333"))
    # The same holds for the log of the runner.
    failed(node, node.run(*words, "--bucket-owner", "111122223333", "--roles", "nothing"), "the bundle has no role")
    assert [request.owner for request in proxy.requests if request.method == "PUT"][-2:] == ["111122223333"] * 2


def test_missing_object_is_not_requested_again(node, wanted, proxy):
    ran = node.run("--bundle", f"s3://{BUCKET}/no.tar.gz", *wanted[2:])
    failed(node, ran, "could not get s3://mlcluster-test/no.tar.gz", "NoSuchKey")
    assert len(proxy.requests) == 1


SKEWED = "An error occurred (RequestTimeTooSkewed) when calling the GetObject operation: The difference is too large."


def test_wrong_clock_is_reported(node, wanted, tmp_path):
    programs = tmp_path / "bin"
    path = restless(node, programs)
    # The message of the AWS CLI.
    (programs / "aws").write_text(f"#!/bin/sh\necho '{SKEWED}' >&2\nexit 254\n")
    (programs / "aws").chmod(0o755)
    ran = node.run(*wanted, PATH=path)
    failed(node, ran, "the clock of this node is wrong", "chrony", "RequestTimeTooSkewed")
    finished(node, node.run(*wanted))


def test_clock_corrected_between_retries_is_not_failure(node, wanted, proxy):
    proxy.faults = [times(1, error(403, "RequestTimeTooSkewed", "The difference is too large."))]
    ran = node.run(*wanted)
    finished(node, ran)
    assert "RequestTimeTooSkewed" in ran.log and len(proxy.requests) == 2


def test_http_proxy_is_used(node, wanted, proxy):
    # An unreachable address (RFC 5737): only the proxy answers.
    ran = node.run(*wanted, AWS_ENDPOINT_URL_S3="http://192.0.2.1", HTTP_PROXY=proxy.url, http_proxy=proxy.url)
    finished(node, ran)
    assert len(proxy.requests) == 1


def test_aws_cli_is_preferred(node, wanted, proxy, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in node.programs.iterdir():
        (programs / program.name).symlink_to(program)
    cli = programs / "aws"
    cli.write_text(
        f'#!/bin/sh\necho "$@" >>"{tmp_path}/asked"\nexec "{sys.executable}" -c "{STAND_IN}" "$8" "${{10}}" "${{11}}"\n'
    )
    cli.chmod(0o755)
    finished(node, node.run(*wanted, PATH=str(programs)))
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.startswith(
        f"s3api get-object --cli-connect-timeout 10 --cli-read-timeout 20 --bucket {BUCKET} --key bundle.tar.gz /"
    )


def test_aws_cli_uploads_log(node, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in node.programs.iterdir():
        (programs / program.name).symlink_to(program)
    (programs / "aws").write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/asked"\n')
    (programs / "aws").chmod(0o755)
    ran = node.run("--deadline", "soon", "--log-prefix", "s3://b/logs/", PATH=str(programs), **BOOT)
    failed(node, ran, "--deadline takes whole seconds")
    log = node.root / "var/log/mlcluster/on_node_configured.log"
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.startswith("s3api put-object ") and "--bucket b --key logs/" in asked
    assert asked.endswith(f"/on_node_configured.log --body {log}")


STAND_IN = "import boto3, sys; b, k, t = sys.argv[1:]; boto3.client('s3').download_file(b, k, t)"


def test_missing_s3_client_is_reported(node, wanted, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in node.programs.iterdir():
        if not program.name.startswith("python"):
            (programs / program.name).symlink_to(program)
    failed(node, node.run(*wanted, PATH=str(programs)), "neither the AWS CLI nor a Python with boto3")
    finished(node, node.run(*wanted))


@pytest.mark.parametrize("where", ["path", "parallelcluster"])
def test_old_python_is_named_and_newer_one_is_found(node, bundle, tmp_path, where):
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in node.programs.iterdir():
        if not program.name.startswith("python"):
            (programs / program.name).symlink_to(program)
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]
    if where == "parallelcluster":
        own = node.root / "opt/parallelcluster/pyenv/versions/3.12.8/envs/cookbook_virtualenv/bin/python3"
        own.parent.mkdir(parents=True)
        own.symlink_to(node.programs / "python3")
        finished(node, node.run(*words, PATH=str(programs)))
    else:
        minor = sys.version_info[1]
        failed(node, node.run(*words, PATH=str(programs)), f"no Python 3.{minor} or newer", f"install python3.{minor}")
        finished(node, node.run(*words))


def test_malformed_variables_are_reported_with_place(node, bundle, tmp_path):
    local = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]
    ran = node.run(*local, "--vars", '{"marker_word": "a",')
    failed(node, ran, "the text of --vars are not JSON", "line 2 column 1")
    assert ran.status["exit_code"] == 3
    path = tmp_path / "vars.json"
    path.write_text('["a"]')
    failed(node, node.run(*local, "--vars", str(path)), f"the variables of {path} must be a mapping of names")
    path.write_text('{"marker_word": "b"}')
    finished(node, node.run(*local, "--vars", str(path)))
    assert node.marks() == ["b False"]


@pytest.mark.parametrize("policy, code", [("continue", 0), ("terminate", 2)])
def test_policy_decides_on_failure(node, wanted, policy, code):
    ran = node.run(*wanted[:3], "1" * 64, "--on-failure", policy)
    assert (ran.rc, ran.status["state"], ran.status["exit_code"]) == (code, "failed", 2), ran.out
    assert not node.marker.exists()


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--bundel", "x"], "there is no option '--bundel': see --help"),
        (["--x[$(exit)]", "y"], "there is no option '--x[$(exit)]'"),
        (["--@"], "there is no option '--@'"),
        (["--bundle"], "--bundle needs a value"),
        (["--bundle", "x"], "use --bundle with its --sha256, or --pointer"),
        (["--bundle", "x", "--sha256", "abc"], "--sha256 takes 64 hexadecimal digits, small letters, not 'abc'"),
        (["--pointer", "x", "--bundle", "y"], "--pointer names the bundle: leave --bundle and --sha256 out"),
        (["--pointer", "x", "--version-floor", "1.x"], "--version-floor takes a version such as 1.2.3, not '1.x'"),
        (["--bundle", "x", "--sha256", "0" * 64], "the --sha256 of zeros is a placeholder"),
        (["--bucket-owner", "me"], "--bucket-owner takes the 12 digits of an account, not 'me'"),
        (["--pointer", "x"], "--pointer needs --public-key"),
        # A byte that is not UTF-8 makes neither status nor marker unreadable.
        (["--bund\udcffel"], "there is no option '--bundel'"),
        (["--deadline", "soon"], "--deadline takes whole seconds, not 'soon'"),
        (["--deadline", "9" * 23], f"--deadline takes whole seconds, not '{'9' * 23}'"),
        # Later options are parsed, too, and the first error is reported.
        (["bundle", "--on-failure"], "there is no option 'bundle'"),
        (["--on-failure", "panic"], "--on-failure takes continue, drain or terminate, not 'panic'"),
        # The log would go into a bucket of that name, in any account.
        (["--log-prefix", "logs/x"], "--log-prefix takes an address such as s3://BUCKET/PREFIX, not 'logs/x'"),
        (["--" + "x" * 9000], "there is no option '--xxx"),
        # The query of a presigned address is a secret.
        (["https://b.example/k?X-Amz-Signature=f00d"], "there is no option 'https://b.example/k': see"),
        (["--sha256", "https://b.example/k?X-Amz-Signature=f00d"], "not 'https://b.example/k'"),
    ],
)
def test_wrong_options_are_reported(node, words, sentence):
    ran = node.run(*words, **BOOT)
    failed(node, ran, sentence)
    assert ran.status["exit_code"] == 3 and len(ran.status["message"]) < 2500 and "f00d" not in ran.out


def test_seconds_with_leading_zero_are_decimal(node, tmp_path):
    ran = node.run("--bundle", str(tmp_path / "none"), "--sha256", "a" * 64, "--deadline", "0900")
    failed(node, ran, "No such file or directory")
    assert "base" not in ran.out and "unbound" not in ran.out


def test_silent_file_is_ended_at_deadline(node, tmp_path):
    os.mkfifo(tmp_path / "bundle")
    ran = node.run("--bundle", str(tmp_path / "bundle"), "--sha256", "a" * 64, "--deadline", "1")
    failed(node, ran, "no answer until the deadline")


def test_marker_of_user_stays(node, wanted):
    node.marker.parent.mkdir(parents=True)
    node.marker.write_text('{"schema": "mlcluster.drain/1", "reason": "GPU 3 is slow", "by": "an operator"}')
    ran = node.run(*wanted[:3], "1" * 64)
    assert ran.status["state"] == "drained" and node.reason() == "GPU 3 is slow"
    # The message does not explain how to remove the user's marker.
    assert "to run it again" in ran.log and "lift" not in ran.log
    ran = node.run(*wanted)
    assert ran.status["state"] == "configured" and node.reason() == "GPU 3 is slow"
    assert ran.status["warnings"] == [UNKNOWN_TYPE, "jobs are still kept away, for another reason: GPU 3 is slow"]


def test_log_of_failure_is_copied_to_s3_and_cluster_logs(node, bundle, stored, proxy):
    (node.root / "var/log/parallelcluster").mkdir(parents=True)
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--log-prefix", f"s3://{BUCKET}/logs"]
    ran = node.run(*words, "--roles", "nothing")
    failed(node, ran, "the bundle has no role nothing; it has flop, mark")
    keys = [entry["Key"] for entry in stored.list_objects_v2(Bucket=BUCKET, Prefix="logs/")["Contents"]]
    assert [key.rpartition("/")[2] for key in keys] == ["on_node_configured.log", "status.json"]
    log = stored.get_object(Bucket=BUCKET, Key=keys[0])["Body"].read().decode()
    assert "ERROR: the bundle has no role nothing" in log
    assert "ERROR: the bundle has no role nothing" in (node.root / "var/log/parallelcluster/mlcluster.log").read_text()


def test_full_disk_leaves_nothing_behind_and_next_run_finishes(node, bundle):
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]
    bundles = node.root / "opt/mlcluster/bundles"
    bundles.mkdir(parents=True)
    # In a mount namespace, so that nothing is left on this machine if the test is killed.
    script = 'mount -t tmpfs -o size=256k,mode=755 tmpfs "$1" && shift && exec "$@"'
    inside = ["unshare", "--mount", "sh", "-c", script, "sh", str(bundles)]
    done = subprocess.run(
        [*inside, "bash", str(HOOK), "--root", str(node.root), *words],
        env={**node.environment, "PATH": f"{node.programs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    status = json.loads((node.root / "var/log/mlcluster/status.json").read_text())
    assert done.returncode == 0 and status["state"] == "drained", done.stdout + done.stderr
    assert "No space left on device" in status["message"]
    finished(node, node.run(*words))


@pytest.mark.parametrize("stage", ["download", "unpack", "variables", "runner"])
def test_killed_run_is_finished_by_next(node, wanted, proxy, tmp_path, stage):
    bundles = node.root / "opt/mlcluster/bundles"
    log = node.root / "var/log/mlcluster/on_node_configured.log"
    lock = node.root / "var/lib/dpkg/lock-frontend"
    lock.parent.mkdir(parents=True)
    # The runner waits for this lock, so that it runs for as long as the test needs it.
    with open(lock, "w") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        if stage == "download":
            proxy.faults = [times(99, Answer(200, b"", hang=True))]
            process = node.start(*wanted)
            process.until("the request", lambda: proxy.requests)
        elif stage == "variables":
            proxy.faults = [times(99, Answer(200, b"", hang=True), path="/vars.json")]
            process = node.start(*wanted, "--vars", f"s3://{BUCKET}/vars.json")
            process.until("the request for the variables", lambda: f"/{BUCKET}/vars.json" in proxy.paths())
        elif stage == "unpack":
            programs = tmp_path / "bin"
            programs.mkdir()
            for program in node.programs.iterdir():
                if program.name != "tar":
                    (programs / program.name).symlink_to(program)
            # This tar does not end, as on a very slow disk.
            (programs / "tar").write_text(f'#!/bin/sh\n"{node.programs}/tar" "$@"\nexec sleep 600\n')
            (programs / "tar").chmod(0o755)
            process = node.start(*wanted, PATH=str(programs))
            process.until(
                "the unpacked bundle", lambda: list(bundles.glob(".work*/tree/mlcluster-bundle/bin/run-node"))
            )
        else:
            process = node.start(*wanted)
            process.until("the runner", lambda: log.exists() and "roles: mark" in log.read_text())
        process.crash()
    proxy.faults = []
    assert not node.clean()
    finished(node, node.run(*wanted))


def test_signal_to_hook_is_reported(node, wanted, proxy):
    proxy.faults = [times(99, Answer(200, b"", hang=True))]
    process = node.start(*wanted)
    process.until("the request", lambda: proxy.requests)
    # The whole process group gets it, as from the timeout around ParallelCluster's bootstrap.
    os.killpg(process.pid, signal.SIGTERM)
    failed(node, node.ended(process), "the run was asked to stop in stage bundle")
    proxy.faults = []
    finished(node, node.run(*wanted))


def test_two_runs_do_not_overlap(node, wanted, proxy, tmp_path):
    # Nothing writes to this pipe, so the first run lasts for as long as the test needs it.
    os.mkfifo(tmp_path / "bundle")
    first = node.start("--bundle", str(tmp_path / "bundle"), *wanted[2:])
    status = node.root / "var/log/mlcluster/status.json"
    first.until("the first run", lambda: status.exists() and '"fetching"' in status.read_text())
    ran = node.run(*wanted[:-1], "1")
    assert (ran.rc, ran.status["state"]) == (0, "drained"), ran.out
    assert "another run has held" in node.reason() and proxy.requests == []
    first.crash()
    finished(node, node.run(*wanted))


def test_killed_runner_is_reported_by_hook(node, tmp_path):
    path = tmp_path / "broken.tar.gz"
    sha = build_bundle(path, entry="raise SystemExit(7)\n")
    ran = node.run("--bundle", str(path), "--sha256", sha)
    failed(node, ran, "the bundle's runner ended with status 7 before it could report")
    # The next run will unpack the bundle again.
    assert not list((node.root / "opt/mlcluster/bundles").iterdir())


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGHUP])
def test_second_signal_during_wait_is_reported_once(node, bundle, order):
    log = node.root / "var/log/mlcluster/on_node_configured.log"
    lock = node.root / "var/lib/dpkg/lock-frontend"
    lock.parent.mkdir(parents=True)
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]
    with open(lock, "w") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        process = node.start(*words)
        process.until("the wait", lambda: log.exists() and "roles: mark" in log.read_text())
        for _time in range(2):
            os.killpg(process.pid, order)
        ran = node.ended(process)
    # A closing terminal signals the runner, too, which waits until the hook ends it.
    failed(node, ran, "the run was asked to stop (SIGTERM)")
    assert ran.log.count("ERROR: ") == 1
    finished(node, node.run(*words))
