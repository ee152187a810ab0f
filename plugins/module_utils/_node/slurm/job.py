# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit, follow, cancel and requeue batch jobs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import posixpath
import re
import typing as t

from ..system.host import SYSTEM_PATH, CommandError, NodeError
from . import needs as slurm_needs
from . import outcome as slurm_result
from . import parse as slurm_parse
from . import request as slurm_request
from .client import Slurm, SlurmError, is_unanswered, unknown_job
from .look import survey
from .request import RequestError

# How many seconds the accounting may still list a job as running that the controller has forgotten: slurmdbd is updated
# in batches.
ACCOUNTING_LAG = 15.0
COMMENT = "mlcluster:"
_MAY_EXIST = "the controller may have accepted the job anyway: check with squeue before you submit it again"
_NAME = re.compile(r"[\w.+-]{1,64}")

Job = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Request:
    """One submission: script is an absolute path, options are sbatch's long ones, exit_file may have %j, %A and %a."""

    script: str
    options: t.Mapping[str, t.Optional[str]]
    arguments: tuple[str, ...] = ()
    unique: bool = False
    key: t.Optional[str] = None
    exit_file: t.Optional[str] = None


def prepare(slurm: Slurm, request: Request) -> tuple[Request, t.Optional[str]]:
    """Return the submission with its defaults, and the text of its script (None if the script is missing).

    Without a directory in the options or the script, the job runs in the directory of its script, so that it does not
    depend on Ansible's current directory. Raises RequestError.
    """
    text = slurm.host.read_text(request.script)
    script_options = slurm_request.directives(text or "")
    options = dict(request.options)
    if text is not None and "chdir" not in options and not script_options.get("chdir"):
        options["chdir"] = posixpath.dirname(request.script)
    if request.unique:
        name = options.get("job-name") or script_options.get("job-name") or posixpath.basename(request.script)
        problems = []
        if not _NAME.fullmatch(name):
            problems.append(f"unique needs a job name of letters, digits, '.', '_', '+' and '-', and it is {name}")
        if options.get("comment") or script_options.get("comment"):
            problems.append("unique keeps its key in the job's comment, and the job has one: leave the comment out")
        if problems:
            raise RequestError(problems)
        options["job-name"] = name
        options["comment"] = COMMENT + (request.key or fingerprint(text or "", options, request.arguments))
    return dataclasses.replace(request, options=options), text


def fingerprint(text: str, options: t.Mapping[str, t.Optional[str]], arguments: t.Sequence[str]) -> str:
    """Return a value that is equal only for identical submissions."""
    content = json.dumps([text, sorted(options.items(), key=lambda item: item[0]), list(arguments)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def problems(slurm: Slurm, request: Request, text: t.Optional[str], look: t.Optional[Job] = None) -> list[str]:
    """Return all problems of a prepared submission. Raises NodeError if the controller does not answer."""
    facts = look or survey(slurm)
    if not facts["healthy"]:
        raise NodeError(facts["problems"][0])
    folder = posixpath.dirname(request.script)
    found = slurm_request.problems(
        request.script, text, request.options, folder, facts, slurm.host.exists, lambda job: known(slurm, job)
    )
    return found + slurm_needs.problems(slurm.host, request.script, text or "")


def known(slurm: Slurm, job_id: int) -> bool:
    """Return whether the controller or the accounting knows the job; True if neither answers."""
    if not unknown_job(slurm.run("scontrol", "--oneliner", "show", "job", str(job_id))):
        return True
    return bool(Follower(slurm, job_id).accounting_records())


def find(slurm: Slurm, request: Request) -> t.Optional[int]:
    """Return the number of this user's waiting or running job with the same name and key; None if there is none.

    Returns the oldest of several. An ended job does not count, even while its nodes are completing. Raises SlurmError.
    """
    text = slurm.ask("squeue", "--me", "--noheader", f"--name={request.options['job-name']}", "--format=%F|%T|%k")
    rows = [line.split("|", 2) for line in text.splitlines()]
    same = sorted({(int(row[0]), row[1]) for row in rows if len(row) == 3 and row[2] == request.options["comment"]})
    return next((number for number, state in same if state != "COMPLETING" or _may_be_requeued(slurm, number)), None)


def _may_be_requeued(slurm: Slurm, job_id: int) -> bool:
    """Return whether a completing job may be requeued; True if the controller does not answer."""
    completed = slurm.run("scontrol", "--oneliner", "show", "job", str(job_id))
    return slurm_parse.requeues(completed.stdout) if completed.rc == 0 else not unknown_job(completed)


def cancel_duplicate(slurm: Slurm, request: Request, number: int) -> t.Optional[int]:
    """Cancel our job if the same job was submitted just before it, and return the number of that job.

    Two submitters that both looked before the other submitted see both jobs now; only the later one is cancelled.
    Returns None if ours is the first, or if the controller does not answer. Raises SlurmError if the cancelling fails.
    """
    try:
        oldest = find(slurm, request)
    except NodeError:
        return None
    if oldest is None or oldest >= number:
        return None
    cancel(slurm, number)
    return oldest


def duplicate_message(number: int, request: Request, done: str) -> str:
    """Return the message for an existing identical job; ``done`` is the outcome of the submission."""
    return (
        f"job {number}, {request.options['job-name']}, is the same and has not ended, so {done} and job {number} is "
        "used: cancel it with scancel to run it again"
    )


def _sbatch(slurm: Slurm, request: Request, *first: str) -> str:
    command = slurm.argv("sbatch", *first, *slurm_request.argv(request.script, request.options, request.arguments))
    # The job inherits this environment: without the locale for our parsers, with the path of srun.
    path = f"{slurm.prefix}/bin:{SYSTEM_PATH}" if slurm.prefix else SYSTEM_PATH
    completed = slurm.host.run(["env", "-u", "LC_ALL", "-u", "LANGUAGE", f"PATH={path}", *command], check=False)
    reported = " ".join((completed.stderr or completed.stdout).split())
    if is_unanswered(completed):
        raise SlurmError(f"sbatch got no answer for {request.script}", reported, _MAY_EXIST)
    if completed.rc != 0:
        raise SlurmError(
            f"sbatch rejected {request.script}", reported, "correct the reported setting, then submit again"
        )
    return completed.stdout or completed.stderr


def test_only(slurm: Slurm, request: Request) -> str:
    """Return what sbatch predicts for a submission. Raises SlurmError if it would be rejected."""
    return " ".join(_sbatch(slurm, request, "--test-only").split())


def submit(slurm: Slurm, request: Request) -> int:
    """Submit and return the job's number. Raises SlurmError with sbatch's message."""
    text = _sbatch(slurm, request, "--parsable")
    # A plugin of the site may print lines before or after it.
    lines = [re.fullmatch(r"(\d+)(;\S+)?", line.strip()) for line in text.splitlines()]
    found = [line.group(1) for line in lines if line]
    if not found:
        raise SlurmError("sbatch printed no job number", text.strip(), "look for the job with squeue")
    return int(found[-1])


def submit_once(slurm: Slurm, request: Request, progress: t.Callable[[str], None]) -> tuple[int, bool]:
    """Submit unless the same job waits or runs; return the number of the job, and whether it was submitted.

    ``progress`` gets the message on an existing job. Raises SlurmError.
    """
    running = find(slurm, request)
    if running is not None:
        progress(duplicate_message(running, request, "nothing was submitted"))
        return running, False
    number = submit(slurm, request)
    older = cancel_duplicate(slurm, request, number)
    if older is None:
        return number, True
    progress(duplicate_message(older, request, f"job {number} was cancelled"))
    return older, True


def expand_pattern(pattern: str, job: t.Mapping[str, t.Any]) -> str:
    """Return a file name with Slurm's %j, %A, %a, %x and %% expanded."""
    values = {
        "j": str(job["job_id"]),
        "A": str(job["array_job_id"] or job["job_id"]),
        "a": str(job["array_task_id"] or ""),
        "x": str(job["name"] or ""),
        "%": "%",
    }
    return re.sub(r"%([jAax%])", lambda found: values[found.group(1)], pattern)


def _is_bundle(task: t.Optional[str]) -> bool:
    """Return whether one line of Slurm is for several tasks: "2-5%2"."""
    return task is not None and not task.isdecimal()


class Follower:
    """The last seen state of a job, or of the tasks of an array, until each has ended.

    The controller may forget an ended task while others still run.
    """

    def __init__(self, slurm: Slurm, job_id: int, exit_file: t.Optional[str] = None) -> None:
        self.slurm = slurm
        self.job_id = job_id
        self.exit_file = exit_file
        self.seen: dict[t.Optional[str], Job] = {}
        self.expected: set[t.Optional[str]] = set()
        self.answered = False
        self.source = "scontrol"
        # The owner of a valid exit file: the job's user, or until that is known, the user of this process.
        self.uid = slurm.host.own_uid()
        self._gone_at: t.Optional[float] = None
        # Identity of a file named like an exit file while its job was pending: a new head node counts jobs from 1.
        self._earlier: dict[str, t.Optional[tuple[int, int, int]]] = {}

    def jobs(self) -> list[Job]:
        """Return the jobs seen so far, ordered by task."""
        return sorted(self.seen.values(), key=lambda job: (len(str(job["array_task_id"])), str(job["array_task_id"])))

    def look(self) -> bool:
        """Look once; return whether nothing is left to wait for. False if the controller does not answer."""
        try:
            completed = self.slurm.run("scontrol", "--oneliner", "show", "job", str(self.job_id), timeout=20)
        except CommandError as exc:
            if exc.rc is None and "not installed" in str(exc):
                raise
            return False
        if completed.rc == 0:
            self.answered = True
            self._gone_at = None
            self._owner(completed.stdout)
            self._take(slurm_result.whole(slurm_parse.jobs(completed.stdout, of=self.job_id)))
            # A task that disappeared between two looks is over; its outcome is resolved at the end.
            return slurm_result.settled(list(self.seen.values())) and not self._missing()
        if unknown_job(completed):
            self.answered = True
            return self._resolve()
        return False

    def _owner(self, text: str) -> None:
        found = re.search(r"\sUserId=\S+\((\d+)\)", text)
        self.uid = int(found.group(1)) if found else self.uid

    def _take(self, found: t.Sequence[Job]) -> None:
        listed = {job["array_task_id"] for job in found}
        self._forget(lambda bundle: bundle not in listed)
        for job in found:
            task = job["array_task_id"]
            if self.exit_file and job["state"] == "PENDING":
                path = expand_pattern(self.exit_file, job)
                self._earlier[path] = self.slurm.host.identity(path)
            self.expected |= set(slurm_parse.task_ids(task)) if _is_bundle(task) else {task}
            self.seen[task] = slurm_result.merged(job, self.seen.get(task))

    def _forget(self, of: t.Callable[[str], bool]) -> None:
        """Drop the lines for several tasks, except for tasks that ended together (cancelled before they started)."""
        for task, job in list(self.seen.items()):
            if task is not None and _is_bundle(task) and of(task) and not slurm_result.ended(job):
                del self.seen[task]

    def _missing(self) -> set[t.Optional[str]]:
        """Return the expected tasks that no line lists."""
        bundled = {number for task in self.seen if task and _is_bundle(task) for number in slurm_parse.task_ids(task)}
        return self.expected - set(self.seen) - bundled

    def _resolve(self) -> bool:
        """Read the end of unfinished tasks from accounting or exit file; return False if the accounting lags."""
        now = self.slurm.host.monotonic()
        if self._gone_at is None:
            self._gone_at = now
        self._forget(lambda bundle: True)
        known_parts = {task for task in self.seen if not _is_bundle(task)} | self._missing()
        by_task = {job["array_task_id"]: job for job in self.accounting_records()}
        waiting = False
        for task in known_parts or (set() if self.seen else set(by_task) or {None}):
            known = self.seen.get(task)
            if known and slurm_result.ended(known):
                continue
            job = by_task.get(task)
            if job and not slurm_result.ended(job) and now - self._gone_at < ACCOUNTING_LAG:
                waiting = True
                continue
            if job and slurm_result.ended(job):
                self.source = "sacct"
            else:
                job = self._from_file(task, known)
            self.seen[task] = slurm_result.merged(job, known)
        return not waiting

    def accounting_records(self) -> list[Job]:
        """Return the job as recorded by the accounting; empty without accounting."""
        options = ("--allocations", "--noheader", "--parsable2", f"--jobs={self.job_id}")
        try:
            completed = self.slurm.run("sacct", *options, f"--format={slurm_parse.SACCT_FORMAT}")
        except NodeError:
            return []
        return slurm_result.whole(slurm_parse.parse_sacct(completed.stdout)) if completed.rc == 0 else []

    def _from_file(self, task: t.Optional[str], known: t.Optional[Job]) -> Job:
        blank: Job = slurm_result.blank(known["job_id"] if known else self.job_id)
        if task is not None:
            blank.update(array_job_id=self.job_id, array_task_id=task)
        found = None
        if self.exit_file:
            path = expand_pattern(self.exit_file, slurm_result.merged(blank, known))
            state = self.slurm.host.stat(path)
            # Others may write there too: a file of another user, or a link, proves nothing about this job.
            is_earlier = path in self._earlier and self._earlier[path] == self.slurm.host.identity(path)
            if state and not state["is_link"] and state["uid"] == self.uid and not is_earlier:
                found = slurm_result.from_exit_file(blank["job_id"], self.slurm.host.read_text(path))
        self.source = "exit_file" if found else "none"
        return {**(found or blank), "array_job_id": blank["array_job_id"], "array_task_id": task}

    def wait(self, timeout: float, poll: float) -> bool:
        """Look until the job has ended; return False after ``timeout`` seconds. Raises NodeError without any answer."""
        deadline = self.slurm.host.monotonic() + timeout
        while not self.look():
            if self.slurm.host.monotonic() >= deadline:
                if not self.answered:
                    raise NodeError(
                        f"queried job {self.job_id} for {timeout:g} seconds and the controller did not answer: the "
                        "job may continue; follow it with job_id once 'scontrol ping' shows the controller up"
                    )
                return False
            self.slurm.host.sleep(poll)
        return True


def cancel(slurm: Slurm, job_id: int) -> bool:
    """Cancel a job; return False if it has ended or is unknown. Raises SlurmError."""
    before = slurm.run("scontrol", "--oneliner", "show", "job", str(job_id))
    if unknown_job(before):
        return False
    if before.rc == 0 and all(slurm_result.ended(job) for job in slurm_parse.jobs(before.stdout, of=job_id)):
        return False
    slurm.ask("scancel", str(job_id))
    return True


def requeue(slurm: Slurm, job_id: int) -> None:
    """Put a job back into the queue. Raises SlurmError with Slurm's reason if that fails."""
    slurm.ask("scontrol", "requeue", str(job_id))


def tail(slurm: Slurm, job: t.Mapping[str, t.Any], which: str, size: int) -> tuple[t.Optional[str], str]:
    """Return the path of a job's stdout or stderr, and its last ``size`` bytes; empty if it cannot be read."""
    path = expand_pattern(job[which], job) if job[which] else None
    if not path or not size or not slurm.host.exists(path):
        return path, ""
    try:
        return path, slurm.host.run(["tail", "-c", str(size), "--", path], timeout=20).stdout
    except CommandError:
        return path, ""


def submitted_job(job_id: int) -> dict[str, t.Any]:
    """Return a submitted job that was not looked at yet, in the format of ``report``."""
    result = slurm_result.summary([{**slurm_result.blank(job_id), "state": "UNKNOWN"}])
    nothing = {"stdout": None, "stdout_tail": "", "stderr": None, "stderr_tail": ""}
    return {**result, "source": "none", **nothing, "tasks": []}


def report(slurm: Slurm, follower: Follower, size: int) -> dict[str, t.Any]:
    """Return what is known of the job: ``slurm_result.summary`` and more.

    tasks: the parts of an array; stdout, stderr and their tails: those of the part that determined the summary.
    """
    jobs = follower.jobs()
    result = slurm_result.summary(jobs or [slurm_result.blank(follower.job_id)])
    result["source"] = follower.source
    same = [job for job in jobs if (job["state"], job["exit_code"]) == (result["state"], result["exit_code"])]
    for which in ("stdout", "stderr"):
        result[which], result[f"{which}_tail"] = tail(slurm, same[0], which, size) if same else (None, "")
    if result["stderr"] == result["stdout"]:
        result["stderr_tail"] = ""
    result["tasks"] = [job for job in jobs if job["array_task_id"] is not None]
    return result
