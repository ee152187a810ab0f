# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.build import packages
from tests.build.packages import Package, SetupError

APT_LIST = Path(__file__).resolve().parents[3] / "requirements" / "apt-debian.txt"
DEBIAN_12 = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'
UBUNTU = 'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'
MINT = 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'


def test_list_of_checkout_is_pinned_and_without_doubles():
    listed = packages.parse_list(APT_LIST.read_text(encoding="utf-8"))
    names = [package.name for package in listed]
    assert len(names) == len(set(names))
    assert [package for package in listed if package.glob == "*"] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEBIAN_12, ("debian", "12", True)),
        (UBUNTU, ("ubuntu", "24.04", True)),
        (MINT, ("linuxmint", "22", True)),
        (ROCKY, ("rocky", "9.4", False)),
        ("", ("unknown", "unknown", False)),
    ],
)
def test_release(text, expected):
    assert packages.release(text) == expected


def test_other_versions_names_untested_packages():
    wanted = [Package("podman", "4.3.1*"), Package("qemu-utils", "1:7.2*"), Package("make", "4.3*")]
    have = {"podman": "5.4.2+ds1-1", "qemu-utils": "1:7.2+dfsg-7+deb12u18"}
    assert packages.other_versions(wanted, have) == ["podman 5.4.2+ds1-1"]


@pytest.mark.parametrize(
    ("euid", "has_sudo", "interactive", "head"),
    [
        (0, False, False, ["apt-get"]),
        (1000, True, True, ["sudo", "apt-get"]),
        (1000, True, False, ["sudo", "-n", "apt-get"]),
    ],
)
def test_apt_command(euid, has_sudo, interactive, head):
    command = packages.apt_command(euid, has_sudo, interactive)
    assert command is not None
    assert command[: len(head)] == head


def test_apt_command_without_any_right():
    assert packages.apt_command(1000, False, True) is None


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine where nothing is installed and apt-get is only recorded."""
    calls = []
    list_file = tmp_path / "apt.txt"
    list_file.write_text("podman=4.3.1*\nmake=4.3*\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "installed", lambda names: {"make": "4.3-4.1"})
    monkeypatch.setattr(packages, "release", lambda text: ("debian", "12", True))
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(packages.os, "geteuid", lambda: 0)

    def run(command, **_options):
        calls.append(command)
        return packages.subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(packages.subprocess, "run", run)
    return list_file, calls


def test_missing_packages_are_installed_by_their_pins(machine):
    list_file, calls = machine
    packages.ensure(list_file, lambda text: None)
    assert [call[-1] for call in calls] == ["update", "podman=4.3.1*"]


def test_two_set_ups_do_not_call_apt_at_once(machine, tmp_path, monkeypatch):
    list_file, calls = machine
    recorded = packages.subprocess.run

    def run(command, **options):
        with (tmp_path / "mlcluster" / "apt.lock").open("w") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return recorded(command, **options)

    monkeypatch.setattr(packages.subprocess, "run", run)
    packages.ensure(list_file, lambda text: None)
    assert len(calls) == 2


def test_another_release_gets_names_and_one_warning(machine, monkeypatch):
    list_file, calls = machine
    shown = []
    monkeypatch.setattr(packages, "release", lambda text: ("ubuntu", "24.04", True))
    packages.ensure(list_file, shown.append)
    assert calls[-1][-1] == "podman"
    assert [text for text in shown if text.startswith("WARNING")] == [
        "WARNING: tested on Debian 12, this is ubuntu 24.04: package versions are taken as they come."
    ]


def test_missing_packages_are_named_without_rights(machine, monkeypatch):
    list_file, calls = machine
    monkeypatch.setattr(packages, "apt_command", lambda *arguments: None)
    with pytest.raises(SetupError, match=r"apt-get install podman$"):
        packages.ensure(list_file, lambda text: None)
    assert calls == []


def test_another_family_is_rejected(machine, monkeypatch):
    list_file, _calls = machine
    monkeypatch.setattr(packages, "release", lambda text: ("rocky", "9.4", False))
    with pytest.raises(SetupError, match=r"this is rocky 9\.4"):
        packages.ensure(list_file, lambda text: None)
