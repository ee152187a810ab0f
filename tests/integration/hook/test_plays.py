# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot hook with Ansible: a fresh node, a second run, failed roles, the deadline, and a killed run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from hooks.mlcluster_boot.main import UNKNOWN_TYPE
from tests.integration.hook.conftest import ENTRY, Node, build_bundle
from tests.rig.slurm.processes import wait_for


def test_fresh_node_is_configured_and_second_run_changes_nothing(node: Node, real):
    first = node.run(*real, "--roles", "mark", "--vars", '{"marker_word": "hello", "mark_reboot_allowed": true}')
    assert (first.rc, first.status["state"], first.roles) == (0, "configured", {"mark": "configured"}), first.out
    # The hook never lets a role reboot the node, whatever the variables set.
    assert node.marks() == ["hello False"]
    assert first.status["roles"][0]["changed"] == 1 and first.status["roles"][0]["seconds"] > 0
    assert first.status["bundle"]["sha256"] == real[3] and first.status["bundle"]["version"] == "1.2.3"
    assert "configured: 1 roles, 1 changes" in first.log and "role mark configured after" in first.log
    assert oct((node.root / "var/log/mlcluster/status.json").stat().st_mode)[-3:] == "600"
    second = node.run(*real, "--roles", "mark", "--vars", '{"marker_word": "hello"}')
    assert (second.rc, second.status["state"], second.status["roles"][0]["changed"]) == (0, "configured", 0)
    assert node.clean() and not node.marker.exists()
    # The first run wrote nothing into the bundle, so the second does not unpack it again.
    assert "has changed since" not in second.log


def test_best_effort_continues_and_required_role_drains(node: Node, real):
    # The role's wait is part of a boot; the build of an image skips it.
    never = json.dumps({"marker_wait": str(node.root / "never")})
    ran = node.run(*real, "--roles", "flop:best-effort,mark", "--phase", "build", "--vars", never)
    assert (ran.rc, ran.status["state"]) == (0, "configured"), ran.out
    assert ran.roles == {"flop": "failed", "mark": "configured"}
    assert ran.status["roles"][0]["message"] == "the flop was wanted"
    assert ran.status["roles"][0]["task"] == "Flop | Fail"
    # Status, log and console agree, and report a best-effort role as such.
    assert "role flop configured" not in ran.log and "role mark configured after" in ran.log
    for text in (ran.log, ran.out):
        assert re.search(r"role flop failed after \d+\.\d s at 'Flop \| Fail': the flop was wanted; it is best", text)
    assert "Continue: role flop is best effort" in ran.out and "Fail the node" not in ran.out
    assert ran.status["warnings"] == [UNKNOWN_TYPE, "best effort was not enough for flop: the flop was wanted"]
    ran = node.run(*real, "--roles", "flop,mark", "--phase", "build")
    assert (ran.rc, ran.status["state"], ran.status["exit_code"]) == (0, "drained", 1), ran.out
    assert ran.roles == {"flop": "failed", "mark": "pending"}
    assert ran.status["message"] == node.reason() == "flop: the flop was wanted"
    assert "ERROR: flop: the flop was wanted" in ran.log
    assert re.search(r"role flop failed after \d+\.\d s at 'Flop \| Fail': the flop was wanted\n", ran.log)
    assert "Fail the node: role flop is required" in ran.out and "role flop configured" not in ran.log
    ran = node.run(*real, "--roles", "mark", "--phase", "build")
    assert ran.status["state"] == "configured" and not node.marker.exists()


# The deadline does not depend on the machine's speed: once the role runs, the runner's clock is an hour ahead.
START = "    from mlcluster_boot import main as runner\n"
LEAP = f"""    import time, types
    from mlcluster_boot import stop
    clock = lambda: time.monotonic() + 3600 * os.path.exists(os.environ["MARKS"])
    stop.time = types.SimpleNamespace(sleep=time.sleep, time=time.time, monotonic=clock)
{START}"""


def test_deadline_ends_play_and_next_run_finishes(node: Node, real, tmp_path):
    bundle = tmp_path / "leaps.tar.gz"
    sha = build_bundle(bundle, quick=False, entry=ENTRY.replace(START, LEAP))
    words = ["--deadline", "900", "--roles", "mark", "--vars", json.dumps({"marker_wait": str(node.root / "never")})]
    ran = node.run("--bundle", str(bundle), "--sha256", sha, *words, "--on-failure", "terminate")
    assert (ran.rc, ran.status["state"]) == (2, "failed"), ran.out
    assert ran.status["message"].startswith("the deadline of 900 s came while mark was running: see ")
    assert ran.roles == {"mark": "interrupted"} and not node.marker.exists()
    assert node.marks() and not playing(str(node.root / "var/log/mlcluster/runs"))
    (node.root / "never").touch()
    ran = node.run(*real[:4], *words)
    assert (ran.rc, ran.status["state"]) == (0, "configured"), ran.out


def test_run_killed_in_role_is_continued_by_next(node: Node, real):
    wait = json.dumps({"marker_wait": str(node.root / "go")})
    words = [*real, "--roles", "mark", "--vars", wait]
    process = node.start(*words)
    process.until("the first mark", node.marks)
    process.crash()
    # Ansible has a session of its own and continues without a reader of its output.
    runs = str(node.root / "var/log/mlcluster/runs")
    wait_for("the play that was left behind", lambda: playing(runs))
    # This folder has the variables and the environment of the run.
    assert list(Path(runs).glob("*/runner-*"))
    (node.root / "go").touch()
    ran = node.run(*words)
    assert (ran.rc, ran.status["state"]) == (0, "configured"), ran.out
    assert node.clean() and not playing(runs) and not list(Path(runs).glob("*/runner-*"))
    assert node.marks() == ["marked False"]


def playing(runs: str) -> list[str]:
    """Return the processes of plays of this node."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"MLCLUSTER_RUN={runs}/".encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return [name for name in found if os.path.exists(f"/proc/{name}")]
