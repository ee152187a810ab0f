# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks and modules against an account of moto, and a stand-in for the program pcluster."""

from __future__ import annotations

import functools
import http.server
import json
import re
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.rig import aws, controller
from tests.unit.plugins.inventory import finder

# This has to run before the first import of ansible_collections.
finder.install()

ROOT = controller.ROOT
REGION = "ap-southeast-3"
RECAP = re.compile(r"localhost\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=0\s+failed=(\d+)")


@dataclass
class Played:
    """A run of a playbook: exit status, output on one line, and number of changes."""

    status: int
    output: str
    changed: int


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Aws]:
    """Yield the server, one for the whole session."""
    server = aws.Aws(tmp_path_factory.mktemp("aws"))
    yield server
    server.stop()


@pytest.fixture
def aws_account(account: aws.Aws) -> aws.Aws:
    """Return the account, emptied."""
    account.reset()
    return account


@pytest.fixture
def play(aws_account: aws.Aws, tmp_path: Path) -> Callable[..., Played]:
    """Return ``play(playbook, *options, **variables)``, which runs ansible-playbook with inventories/cluster."""
    environment = controller.environment(tmp_path, MLCLUSTER_RIG_PCLUSTER=str(tmp_path), **aws_account.environment())

    def run(playbook: str, *options: str, **variables: Any) -> Played:
        # With -e these values override the example's own variables.
        given = ["-e", json.dumps({"cluster_region": REGION, **variables})]
        path = playbook if "/" in playbook else f"playbooks/{playbook}.yml"
        argv = [Path(sys.executable).with_name("ansible-playbook"), path, "-i", "inventories/cluster", *given, *options]
        done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
        output = re.sub(r"\s+", " ", done.stdout + done.stderr)
        found = RECAP.search(done.stdout)
        return Played(done.returncode, output, int(found[2]) if found else -1)

    return run


@pytest.fixture
def run_module(
    aws_account: aws.Aws, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Return ``run_module(module, check=False, **options)``, which returns the module's result."""
    for name, value in aws_account.environment().items():
        monkeypatch.setenv(name, value)

    def run(module: types.ModuleType, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"region": REGION, **options, "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def configurations(tmp_path: Path) -> Iterator[None]:
    """Serve the files that ParallelCluster has in the cluster's bucket, such as its configuration."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (tmp_path / "address").write_text(f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()
        thread.join()


@pytest.fixture
def pcluster(tmp_path: Path) -> str:
    """Return the path of the stand-in as a program."""
    program = tmp_path / "pcluster"
    code = ROOT / "tests" / "rig" / "aws" / "fake_pcluster.py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{code}" "$@"\n')
    program.chmod(0o755)
    return str(program)
