# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.package_locks import held_lock

from hooks.mlcluster_boot import waits


class Recorded:
    """A host whose programs are ``answers``: {first words: output, or an exception}; ``asked`` is what ran."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def which(self, program):
        return f"/usr/bin/{program}" if any(name.split("_")[0] == program for name in self.answers) else None

    def run(self, argv, timeout=120, check=True):
        self.asked.append(list(argv))
        found = self.answers.get("_".join(argv[:2]).replace("-", ""), self.answers.get(argv[0], ""))
        if callable(found):
            found = found()
        if isinstance(found, Exception):
            raise found
        return CommandResult(0, found, "")


def test_poll_asks_at_least_once_and_reports_obstacle():
    assert waits.poll("x", lambda: "it", 0) == waits.Wait("x", 0.0, "it")
    assert waits.poll("x", lambda: "", 0).obstacle == ""


def met_meanwhile(monkeypatch, change):
    """Let the awaited thing appear during the first pause."""
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        change()

    monkeypatch.setattr(waits, "time", types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    return pauses


# A process may give itself any name.
HOLDER = """import fcntl, sys
open('/proc/self/comm', 'wb').write(b'apt\\xff')
f = open(sys.argv[1], 'w')
fcntl.lockf(f, fcntl.LOCK_EX)
print(flush=True)
input()
"""


def test_lock_of_another_process_is_waited_for(tmp_path, monkeypatch):
    lock = tmp_path / "var/lib/dpkg/lock"
    lock.parent.mkdir(parents=True)
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.read(1) == b"\n"
        held = held_lock(tmp_path)
        assert held == f"/var/lib/dpkg/lock is held by apt\ufffd (process {holder.pid})"
        pauses = met_meanwhile(monkeypatch, lambda: holder.communicate(b"\n"))
        assert waits.poll("package locks", lambda: held_lock(tmp_path), 600).obstacle == ""
    assert len(pauses) == 1 and holder.returncode == 0


def test_shared_files_that_appear_end_wait(tmp_path, monkeypatch):
    pauses = met_meanwhile(monkeypatch, (tmp_path / "ready").touch)
    assert waits.wait_for_paths(tmp_path, [Path("/ready")], 600).obstacle == "" and len(pauses) == 1


def fake_proc(folder, *generations):
    """Processes 100, 101, ...: each the child of the one before, the first of process 1."""
    for number, words in enumerate(generations, 100):
        entry = folder / str(number)
        entry.mkdir()
        (entry / "cmdline").write_bytes(words.replace(" ", "\0").encode())
        (entry / "status").write_text(f"Name:\tx\nPPid:\t{number - 1 if number > 100 else 1}\n")
    return 99 + len(generations)


@pytest.mark.parametrize(
    "generations, under",
    [
        (["/usr/bin/python3 /usr/bin/cloud-init modules --mode=final", "/bin/sh part-001", "bash hook"], True),
        (["/opt/aws/cfn-init -s stack", "bash hook"], True),
        (["/usr/sbin/sshd", "-bash", "bash hook"], False),
    ],
)
def test_run_started_by_cloud_init_does_not_wait_for_it(tmp_path, generations, under):
    last = fake_proc(tmp_path, *generations)
    assert waits.under_cloud_init(tmp_path, last) is under


def test_cloud_init_is_waited_for_with_bound(monkeypatch):
    monkeypatch.setattr(waits, "under_cloud_init", lambda: False)
    assert waits.wait_for_cloud_init(Recorded(), 5) is None
    host = Recorded(**{"cloud-init": "status: done"})
    assert waits.wait_for_cloud_init(host, 5).obstacle == ""
    assert host.asked == [["cloud-init", "status", "--wait"]]
    slow = Recorded(**{"cloud-init": TimeoutError("no answer within 5 seconds")})
    assert "cloud-init has not ended" in waits.wait_for_cloud_init(slow, 5).obstacle


def test_volume_of_deep_learning_ami_is_waited_for():
    assert waits.wait_for_dlami(Recorded(), 1) is None
    assert waits.wait_for_dlami(Recorded(systemctl="LoadState=not-found\nActiveState=inactive\n"), 1) is None
    states = iter(["activating", "activating", "active"])
    host = Recorded(systemctl=lambda: f"LoadState=loaded\nActiveState={next(states)}\n")
    assert waits.wait_for_dlami(host, 60) == waits.Wait("dlami-nvme", pytest.approx(0.5, abs=30))
    stuck = Recorded(systemctl="LoadState=loaded\nActiveState=activating\n")
    assert waits.wait_for_dlami(stuck, 0).obstacle == "dlami-nvme.service is still making its volume"


def test_shared_files_are_waited_for(tmp_path):
    (tmp_path / "fsx").mkdir()
    assert waits.wait_for_paths(tmp_path, [], 0) is None
    assert waits.wait_for_paths(tmp_path, [Path("/fsx")], 0).obstacle == ""
    assert waits.wait_for_paths(tmp_path, [Path("/fsx"), Path("/opt/x")], 0).obstacle == "/opt/x is not there"


def test_interrupted_dpkg_is_finished(tmp_path):
    host = Recorded(dpkg="", env="")
    assert waits.repair_dpkg(tmp_path, host, 5) == "" and host.asked == []
    (tmp_path / "var/lib/dpkg/updates").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/updates/0001").touch()
    assert waits.repair_dpkg(tmp_path, host, 5) == ""
    assert host.asked == [["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "-a"]]
    assert "could not be finished (x)" in waits.repair_dpkg(tmp_path, Recorded(dpkg="", env=OSError("x")), 5)


UNITS = "apt-daily.timer loaded active waiting Daily apt\ndnf-makecache.timer loaded active waiting\n"


def test_updates_are_quiet_during_run_and_back_after_it(tmp_path):
    host = Recorded(systemctl=UNITS)
    record = tmp_path / "quiet.json"
    with pytest.raises(KeyError), waits.pause_update_timers(host, record, pytest.fail) as stopped:
        assert stopped == json.loads(record.read_text()) == ["apt-daily.timer", "dnf-makecache.timer"]
        raise KeyError
    assert [words[1] for words in host.asked] == ["list-units", "stop", "start"]
    assert host.asked[2][2:] == stopped and not record.exists()


def test_timers_stopped_by_killed_run_are_started_by_next(tmp_path):
    record = tmp_path / "quiet.json"
    record.write_text('["apt-daily.timer", "sshd.service"]')
    host = Recorded(systemctl="")
    with waits.pause_update_timers(host, record, pytest.fail) as stopped:
        assert stopped == ["apt-daily.timer"]
    assert host.asked[-1] == ["systemctl", "start", "apt-daily.timer"] and not record.exists()


HANGS = CommandError(["systemctl"], None, "", "", "no answer within 20 seconds")


def test_hanging_systemd_fails_no_run_and_is_reported(tmp_path):
    record = tmp_path / "quiet.json"
    host = Recorded(systemctl=UNITS, systemctl_stop=HANGS, systemctl_start=HANGS)
    warnings = []
    with waits.pause_update_timers(host, record, warnings.append):
        pass
    (sentence,) = warnings
    assert sentence.startswith(
        "systemctl: no answer within 20 seconds: see to it with 'systemctl start apt-daily.timer "
    )
    assert sentence.endswith(" dnf-makecache.timer', or the next run does")
    assert json.loads(record.read_text()) == ["apt-daily.timer", "dnf-makecache.timer"]
    with waits.pause_update_timers(Recorded(systemctl="", systemctl_listunits=HANGS), record, pytest.fail) as stopped:
        assert stopped == ["apt-daily.timer", "dnf-makecache.timer"]
    assert not record.exists()
    assert waits.wait_for_dlami(Recorded(systemctl=HANGS), 1) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk that is full")
def test_full_disk_keeps_record_of_killed_run(tmp_path):
    volume = tmp_path / "volume"
    volume.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", volume], check=True)
    try:
        record = volume / "quiet.json"
        record.write_text('["apt-daily-upgrade.timer"]')
        with pytest.raises(OSError, match="No space left"):
            (volume / "full").write_bytes(bytes(1 << 20))
        with (
            pytest.raises(OSError, match="No space left"),
            waits.pause_update_timers(Recorded(systemctl=UNITS), record, pytest.fail),
        ):
            pass
        assert json.loads(record.read_text()) == ["apt-daily-upgrade.timer"]
    finally:
        subprocess.run(["umount", volume], check=True)


def test_node_without_systemd_has_nothing_to_quiet(tmp_path):
    host = Recorded()
    with waits.pause_update_timers(host, tmp_path / "quiet.json", pytest.fail) as stopped:
        assert stopped == []
    assert host.asked == []


def test_play_of_killed_run_is_ended_but_not_its_commands(tmp_path):
    marker = f"MLCLUSTER_RUN={tmp_path}/"
    environment = {**os.environ, "MLCLUSTER_RUN": f"{tmp_path}/1/runner"}
    wait = "import sys; print(flush=True); sys.stdin.read()"
    commands = [[sys.executable, "-c", wait, "ansible-playbook"], [sys.executable, "-c", wait, "apt-get"]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    play, package = (subprocess.Popen(command, env=environment, **pipes) for command in commands)
    try:
        # Before it runs, the kernel shows no environment of a process that Popen has begun.
        assert play.stdout.read(1) == package.stdout.read(1) == b"\n"
        left = waits.end_leftovers(marker, 0)
        assert f"{package.pid}" in left.obstacle and left.obstacle.endswith("of a killed run continue")
        assert play.wait() == -9 and package.poll() is None
        package.stdin.close()
        assert package.wait() == 0
        assert waits.end_leftovers(marker, 0) is None
    finally:
        for process in (play, package):
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
