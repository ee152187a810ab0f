# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
import subprocess
import zipfile
import zlib
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime

PYTHONS = [f"python3.{minor}" for minor in range(9, 15)]


def copy_of(destination, version):
    """Create a collection with the real node code and the manifest of an installed one."""
    source = _runtime.collection_root() / "plugins" / "module_utils"
    shutil.copytree(source, destination / "plugins" / "module_utils", ignore=shutil.ignore_patterns("__pycache__"))
    (destination / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": version}}))
    return destination


@pytest.fixture
def checkout(tmp_path):
    root = copy_of(tmp_path / "checkout", "0")
    (root / "MANIFEST.json").unlink()
    (root / "galaxy.yml").write_text("namespace: mlcluster\nname: aws\nversion: 1.2.3\n")
    return root


def test_build_does_not_depend_on_times_and_modes(checkout, tmp_path):
    first = _runtime.build(checkout, tmp_path / "one")
    other = tmp_path / "other"
    shutil.copytree(checkout, other)
    for path in other.rglob("*.py"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    (other / "plugins" / "module_utils" / "_node" / "__pycache__").mkdir()
    (other / "plugins" / "module_utils" / "_node" / "__pycache__" / "cli.cpython-311.pyc").write_bytes(b"x")
    second = _runtime.build(other, tmp_path / "two")
    assert first["sha256"] == second["sha256"]
    assert Path(first["path"]).read_bytes() == Path(second["path"]).read_bytes()
    assert hashlib.sha256(Path(first["path"]).read_bytes()).hexdigest() == first["sha256"]


def test_changed_file_gives_another_name(checkout, tmp_path):
    first = _runtime.build(checkout, tmp_path / "cache")
    with (checkout / "plugins" / "module_utils" / "_node" / "cli.py").open("a") as handle:
        handle.write("# changed\n")
    second = _runtime.build(checkout, tmp_path / "cache")
    assert first["path"] != second["path"]
    assert Path(first["path"]).is_file()


def test_installed_collection_gives_manifests_version(tmp_path):
    built = _runtime.build(copy_of(tmp_path / "installed", "4.5.6"), tmp_path / "cache")
    assert built["version"] == "4.5.6"
    done = subprocess.run([built["path"], "version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mlcluster 4.5.6 (Python 3.")


@pytest.mark.parametrize("python", PYTHONS)
def test_runtime_runs_under_every_python_found(checkout, tmp_path, python):
    found = shutil.which(python)
    # A version manager's shim may be on the PATH without its Python.
    if not found or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} is not installed")
    built = _runtime.build(checkout, tmp_path / "cache")
    done = subprocess.run([found, "-I", built["path"], "version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mlcluster 1.2.3 ")
    usage = subprocess.run([found, "-I", built["path"], "nosuch"], capture_output=True, text=True, check=False)
    assert usage.returncode == 3


def test_runtime_contains_only_node_code(checkout, tmp_path):
    with zipfile.ZipFile(_runtime.build(checkout, tmp_path / "cache")["path"]) as built:
        names = built.namelist()
        assert names == sorted(names)
        assert {"__main__.py", "mlcluster/__init__.py", "mlcluster/_node/cli/main.py"} <= set(names)
        outside = [n for n in names if not n.startswith(("mlcluster/_node/", "mlcluster/_data/"))]
        assert outside == ["__main__.py", "mlcluster/__init__.py"]
        assert {info.compress_type for info in built.infolist()} == {zipfile.ZIP_STORED}


def test_damaged_build_is_replaced(checkout, tmp_path):
    built = _runtime.build(checkout, tmp_path / "cache")
    Path(built["path"]).write_bytes(b"cut short")
    assert _runtime.build(checkout, tmp_path / "cache") == built
    assert hashlib.sha256(Path(built["path"]).read_bytes()).hexdigest() == built["sha256"]


def test_cache_is_private_and_old_builds_leave_it(checkout, tmp_path):
    cache = tmp_path / "cache"
    first = Path(_runtime.build(checkout, cache)["path"])
    os.utime(first, (1, 1))
    (checkout / "galaxy.yml").write_text("version: 1.2.4\n")
    second = Path(_runtime.build(checkout, cache)["path"])
    assert [entry.name for entry in cache.iterdir()] == [second.name]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(second.stat().st_mode) == 0o700


def test_build_in_use_is_kept_fresh(checkout, tmp_path):
    built = Path(_runtime.build(checkout, tmp_path / "cache")["path"])
    os.utime(built, (1, 1))
    _runtime.build(checkout, tmp_path / "cache")
    assert built.stat().st_mtime > 1


@pytest.mark.parametrize("text", ["version: [", "name: aws\n", "- 1\n"])
def test_no_version_is_reported_with_paths(checkout, text):
    (checkout / "galaxy.yml").write_text(text)
    with pytest.raises(_runtime.RuntimeBuildError, match="no version of the collection"):
        _runtime.build(checkout)


def test_collection_without_code_is_rejected(tmp_path):
    (tmp_path / "galaxy.yml").write_text("version: 1.0.0\n")
    with pytest.raises(_runtime.RuntimeBuildError, match="_node holds no Python files"):
        _runtime.build(tmp_path, tmp_path / "cache")


def test_unwritable_cache_is_reported(checkout, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(_runtime.RuntimeBuildError, match="XDG_CACHE_HOME"):
        _runtime.build(checkout, tmp_path / "file" / "cache")


@pytest.mark.parametrize(
    "value, below", [("/x/cache", "/x/cache"), ("relative", "/home/me/.cache"), ("", "/home/me/.cache")]
)
def test_cache_follows_xdg(monkeypatch, value, below):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert str(_runtime.cache_directory()) == f"{below}/mlcluster/runtime"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    return Path(_runtime.build(cache=tmp_path_factory.mktemp("cache"))["path"])


@pytest.mark.parametrize("module", [b"Standard streams that", b"Run checks and looks in parallel"])
def test_damaged_runtime_ends_without_verdict(runtime, tmp_path, module):
    """Python itself would end with 1, which means a broken node; a crash leaves zeros in a new file."""
    data = bytearray(runtime.read_bytes())
    start = data.index(module)
    data[start : start + 512] = bytes(512)
    damaged = tmp_path / "mlcluster.pyz"
    damaged.write_bytes(data)
    damaged.chmod(0o755)
    done = subprocess.run([damaged, "health"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mlcluster: {damaged} is damaged or was replaced just now (")
    assert done.stderr.endswith("): run the role that wrote it again\n")
    assert subprocess.run(["sh", "-c", f"{damaged} health 2>&-"], check=False).returncode == 2


def shell(runtime, words, where):
    """Return exit code and standard error of a verb with redirected streams."""
    done = subprocess.run(["sh", "-c", f"{runtime} {words} {where}"], stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("where", [">/dev/full", ">&-", "<&- >&- 2>&-", ">/dev/full 2>&1"])
def test_unwritable_stderr_does_not_change_failure(runtime, where):
    assert shell(runtime, "registry-credential store", where)[0] == 1


def test_unprintable_success_is_failure(runtime):
    code, error = shell(runtime, "registry-credential list", ">/dev/full")
    assert code == 2
    assert "its output could not be written (No space left on device): send it to a place with room" in error


@pytest.mark.parametrize("where", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_not_replaced_by_pipes(runtime, tmp_path, where):
    base = f"{tmp_path}/none/jobs"
    assert shell(runtime, f"scratch sweep --base {base}", where)[0] == 0


def test_reader_that_leaves_is_no_failure(runtime, tmp_path):
    for number in range(3000):
        (tmp_path / f"{number:0200}").mkdir()
    words = f"{runtime} checkpoints {tmp_path} 2>{tmp_path}/errors; echo $? >{tmp_path}/code"
    subprocess.run(["bash", "-c", f"({words}) | head -n 1"], stdout=subprocess.PIPE, check=True)
    assert (tmp_path / "code").read_text() == "0\n"
    assert (tmp_path / "errors").read_text() == ""


def test_undecodable_path_is_printed_as_bytes(runtime, tmp_path):
    directory = os.fsencode(tmp_path) + b"/caf\xe9"
    os.makedirs(directory + b"/step-7")
    (Path(os.fsdecode(directory)) / "step-7" / "complete").touch()
    # The error handler of Python in most UTF-8 locales.
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = [runtime, "checkpoints", "--latest", directory]
    done = subprocess.run(command, env=strict, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, directory + b"/step-7\n", b"")


def test_runtime_is_built_once_in_run(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(_runtime, "archive", lambda root, version: built.append(root) or b"archive" * len(built))
    first = hashlib.sha256(b"archive").hexdigest()
    assert _runtime.run_sum(tmp_path) == _runtime.run_sum(tmp_path) == first
    packed = _runtime.run_archive(tmp_path)
    assert zlib.decompress(base64.b64decode(packed)) == b"archive"
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("mlcluster-runtime.*")} == {0o600}
    assert len(built) == 1
    # Without a place to keep it, each call builds.
    assert zlib.decompress(base64.b64decode(_runtime.run_archive(tmp_path / "missing"))) == b"archive" * 2
    assert _runtime.run_sum(tmp_path / "missing") == hashlib.sha256(b"archive" * 3).hexdigest()


def test_run_needs_no_cache_and_has_the_same_build(tmp_path, monkeypatch):
    """A container of a controller may have no home directory, or a read-only one."""
    built = _runtime.build(cache=tmp_path / "cache")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file")
    data = zlib.decompress(base64.b64decode(_runtime.run_archive(tmp_path)))
    assert data == Path(built["path"]).read_bytes() and _runtime.run_sum(tmp_path) == built["sha256"]


def test_user_without_home_is_named(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(_runtime.RuntimeBuildError, match="no home directory: set XDG_CACHE_HOME"):
        _runtime.build()
