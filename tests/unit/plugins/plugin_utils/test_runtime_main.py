# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start of the command, and the compiled copy that it keeps of the installed archive."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime, _runtime_main

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root keeps a compiled copy")


@pytest.fixture
def everybodys():
    """Return a directory that all users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="mlcluster-runtime-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def archive(everybodys, tmp_path, monkeypatch):
    """Return the archive, installed in a directory of the test."""
    place = everybodys / "lib" / "mlcluster.pyz"
    place.parent.mkdir(mode=0o755)
    changed = tmp_path / "main.py"
    text, count = re.subn(
        r'(?m)^INSTALLED = ".*"$', f"INSTALLED = {str(place)!r}", _runtime.MAIN.read_text(encoding="utf-8")
    )
    assert count == 1
    changed.write_text(text, encoding="utf-8")
    monkeypatch.setattr(_runtime, "MAIN", changed)
    place.write_bytes(_runtime.archive(_runtime.collection_root(), "1.2.3"))
    place.chmod(0o755)
    return place


def run(archive, *words, python=sys.executable, version="1.2.3", **options):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, *words, archive, "version"], capture_output=True, text=True, check=False, env=environment, **options
    )
    assert (done.returncode, done.stdout.startswith(f"mlcluster {version} ")) == (0, True), done.stderr
    return done


def copies(archive):
    return sorted((archive.parent / "__pycache__").glob("*"))


def imported_from(archive):
    """Return the import path of a start, as the interpreter reports it."""
    return run(archive, "-v").stderr


def test_first_start_of_root_keeps_copy_for_next_start(archive):
    run(archive)
    (copy,) = copies(archive)
    assert (copy.stat().st_mode & 0o7777, copy.parent.stat().st_mode & 0o022) == (0o644, 0)
    names = set(zipfile.ZipFile(copy).namelist())
    assert {"mlcluster/_node/cli/main.py", "mlcluster/_node/cli/main.pyc"} <= names
    assert all(f"{name}c" in names for name in names if name.endswith(".py"))
    before = copy.stat().st_mtime_ns
    assert str(copy) in imported_from(archive)
    assert [found.stat().st_mtime_ns for found in copies(archive)] == [before]


def test_replaced_archive_does_not_run_old_copy(archive):
    run(archive)
    (old,) = copies(archive)
    fresh = archive.with_name("fresh")
    fresh.write_bytes(_runtime.archive(_runtime.collection_root(), "9.9.9"))
    os.replace(fresh, archive)
    run(archive, version="9.9.9")
    (new,) = copies(archive)
    assert new != old


def test_other_format_of_compiled_modules_means_sources(archive):
    """A copy with another Python's format under this one's name: its sources are used."""
    run(archive)
    (copy,) = copies(archive)
    members = [(info, zipfile.ZipFile(copy).read(info)) for info in zipfile.ZipFile(copy).infolist()]
    with zipfile.ZipFile(copy, "w") as target:
        for info, data in members:
            target.writestr(info.filename, b"\0\0\r\n" + data[4:] if info.filename.endswith(".pyc") else data)
    run(archive)


@pytest.mark.parametrize("python", [f"python3.{minor}" for minor in range(9, 15)])
def test_each_python_has_own_copy(archive, python):
    found = shutil.which(python)
    if not found or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} is not installed")
    run(archive)
    run(archive, python=found)
    assert len(copies(archive)) == (1 if sys.version_info[:2] == tuple(map(int, python[6:].split("."))) else 2)


@pytest.mark.parametrize("spoil", ["owner", "mode", "folder", "link", "rubbish", "hollow"])
def test_copy_changed_by_others_is_not_used(archive, spoil, tmp_path):
    run(archive)
    (copy,) = copies(archive)
    evil = tmp_path / "evil"
    with zipfile.ZipFile(evil, "w") as target:
        target.writestr("mlcluster/__init__.py", "raise SystemExit(77)")
    if spoil == "rubbish":
        copy.write_bytes(b"no archive")
    elif spoil == "hollow":
        with zipfile.ZipFile(copy, "w") as target:
            target.writestr("mlcluster/__init__.py", "raise ValueError")
    elif spoil == "link":
        copy.unlink()
        copy.symlink_to(evil)
    else:
        shutil.copyfile(evil, copy)
        {
            "owner": lambda: os.chown(copy, 12345, 0),
            "mode": lambda: copy.chmod(0o664),
            "folder": lambda: copy.parent.chmod(0o777),
        }[spoil]()
    run(archive)


@pytest.mark.parametrize("why", ["user", "elsewhere", "archive", "unwritable", "no bytecode"])
def test_no_copy_is_made(archive, why):
    options, words = {}, []
    if why == "user":
        options, words = {"user": 65534, "group": 65534, "extra_groups": []}, []
        if subprocess.run(["test", "-x", sys.executable], check=False, **options).returncode:
            options["python"] = "/usr/bin/python3"
    elif why == "elsewhere":
        archive = archive.rename(archive.with_name("other.pyz"))
    elif why == "archive":
        archive.chmod(0o775)
    elif why == "unwritable":
        (archive.parent / "__pycache__").write_text("a file")
    else:
        words = ["-B"]
    run(archive, *words, **options)
    assert not list(archive.parent.glob("__pycache__/*"))


def test_full_disk_leaves_no_half_copy(archive):
    code = "import resource, sys, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); "
    code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); sys.argv = sys.argv[1:]; "
    code += "sys.path.insert(0, sys.argv[0]); runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, archive, "version"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("mlcluster 1.2.3 "), done.stderr
    assert copies(archive) == []


def test_copy_is_on_disk_before_it_has_its_name(tmp_path, synced, monkeypatch):
    """After a power failure, an empty copy of this name would make every start read the sources."""
    archive, copy = tmp_path / "mlcluster.pyz", tmp_path / "cache" / "mlcluster-new.pyz"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("mlcluster/__init__.py", "")
    rename, before = os.rename, []

    def renamed(old, new):
        before.append((old, new, list(synced)))
        rename(old, new)

    monkeypatch.setattr(os, "rename", renamed)
    _runtime_main.compile_archive(str(archive), str(copy.parent), str(copy), "mlcluster-new")
    fresh = f"{copy}.{os.getpid()}"
    assert before == [(fresh, str(copy), [fresh])]
    assert zipfile.ZipFile(copy).namelist() == ["mlcluster/__init__.py", "mlcluster/__init__.pyc"]


def test_planted_name_of_copy_is_not_followed(tmp_path):
    archive, copy = tmp_path / "mlcluster.pyz", tmp_path / "mlcluster-new.pyz"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr("mlcluster/__init__.py", "")
    (tmp_path / "victim").write_text("kept")
    Path(f"{copy}.{os.getpid()}").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        _runtime_main.compile_archive(str(archive), str(tmp_path), str(copy), "mlcluster-new")
    assert (tmp_path / "victim").read_text() == "kept" and not copy.exists()
