# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive that users install: built, installed into an empty folder, and used from there only."""

from __future__ import annotations

import json
import os
import posixpath
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.docs_check import docs_markdown

CHECKOUT = Path(__file__).parents[3]
BIN = CHECKOUT / ".venv/bin"
PLAYBOOKS = sorted(path.stem for path in (CHECKOUT / "playbooks").glob("*.yml"))
# Paths that only contributors need, or that no archive may contain.
UNWANTED = (
    "molecule/",
    "inventories/demo",
    "requirements/build",
    "requirements/lint",
    "requirements/matrix",
    "requirements/nox",
    "noxfile.py",
    ".",
    "tests/unit",
    "tests/rig",
    "tests/integration",
    "tests/build",
    "tests/docs_check",
    "tests/data_tables",
    "docs/_build",
    "ansible-navigator.yml",
    "execution-environment.yml",
    "dist/",
)
MAX_BYTES = 1_650_000


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    target = tmp_path_factory.mktemp("dist")
    command = [BIN / "ansible-galaxy", "collection", "build", "--output-path", target]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (built,) = target.glob("mlcluster-aws-*.tar.gz")
    return built


@pytest.fixture(scope="module")
def installed(archive, tmp_path_factory):
    """Return ``installed(program, *arguments)``: it runs an Ansible program with the installed collection only."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }

    def run(program, *arguments):
        return subprocess.run(
            [BIN / program, *arguments], cwd=home, env=environment, capture_output=True, text=True, check=False
        )

    done = run("ansible-galaxy", "collection", "install", "--no-deps", "--offline", str(archive))
    assert done.returncode == 0, done.stdout + done.stderr
    # Its dependencies come from the checkout's setup, as there is no package index here.
    root = home / "collections" / "ansible_collections"
    for namespace in (CHECKOUT / ".collections" / "ansible_collections").iterdir():
        if namespace.is_dir() and namespace.name != "mlcluster":
            (root / namespace.name).symlink_to(namespace)
    return run


def test_archive_has_users_files_only(archive):
    assert archive.stat().st_size < MAX_BYTES
    with tarfile.open(archive) as opened:
        names = opened.getnames()
    assert not [name for name in names if name.startswith(UNWANTED)]
    assert [name for name in names if name.startswith("tests/")] == ["tests/config.yml"]
    for needed in (
        "roles/nvme_raid0/README.md",
        "playbooks/site.yml",
        "hooks/on_node_configured.sh",
        "docs/report.md",
        "docs/pictures/run.svg",
        "inventories/static/hosts.yml",
        "requirements/collections.txt",
        "requirements/node-py310.txt",
    ):
        assert needed in names, f"{needed} is not in the archive"


def test_links_of_pages_stay_inside_archive(archive):
    dead, pages = [], 0
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
        for name in sorted(name for name in names if name.endswith(".md")):
            pages += 1
            text = opened.extractfile(name).read().decode()
            for target in {link.target.partition("#")[0] for link in docs_markdown.read(text).links}:
                path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                if (
                    target
                    and "://" not in target
                    and not any(one == path or one.startswith(f"{path}/") for one in names)
                ):
                    dead.append(f"{name}: {target}")
    assert pages > 20 and dead == []


@pytest.mark.parametrize("kind", ["module", "lookup", "filter", "inventory"])
def test_every_installed_plugin_is_documented(installed, kind):
    listed = json.loads(installed("ansible-doc", "--type", kind, "--list", "--json", "mlcluster.aws").stdout)
    assert listed
    shown = installed("ansible-doc", "--type", kind, "--json", *listed)
    assert shown.returncode == 0, shown.stderr
    assert set(json.loads(shown.stdout)) == set(listed)


def test_every_installed_role_has_argument_specs(installed):
    roles = json.loads(installed("ansible-doc", "--type", "role", "--list", "--json", "mlcluster.aws").stdout)
    there = {f"mlcluster.aws.{path.name}" for path in (CHECKOUT / "roles").iterdir() if path.is_dir()}
    assert set(roles) == there


def test_every_playbook_is_found_by_its_name(installed):
    playbooks = [f"mlcluster.aws.{name}" for name in PLAYBOOKS]
    done = installed("ansible-playbook", "--syntax-check", "-i", "localhost,", *playbooks)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in playbooks:
        assert name.rpartition(".")[2] in done.stdout
