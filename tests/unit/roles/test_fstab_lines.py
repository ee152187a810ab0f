# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role takes its own line out of fstab, and no other line of the same path."""

from __future__ import annotations

import re

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from tests.rig import templating
from tests.unit.checkout import CHECKOUT

UUID, FSX = "UUID=0f5b4c5e-0000-5000-8000-000000000001", "fs-1.example.com@tcp:/abc"
FSTAB = "plan/tasks/fstab.yml"
# The files that include it.
USERS = {"nvme_raid0/tasks/act.yml", "nvme_raid0/tasks/remove.yml", "fsx_lustre/tasks/remove.yml"}


def tasks():
    """Yield the path and the content of every task of a role."""
    for path in sorted((CHECKOUT / "roles").glob("*/tasks/**/*.yml")):
        for task in templating.load(path) or []:
            yield path.relative_to(CHECKOUT / "roles").as_posix(), task


def test_only_shared_task_takes_lines_out_of_fstab():
    found = {
        path
        for path, task in tasks()
        if "fstab" in (module := task.get("ansible.builtin.lineinfile") or {}).get("path", "")
        and module["state"] == "absent"
    }
    assert found == {FSTAB}
    included = [(path, task.get("ansible.builtin.include_role") or {}) for path, task in tasks()]
    assert {path for path, role in included if role.get("tasks_from") == "fstab"} == USERS
    texts = [path.read_text(encoding="utf-8") for path in (CHECKOUT / "roles").glob("*/tasks/**/*.yml")]
    assert not any("absent_from_fstab" in text for text in texts), "it takes every line of the path"


@pytest.mark.parametrize("source", [UUID, FSX])
def test_fstab_removal_matches_source_and_path(source):
    (task,) = [task for path, task in tasks() if path == FSTAB]
    variable = task["loop_control"]["loop_var"]
    templar = Templar(loader=DataLoader(), variables={variable: {"src": source, "path": "/data"}})
    pattern = re.compile(templar.template(task["ansible.builtin.lineinfile"]["regexp"]))
    assert pattern.search(f"{source} /data ext4 nofail 0 0\n")
    assert pattern.search(f"\t{source}\t /data\text4 nofail\n")
    for line in (
        "fs-2.example.com:/ /data nfs4 _netdev 0 0\n",
        f"{source} /data2 ext4 nofail 0 0\n",
        f"{source} /x/data ext4 nofail 0 0\n",
        f"{source}1 /data ext4 nofail 0 0\n",
        f"# {source} /data ext4 nofail 0 0\n",
        f"{source.replace('.', '-').replace('UUID', 'LABEL')} /data ext4 nofail 0 0\n",
    ):
        assert not pattern.search(line), line
