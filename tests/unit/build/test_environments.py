# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.build import environments
from tests.build.packages import SetupError


def test_old_python_is_rejected():
    environments.require_python((3, 11))
    with pytest.raises(SetupError, match=r"3\.10: call make PYTHON="):
        environments.require_python((3, 10))


def test_key_follows_lock_place_and_interpreter(tmp_path):
    lock = tmp_path / "lock.txt"
    keys = set()
    for text, place, python in (("a", "v", "p"), ("b", "v", "p"), ("a", "w", "p"), ("a", "v", "q"), ("a", "v", "p")):
        lock.write_text(text, encoding="utf-8")
        keys.add(environments.environment_key([lock], tmp_path / place, python))
    assert len(keys) == 4


def test_interpreter_that_does_not_run_is_skipped(tmp_path, monkeypatch):
    own = "{}.{}".format(*sys.version_info[:2])
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, text in (("shims", "#!/bin/sh\nexit 127\n"), ("real", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        program = tmp_path / name / f"python{own}"
        program.parent.mkdir()
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'real'}")
    assert environments.find_python(own) == sys._base_executable
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    assert environments.find_python(own) is None
    home = tmp_path / ".pyenv" / "versions" / f"{own}.7" / "bin"
    home.mkdir(parents=True)
    (tmp_path / "real" / f"python{own}").rename(home / "python")
    assert environments.find_python(own) == sys._base_executable


@pytest.fixture
def steps(monkeypatch):
    """The commands that would make an environment, recorded."""
    calls = []

    def run(command, what):
        calls.append(command)
        if command[1:3] == ["-m", "venv"]:
            environments.Path(command[3]).mkdir()

    monkeypatch.setattr(environments, "_run", run)
    return calls


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock.txt"
    path.write_text("a==1\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("partial", [False, True])
def test_incomplete_environment_is_made_again(tmp_path, steps, lock, partial):
    half = tmp_path / "venv" / "lib"
    half.mkdir(parents=True)
    for _turn in range(2):
        environments.ensure_environment(tmp_path / "venv", lock, partial=partial)
        assert not half.exists()
    make, install = steps
    assert make[0] == sys._base_executable
    assert "--require-hashes" in install and ("--no-deps" in install) is partial


@pytest.mark.parametrize(("status", "tries"), [(0, 1), (1, 2)])
def test_build_of_torch_falls_back_to_its_own_index(tmp_path, monkeypatch, steps, lock, status, tries):
    first = []

    def run(command, **_options):
        first.append(command)
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(environments.subprocess, "run", run)
    environments.ensure_environment(tmp_path / "venv", lock, build=lock, index="https://here")
    installs = [*first, *steps[2:]]
    assert len(installs) == tries
    assert all({"--no-deps", "--require-hashes", str(lock)} <= set(command) for command in installs)
    assert [command[-1] == "https://here" for command in installs] == [False, True][:tries]


@pytest.fixture
def torch(tmp_path, monkeypatch, capsys):
    """torch(retry) sets up against an index without torch; returns what was printed and how often it tried."""
    for name in ("data.txt", "torch-cpu.txt"):
        (tmp_path / name).write_text("numpy==1\n", encoding="utf-8")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(environments, "find_python", lambda version: sys.executable)
    tries = []

    def make(where, *_given, **_options):
        tries.append(where)
        raise SetupError("Installing torch-cpu.txt failed")

    def ask(retry=False):
        tries.clear()
        environments.ensure_data(tmp_path / ".venv-data", retry)
        return capsys.readouterr().out, len(tries)

    monkeypatch.setattr(environments, "ensure_environment", make)
    return ask


LEFT_OUT = ".venv-data: left out, so the sessions slurm and data cannot run:"
BEFORE = (f"{LEFT_OUT} the pinned build of torch was missing before; make setup RETRY=1 tries again\n", 0)


def test_missing_torch_is_tried_once_and_on_request(torch, tmp_path):
    failed = (f"{LEFT_OUT} Installing torch-cpu.txt failed\n", 1)
    assert [torch(), torch(), torch(retry=True), torch()] == [failed, BEFORE, failed, BEFORE]
    (tmp_path / "data.txt").write_text("numpy==2\n", encoding="utf-8")
    assert torch() == failed


def test_data_environment_needs_its_python(torch, monkeypatch):
    monkeypatch.setattr(environments.sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(environments, "find_python", lambda version: None)
    assert torch() == (f"{LEFT_OUT} there is no Python 3.11; install it and try again\n", 0)


def test_lock_without_one_package(tmp_path, lock):
    lock.write_text(
        "a==1 \\\n    --hash=x\nab==2 \\\n    --hash=y\na==3 ; z \\\n    --hash=w\nb==1\n", encoding="utf-8"
    )
    assert environments.lock_without(lock, "a") == "ab==2 \\\n    --hash=y\nb==1\n"


def test_missing_collection_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "ansible.whl", "w") as archive:
        archive.writestr("ansible_collections/ansible/posix/README.md", "")
        archive.writestr("ansible_collections/other/thing/README.md", "")
    environments.extract(tmp_path / "ansible.whl", ("ansible.posix",), tmp_path)
    assert [path.name for path in (tmp_path / "ansible_collections").iterdir()] == ["ansible"]
    with pytest.raises(SetupError, match=r"no collection amazon\.aws"):
        environments.extract(tmp_path / "ansible.whl", ("amazon.aws",), tmp_path)
