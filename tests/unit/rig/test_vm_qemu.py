# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig.vm import accel, qemu
from tests.rig.vm.command import RigError

MACHINE = qemu.Machine("tcg", "p5.48xlarge", 40022)


def test_argv_names_the_type_the_port_and_the_disks() -> None:
    words = qemu.argv(MACHINE)
    assert "type=1,manufacturer=Amazon EC2,product=p5.48xlarge" in words
    assert any("hostfwd=tcp:127.0.0.1:40022-:22" in word and "restrict=on" in word for word in words)
    assert "if=none,id=plan,file=plan.raw,format=raw,readonly=on" in words
    assert words[words.index("-smp") + 1] == "1"
    assert "-loadvm" not in words


def test_argv_loads_a_snapshot_when_told() -> None:
    assert qemu.argv(MACHINE._replace(load="base"))[-2:] == ["-loadvm", "base"]


def test_argv_has_no_path_that_could_need_escaping() -> None:
    assert not [word for word in qemu.argv(MACHINE) if word.startswith("/") or "=/" in word]


@pytest.mark.parametrize("name", ["1", "", "a b", "a;b", "-x", "x" * 80])
def test_snapshot_names_that_the_monitor_would_misread_are_refused(name: str) -> None:
    with pytest.raises(RigError, match="is no snapshot name"):
        qemu.check_snapshot_name(name)


def test_a_guest_is_found_by_the_folder_that_its_process_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "PROGRAM", Path(sys.executable).resolve().name)
    folder = tmp_path / "guest"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], cwd=folder, stdin=subprocess.PIPE) as process:
        assert qemu.pid_of(folder) == process.pid
        assert qemu.pid_of(tmp_path) is None
        qemu.end_orphans(tmp_path)
        assert process.poll() is None
        folder.rmdir()
        assert qemu.pid_of(folder) is None
        qemu.end_orphans(tmp_path / "elsewhere")
        assert process.poll() is None
        qemu.end_orphans(tmp_path)
        assert process.wait() == -9


def test_a_process_that_is_no_qemu_is_no_guest() -> None:
    assert qemu.pid_of(Path.cwd()) is None


class Answerer(threading.Thread):
    """A QMP server that plays back answers, one list per command."""

    def __init__(self, folder: Path, answers: dict[str, list[dict[str, Any]]]):
        super().__init__(daemon=True)
        self.answers = answers
        self.asked: list[dict[str, Any]] = []
        self.server = socket.socket(socket.AF_UNIX)
        at = os.open(folder, os.O_RDONLY)
        self.server.bind(f"/proc/self/fd/{at}/qmp.sock")
        os.close(at)
        self.server.listen(1)

    def run(self) -> None:
        connection, _address = self.server.accept()
        with connection, connection.makefile("rwb") as stream:
            stream.write(b'{"QMP": {}}\n')
            stream.flush()
            for line in stream:
                request = json.loads(line)
                self.asked.append(request)
                for answer in self.answers.get(request["execute"], [{"return": {}}]):
                    stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder whose socket's path is longer than a UNIX socket allows."""
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    yield folder


def test_monitor_runs_commands_in_a_deep_folder(deep: Path) -> None:
    server = Answerer(deep, {"human-monitor-command": [{"event": "STOP"}, {"return": ""}]})
    server.start()
    with qemu.monitor(deep) as connection:
        connection.human("savevm base")
    assert server.asked[-1]["arguments"] == {"command-line": "savevm base"}


def test_monitor_passes_on_what_qemu_says(deep: Path) -> None:
    server = Answerer(
        deep, {"human-monitor-command": [{"return": "Error: no\r\n"}], "cont": [{"error": {"desc": "not now"}}]}
    )
    server.start()
    with qemu.monitor(deep) as connection:
        with pytest.raises(RigError, match="refused loadvm x: Error: no"):
            connection.human("loadvm x")
        with pytest.raises(RigError, match="refused cont: not now"):
            connection.execute("cont")


def test_monitor_remembers_events_that_came_with_an_answer(deep: Path) -> None:
    server = Answerer(deep, {"query-status": [{"event": "RESET"}, {"return": {}}, {"event": "RESUME"}]})
    server.start()
    with qemu.monitor(deep) as connection:
        connection.execute("query-status")
        connection.wait_event("RESET", timeout=1)
        connection.wait_event("RESUME", timeout=5)
        with pytest.raises(RigError, match="in vain"):
            connection.wait_event("SHUTDOWN", timeout=0)


def test_monitor_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RigError, match="does not answer"), qemu.monitor(tmp_path):
        pass


@pytest.mark.parametrize(
    ("console", "errors", "ended", "seconds", "expected"),
    [
        ("... VFS: Unable to mount root fs on unknown-block(0,0)", "", True, 1.0, "kvm"),
        ("Probing EDD... ok", "", False, 3.0, None),
        ("Probing EDD... ok", "", False, 21.0, "a kernel did not get far enough in 20 s"),
        ("", "KVM internal error. Suberror: 1\nemulation failure", False, 1.0, "the guest stopped with an internal"),
        ("", "qemu: failed to set MSR 0x10a\n", True, 1.0, "QEMU ended: qemu: failed to set MSR 0x10a"),
        ("", "", True, 1.0, "QEMU ended: it said nothing"),
    ],
)
def test_kvm_verdict(console: str, errors: str, ended: bool, seconds: float, expected: str | None) -> None:
    found = accel.verdict(console, errors, ended, seconds)
    assert found == expected or (expected is not None and found is not None and found.startswith(expected))
