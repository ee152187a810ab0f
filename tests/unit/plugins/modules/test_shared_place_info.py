# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the files of a path would land; stat answers from a table of mounts and of directories that are there."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host
from ansible_collections.mlcluster.aws.plugins.modules import shared_place_info as module

MOUNTS = """21 1 259:1 / / rw - ext4 /dev/root rw
40 21 0:40 / /fsx1 rw - autofs systemd-1 rw
41 40 0:41 / /fsx1 rw - lustre 10.0.1.7@tcp:/abcdefgh rw,flock
42 21 259:2 / /scratch rw - xfs /dev/nvme1n1 rw
"""
MOUNT_POINTS = {"/": "/", "/fsx1": "/fsx1", "/scratch": "/scratch", "/home": "/", "/opt": "/"}


class Node(Host):
    def __init__(self) -> None:
        self.exports = "/home\t10.0.0.0/16(rw,sync,no_root_squash)\n"
        self.hangs: set[str] = set()

    def read_text(self, path):
        return {"/proc/self/mountinfo": MOUNTS, "/var/lib/nfs/etab": self.exports}.get(path)

    def run(self, argv, timeout=120, check=True, stdin=None):
        path = argv[-1].removesuffix("/.") or "/"
        if path in self.hangs:
            raise CommandError(argv, None, "", "", f"no answer within {timeout:g} seconds")
        found = MOUNT_POINTS.get(path)
        return CommandResult(0, f"{found}\n", "") if found else CommandResult(1, "", "No such file or directory")


@pytest.fixture
def host():
    return Node()


@pytest.mark.parametrize(
    ("path", "mount", "state"),
    [
        ("/fsx1/mlcluster/jobs", "/fsx1", "shared"),
        ("/fsx/mlcluster/jobs", "/", "root"),
        ("/fsx1", "/fsx1", "shared"),
        ("/fsx10/jobs", "/", "root"),
        ("/home/jobs", "/", "shared"),
        ("/homes", "/", "root"),
        ("/scratch/jobs", "/scratch", "local"),
    ],
)
def test_missing_path_is_judged_by_parent(host, run_module, path, mount, state):
    answer = run_module(module, host, paths=[path])
    (seen,) = answer["places"]
    assert (seen["mount"], seen["state"]) == (mount, state)
    assert bool(answer["problems"]) == (state == "root")


def test_root_disk_is_reported_with_shared_mounts(host, run_module):
    answer = run_module(module, host, paths=["/fsx/mlcluster/jobs", "/fsx1"])
    assert answer["shared"] == ["/fsx1", "/home"]
    (problem,) = answer["problems"]
    assert problem == (
        "/fsx/mlcluster/jobs is on no mount: its files would land on this machine's root disk, where no other node "
        "sees them; shared here are /fsx1, /home"
    )


def test_missing_shared_mounts_are_reported(host, run_module, monkeypatch):
    host.exports = ""
    monkeypatch.setattr(Node, "read_text", lambda self, path: MOUNTS.splitlines()[0])
    (problem,) = run_module(module, host, paths=["/fsx/jobs"])["problems"]
    assert problem.endswith("; nothing that is shared is mounted here")


def test_silent_mount_is_named_after_timeout(host, run_module):
    host.hangs = {"/fsx1/jobs"}
    answer = run_module(module, host, paths=["/fsx1/jobs"], timeout=2)
    assert answer["places"][0]["state"] == "silent"
    assert answer["problems"][0].startswith("/fsx1/jobs gives no answer: ")
    assert "no answer within 2 seconds" in answer["problems"][0]


def test_relative_path_is_rejected(host, run_module):
    assert run_module(module, host, paths=["jobs"])["msg"] == "paths has 'jobs': use absolute paths"


def test_real_root_is_found(run_module, tmp_path):
    (seen,) = run_module(module, Host(), paths=[str(tmp_path / "none" / "below")])["places"]
    assert seen["mount"].startswith("/")
    assert seen["fstype"]
