# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requirements of a script are checked only where this machine sees the same files as the nodes."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import needs as slurm_needs
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host


class Mounted(Host):
    """This machine, but for what it has mounted."""

    mounts = ""

    def read_text(self, path):
        if path == "/proc/self/mountinfo":
            return f"29 1 8:1 / / rw - ext4 /dev/root rw\n{self.mounts}"
        return super().read_text(path)


@pytest.fixture
def ask(tmp_path):
    """Return ask(line, ..., mounts=""), which returns the problems of a script with these needs, in the folder jobs."""
    (tmp_path / "jobs").mkdir()

    def run(*lines, mounts=""):
        host = Mounted()
        host.mounts = mounts
        text = "\n".join(["#!/bin/bash", *(f"# Needs {line}" for line in lines), "#SBATCH -N1", "", "true"])
        return slurm_needs.problems(host, str(tmp_path / "jobs/a.sbatch"), text)

    return run


def test_missing_or_wrong_path_is_one_sentence(ask, tmp_path):
    jobs = tmp_path / "jobs"
    (jobs / "ior").touch(0o644)
    (jobs / "fio").touch(0o755)
    (jobs / "fio").chmod(0o755)
    wanted = ("program {0}/ior", "program {0}/fio", "program {0}/x", "directory {0}/y", "file {0}/fio",
              "directory {0}/fio", "file {0}", "image {0}/it's a.sqsh")  # fmt: skip
    assert ask(*(line.format(jobs) for line in wanted)) == [
        f"the program {jobs}/ior cannot be executed: chmod a+x it",
        f"the program {jobs}/x does not exist: install it there, or have it built (slurm_jobs_build)",
        f"the directory {jobs}/y does not exist: create it first",
        f"the directory {jobs}/fio is not a directory: correct the path",
        f"the file {jobs} is a directory: correct the path",
        f"the container image {jobs}/it's a.sqsh does not exist: import it first",
    ]


def test_only_shared_paths_are_checked(ask, tmp_path):
    line = f"program {tmp_path}/tools/ior"
    root = "22 1 8:1 / / rw - ext4 /dev/vda1 rw\n"
    nodes = f"23 22 0:40 / {tmp_path} rw - lustre 10.0.0.1@tcp:/fsx rw\n"
    below = f"24 23 8:2 / {tmp_path}/tools rw - xfs /dev/nvme1n1 rw\n"
    assert ask(line, mounts=root) == []
    assert len(ask(line, mounts=root + nodes)) == 1
    assert ask(line, mounts=root + nodes + below) == []


def test_mount_on_top_decides(ask, tmp_path):
    line = f"program {tmp_path}/tools/ior"
    nodes = f"23 22 0:40 / {tmp_path}/tools rw - lustre 10.0.0.1@tcp:/fsx rw\n"
    local = f"24 23 8:2 / {tmp_path}/tools rw - xfs /dev/nvme1n1 rw\n"
    beside = f"25 22 0:41 / {tmp_path}/too rw - lustre 10.0.0.1@tcp:/fsx rw\n"
    assert ask(line, mounts=nodes + local) == []
    assert len(ask(line, mounts=local + nodes)) == 1
    assert ask(line, mounts=beside) == []
    assert len(ask(f"directory {tmp_path}/x", mounts=f"26 22 0:42 / {tmp_path}/x rw - nfs4 s:/x rw\n")) == 1
    assert slurm_needs._shared("/x", "/jobs", []) is False


@pytest.mark.parametrize(
    ("mode", "right"), [(0o601, True), (0o610, True), (0o100, True), (0o622, False), (0o666, False)]
)
def test_program_is_executable_for_someone(ask, tmp_path, mode, right):
    (tmp_path / "jobs/ior").touch()
    (tmp_path / "jobs/ior").chmod(mode)
    assert len(ask(f"program {tmp_path}/jobs/ior")) == (0 if right else 1)


def test_script_without_needs_is_not_looked_at():
    assert slurm_needs.problems(None, "/jobs/a.sbatch", "#!/bin/bash\ntrue\n") == []


def test_only_head_of_script_is_read():
    text = "#!/bin/bash\n# Needs program /a b\n# Needs rest\n\n#SBATCH -N1\ntrue\n# Needs file /c\n"
    assert slurm_needs.needs(text) == [("program", "/a b")]
