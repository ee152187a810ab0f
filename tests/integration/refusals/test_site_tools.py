# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml gives a compute node what its jobs take from packages, and asks nothing of it where no job takes any."""

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
    # No distribution has it, and no machine the program.
    "lacking": {"slurm_jobs_node_packages": ["mlcluster-no-such-tool"]},
}


def test_only_node_whose_jobs_take_package_is_asked_and_once(said):
    status, words = said("site.yml", {"compute": NODES}, "--tags", "slurm_jobs_install")
    assert status == 0, words
    play = words.partition("PLAY [Install the packages that jobs need")[2].partition("PLAY RECAP")[0]
    asked = play.partition("Find missing packages")[2].partition("TASK [")[0]
    assert {name for name in NODES if f"ok: [{name}]" in asked} == {"disks", "lacking", "there"}
    # The one look has the answer; of a node with the program nothing is foretold but the file of the role's options.
    assert "there: would change role options" in words
    assert "lacking: would change packages, role options" in words
    assert "lacking: would install mlcluster-no-such-tool" in play and "there: would install" not in play
