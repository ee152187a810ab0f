# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that configures itself by the hook and a bundle: on real disks, also after a reboot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plugins.module_utils._bundle import archive, build
from tests.bench import bench_boot_hook
from tests.rig.vm import qemu
from tests.rig.vm.guest import Guest
from tests.vm import helpers

pytestmark = pytest.mark.vm
HOOK = helpers.ROOT / "hooks" / "on_node_configured.sh"
# Limit of a run: on an emulated guest and a busy machine, one module takes a minute.
SECONDS = 3000


def copy_hook(node: Guest, folder: Path) -> list[str]:
    """Copy hook and bundle to the node, which has nothing else of the project; return the hook's command."""
    python = node.run(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).out.strip()
    built = build.build(bench_boot_hook.request(), archive.parse_target(f"debian-py{python}"))
    (folder / built.file).write_bytes(built.data)
    node.copy_to(folder / built.file, "/root/bundle.tar.gz")
    node.copy_to(HOOK, "/root/hook.sh")
    return ["bash", "/root/hook.sh", "--bundle", "/root/bundle.tar.gz", "--sha256", built.sha256]


def run_hook(node: Guest, command: list[str]) -> dict[str, Any]:
    """Run the hook, check that it configures the node, and return the status file."""
    done = node.run([*command, "--deadline", str(SECONDS)], check=False, timeout=SECONDS + 60)
    status: dict[str, Any] = json.loads(node.run(["cat", "/var/log/mlcluster/status.json"]).out)
    # Without a metadata service, the type comes from the firmware, so that no warning is due.
    assert (done.rc, status["state"], status["warnings"]) == (0, "configured", []), (status, done.out, done.err)
    assert status["node"]["instance_type"] == qemu.INSTANCE_TYPE
    return status


def test_node_configures_its_disks_once_and_keeps_them(guest, tmp_path: Path) -> None:
    """The hook detects the node's type and groups; the second run and a run after a reboot change nothing."""
    node = guest(disks=4)
    command = copy_hook(node, tmp_path)
    first = run_hook(node, command)
    assert first["node"]["groups"] == ["instance_store"] and first["node"]["kind"] == "standalone"
    assert [(role["role"], role["state"]) for role in first["roles"]] == [("nvme_raid0", "configured")]
    assert first["roles"][0]["changed"] > 0
    seen = helpers.expect_volume(node)

    again = run_hook(node, command)
    assert [(role["role"], role["changed"]) for role in again["roles"]] == [("nvme_raid0", 0)]

    node.reboot()
    assert helpers.settle(node) == "running"
    assert run_hook(node, command)["roles"][0]["changed"] == 0
    assert helpers.expect_volume(node).mounts["/data"]["uuid"] == seen.mounts["/data"]["uuid"]
