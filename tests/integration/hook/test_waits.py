# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook's waits before the first role, and its messages when a wait times out."""

from __future__ import annotations

import fcntl
import os

from hooks.mlcluster_boot.main import UNKNOWN_TYPE
from tests.integration.hook.test_failures import failed, finished


def test_lock_of_dpkg_is_waited_for_and_reported(node, bundle):
    lock = node.root / "var/lib/dpkg/lock-frontend"
    lock.parent.mkdir(parents=True)
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]
    with open(lock, "w") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        ran = node.run(*words, "--wait-seconds", "1")
        finished(node, ran)
        (unknown, warning) = ran.status["warnings"]
        assert unknown == UNKNOWN_TYPE
        assert "/var/lib/dpkg/lock-frontend is held by" in warning and f"(process {os.getpid()})" in warning
        process = node.start(*words)
        status = node.root / "var/log/mlcluster/status.json"
        process.until("the wait", lambda: '"waiting"' in status.read_text())
    ran = node.ended(process)
    assert ran.status["state"] == "configured" and ran.status["warnings"] == [UNKNOWN_TYPE], ran.out


def test_file_of_head_node_is_waited_for_and_reported(node, bundle):
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark", "--wait-for", "/fsx/ready"]
    ran = node.run(*words, "--wait-seconds", "1")
    failed(node, ran, "/fsx/ready is not there after", "check that the head node has written it")
    # The run does not continue without the file.
    assert ran.status["warnings"] == [UNKNOWN_TYPE] and node.marks() == []
    process = node.start(*words, "--wait-seconds", "900")
    log = node.root / "var/log/mlcluster/on_node_configured.log"
    process.until("the wait", lambda: log.read_text().count("roles: mark") == 2)
    (node.root / "fsx").mkdir()
    (node.root / "fsx/ready").touch()
    finished(node, node.ended(process))
