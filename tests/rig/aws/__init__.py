# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A moto server on the loopback interface, with a record of the operations that its clients request.

Differences from moto: file systems of FSx have identifiers of AWS's length, are available at once, and those of type
Lustre have a mount name. Bucket policies are stored and not enforced, as moto would ignore their conditions. EC2
launches once for a client token, finds instances by it, and takes what a launch omits of a disk from the image. The
deletion of a NAT gateway disassociates its address.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.rig.ec2 import client

ROOT = Path(__file__).resolve().parents[3]
RECORDER = Path(__file__).parent / "record"
KEY = "AKIARIGMAIN"


class Aws:
    """The server, and the record of the requests of processes with its environment."""

    def __init__(self, folder: Path, guest: str = "") -> None:
        """Start the server. With ``guest``, that virtual machine is the instance; ``ssh_config`` connects to it."""
        self.record = folder / "operations.txt"
        self._changes = folder / "operations.txt.changes"
        self._kill = folder / "operations.txt.kill"
        self.ssh_config = folder / "ssh_config"
        # More variables for a test, until the next reset.
        self.more: dict[str, str] = {}
        # In a separate process: all moto servers of a process share their content, and a reset of one empties all.
        argv = [sys.executable, "-m", "tests.rig.aws", *([guest, str(self.ssh_config)] if guest else [])]
        self._server = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        self.url = self._server.stdout.readline().strip()
        assert self.url, f"moto's server ended with status {self._server.wait()}"

    def environment(self) -> dict[str, str]:
        """Return the variables by which AWS SDKs, also in Ansible modules, use the server and write the record."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "PYTHONPATH": str(RECORDER),
            "MLCLUSTER_RIG_RECORD": str(self.record),
            "MLCLUSTER_RIG_TESTS": str(os.getpid()),
            **self.more,
        }

    def client(self, service: str, region: str) -> Any:
        """Return a client of one service, whose operations are not recorded."""
        return client.client(self.url, service, region, KEY)

    def operations(self) -> set[str]:
        """Return every operation that was requested since the last reset, such as ``ec2:DescribeVpcs``."""
        return set(self.record.read_text(encoding="utf-8").split()) if self.record.exists() else set()

    def changes(self) -> list[dict[str, Any]]:
        """Return the changing requests to EC2 and FSx: {operation, parameters, tags}, with EC2's tags at that time."""
        text = self._changes.read_text(encoding="utf-8") if self._changes.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def forget(self) -> None:
        """Empty the record."""
        self.record.unlink(missing_ok=True)
        self._changes.unlink(missing_ok=True)

    def kill_at(self, operation: str) -> None:
        """Kill each process with the server's environment when it requests ``operation``; "" ends that.

        With the prefix ``controller ``, all programs between the tests and that process are killed, too; with
        ``controller after ``, once the server has done the operation, before its answer is read.
        """
        self._kill.write_text(operation, encoding="utf-8")

    def reset(self) -> None:
        """Empty the account and the record."""
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/moto-api/reset", method="POST")):  # noqa: S310
            self.forget()
            self.more = {}
            self._kill.unlink(missing_ok=True)

    def stop(self) -> None:
        """End the server."""
        self._server.communicate()
