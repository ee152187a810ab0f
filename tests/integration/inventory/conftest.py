# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories of the plugin over the fake endpoint, read through ansible-inventory's own code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml

from tests.rig.ec2 import Endpoint, Fleet, Region, Scenario

ROOT = Path(__file__).resolve().parents[3]
OURS = "mlcluster.aws.ec2_nodes"
THEIRS = "amazon.aws.aws_ec2"


def plain(value: Any) -> Any:
    """Return a value of --list without Ansible's marks of untrusted strings."""
    if isinstance(value, dict):
        if value.keys() == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@dataclass
class Listing:
    """One run. ``stderr`` is standard error without line breaks; hosts and groups come from --list."""

    status: int
    out: str
    stderr: str
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)

    def only(self) -> dict[str, Any]:
        """Return the variables of the only host."""
        assert len(self.hosts) == 1, f"one host was expected, not {sorted(self.hosts)}"
        return next(iter(self.hosts.values()))


def listing(status: int, out: str, err: str) -> Listing:
    """Return a run, with its output parsed if it is that of --list."""
    # Lines are broken at blanks and after hyphens.
    result = Listing(status, out, re.sub(r"\s+", " ", re.sub(r"(?<=\w)-\n", "-", err)))
    if status == 0 and out.lstrip().startswith("{"):
        data = json.loads(out)
        result.hosts = plain(data.pop("_meta")["hostvars"])
        for variables in result.hosts.values():
            # Some versions of ansible-core add this variable to every host.
            variables.pop("ansible_local", None)
        result.groups = {name: set(entry.get("hosts", ())) for name, entry in data.items()}
        result.children = {name: entry.get("children", []) for name, entry in data.items()}
    return result


class Zygote:
    """A process whose forks run the commands."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_INVENTORY_ENABLED": "auto",
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "true",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.inventory.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**self.environment, "PYTHONPATH": str(ROOT)},
        )

    def run(self, argv: list[str], cwd: Path, environment: dict[str, str]) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error of a command."""
        out, err = cwd / "stdout", cwd / "stderr"
        request = {
            "argv": argv,
            "cwd": str(cwd),
            "env": {**self.environment, **environment},
            "out": str(out),
            "err": str(err),
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        return status, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Yield the process, one for the whole session."""
    process = Zygote(tmp_path_factory.mktemp("home"))
    yield process
    process.close()


class Inventory:
    """Reader of inventories: call it with an endpoint and the plugin's options.

    The plugin makes one attempt per call, so that failures are quick; ``options`` may override that.
    """

    def __init__(self, zygote: Zygote, folder: Path) -> None:
        self.zygote, self.folder = zygote, folder
        self.environment = {"AWS_DEFAULT_REGION": "us-east-1", "XDG_CACHE_HOME": str(folder / "xdg")}

    def file(self, options: dict[str, Any], name: str = "rig.ec2_nodes.yml") -> Path:
        """Write an inventory file with these options and return its path."""
        path = self.folder / name
        path.write_text(yaml.safe_dump(options, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return path

    def options(self, endpoint: Optional[Endpoint], **options: Any) -> dict[str, Any]:
        """Return the content of an inventory file of ec2_nodes."""
        url = {"endpoint_url": endpoint.url} if endpoint else {}
        return {"plugin": OURS, **url, "max_attempts": 1, **options}

    def read(self, path: Path, *words: str, **environment: str) -> Listing:
        """Run ansible-inventory on a file, with ``--list`` unless ``words`` have another verb."""
        verb = [] if {"--graph", "--list"} & set(words) else ["--list"]
        argv = ["ansible-inventory", "-i", str(path), *verb, *words]
        return listing(*self.zygote.run(argv, self.folder, {**self.environment, **environment}))

    def command(self, endpoint: Endpoint, path: Path, *words: str, **environment: str) -> Listing:
        """Run the installed ansible-inventory as a user does, for settings that it reads at its start."""
        program = str(Path(sys.executable).parent / "ansible-inventory")
        values = {**self.zygote.environment, **self.environment, **endpoint.environment(), **environment}
        argv = [program, "-i", str(path), *words]
        done = subprocess.run(argv, env=values, cwd=self.folder, capture_output=True, text=True, check=False)
        return listing(done.returncode, done.stdout, done.stderr)

    def __call__(self, endpoint: Endpoint, *words: str, **options: Any) -> Listing:
        path = self.file(self.options(endpoint, **options))
        return self.read(path, *words, **endpoint.environment())


@pytest.fixture
def inventory(zygote: Zygote, tmp_path: Path) -> Inventory:
    """Return a reader of inventories with its own folder."""
    return Inventory(zygote, tmp_path)


@pytest.fixture
def play() -> Iterator[Any]:
    """Return a function that starts an endpoint: play(*fleets in us-east-1) or play(*regions)."""
    running: list[Endpoint] = []

    def start(*parts: Any, **scenario: Any) -> Endpoint:
        if all(isinstance(part, Fleet) for part in parts):
            parts = (Region("us-east-1", parts),)
        endpoint = Endpoint(Scenario(regions=parts, **scenario))
        running.append(endpoint.__enter__())
        return endpoint

    yield start
    for endpoint in running:
        endpoint.__exit__()


CLUSTER = (
    Fleet(cluster="train", role="HeadNode", type="c6i.4xlarge", public=True),
    Fleet(cluster="train", role="LoginNode", type="c6i.4xlarge"),
    Fleet(count=3, cluster="train", queue="gpu", compute_resource="p5", placement_group="train-gpu"),
    Fleet(count=2, cluster="train", queue="trn-east", compute_resource="trn1", type="trn1.32xlarge", efa=6),
)


@pytest.fixture
def cluster() -> tuple[Fleet, ...]:
    """Return the fleets of a ParallelCluster: head, login, three p5, two trn1."""
    return CLUSTER
