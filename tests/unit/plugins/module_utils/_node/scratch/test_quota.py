# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much a job's directory holds, for real, and what is done to a job that holds too much."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import quota as scratch_quota
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="jobs' directories are made by root")
USER = 65534
MIB = 1 << 20


class Told(Host):
    """A machine whose Slurm only remembers what it is told; refuses says with which status."""

    refuses = 0

    def __init__(self):
        self.calls = []

    def run(self, argv, timeout=120, check=True, stdin=None):
        self.calls.append([Path(argv[-3 if "notify" in argv else -2]).name, *argv[-2:]])
        return CommandResult(self.refuses, "", "Invalid job id specified" if self.refuses else "")

    def which(self, program):
        return f"/bin/{program}"

    def exists(self, path):
        return path.startswith("/bin/")


@pytest.fixture
def base():
    with tempfile.TemporaryDirectory(prefix="mlcluster-quota-") as name:
        Path(name).chmod(0o755)
        (Path(name) / "volume").mkdir(mode=0o755)
        yield f"{name}/volume/jobs"


def fill(base, job, size=0):
    own = Path(scratch.make(Host(), base, job, USER, USER))
    if size:
        (own / "deep/er").mkdir(parents=True)
        (own / "deep/er/data").write_bytes(bytes(size))
    return own


def judge(base, host, most=MIB, cancel=False, seconds=60):
    return scratch_quota.judge(host, Slurm(host), base, scratch.survey(base), most, cancel, seconds)


def measured(base):
    (job,) = scratch.survey(base)
    return scratch_quota.held(base, job, 1e12, lambda: 0.0)


def test_names_of_one_file_count_once_and_links_and_mounts_not_at_all(base):
    own = fill(base, 7, 2 * MIB)
    alone = measured(base).size
    assert 2 * MIB <= alone < 3 * MIB
    os.link(own / "deep/er/data", own / "again")
    (own / "away").symlink_to("/usr")
    (own / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", own / "mounted"], check=True)
    try:
        (own / "mounted/much").write_bytes(bytes(3 * MIB))
        assert alone <= measured(base).size < alone + MIB
    finally:
        subprocess.run(["umount", own / "mounted"], check=True)


@pytest.mark.parametrize(("cancel", "said"), [(False, "it was told"), (True, "it was told and cancelled")])
def test_job_that_holds_too_much_is_reported_and_others_are_left_unchanged(base, cancel, said):
    fill(base, 7, 2 * MIB)
    fill(base, 8)
    host = Told()
    (verdict,) = judge(base, host, cancel=cancel)
    assert (verdict.status, verdict.scope.device) == ("fail", f"{base}/job-7")
    assert verdict.message == f"job 7 holds 2 MiB of the local disk and may hold 1; {said}"
    assert [call[0] for call in host.calls] == ["notify", "scancel"][: 1 + cancel]
    assert all("7" in call for call in host.calls)


def test_slurm_that_refuses_changes_nothing_of_verdict(base):
    fill(base, 7, 2 * MIB)
    host = Told()
    host.refuses = 1
    (verdict,) = judge(base, host)
    assert verdict.status == "fail" and "Invalid job id specified" in verdict.message


def test_all_within_their_share_is_pass_and_none_is_none(base):
    fill(base, 7, 2 * MIB)
    host = Told()
    (verdict,) = judge(base, host, most=3 * MIB)
    assert (verdict.status, host.calls) == ("pass", [])
    assert scratch_quota.judge(host, Slurm(host), base, [], MIB, True, 60)[0].status == "not_applicable"


def test_what_takes_too_long_to_count_is_no_pass(base):
    own = fill(base, 7)
    for number in range(2 * scratch_quota.STRIDE):
        (own / f"{number}").touch()
    (verdict,) = judge(base, Told(), seconds=0)
    assert (verdict.status, verdict.reason) == (
        "undeterminable",
        f"job 7: {scratch_quota.STRIDE} names were counted when the time was over",
    )


def test_directory_that_goes_meanwhile_holds_nothing(base):
    fill(base, 7, 2 * MIB)
    (job,) = scratch.survey(base)
    scratch.remove(Host(), base, 7, 60)
    assert scratch_quota.held(base, job, 1e12, lambda: 0.0) == scratch_quota.Held(0)
