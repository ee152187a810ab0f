# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml installs the packages that a compute node's jobs need, and does not query nodes whose jobs need none."""

from __future__ import annotations

DISKS = [{"name": "disks", "kind": "local_io", "nodes": 1}]
NODES = {
    "no-jobs": {},
    "other-jobs": {"slurm_jobs_jobs": [{"name": "smoke", "kind": "node_smoke"}]},
    "built": {"slurm_jobs_jobs": DISKS, "slurm_jobs_build": ["fio"]},
    "own": {"slurm_jobs_jobs": DISKS, "slurm_jobs_fio": "/opt/fio/bin/fio"},
    "no-list": {"slurm_jobs_jobs": 5, "slurm_jobs_build": 7},
    "disks": {"slurm_jobs_jobs": DISKS},
    "there": {"slurm_jobs_node_packages": ["tar"]},
    # No distribution has this package, and no machine the program.
    "lacking": {"slurm_jobs_node_packages": ["mlcluster-no-such-tool"]},
}


def test_only_nodes_whose_jobs_need_packages_are_queried(run_playbook):
    status, output = run_playbook("site.yml", {"compute": NODES}, "--tags", "slurm_jobs_install")
    assert status == 0, output
    play = output.partition("PLAY [Install the packages that jobs need")[2].partition("PLAY RECAP")[0]
    asked = play.partition("Find missing packages")[2].partition("TASK [")[0]
    assert {name for name in NODES if f"ok: [{name}]" in asked} == {"disks", "lacking", "there"}
    # The answer comes from the one look. On a node that has the program, only the file of role options would change.
    assert "there: would change role options" in output
    assert "lacking: would change packages, role options" in output
    assert "lacking: would install mlcluster-no-such-tool" in play and "there: would install" not in play
