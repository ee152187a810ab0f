# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hooks.mlcluster_boot import main, play, status
from hooks.mlcluster_boot import node as hook_node
from hooks.mlcluster_boot.node import Node, Role

ROOT = Path(__file__).resolve().parents[4]


def snapshot(state, tasks, failures=()):
    return {
        "state": state,
        "tasks": [{"role": role, "task": "x", "seconds": 1.5, "changed": changed} for role, changed in tasks],
        "failures": [{"role": role, "message": message} for role, message in failures],
        "outcomes": {},
        "elapsed": 3.0,
    }


def outcome(state, failures=()):
    return play.Outcome(state, snapshot(state, [], failures), Path("/s"), Path("/log"))


@pytest.mark.parametrize(
    "state, sentence, code",
    [
        ("timeout", "the deadline of 100 s came while slurm_jobs was running: see /log", 2),
        ("canceled", "the run was asked to stop; the next run continues where it stopped: /log", 2),
        ("failed", "nvme_raid0: no disks", 1),
        ("error", "nvme_raid0: no disks", 2),
    ],
)
def test_verdict_by_state_of_play(report, state, sentence, code):
    entry = {"role": "nvme_raid0", "required": True, "state": "failed", "changed": 0, "message": "no\n disks"}
    report.document["roles"] = [entry, {**entry, "role": "slurm_jobs", "state": "interrupted"}]
    with pytest.raises(main.NoVerdictError) as raised:
        main.verdict(report, outcome(state))
    assert (str(raised.value), raised.value.code) == (sentence, code)


@pytest.mark.parametrize(
    ("gpus", "phase", "ends"), [(8, "boot", "configured"), (7, "boot", "7 of the 8 GPUs"), (7, "build", "configured")]
)
def test_node_with_fewer_gpus_is_configured_and_fails(report, monkeypatch, gpus, phase, ends):
    report.options = dataclasses.replace(report.options, phase=phase)
    node = Node("compute", "test", "i-1", "p5.48xlarge", "", (), gpus)
    seen = []
    monkeypatch.setattr(main, "look", lambda root, kind: node)
    monkeypatch.setattr(main, "_configure", lambda report, node: (seen.append(node), ("configured", 0))[1])
    try:
        found = main.configure(report)
    except main.NoVerdictError as exc:
        found = (str(exc), exc.code)
    assert ends in found[0] and found[1] == (1 if "GPUs" in ends else 0) and seen == [node]


def test_unreadable_bus_is_a_warning(report, monkeypatch):
    node = Node("compute", "test", "i-1", "p5.48xlarge", "", (), None)
    monkeypatch.setattr(main, "look", lambda root, kind: node)
    monkeypatch.setattr(main, "_configure", lambda report, node: ("configured", 0))
    warned = []
    monkeypatch.setattr(report, "warn", warned.append)
    assert main.configure(report) == ("configured", 0)
    assert warned == ["the PCI bus cannot be read, so the 8 GPUs of p5.48xlarge were not counted"]


def test_play_without_role_is_reported_by_its_last_lines(report):
    report.document["roles"] = []
    with pytest.raises(main.NoVerdictError, match="the play ended as error: b c"):
        main.verdict(report, outcome("error", [("", "a\nb\nc")]))


def test_role_without_outcome_is_no_success(report):
    report.document["roles"] = [{"role": "nvme_raid0", "required": False, "state": "running", "changed": 0}]
    with pytest.raises(main.NoVerdictError, match="the play ended without recording nvme_raid0: see /log"):
        main.verdict(report, outcome("successful"))


@pytest.mark.parametrize(
    "text, version",
    [
        ('{"components": [{"name": "mlcluster.aws", "version": "1.2.3"}]}', "1.2.3"),
        ('{"components": null}', ""),
        ('{"components": ["mlcluster.aws"]}', ""),
        ("[]", ""),
        ("", ""),
    ],
)
def test_manifest_without_version_ends_no_run(tmp_path, monkeypatch, text, version):
    (tmp_path / "MANIFEST.json").write_text(text)
    monkeypatch.setattr(main, "BUNDLE", tmp_path)
    assert main._version() == version


def test_second_signal_does_not_interrupt_cleanup():
    done = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(main.StopError, match="SIGTERM"), main._stop_on_signals():
            try:
                # As logging does it with whatever happens while it writes a line.
                with contextlib.suppress(Exception):
                    os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("the timers are started")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["the timers are started"]


def test_signal_after_play_does_not_interrupt_report():
    before = signal.getsignal(signal.SIGTERM)
    try:
        with main._stop_on_signals():
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_log_has_its_time_to_be_copied_after_deadline(report, monkeypatch):
    armed = []
    monkeypatch.setattr(main.faulthandler, "dump_traceback_later", lambda after, **_more: armed.append(after))
    monkeypatch.setattr(main, "_reported", lambda report: 0)
    root = str(report.options.root)
    assert main.run(["--root", root, "--started-at", "0", "--deadline", "0"]) == 0
    assert armed and armed[0] > status.SHIP_SECONDS


def test_no_variable_makes_role_reboot_node():
    node = hook_node.Node("compute", "", "", "", "", ())
    given = {"efa_nccl_reboot_allowed": True, "a": 1}
    found = main.extra_variables([Role("efa_nccl", True)], given, node)
    assert found["efa_nccl_reboot_allowed"] is False and found["a"] == 1
    assert found["configure_node_roles"] == [{"name": "mlcluster.aws.efa_nccl", "key": "efa_nccl", "required": True}]


HANGING = """
import sys, time
sys.path[:0] = [".collections", "."]
from hooks.mlcluster_boot import main
main.GRACE_SECONDS = 0.1
main._reported = lambda report: time.sleep(600)
main.run(["--root", sys.argv[1], "--started-at", "0", "--deadline", "0"])
"""


def test_hanging_runner_ends_itself_with_traceback(tmp_path):
    command = [sys.executable, "-c", HANGING, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Timeout" in done.stderr and "in run" in done.stderr


def test_program_of_plays_ignores_packages_of_node(tmp_path, monkeypatch):
    flags = "sys.flags.no_site, sys.flags.isolated, gc.get_threshold()[0]"
    program = tmp_path / "site" / "ansible" / "cli" / "playbook.py"
    program.parent.mkdir(parents=True)
    for package in (program.parent, program.parents[1]):
        (package / "__init__.py").touch()
    program.write_text(f"import gc, sys\n\ndef main(words):\n    print(*words, {flags})\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    folder = main.playbook_command(tmp_path / "programs")
    done = subprocess.run([folder / "ansible-playbook", "a.yml"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ansible-playbook", "a.yml", "1", "1", "100000"]
    assert not (program.parent / "__pycache__").exists()
