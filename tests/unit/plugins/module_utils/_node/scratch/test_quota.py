# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disk usage of a real job's directory, and actions on a job above its limit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import quota as scratch_quota
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="jobs' directories are made by root")
USER = 65534
MIB = 1 << 20


class RecordingSlurmHost(Host):
    """A machine whose Slurm only records the commands; refuses is their exit status."""

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


def fill(base, job, size=0):
    own = Path(scratch.make(Host(), base, job, USER, USER))
    if size:
        (own / "deep/er").mkdir(parents=True)
        (own / "deep/er/data").write_bytes(bytes(size))
    return own


def judge(base, host, most=MIB, cancel=False, seconds=60):
    return scratch_quota.verify(host, Slurm(host), base, scratch.survey(base), most, cancel, seconds)


def measured(base):
    (job,) = scratch.survey(base)
    return scratch_quota.usage(base, job, 1e12, lambda: 0.0)


def test_hard_link_counts_once_and_links_and_mounts_not(base):
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


@pytest.mark.parametrize(("cancel", "action"), [(False, "it was notified"), (True, "it was notified and cancelled")])
def test_job_above_limit_is_notified_or_cancelled_alone(base, cancel, action):
    fill(base, 7, 2 * MIB)
    fill(base, 8)
    host = RecordingSlurmHost()
    (verdict,) = judge(base, host, cancel=cancel)
    assert (verdict.status, verdict.scope.device) == ("fail", f"{base}/job-7")
    assert verdict.message == f"job 7 holds 2 MiB of the local disk and may hold 1; {action}"
    assert [call[0] for call in host.calls] == ["notify", "scancel"][: 1 + cancel]
    assert all("7" in call for call in host.calls)


def test_failing_notification_does_not_change_verdict(base):
    fill(base, 7, 2 * MIB)
    host = RecordingSlurmHost()
    host.refuses = 1
    (verdict,) = judge(base, host)
    assert verdict.status == "fail" and "Invalid job id specified" in verdict.message


def test_jobs_within_limit_pass_and_no_jobs_do_not_apply(base):
    fill(base, 7, 2 * MIB)
    host = RecordingSlurmHost()
    (verdict,) = judge(base, host, most=3 * MIB)
    assert (verdict.status, host.calls) == ("pass", [])
    assert scratch_quota.verify(host, Slurm(host), base, [], MIB, True, 60)[0].status == "not_applicable"


def test_count_beyond_time_limit_does_not_pass(base):
    own = fill(base, 7)
    for number in range(2 * scratch_quota.STRIDE):
        (own / f"{number}").touch()
    (verdict,) = judge(base, RecordingSlurmHost(), seconds=0)
    assert (verdict.status, verdict.reason) == (
        "undeterminable",
        f"job 7: only {scratch_quota.STRIDE} names were counted within the time limit",
    )


def test_directory_removed_meanwhile_has_size_zero(base):
    fill(base, 7, 2 * MIB)
    (job,) = scratch.survey(base)
    scratch.remove(Host(), base, 7, 60)
    assert scratch_quota.usage(base, job, 1e12, lambda: 0.0) == scratch_quota.Usage(0)
