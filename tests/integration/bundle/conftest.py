# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real bundles of this checkout, built once a session, and an S3 of the test's own."""

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
# Packages that were fetched once are kept, as the environments of the build are.
CACHE = ROOT / ".build" / "bundle"
PARTS = ("LICENSE", "README.md", "galaxy.yml", "meta", "plugins", "roles", "playbooks", "hooks", "requirements")
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


def copy_of_checkout(target: Path) -> Path:
    """The parts of this checkout that bundles are made of: they stay as they are while tests run."""
    target.mkdir(parents=True)
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / name)
    return target


def interpreter(version: str) -> str:
    """A Python of this version; skips the test where there is none."""
    if version == OWN:
        return sys.executable
    found = environments.find_python(version)
    if found is None:
        pytest.skip(f"no Python {version} is on this machine")
    return found


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout."""
    return copy_of_checkout(tmp_path_factory.mktemp("collection") / "aws")


class Bundles:
    """bundles(target) is the unpacked bundle, ``built`` what the builder said of it."""

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
    """Builds and unpacks on request."""
    return Bundles(collection, tmp_path_factory.mktemp("bundles"))


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Aws]:
    """An account with nothing in it."""
    account = aws.Aws(tmp_path_factory.mktemp("aws"))
    account.reset()
    yield account
    account.stop()


@pytest.fixture(scope="module")
def client(s3: aws.Aws) -> Any:
    """A client of its S3."""
    return s3.client("s3", "us-east-1")
