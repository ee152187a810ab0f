# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals before a bundle is in use, leftovers of killed runs, and closed outputs."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.hook.conftest import HOOK, Node
from tests.integration.hook.test_failures import failed, finished


def local(bundle) -> list[str]:
    """Return the options of a run with a bundle on the node's disk."""
    return ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]


def log_of(node) -> str:
    """Return the node's log so far."""
    log = node.root / "var/log/mlcluster/on_node_configured.log"
    return log.read_text() if log.exists() else ""


def with_program(node: Node, folder: Path, name: str, text: str) -> str:
    """Return a PATH with the node's programs, of which a script replaces one."""
    folder.mkdir()
    for program in node.programs.iterdir():
        if program.name != name:
            (folder / program.name).symlink_to(program)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_during_wait_for_lock_is_reported(node, bundle, tmp_path, order):
    path = with_program(node, tmp_path / "bin", "flock", f'touch {tmp_path}/waits; exec {node.programs}/flock "$@"')
    lock = node.root / "run/mlcluster/hook.lock"
    lock.parent.mkdir(parents=True)
    with open(lock, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        process = node.start(*local(bundle), "--deadline", "600", PATH=path)
        process.until("the wait", (tmp_path / "waits").exists)
        os.kill(process.pid, order)
        failed(node, node.ended(process), "the run was asked to stop in stage lock")
        assert process.left() == []
    finished(node, node.run(*local(bundle)))


@pytest.mark.parametrize("order", ["TERM", "INT", "HUP"])
def test_signal_before_options_is_handled_after_them(node, bundle, tmp_path, order):
    """A hook that the signal kills would leave no marker, and its exit status would terminate the node."""
    hook = "$(sed -n 's/^PPid:\\s*//p' /proc/$PPID/status)"
    text = f'[ "$1" != -d ] || kill -{order} {hook}\nexec {node.programs}/tr "$@"'
    path = with_program(node, tmp_path / "bin", "tr", text)
    failed(node, node.run(*local(bundle), PATH=path), "the run was asked to stop in stage arguments")
    finished(node, node.run(*local(bundle)))


def test_signal_between_retries_stops_run_at_once(node, bundle, tmp_path):
    # The pause is long enough for the signal on a busy machine.
    path = with_program(node, tmp_path / "bin", "sleep", f"touch {tmp_path}/waits; exec {node.programs}/sleep 600")
    process = node.start("--bundle", "http://127.0.0.1:1/b", "--sha256", bundle[1], PATH=path)
    process.until("the pause", (tmp_path / "waits").exists)
    os.kill(process.pid, signal.SIGTERM)
    failed(node, node.ended(process), "the run was asked to stop in stage bundle")
    assert process.left() == []


# Bash reads this before the hook: it sends the signal before command number AT, counted from the roles on.
ORDER_AT = """set -T
trap '[ "${stage:-}$BASHPID" != "roles$$" ] || { at=$((${at:-0} + 1)); [ $at != $AT ] || kill -TERM $$; }' DEBUG
"""


def test_signal_during_roles_gives_true_verdict(node, bundle, tmp_path):
    (tmp_path / "order").write_text(ORDER_AT)
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "nothing", "--on-failure", "terminate"]
    stopped, reported = (2, "the run was asked to stop"), (3, "the bundle has no role nothing")
    seen = []
    # The hook has at least this many commands there; a higher number would send no signal.
    for moment in range(1, 24):
        process = node.start(*words, BASH_ENV=str(tmp_path / "order"), AT=str(moment))
        ran = node.ended(process)
        assert process.left() == [], moment
        code, sentence = stopped if ran.rc == 2 else reported
        assert (ran.rc, ran.status["exit_code"]) == (code, code), (moment, ran.out)
        assert ran.status["message"].startswith(sentence) and ran.log.count("ERROR: ") == moment and node.clean()
        seen.append(ran.rc)
    assert seen[0] == 2 and seen[-1] == 3 and seen == sorted(seen)


def test_signal_does_not_replace_earlier_failure(node, tmp_path):
    slow = f"touch {tmp_path}/asked\nuntil [ -e {tmp_path}/go ]; do sleep 0.05; done"
    path = with_program(node, tmp_path / "bin", "aws", slow)
    process = node.start("--deadline", "soon", "--log-prefix", "s3://b/logs", "--on-failure", "drain", PATH=path)
    process.until("the way of the log to S3", (tmp_path / "asked").exists)
    os.killpg(process.pid, signal.SIGTERM)
    (tmp_path / "go").touch()
    ran = node.ended(process)
    failed(node, ran, "--deadline takes whole seconds")
    assert ran.log.count("ERROR: ") == 1


def test_half_written_files_of_killed_run_are_removed(node, bundle):
    left = [
        node.root / name
        for name in (
            "var/log/mlcluster/status.json.77",
            "var/log/mlcluster/.status.json.ab12",
            "var/lib/mlcluster/drain.json.77",
            "var/lib/mlcluster/.drain.json.ab12",
            "var/lib/mlcluster/version_floor.77",
        )
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
    finished(node, node.run(*local(bundle)))
    assert [path for path in left if path.exists()] == []


@pytest.mark.parametrize("reader", ["exec >&- 2>&-", "exec >/dev/full 2>&1", "exec > >(exit) 2>&1; wait $!"])
def test_closed_output_does_not_end_run(node, bundle, reader):
    def run(*words: str) -> tuple[int, str]:
        command = ["bash", "-c", f'{reader}; exec "$@"', "bash", "bash", str(HOOK), "--root", str(node.root), *words]
        done = subprocess.run(command, env=node.environment, stdin=subprocess.DEVNULL, check=False)
        return done.returncode, json.loads((node.root / "var/log/mlcluster/status.json").read_text())["state"]

    assert run(*local(bundle), "--on-failure", "terminate") == (0, "configured")
    assert run("--bundle", "x", "--on-failure", "terminate") == (3, "failed")
    assert "configured: 1 roles" in log_of(node) and "ERROR: use --bundle with its --sha256" in log_of(node)


def test_name_that_is_not_utf_8_is_accepted(node, bundle, tmp_path):
    os.symlink(bundle[0], os.fsencode(tmp_path) + b"/b\xff.tar.gz")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.tar.gz")
    finished(node, node.run("--bundle", odd, *local(bundle)[2:], "--vars", " {}"))
