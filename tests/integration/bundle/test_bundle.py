# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bundles of this checkout: reproducible, and runnable on a node that has only Python."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive

from tests.integration.bundle.conftest import CACHE, OWN, ROOT, interpreter

MIB = 1 << 20
# Limits of an archive. It has 8.3 MiB, 27 MiB unpacked: the modules by which roles plan on the node are in it compiled,
# too. A change that needs more gives the reason here.
SIZE, UNPACKED = 9 * MIB, 32 * MIB
ANSIBLE = """
import runpy, sys
runpy.run_path(sys.argv[1])["isolate"]()
from ansible.cli.playbook import main
main(["ansible-playbook", *sys.argv[2:]])
"""
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: A module of this collection writes
      mlcluster.aws.text_files:
        files: [{path: "{{ folder }}/written", text: "by a module\\n"}]
    - name: A lookup of it
      ansible.builtin.assert:
        that:
          - lookup('mlcluster.aws.artifact', 'pyxis').name == 'pyxis'
    - name: A module of another collection, on a table of the test's own
      ansible.posix.mount:
        path: /nowhere/at/all
        state: absent_from_fstab
        fstab: "{{ folder }}/fstab"
      check_mode: true
"""


def start(bundle, python, *options, **environment):
    """Run bin/run-node as the hook does, with an environment of PATH and these variables only."""
    command = [python, "-I", str(bundle / "bin" / "run-node"), *options]
    values = {"PATH": os.defpath, **environment}
    return subprocess.run(command, env=values, cwd="/", capture_output=True, text=True, check=False)


def loads(bundles, target, core):
    """Check ``bin/run-node --version`` of a bundle on the Python that the bundle is for."""
    version = target.rpartition("-py")[2]
    done = start(bundles(target), interpreter(version), "--version")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert f"ansible-core {core}." in done.stdout
    # The compiled parser has to fit this Python; without it, reading YAML is ten times slower.
    assert f"PyYAML with libyaml, on Python {version}" in done.stdout


def test_bundle_loads_on_python_of_suite(bundles):
    loads(bundles, f"debian-py{OWN}", {"3.11": "2.19"}.get(OWN, "2.21"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "core"),
    [
        ("debian-py3.10", "2.17"),
        ("amazon-py3.11", "2.19"),
        ("redhat-py3.12", "2.21"),
        ("debian-py3.13", "2.21"),
        ("amazon-py3.14", "2.21"),
    ],
)
def test_bundle_loads_on_every_installed_python(bundles, target, core):
    loads(bundles, target, core)


def test_play_runs_with_collections_of_bundle_only(bundles, tmp_path):
    bundle = bundles(f"debian-py{OWN}")
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "fstab").write_text("")
    collections = bundle / "collections"
    command = [sys.executable, "-I", "-c", ANSIBLE, str(bundle / "bin" / "run-node"), "-i", "localhost,"]
    values = {
        "PATH": os.defpath,
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml"), "-e", f"folder={tmp_path}"],
        env=values,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "written").read_text() == "by a module\n"


def test_bundle_is_same_for_other_folder_clock_and_umask(bundles, tmp_path):
    target = f"debian-py{OWN}"
    bundles(target)
    other = shutil.copytree(bundles.collection, tmp_path / "somewhere" / "else")
    for folder, _folders, names in os.walk(other):
        for name in names:
            os.utime(os.path.join(folder, name), (1, 1))
    options = {
        "collection": str(other),
        "target": target,
        "dest": str(tmp_path / "dist"),
        "cache": str(CACHE),
        "collections_paths": [str(ROOT / ".collections")],
        "source_date_epoch": 1_700_000_000,
    }
    arguments = tmp_path / "arguments.json"
    arguments.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": options}))
    module = "ansible_collections.mlcluster.aws.plugins.modules.node_bundle"
    values = {
        **os.environ,
        "PYTHONPATH": str(ROOT / ".collections"),
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Jakarta",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        ["sh", "-c", 'umask 077; exec "$@"', "sh", sys.executable, "-m", module, str(arguments)],
        env=values,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["sha256"] == bundles.built[target].sha256


def test_bundle_does_not_contain_build_paths(bundles):
    bundle = bundles(f"debian-py{OWN}")
    places = [str(bundles.collection).encode(), str(ROOT).encode(), str(CACHE).encode()]
    for path in bundle.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            data = path.read_bytes()
            assert not [place for place in places if place in data], path


def test_bundle_size_is_limited(bundles):
    bundles(f"debian-py{OWN}")
    built = bundles.built[f"debian-py{OWN}"]
    assert len(built.data) < SIZE
    assert built.unpacked < UNPACKED


def test_manifest_has_checksum_of_every_collection(bundles):
    bundle = bundles(f"debian-py{OWN}")
    manifest = json.loads((bundle / "MANIFEST.json").read_text())
    sums = {entry["name"]: entry["sha256"] for entry in manifest["components"] if entry["kind"] == "collection"}
    for name, expected in sums.items():
        root = bundle / "collections" / "ansible_collections" / name.replace(".", "/")
        paths = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        lines = sorted(
            (path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths
        )
        text = "".join(f"{digest}  {place}\n" for place, digest in lines)
        assert archive.sha256(text.encode()) == expected, name
