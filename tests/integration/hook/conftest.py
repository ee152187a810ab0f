# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: a node that is a directory, a small bundle, a local S3 with faults, and the hook as a process."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.integration.hook.faults import Proxy
from tests.rig.slurm.processes import wait_for

ROOT = Path(__file__).resolve().parents[3]
HOOK = ROOT / "hooks" / "on_node_configured.sh"
MARKER_ROLES = Path(__file__).resolve().parent / "roles"
QUICK_SITE = Path(__file__).resolve().parent / "quick_site"
BUCKET = "mlcluster-test"
# A variable that ParallelCluster sets for its scripts. With it, wrong options are a failure of the node.
BOOT = {"cfn_node_type": "ComputeFleet"}
# The programs that the hook needs on a node; tests remove single ones.
PROGRAMS = (
    "bash base64 cat chmod comm cp curl date env find flock gzip head id mkdir mktemp mv openssl rm rmdir sed sh "
    "sha256sum sleep sort sync tail tar tee timeout touch tr uname"
).split()
ENTRY = (ROOT / "hooks" / "bundle_entry.py").read_text(encoding="utf-8")


def build_bundle(target: Path, quick: bool = True, version: str = "1.2.3", entry: str = ENTRY) -> str:
    """Write a bundle with the hook's programs, the real playbook, and marker roles; return its sha256.

    ``quick``: without Ansible, for tests of steps before it; otherwise with the packages of this Python.
    """
    manifest = {
        "schema": "mlcluster.bundle/1",
        "os_family": "debian",
        "python": f"3.{sys.version_info[1]}",
        "components": [{"name": "mlcluster.aws", "version": version}],
        "version": version,
    }
    texts = {
        "MANIFEST.json": json.dumps(manifest, indent=2),
        "bin/run-node": entry,
    }
    own = "collections/ansible_collections/mlcluster/aws"
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"mlcluster-bundle/{name}")
            member.size, member.mode = len(text.encode()), 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
        for path in sorted((ROOT / "hooks").rglob("*.py")):
            archive.add(path, f"mlcluster-bundle/{path.relative_to(ROOT)}")
        playbooks = ("playbooks/configure_node.yml", "playbooks/tasks/node_role.yml")
        plugins = [
            f"plugins/{kind}/{name}.py"
            for kind in ("action", "modules")
            for name in ("node_facts", "node_plan", "run_names")
        ]
        utilities = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "plugins/plugin_utils").rglob("*.py"))]
        for name in (*playbooks, *plugins, *utilities):
            archive.add(ROOT / name, f"mlcluster-bundle/{own}/{name}")
        for folder in ("_node", "_data", "_cluster"):
            root = ROOT / "plugins" / "module_utils" / folder
            sources = sorted(root.rglob("*.py"))
            assert sources, f"no Python files below {root}"
            for path in sources:
                inside = f"{own}/plugins/module_utils/{folder}/{path.relative_to(root).as_posix()}"
                archive.add(path, f"mlcluster-bundle/{inside}")
        site = tarfile.TarInfo("mlcluster-bundle/site")
        # A link to this Python's packages stands for the packages that a real bundle has as files.
        site.type, site.linkname = tarfile.SYMTYPE, str(QUICK_SITE if quick else sysconfig.get_path("purelib"))
        archive.addfile(site)
        archive.add(MARKER_ROLES, f"mlcluster-bundle/{own}/roles")
    return hashlib.sha256(target.read_bytes()).hexdigest()


@dataclass
class Ran:
    """The result of a hook that has ended."""

    rc: int
    out: str
    status: dict[str, Any]
    log: str

    @property
    def roles(self) -> dict[str, str]:
        """Return {role: state}."""
        return {entry["role"]: entry["state"] for entry in self.status["roles"]}


class Program(subprocess.Popen[bytes]):
    """A program in a new session. Its output goes to a file, so that a surviving child does not block a reader."""

    def __init__(self, argv: list[str], environment: dict[str, str], cwd: Path | None = None) -> None:
        self.name = argv[0]
        self.file: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        super().__init__(
            argv,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self.file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def output(self) -> str:
        """Return the output so far."""
        self.file.seek(0)
        return self.file.read()

    def until(self, what: str, probe: Callable[[], Any]) -> None:
        """Wait until ``probe`` returns a true value; fail the test at once if the program ends before that."""

        def look() -> bool:
            over = self.poll() is not None
            found = bool(probe())
            assert found or not over, f"{self.name} ended with status {self.returncode} before {what}:\n{self.output()}"
            return found

        wait_for(what, look)

    def left(self) -> list[int]:
        """Return the processes of its session that still run."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.pid and fields[0] not in "ZX":
                found.append(int(folder.name))
        return found

    def crash(self) -> None:
        """Kill all processes of the session."""
        # The hook is first, so that it does not notice the end of its child.
        self.kill()
        self.wait()
        while found := self.left():
            for number in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)


class Node:
    """A directory that the hook uses as the root of a node, and the programs of the node."""

    def __init__(self, root: Path, programs: Path, environment: dict[str, str]) -> None:
        self.root = root
        self.programs = programs
        self.environment = {
            "PATH": str(programs),
            "LC_ALL": "C.UTF-8",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "MARKS": str(root / "marks"),
            **environment,
        }
        self.hooks: list[Program] = []
        root.mkdir(exist_ok=True)

    @property
    def marker(self) -> Path:
        return self.root / "var/lib/mlcluster/drain.json"

    def reason(self) -> str:
        """Return the reason in the drain marker."""
        return str(json.loads(self.marker.read_text())["reason"])

    def marks(self) -> list[str]:
        """Return the lines that the marker roles wrote."""
        path = self.root / "marks"
        return path.read_text().splitlines() if path.exists() else []

    def start(self, *words: str, **environment: str) -> Program:
        """Start the hook."""
        hook = Program(["bash", str(HOOK), "--root", str(self.root), *words], {**self.environment, **environment})
        self.hooks.append(hook)
        return hook

    def ended(self, hook: Program) -> Ran:
        """Wait for the hook's end; return its result and files."""
        hook.wait()
        status = self.root / "var/log/mlcluster/status.json"
        log = self.root / "var/log/mlcluster/on_node_configured.log"
        return Ran(
            hook.returncode,
            hook.output(),
            json.loads(status.read_text()) if status.exists() else {},
            log.read_text() if log.exists() else "",
        )

    def run(self, *words: str, **environment: str) -> Ran:
        """Run the hook and return its result."""
        return self.ended(self.start(*words, **environment))

    def clean(self) -> bool:
        """Return whether no run has left unfinished files."""
        bundles = self.root / "opt/mlcluster/bundles"
        return not list(bundles.glob(".work*"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a node's programs: this Python (which has boto3), and no AWS CLI."""
    folder = tmp_path_factory.mktemp("programs")
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found, f"{name} is not on this machine"
        (folder / name).symlink_to(found)
    # Not a link: Python finds its virtual environment by the path of the program.
    wrapper = folder / f"python3.{sys.version_info[1]}"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    (folder / "python3").symlink_to(wrapper.name)
    return folder


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the small bundle and its sha256."""
    path = tmp_path_factory.mktemp("bundle") / "bundle.tar.gz"
    return path, build_bundle(path)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the options of a run with Ansible and a bundle on the node's disk."""
    path = tmp_path_factory.mktemp("real") / "bundle.tar.gz"
    return ["--bundle", str(path), "--sha256", build_bundle(path, quick=False), "--deadline", "900"]


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """Yield the address of a local S3."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def stored(moto: str, bundle: tuple[Path, str]) -> Any:
    """Return a client of the local S3, whose bucket has the bundle."""
    client = boto3.client(
        "s3", endpoint_url=moto, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    client.create_bucket(Bucket=BUCKET)
    client.upload_file(str(bundle[0]), BUCKET, "bundle.tar.gz")
    client.put_object(Bucket=BUCKET, Key="vars.json", Body=json.dumps({"marker_word": "from-s3"}).encode())
    return client


@pytest.fixture
def proxy(moto: str, stored: Any) -> Iterator[Proxy]:
    """Yield a proxy in front of the local S3 that can inject faults."""
    server = Proxy(moto)
    yield server
    server.close()


@pytest.fixture
def node(tmp_path: Path, programs: Path, proxy: Proxy) -> Iterator[Node]:
    """Yield a fresh node whose S3 is the proxy; end hooks that a failed test has left."""
    fresh = Node(tmp_path / "node", programs, {"AWS_ENDPOINT_URL_S3": proxy.url})
    yield fresh
    for hook in fresh.hooks:
        hook.crash()


@pytest.fixture
def wanted(bundle: tuple[Path, str]) -> list[str]:
    """Return the options of an ordinary run from S3."""
    return ["--bundle", f"s3://{BUCKET}/bundle.tar.gz", "--sha256", bundle[1], "--roles", "mark", "--deadline", "900"]


@pytest.fixture(scope="session")
def key(tmp_path_factory) -> Path:
    """Return the path of a private key for releases."""
    path = tmp_path_factory.mktemp("key") / "release.pem"
    command = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path
