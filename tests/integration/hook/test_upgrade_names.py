# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/upgrade_nodes.yml with a name that Slurm would read as several nodes; no Slurm command runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.rig import controller


def test_name_of_several_nodes_is_rejected_before_slurm(tmp_path):
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.parent.mkdir()
    scontrol.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\n')
    scontrol.chmod(0o755)
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "slurm_jobs_slurm_prefix": str(tmp_path),
    }
    nodes = {"n1": {"ec2_slurm_node_name": "n[1-99]"}}
    children = {"head": {"hosts": {"controller": {}}}, "compute": {"hosts": nodes}}
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"all": {"vars": common, "children": children}}))
    given = {"ansible_become": False, "upgrade_nodes_method": "reboot", "upgrade_nodes_reboot": False}
    argv = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "playbooks/upgrade_nodes.yml"]
    done = subprocess.run(
        [*argv, "-e", json.dumps(given)],
        cwd=controller.ROOT,
        env=controller.environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, output
    assert "n1 was not upgraded: 'n[1-99]' is not the name of one node in Slurm" in output
    assert not (tmp_path / "asked").exists()
