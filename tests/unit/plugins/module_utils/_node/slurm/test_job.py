# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import job as slurm_job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm, SlurmError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.look import survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    Host,
    NodeError,
)

GONE = CommandResult(1, "", "slurm_load_jobs error: Invalid job id specified\n")
DOWN = CommandResult(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")


def line(job_id: int, state: str, array: str = "", code: str = "0:0", reason: str = "None") -> str:
    part = f"ArrayJobId=7 ArrayTaskId={array} " if array else ""
    state = f"JobName=x UserId=a(1) JobState={state} Reason={reason} ExitCode={code}"
    return f"JobId={job_id} {part}{state} StdOut=/o-{job_id}"


def printed(*lines: str) -> CommandResult:
    return CommandResult(0, "\n".join(lines) + "\n", "")


class Scripted(Host):
    """A host whose commands answer by program, in order; the last answer is repeated."""

    def __init__(self, files: dict[str, str] | None = None, **answers) -> None:
        self.answers = {program: list(given) for program, given in answers.items()}
        self.files = files or {}
        # Owners of files that are not the job user's, and the files that are links.
        self.owners: dict[str, int] = {}
        self.links: set[str] = set()
        self.calls: list[list[str]] = []
        self.clock = 0.0

    def run(self, argv, timeout=120, check=True, stdin=None):
        self.calls.append(list(argv))
        program = next(word.rpartition("/")[2] for word in argv if word.startswith("/slurm/bin/"))
        given = self.answers.get(program, [CommandResult(1, "", f"{program}: error")])
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def exists(self, path):
        return path.startswith("/slurm/bin/") or path in self.files

    def read_text(self, path):
        return self.files.get(path)

    def stat(self, path):
        if path not in self.files:
            return None
        return {"uid": self.owners.get(path, 1), "is_link": path in self.links, "is_dir": False}

    def identity(self, path):
        return (1, 1, hash(self.files[path])) if path in self.files else None

    def monotonic(self):
        return self.clock

    def sleep(self, seconds):
        self.clock += seconds


def follow(host: Scripted, **other) -> slurm_job.Follower:
    return slurm_job.Follower(Slurm(host, "/slurm"), 7, **other)


def test_wait_outlasts_missing_answers():
    slow = CommandError(["scontrol"], None, "", "", "no answer within 20 seconds")
    host = Scripted(scontrol=[printed(line(7, "RUNNING")), DOWN, slow, DOWN, printed(line(7, "FAILED", code="3:0"))])
    follower = follow(host)
    assert follower.wait(10, 0.5)
    assert (follower.jobs()[0]["exit_code"], host.clock) == (3, 2.0)


def test_wait_without_any_answer_is_reported():
    with pytest.raises(NodeError, match="queried job 7 for 3 seconds and the controller did not answer"):
        follow(Scripted(scontrol=[DOWN])).wait(3, 0.5)
    assert follow(Scripted(scontrol=[printed(line(7, "RUNNING")), DOWN])).wait(3, 0.5) is False


def test_missing_slurm_ends_wait():
    missing = CommandError(["scontrol"], None, "", "", "the program is not installed")
    with pytest.raises(CommandError):
        follow(Scripted(scontrol=[missing])).wait(100, 0.5)


def test_forgotten_task_stays_ended():
    host = Scripted(
        scontrol=[
            printed(line(7, "PENDING", "1-2"), line(8, "RUNNING", "0")),
            printed(line(7, "PENDING", "2"), line(9, "RUNNING", "1"), line(8, "FAILED", "0", "3:0")),
            printed(line(7, "RUNNING", "2"), line(9, "COMPLETED", "1")),
            GONE,
        ],
        sacct=[CommandResult(0, "7|7_2|COMPLETED|0:0|None|main|n1|5|x\n", "")],
    )
    follower = follow(host)
    assert follower.wait(30, 0.5)
    assert [(job["array_task_id"], job["state"], job["exit_code"]) for job in follower.jobs()] == [
        ("0", "FAILED", 3),
        ("1", "COMPLETED", 0),
        ("2", "COMPLETED", 0),
    ]
    assert (follower.source, follower.jobs()[2]["stdout"]) == ("sacct", "/o-7")


def test_tasks_cancelled_before_start_stay_one_line():
    host = Scripted(scontrol=[printed(line(7, "PENDING", "0-3%2")), printed(line(7, "CANCELLED", "0-3%2")), GONE])
    follower = follow(host)
    assert follower.wait(5, 0.5) and follower.look()
    assert [(job["array_task_id"], job["state"]) for job in follower.jobs()] == [("0-3%2", "CANCELLED")]


def test_tasks_that_never_start_end_wait():
    follower = follow(Scripted(scontrol=[printed(line(7, "PENDING", "0-6:3", reason="JobHeldUser"))]))
    assert follower.look()


def test_task_with_unknown_end_is_lost():
    host = Scripted(
        files={"/e-7_0": "0\n"},
        scontrol=[printed(line(7, "PENDING", "1%1"), line(8, "RUNNING", "0")), GONE],
    )
    follower = follow(host, exit_file="/e-%A_%a")
    assert follower.wait(5, 0.5)
    assert [(job["array_task_id"], job["state"]) for job in follower.jobs()] == [("0", "COMPLETED"), ("1", "LOST")]


def test_stale_accounting_is_ignored_after_lag():
    running = CommandResult(0, "7|7|RUNNING|0:0|None|main|n1|5|x\n", "")
    ended = CommandResult(0, "7|7|FAILED|0:9|None|main|n1|5|x\n", "")
    follower = follow(Scripted(scontrol=[GONE], sacct=[running, running, ended]))
    assert follower.wait(60, 0.5) and follower.jobs()[0]["signal"] == 9
    host = Scripted(scontrol=[GONE], sacct=[running])
    follower = follow(host)
    assert follower.wait(60, 0.5) and follower.jobs()[0]["state"] == "LOST"
    assert host.clock == slurm_job.ACCOUNTING_LAG


def test_exit_file_of_job_is_read():
    host = Scripted(files={"/e/7": "5", "/e/8": "0"}, scontrol=[printed(line(7, "RUNNING")), GONE])
    follower = follow(host, exit_file="/e/%j")
    assert follower.wait(5, 0.5)
    report = slurm_job.report(Slurm(host, "/slurm"), follower, 100)
    assert (report["exit_code"], report["ok"], report["source"], report["stdout"]) == (5, False, "exit_file", "/o-7")


@pytest.mark.parametrize("left", [{"owners": {"/e/7": 1001}}, {"links": {"/e/7"}}], ids=["of another user", "link"])
def test_exit_file_of_other_user_is_ignored(left):
    host = Scripted(files={"/e/7": "0"}, scontrol=[printed(line(7, "RUNNING")), GONE])
    vars(host).update(left)
    follower = follow(host, exit_file="/e/%j")
    assert follower.wait(5, 0.5)
    report = slurm_job.report(Slurm(host, "/slurm"), follower, 100)
    assert (report["state"], report["ok"], report["source"]) == ("LOST", False, "none")


def test_exit_file_of_unseen_job_must_be_own():
    host = Scripted(files={"/e/7": "0"}, scontrol=[GONE])
    host.owners["/e/7"] = host.own_uid()
    follower = follow(host, exit_file="/e/%j")
    assert follower.wait(5, 0.5) and follower.jobs()[0]["state"] == "COMPLETED"
    host.owners["/e/7"] += 1
    follower = follow(host, exit_file="/e/%j")
    assert follower.wait(5, 0.5) and follower.jobs()[0]["state"] == "LOST"


@pytest.mark.parametrize(("fresh", "state"), [(None, "LOST"), ("0 ", "COMPLETED")])
def test_exit_file_from_before_job_is_ignored(fresh, state):
    host = Scripted(files={"/e/7": "0"}, scontrol=[printed(line(7, "PENDING")), GONE])
    follower = follow(host, exit_file="/e/%j")
    assert follower.look() is False
    host.files["/e/7"] = fresh or "0"
    assert follower.wait(5, 0.5) and follower.jobs()[0]["state"] == state


def test_file_name_pattern_is_expanded():
    job = {"job_id": 9, "array_job_id": 7, "array_task_id": "3", "name": "x"}
    assert slurm_job.expand_pattern("/l/%x-%A_%a-%j-%%j-%N", job) == "/l/x-7_3-9-%j-%N"
    assert slurm_job.expand_pattern("%A", {**job, "array_job_id": None}) == "9"


def prepared(text: str | None, **other):
    host = Scripted(files={"/jobs/a": text} if text is not None else {})
    request = slurm_job.Request("/jobs/a", other.pop("options", {}), **other)
    return slurm_job.prepare(Slurm(host, "/slurm"), request)[0]


def test_script_directory_is_default():
    assert prepared("#!/bin/sh\n").options == {"chdir": "/jobs"}
    assert prepared("#!/bin/sh\n#SBATCH -D /other\n").options == {}
    assert prepared("#!/bin/sh\n", options={"chdir": "/own"}).options == {"chdir": "/own"}


def test_key_differs_between_submissions():
    first, same = (prepared("#!/bin/sh\n", unique=True) for _time in range(2))
    assert first.options == same.options
    assert (first.options["job-name"], first.options["comment"][:10]) == ("a", "mlcluster:")
    others = [
        prepared("#!/bin/sh\ntrue\n", unique=True),
        prepared("#!/bin/sh\n", unique=True, arguments=("1",)),
        prepared("#!/bin/sh\n", unique=True, options={"nodes": "2"}),
    ]
    assert len({request.options["comment"] for request in [first, *others]}) == 4
    assert prepared("#!/bin/sh\n", unique=True, key="k").options["comment"] == "mlcluster:k"


def test_unique_rejects_unusable_name_and_comment():
    with pytest.raises(
        NodeError, match=r"unique needs a job name .* it is a b\. unique keeps its key in .* comment out"
    ):
        prepared("#!/bin/sh\n#SBATCH --job-name='a b' --comment=mine\n", unique=True)


def test_job_is_found_by_name_and_key():
    request = slurm_job.Request("/a", {"job-name": "x", "comment": "mlcluster:k"}, unique=True)
    host = Scripted(
        squeue=[printed("5|RUNNING|mlcluster:other", "7|PENDING|mlcluster:k", "6|RUNNING|mlcluster:k", "8")]
    )
    assert slurm_job.find(Slurm(host, "/slurm"), request) == 6
    assert "--name=x" in host.calls[0]


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (printed(f"{line(6, 'COMPLETING')} Requeue=0 Restarts=0 Comment=x Requeue=1"), None),
        (printed(f"{line(6, 'COMPLETING')} Requeue=1 Restarts=0"), 6),
        (GONE, None),
        (CommandResult(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n"), 6),
    ],
    ids=["over", "may come back", "forgotten", "no answer"],
)
def test_completing_job_counts_only_if_it_may_requeue(answer, number):
    request = slurm_job.Request("/a", {"job-name": "x", "comment": "mlcluster:k"}, unique=True)
    host = Scripted(squeue=[printed("6|COMPLETING|mlcluster:k")], scontrol=[answer])
    assert slurm_job.find(Slurm(host, "/slurm"), request) == number


def test_later_of_two_simultaneous_jobs_is_cancelled():
    request = slurm_job.Request("/a", {"job-name": "x", "comment": "mlcluster:k"}, unique=True)
    both = printed("7|PENDING|mlcluster:k", "6|PENDING|mlcluster:k")

    def meet(number):
        host = Scripted(squeue=[both], scontrol=[printed(line(number, "PENDING"))], scancel=[printed()])
        return slurm_job.cancel_duplicate(Slurm(host, "/slurm"), request, number), [
            "scancel" in call[0] for call in host.calls
        ]

    assert meet(6) == (None, [False])
    assert meet(7)[0] == 6 and meet(7)[1][-1]
    host = Scripted(squeue=[CommandResult(1, "", "Unable to contact slurm controller\n")])
    assert slurm_job.cancel_duplicate(Slurm(host, "/slurm"), request, 7) is None


def test_job_environment_has_srun_path_and_no_parser_locale():
    host = Scripted(sbatch=[CommandResult(0, "12;cluster\n", "")])
    assert slurm_job.submit(Slurm(host, "/slurm", "/c"), slurm_job.Request("/a", {"nodes": "2"}, ("x",))) == 12
    (call,) = host.calls
    assert call[:5] == ["env", "-u", "LC_ALL", "-u", "LANGUAGE"] and call[5].startswith("PATH=/slurm/bin:")
    assert call[6:] == ["env", "SLURM_CONF=/c", "/slurm/bin/sbatch", "--parsable", "--nodes=2", "--", "/a", "x"]


def test_rejection_shows_sbatch_message():
    host = Scripted(sbatch=[CommandResult(1, "", "sbatch: error: Batch job submission failed: x\n")])
    with pytest.raises(SlurmError, match="sbatch rejected /a: sbatch: error: Batch job submission failed: x; correct"):
        slurm_job.submit(Slurm(host, "/slurm"), slurm_job.Request("/a", {}))


def test_ended_or_unknown_job_is_not_cancelled():
    for answer in (GONE, printed(line(7, "COMPLETED"))):
        host = Scripted(scontrol=[answer], scancel=[printed()])
        assert not slurm_job.cancel(Slurm(host, "/slurm"), 7)
        assert len(host.calls) == 1
    host = Scripted(scontrol=[printed(line(7, "RUNNING"))], scancel=[printed()])
    assert slurm_job.cancel(Slurm(host, "/slurm"), 7)
    assert host.calls[-1] == ["/slurm/bin/scancel", "7"]


def test_failed_part_of_survey_is_reported():
    host = Scripted(
        scontrol=[
            printed("Slurmctld(primary) at head is UP"),
            printed("slurm 25.11.4"),
            printed("MinJobAge = 300 sec"),
            printed("NodeName=n1 State=IDLE Gres=gpu:8"),
            printed("PartitionName=main State=UP Default=YES TotalNodes=1"),
        ],
        srun=[printed("MPI plugin types are...", "pmix"), printed("")],
    )
    found = survey(Slurm(host, "/slurm"))
    assert (found["version"], found["nodes"][0]["gpus"], found["mpi_types"]) == ("25.11.4", 8, ["pmix"])
    assert len(found["problems"]) == 1 and found["problems"][0].startswith("squeue --noheader --states=RUNNING,")


def test_slurm_directory_precedes_system_path(tmp_path):
    class Node(Scripted):
        def exists(self, path):
            return path.startswith("/opt/slurm/bin/")

        def which(self, program):
            return f"/usr/bin/{program}"

    assert Slurm(Node()).argv("squeue", "-h") == ["/opt/slurm/bin/squeue", "-h"]
    assert Slurm(Scripted(), "/slurm", "/c").argv("squeue") == ["env", "SLURM_CONF=/c", "/slurm/bin/squeue"]
    with pytest.raises(NodeError, match="looked for squeue in /none/bin and did not find it"):
        Slurm(Node(), "/none").argv("squeue")
