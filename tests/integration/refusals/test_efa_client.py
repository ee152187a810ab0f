# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The set-up of EFA for Lustre runs as root, so a file of the controller needs its sha256 too."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile

import pytest

# The files of the set-up are root's.
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
FOLDER = "configure-efa-fsx-lustre-client"


@pytest.mark.parametrize("changed", [True, False])
def test_set_up_runs_only_with_its_checksum(run_playbook, tmp_path, changed):
    archive, done, work = tmp_path / "efa.zip", tmp_path / "done", tmp_path / "work"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr(f"{FOLDER}/setup.sh", f"touch {done}\n")
    digest = hashlib.sha256(b"another" if changed else archive.read_bytes()).hexdigest()
    role = {"name": "mlcluster.aws.fsx_lustre", "tasks_from": "efa", "rolespec_validate": False}
    step = {"archive": str(archive), "sha256": digest, "arguments": []}
    tasks = [{"ansible.builtin.include_role": role, "vars": {"__fsx_lustre_efa": step}}]
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": True, "tasks": tasks}]), encoding="utf-8")
    # The directory is root's on a node.
    places = {"__fsx_lustre_efa_dir": str(work), "__fsx_lustre_efa_archive": f"{work}/client.zip"}
    status, output = run_playbook(play, {"any": {"n1": {}}}, check=False, **places)
    assert done.exists() is (status == 0) is not changed, output
    if changed:
        assert f"{archive} has sha256" in output and "the file was changed or damaged, and was not installed" in output
