# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest

from tests.build import environments
from tests.build.packages import SetupError


def test_old_python_is_refused():
    environments.require_python((3, 11))
    with pytest.raises(SetupError, match=r"3\.10: call make PYTHON="):
        environments.require_python((3, 10))


def test_key_follows_the_lock_and_the_place(tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text("a==1\n", encoding="utf-8")
    first = environments.environment_key([lock], tmp_path / "venv", "python3")
    assert environments.environment_key([lock], tmp_path / "venv", "python3") == first
    assert environments.environment_key([lock], tmp_path / "elsewhere", "python3") != first
    lock.write_text("a==2\n", encoding="utf-8")
    assert environments.environment_key([lock], tmp_path / "venv", "python3") != first


def test_key_follows_the_interpreter(tmp_path):
    one, other = (environments.environment_key([], tmp_path, python) for python in ("python3.11", "python3.12"))
    assert one != other


def test_an_interpreter_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    for name, text in (("shims", "#!/bin/sh\nexit 127\n"), ("real", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python3.11").write_text(text, encoding="utf-8")
        (tmp_path / name / "python3.11").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'real'}")
    assert environments.find_python("python3.11") == str(tmp_path / "real" / "python3.11")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    assert environments.find_python("python3.11") is None


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


def test_a_finished_environment_is_left_alone(tmp_path, steps):
    lock = tmp_path / "lock.txt"
    lock.write_text("a==1\n", encoding="utf-8")
    for _turn in range(2):
        environments.ensure_environment(tmp_path / "venv", lock, lambda text: None)
    assert len(steps) == 2
    assert steps[0][0] == sys.executable
    assert "--require-hashes" in steps[1]


def test_what_an_interruption_left_is_made_again(tmp_path, steps):
    lock = tmp_path / "lock.txt"
    lock.write_text("a==1\n", encoding="utf-8")
    half = tmp_path / "venv" / "lib"
    half.mkdir(parents=True)
    environments.ensure_environment(tmp_path / "venv", lock, lambda text: None)
    assert not half.exists()
    assert len(steps) == 2


@pytest.mark.parametrize(("status", "tries"), [(0, 1), (1, 2)])
def test_a_build_comes_from_its_own_index_where_pip_finds_none(tmp_path, monkeypatch, steps, status, tries):
    for name in ("lock.txt", "build.txt"):
        (tmp_path / name).write_text("a==1\n", encoding="utf-8")
    first = []

    def run(command, **_options):
        first.append(command)
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(environments.subprocess, "run", run)
    environments.ensure_environment(
        tmp_path / "venv", tmp_path / "lock.txt", lambda text: None, build=tmp_path / "build.txt", index="https://here"
    )
    installs = [*first, *steps[2:]]
    assert len(installs) == tries
    assert all({"--no-deps", "--require-hashes", str(tmp_path / "build.txt")} <= set(command) for command in installs)
    assert [command[-1] == "https://here" for command in installs] == [False, True][:tries]


def bundle(path, names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            folder = f"ansible_collections/{name.replace('.', '/')}"
            manifest = {"collection_info": {"version": "1.2.3"}}
            archive.writestr(f"{folder}/MANIFEST.json", json.dumps(manifest))
            archive.writestr(f"{folder}/README.md", name)
    return path


def test_extract_takes_only_what_is_wanted(tmp_path):
    wheel = bundle(tmp_path / "bundle.whl", ["ansible.posix", "other.thing"])
    assert environments.extract(wheel, ("ansible.posix",), tmp_path / "out") == ["ansible.posix 1.2.3"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["ansible_collections"]
    assert [path.name for path in (tmp_path / "out" / "ansible_collections").iterdir()] == ["ansible"]


def test_extract_replaces_an_older_copy(tmp_path):
    wheel = bundle(tmp_path / "bundle.whl", ["ansible.posix"])
    stale = tmp_path / "out" / "ansible_collections" / "ansible" / "posix" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    environments.extract(wheel, ("ansible.posix",), tmp_path / "out")
    assert not stale.exists()


def test_extract_names_a_collection_that_is_not_there(tmp_path):
    wheel = bundle(tmp_path / "bundle.whl", ["ansible.posix"])
    (tmp_path / "out").mkdir()
    with pytest.raises(SetupError, match=r"no collection amazon\.aws"):
        environments.extract(wheel, ("amazon.aws",), tmp_path / "out")


def test_link_is_relative_and_mended(tmp_path):
    checkout = tmp_path / "checkout"
    root = checkout / ".collections"
    link = root / "ansible_collections" / "mlcluster" / "aws"
    link.parent.mkdir(parents=True)
    link.symlink_to("/nowhere")
    environments.ensure_link(root, checkout)
    assert link.resolve() == checkout.resolve()
    assert not link.readlink().is_absolute()


@pytest.mark.parametrize("partial", [False, True])
def test_only_a_partial_lock_leaves_dependencies_out(tmp_path, steps, partial):
    lock = tmp_path / "lock.txt"
    lock.write_text("a==1\n", encoding="utf-8")
    environments.ensure_environment(tmp_path / "venv", lock, lambda text: None, partial=partial)
    assert ("--no-deps" in steps[1]) is partial
    assert "--require-hashes" in steps[1]
