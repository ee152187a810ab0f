# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/upgrade_nodes.yml against a real Slurm of two nodes; what changes a node is a task file of the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.hook.conftest import ROOT
from tests.rig.slurm.fixture import needs_slurm, slurm

__all__ = ["slurm"]
pytestmark = [needs_slurm, pytest.mark.slow]


def states(cluster) -> dict[str, tuple[str, str]]:
    """State and reason of each node."""
    out = cluster.run("sinfo", "--noheader", "--Node", "--format", "%N|%T|%E").stdout
    return {name: (state, reason) for name, state, reason in (line.split("|") for line in out.split("\n") if line)}


@pytest.fixture(autouse=True)
def nodes_are_idle(slurm) -> None:
    """Let jobs in on every node that an earlier test drained."""
    for name, (state, _reason) in states(slurm).items():
        if state != "idle":
            slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME")


def upgrade(cluster, folder, **settings):
    """Run the playbook; both nodes are this machine."""
    (folder / "change.yml").write_text(
        "- name: Change\n  ansible.builtin.lineinfile:\n    create: true\n    mode: '0644'\n"
        f"    path: {folder}/changed\n    line: '{{{{ inventory_hostname }}}}'\n"
    )
    nodes = {name: {} for name in states(cluster)}
    common = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "slurm_jobs_slurm_conf": f"{cluster.root}/etc/slurm.conf",
    }
    children = {"head": {"hosts": {"controller": {}}}, "compute": {"hosts": nodes}}
    (folder / "inventory.json").write_text(json.dumps({"all": {"vars": common, "children": children}}))
    given = {
        "ansible_become": False,
        "upgrade_nodes_how": "reboot",
        # The machine of the test stays up.
        "upgrade_nodes_reboot": False,
        "upgrade_nodes_tasks": str(folder / "change.yml"),
        "upgrade_nodes_poll_seconds": 1,
        **settings,
    }
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")),
            *("-i", str(folder / "inventory.json"), "-e", json.dumps(given), "playbooks/upgrade_nodes.yml"),
        ],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nodes_are_upgraded_canary_first_and_a_persons_drain_stays(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    slurm.run("scontrol", "update", f"NodeName={second}", "State=DRAIN", "Reason=GPU 3 is slow")
    done = upgrade(slurm, tmp_path, upgrade_nodes_proof=["true"])
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "changed").read_text().split()[0] == first
    assert states(slurm)[first][0] == "idle"
    assert states(slurm)[second] == ("drained", "GPU 3 is slow")


def test_a_canary_that_fails_stays_drained_and_stops_the_rest(slurm, tmp_path):
    first, second, *_rest = states(slurm)
    done = upgrade(slurm, tmp_path, upgrade_nodes_proof=["false"])
    assert done.returncode != 0
    assert states(slurm)[first] == ("drained", "mlcluster upgrade: reboot")
    assert states(slurm)[second][0] == "idle"
    assert (tmp_path / "changed").read_text().split() == [first]


def test_a_way_that_is_not_known_is_refused(slurm, tmp_path):
    done = upgrade(slurm, tmp_path, upgrade_nodes_how="magic")
    assert done.returncode != 0 and "say -e upgrade_nodes_how=roles, reboot or reimage" in done.stdout
