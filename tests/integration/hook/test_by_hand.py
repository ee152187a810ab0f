# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook as a user types it: help, version, wrong options, a dry run, and the advice in a drained node's log."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.integration.hook.conftest import BOOT, BUCKET, HOOK, ROOT, Node
from tests.integration.hook.test_failures import failed, finished

USAGE = "usage: on_node_configured.sh --bundle SOURCE --sha256 HEX [OPTIONS]"


def typed(node: Node, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the hook as a user does; return its separate outputs."""
    return subprocess.run(
        ["bash", str(HOOK), "--root", str(node.root), *words],
        env={**node.environment, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def untouched(node: Node, proxy) -> bool:
    """Return whether no file was written and no request was made."""
    return not list(node.root.iterdir()) and proxy.requests == []


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--bundel", "x", "--help"]])
def test_help_exits_0_and_touches_nothing(node, proxy, words):
    done = typed(node, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(USAGE)
    assert untouched(node, proxy)


def test_version_exits_0_and_touches_nothing(node, proxy):
    done = typed(node, "--version")
    (version,) = re.findall(r"^version: (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE)
    assert (done.returncode, done.stdout) == (0, f"on_node_configured.sh of mlcluster.aws {version}\n")
    assert untouched(node, proxy)


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "use --bundle with its --sha256, or --pointer"),
        (["--bundel", "x"], "there is no option '--bundel': see --help"),
        (["--roles", "efa_nccl:maybe"], "--roles takes names such as nvme_raid0,nvidia_gds:best-effort, not"),
        (["--roles", "NVME"], "--roles takes names such as nvme_raid0"),
        (["--phase", "later"], "--phase takes build or boot, not 'later'"),
        (["--node-type", "gpu"], "--node-type takes head, login, compute or standalone, not 'gpu'"),
        (["--wait-seconds", "soon"], "--wait-seconds takes whole seconds, not 'soon'"),
        (["--bundle", "x", "--sha256", "a" * 64, "--dry-run", "--deadline", "soon"], "--deadline takes whole seconds"),
        (
            ["--bundle", "https://b.example/a\nb", "--sha256", "a" * 64],
            "the address of --bundle has a control character in it",
        ),
        (
            ["--pointer", "s3://b/p\tq", "--public-key", "k"],
            "the address of --pointer has a control character in it",
        ),
        (
            ["--bundle", "x", "--sha256", "a" * 64, "--vars", "https://b.example/a\rb"],
            "the address of --vars has a control character in it",
        ),
    ],
)
def test_wrong_options_exit_3_with_usage_and_touch_nothing(node, proxy, words, sentence):
    done = typed(node, *words)
    first, second = done.stderr.splitlines()[:2]
    assert (done.returncode, done.stdout) == (3, "")
    assert sentence in first and second == USAGE
    assert untouched(node, proxy)


@pytest.mark.parametrize(
    "parent",
    ["/usr/bin/cloud-init", "cfn-init", "/opt/x/fetch_and_run", "custom_action_executor.py", "/opt/aws/pcs/agent"],
)
def test_wrong_options_of_boot_drain_node(node, parent):
    command = ["bash", "-c", 'bash "$@"; exit $?', parent, str(HOOK), "--root", str(node.root), "--bundel", "x"]
    done = subprocess.run(command, env=node.environment, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0 and node.reason() == "there is no option '--bundel': see --help"


@pytest.mark.parametrize("words, environment", [([], BOOT), (["--on-failure", "drain"], {})], ids=["boot", "policy"])
def test_wrong_options_are_reported_by_policy_or_boot(node, words, environment):
    failed(node, node.run("--bundel", "x", *words, **environment), "there is no option '--bundel'")


def test_dry_run_reports_downloads_and_changes_nothing(node, wanted, proxy, bundle):
    done = typed(node, *wanted, "--vars", '{"token": "f00d"}', "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"bundle:     s3://{BUCKET}/bundle.tar.gz, SHA-256 {bundle[1]}\n" in done.stdout
    assert "bundle is:  to be fetched\n" in done.stdout and "roles:      mark, phase boot\n" in done.stdout
    assert "f00d" not in done.stdout
    assert untouched(node, proxy)
    finished(node, node.run(*wanted))
    done = typed(node, *wanted, "--dry-run")
    assert f"bundle is:  unpacked in {node.root}/opt/mlcluster/bundles/{bundle[1]}" in done.stdout
    assert len(proxy.requests) == 1


def test_dry_run_of_pointer_names_pointer(node, proxy):
    done = typed(node, "--pointer", "https://b.example/p?X-Amz-Signature=f00d", "--public-key", "QUJD", "--dry-run")
    assert done.returncode == 0 and "pointer:    https://b.example/p\n" in done.stdout and "f00d" not in done.stdout
    assert untouched(node, proxy)


def test_log_of_drained_node_shows_next_steps(node, wanted):
    ran = node.run(*wanted[:3], "1" * 64, "--vars", "https://b.example/v?X-Amz-Signature=f00d")
    # The log has the same advice after a failure that the runner reports.
    by_runner = node.run(*wanted, "--vars", '{"token": "f00d"}', "--roles", "nothing")
    for log in (ran.log, by_runner.log[len(ran.log) :]):
        assert f"to run it again, as root: bash {HOOK} --root {node.root} --bundle s3://" in log
        assert f"rm {node.marker}" in log and "f00d" not in log
    finished(node, node.run(*wanted))
    again = node.run(*wanted, "--on-failure", "continue", "--roles", "nothing")
    assert again.log.count("to run it again") == 2
