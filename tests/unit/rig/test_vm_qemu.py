# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.vm import accel, qemu
from tests.rig.vm.command import RigError


@pytest.mark.parametrize("name", ["1", "", "a b", "a;b", "-x", "x" * 80])
def test_ambiguous_snapshot_names_are_rejected(name: str) -> None:
    with pytest.raises(RigError, match="is not a snapshot name"):
        qemu.check_snapshot_name(name)


def test_guest_is_found_by_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_missing_monitor_is_error(tmp_path: Path) -> None:
    with pytest.raises(RigError, match="does not answer"), qemu.monitor(tmp_path):
        pass


@pytest.mark.parametrize(
    ("console", "errors", "ended", "seconds", "expected"),
    [
        ("... VFS: Unable to mount root fs on unknown-block(0,0)", "", True, 1.0, "kvm"),
        ("Probing EDD... ok", "", False, 3.0, None),
        ("Probing EDD... ok", "", False, 21.0, "the kernel of the probe did not boot far enough within 20 s"),
        ("", "KVM internal error. Suberror: 1\nemulation failure", False, 1.0, "the guest stopped with an internal"),
        ("", "qemu: failed to set MSR 0x10a\n", True, 1.0, "QEMU ended: qemu: failed to set MSR 0x10a"),
        ("", "", True, 1.0, "QEMU ended: no error output"),
    ],
)
def test_kvm_verdict(console: str, errors: str, ended: bool, seconds: float, expected: str | None) -> None:
    found = accel.verdict(console, errors, ended, seconds)
    assert found == expected or (expected is not None and found is not None and found.startswith(expected))
