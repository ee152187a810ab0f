# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import scratch as scratch_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import made
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the jobs' directories are root's")


class Node(Host):
    """This machine, with a Slurm that answers squeue."""

    def __init__(self, queue="", rc=0):
        self.answer = CommandResult(rc, queue, "Unable to contact slurm controller")
        self.asked = []

    def exists(self, path):
        return path in ("/opt/slurm/bin/scontrol", "/opt/slurm/bin/squeue") or super().exists(path)

    def run(self, argv, timeout=120, check=True, stdin=None):
        self.asked.append(list(argv))
        return self.answer


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(action, *arguments, host=...) gives the exit code and what was printed."""
    for name in ("SLURM_JOB_ID", "SLURM_JOB_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(scratch_cli, "STATE_DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setattr(made, "RECORD", str(tmp_path / "record.json"))
    (tmp_path / "volume").mkdir(mode=0o755)

    def go(action, *arguments, host=None, base=None):
        monkeypatch.setattr(scratch_cli, "Host", lambda: host or Node())
        base = ["--base", base or str(tmp_path / "volume/jobs")]
        code = cli.main(["scratch", action, *base, *arguments], log_dir=str(tmp_path / "log"))
        return code, capsys.readouterr().out.splitlines()[0]

    go.base = tmp_path / "volume/jobs"
    return go


def test_job_is_read_from_prolog_variables(run, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_JOB_UID", "65534")
    assert run("make") == (0, f"PASS scratch.make: found {run.base}/job-12/tmp")
    assert run("remove") == (0, f"PASS scratch.remove ({run.base}): found job 12: 3 names removed")
    assert list(run.base.glob("job-*")) == []


def test_health_check_learns_of_last_job(run, monkeypatch):
    def verdict():
        found = made.verify(Host(), str(run.base))
        return found.status, found.found or found.message or found.reason

    run("make", "--job", "1")
    assert verdict()[0] == "fail" and " got no directory: no user is named" in verdict()[1]
    assert run("make", "--job", "2", "--uid", "65534")[0] == 0
    assert verdict()[0] == "pass" and verdict()[1].startswith("job 2 at ")
    run("make", "--uid", "65534")
    assert run("make", "--job", "3", "--uid", "65534", base="/nowhere/mlcluster/jobs")[0] == 0
    assert verdict()[1].startswith("job 2 at ")
    monkeypatch.setattr(scratch_cli, "MAKE_SECONDS", 0)
    assert run("make", "--job", "4", "--uid", "65534")[0] == 2
    assert verdict()[0] == "fail" and " got no directory: no answer within 0.0 seconds" in verdict()[1]


def test_unwritable_record_leaves_job_its_directory(run, monkeypatch):
    monkeypatch.setattr(made, "RECORD", "/proc/mlcluster/record.json")
    assert run("make", "--job", "1", "--uid", "65534")[0] == 0
    log = (run.base.parents[1] / "log/scratch.log").read_text()
    assert "the health check does not learn of this: could not write /proc/mlcluster/record.json" in log


@pytest.mark.parametrize(
    ("state", "base", "mounted", "refused"),
    [
        ("intact", "/local/jobs", [], True),
        ("failed", "/local/0/jobs", ["/local"], True),
        ("intact", "/local/jobs", ["/", "/local"], False),
        ("none", "/local/jobs", [], False),
        ("intact", "/other/jobs", [], False),
        ("intact", "/localities/jobs", [], False),
    ],
)
def test_unmounted_volume_is_recognized(state, base, mounted, refused):
    paths = ["/local/0"] if base == "/local/0/jobs" else ["/local"]
    uuids = [f"uuid-{path}" for path in paths]
    volumes = [{"path": path, "fs_uuid": uuid, "serials": [uuid]} for path, uuid in zip(paths, uuids)]
    record = {"state": state, "layout": "single", "volumes": volumes, "serials": uuids, "filesystem_uuids": uuids}

    class Recorded(Host):
        def read_text(self, path):
            if path == "/proc/self/mountinfo":
                return "29 1 8:1 / / rw - ext4 /dev/root rw\n" + "".join(
                    f"30 1 9:1 / {target} rw - xfs /dev/md1 rw\n" for target in mounted
                )
            return json.dumps(record) if path == scratch.RECORD_PATH else None

    problem = scratch.unmounted_volume(Recorded(), base)
    assert (problem is not None) == refused
    if problem:
        assert problem.startswith(f"the local volume is not mounted on {paths[0]}, and jobs would write to the disk")


def test_unmounted_volume_fails_make(run, monkeypatch):
    monkeypatch.setattr(scratch, "unmounted_volume", lambda host, base: f"{base} is away")
    assert run("make", "--job", "7", "--uid", "65534") == (1, f"FAIL scratch.make: {run.base} is away")
    assert not run.base.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no user is named: use --uid"),
        (["--uid", "65534"], "no job is named: use --job"),
        (["--job", "1", "--uid", "4000000000"], "user 4000000000 of the job is not known on this node"),
    ],
)
def test_missing_job_or_user_is_reported(run, arguments, sentence):
    code, line = run("make", *arguments)
    assert (code, sentence in line) == (1, True)


def test_missing_directory_is_not_applicable(run, monkeypatch):
    for action in ("remove", "sweep"):
        assert run(action, "--job", "1") == (0, f"n/a  scratch.{action}: there is no {run.base}")
    monkeypatch.setattr(scratch, "default_base", lambda host: None)
    assert cli.main(["scratch", "sweep"], log_dir=str(run.base)) == 0


def test_node_without_volume_is_not_applicable(run):
    code, line = run("make", "--job", "1", "--uid", "65534", base="/nowhere/mlcluster/jobs")
    assert (code, line.startswith("n/a  scratch.make: there is no /nowhere/mlcluster for the jobs")) == (0, True)


def test_sweep_keeps_jobs_of_this_node(run):
    for job in ("1", "2", "3"):
        run("make", "--job", job, "--uid", "65534")
    code, line = run("sweep", host=Node("2\n3\n"))
    assert (code, line.partition("found ")[2]) == (0, "leftovers of jobs: 1: 3 names removed")
    assert sorted(path.name for path in run.base.glob("job-*")) == ["job-2", "job-3"]


def test_sweep_without_slurm_answer_removes_nothing(run):
    run("make", "--job", "1", "--uid", "65534")
    code, line = run("sweep", host=Node(rc=1))
    assert (code, "only leftovers of an earlier boot could be swept" in line) == (2, True)
    assert [path.name for path in run.base.glob("job-*")] == ["job-1"]


@pytest.mark.parametrize("queue", ["1_[3-4]\n", "job 1\n", "-1\n", "\u0661\n"])
def test_sweep_with_unread_answer_removes_nothing(run, queue):
    run("make", "--job", "1", "--uid", "65534")
    code, line = run("sweep", host=Node(f"2\n{queue}"))
    assert (code, "squeue printed" in line) == (2, True)
    assert [path.name for path in run.base.glob("job-*")] == ["job-1"]


def test_sweep_asks_for_every_job_of_this_node(monkeypatch):
    """The environment must not limit the query, as a job that is not in the answer loses its directory."""
    for name in ("SQUEUE_USERS", "SQUEUE_PARTITION", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    node = Node("7\n")
    assert scratch_cli._live(Slurm(node, local=True)) == ({7}, None)
    (argv,) = node.asked
    assert argv[:4] == ["env", "--unset=SLURM_CLUSTERS", "--unset=SQUEUE_PARTITION", "--unset=SQUEUE_USERS"]
    assert argv[4:7] == ["/opt/slurm/bin/squeue", "--noheader", "--all"]
    assert argv[8:] == ["--nodelist=n1", "--format=%A"]


def test_recent_leftovers_are_kept(run):
    run("make", "--job", "1", "--uid", "65534")
    assert run("sweep", "--keep-hours", "24", "--least-free", "0")[1].endswith(
        "leftovers of jobs: none: 0 names removed"
    )
    assert [path.name for path in run.base.glob("job-*")] == ["job-1"]


def test_trash_deadline_keeps_rest(run):
    own = Path(run("make", "--job", "1", "--uid", "65534")[1].partition("found ")[2])
    (own / "x").touch()
    assert run("remove", "--job", "1", "--seconds", "0")[1].endswith(
        "job 1: 0 names removed, the rest stays in the trash until the next run"
    )


def test_untrusted_base_fails(run):
    os.chmod(run.base.parent, 0o777)  # noqa: S103
    code, line = run("make", "--job", "1", "--uid", "65534")
    assert (code, "so users other than root could replace it" in line) == (1, True)
