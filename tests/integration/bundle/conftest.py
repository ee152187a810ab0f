# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: bundles of this checkout, built once a session, and a local S3."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive, build

from tests.build import environments
from tests.rig import aws

ROOT = Path(__file__).resolve().parents[3]
# Downloaded packages stay in the checkout, as the environments of the build do.
CACHE = ROOT / ".build" / "bundle"
PARTS = ("LICENSE", "README.md", "galaxy.yml", "meta", "plugins", "roles", "playbooks", "hooks", "requirements")
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


def copy_of_checkout(target: Path) -> Path:
    """Copy the parts of this checkout that bundles are made of, so that they do not change while tests run."""
    target.mkdir(parents=True)
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / name)
    return target


def interpreter(version: str) -> str:
    """Return the path of a Python of this version; skip the test if there is none."""
    if version == OWN:
        return sys.executable
    found = environments.find_python(version)
    if found is None:
        pytest.skip(f"no Python {version} is on this machine")
    return found


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a copy of this checkout."""
    return copy_of_checkout(tmp_path_factory.mktemp("collection") / "aws")


class Bundles:
    """``bundles(target)`` returns the folder of the unpacked bundle; ``built`` has the builder's results by target."""

    def __init__(self, collection: Path, folder: Path) -> None:
        self.collection, self.folder = collection, folder
        self.built: dict[str, build.Built] = {}

    def request(self) -> build.Request:
        return build.Request(
            collection=self.collection,
            requirements=self.collection / "requirements",
            others=[ROOT / ".collections"],
            others_lock="collections.txt",
            artifacts=[],
            cache=CACHE,
            pip=[sys.executable, "-m", "pip"],
            commit="",
            epoch=1_700_000_000,
        )

    def __call__(self, target: str) -> Path:
        folder = self.folder / target
        if target not in self.built:
            built = build.build(self.request(), archive.parse_target(target))
            build.write(built, folder, check=False)
            subprocess.run(["tar", "-xzf", built.file], cwd=folder, check=True)
            self.built[target] = built
        return folder / archive.TOP


@pytest.fixture(scope="session")
def bundles(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """Return an object that builds and unpacks bundles on request."""
    return Bundles(collection, tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Aws]:
    """Yield an empty account."""
    account = aws.Aws(tmp_path_factory.mktemp("aws"))
    account.reset()
    yield account
    account.stop()


@pytest.fixture(scope="module")
def client(s3: aws.Aws) -> Any:
    """Return an S3 client of that account."""
    return s3.client("s3", "us-east-1")
