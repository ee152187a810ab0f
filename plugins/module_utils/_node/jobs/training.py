# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training from start to end: hold its directory, resume, request a checkpoint, save, back up, prune, requeue.

A checkpoint is requested by USR1 (from Slurm before the time limit, or from a user), before the end of the nodes'
capacity, and by an announcement of EC2 to one of the nodes.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import posixpath
import re
import shlex
import shutil
import subprocess
import time
import typing as t

from ..system import files
from . import checkpoints
from .live import Child, LiveWork, opened_file, write
from .ports import address, choose_port
from .spec import Spec
from .step import Step, container_options, each_node, srun, unset_disabled_plugin, with_variables
from .work import JobError, SignalError, Work

# Seconds between two tries to reach a controller that does not answer, for example during a restart.
RETRY_SECONDS = 5.0
# A controller that answers and rejects is not queried again.
_SILENT = re.compile(r"unable to contact|timed out|zero bytes|unexpected message|communication", re.IGNORECASE)
_MARKS = (checkpoints.BACKED_UP, checkpoints.BEGUN)
# Signs that are not themselves in a pattern of the AWS CLI.
_SIGN = re.compile(r"[*?\[]")
GPU_FIELDS = (
    "timestamp,index,utilization.gpu,memory.used,temperature.gpu,power.draw,clocks.sm,"
    "ecc.errors.uncorrected.volatile.total"
)


class Times(t.NamedTuple):
    """Seconds until the capacity ends and until a checkpoint is requested (None: never), and a note for the log."""

    left: int
    until_request: t.Optional[int]
    note: str


def capacity(values: t.Mapping[str, t.Any], now: float, restart: int) -> Times:
    """Return the seconds until a checkpoint is requested for the end of the capacity (None: never), and a note.

    ``ends_at`` is the end of a capacity block or a reservation. Pure.
    """
    ends_at, signal_seconds = values["ends_at"], values["signal_seconds"]
    left = int(datetime.datetime.strptime(ends_at, "%Y-%m-%dT%H:%M:%S%z").timestamp()) - int(now)
    until_request = left - signal_seconds
    if left <= 0:
        # The nodes still exist, so the time is not theirs; using it would consume every requeue at once.
        return Times(left, None, f"ignores ends_at, for {ends_at} is past")
    if until_request <= 0 and restart > 0:
        # It was requested in the last run already; a request at each start would consume all requeues.
        note = f"continues until the nodes stop, for ends_at is {left} seconds away and signal_seconds {signal_seconds}"
        return Times(left, None, note)
    return Times(left, max(until_request, 0), "")


def processes(gpus: int, on_node: str | None) -> int:
    """Return the number of processes on a node: one for each GPU that the job has there. Pure."""
    count = gpus or 1
    given = int(on_node) if on_node and on_node.isdecimal() else count
    return count if count <= given else max(given, 1)


def hold_command(spec: Spec) -> tuple[str, ...]:
    """Return the command that locks the directory for checkpoints against other trainings."""
    return (spec.python, "-m", "mlcluster_data", "hold", spec.values["checkpoints"])


def notice_command(work: Work) -> tuple[str, ...]:
    """Return the step that looks on each node for announcements of EC2, which only the instance itself gets.

    Its tasks continue after one has found an announcement: if the end of a task ended the step, its output would be
    lost.
    """
    values = work.spec.values
    return (
        *each_node(work.nodes, overlap=True, kill_on_bad_exit=0),
        *(*work.spec.mlcluster, "instance-notice"),
        *("--before", str(values["signal_seconds"]), "--every", str(values["notice_seconds"])),
    )


def monitor_command(work: Work) -> tuple[str, ...]:
    """Return the step that records the state of the GPUs of each node during the training, without using a GPU."""
    every = work.spec.values["monitor_seconds"]
    return (
        *each_node(work.nodes, overlap=True, output=work.file("gpu-%N.csv")),
        *("nvidia-smi", "--format=csv", f"--loop={every}", f"--query-gpu={GPU_FIELDS}"),
    )


def copy_target(spec: Spec, checkpoint: str) -> str:
    """Return the place of a checkpoint's copy in S3."""
    return "/".join((spec.values["backup"], spec.name, posixpath.basename(checkpoint)))


def list_command(spec: Spec, target: str) -> tuple[str, ...]:
    """Return the command that ends with 1, and no output, where there is nothing below a place in S3.

    Source: awscli, customizations/s3/subcommands.py, ListCommand.
    """
    return (spec.tools["aws"], "s3", "ls", f"{target}/")


def claim_command(spec: Spec, checkpoint: str, claim: str) -> tuple[str, ...]:
    """Return the command that writes a claim on a place in S3: an object beside it, with a name of this copy alone.

    Only its name matters. Its content is that of the marker, a file that is there also on a full disk.
    """
    return (
        spec.tools["aws"],
        "s3",
        "cp",
        "--only-show-errors",
        posixpath.join(checkpoint, spec.values["marker"]),
        claim,
    )


def claims_command(spec: Spec, target: str) -> tuple[str, ...]:
    """Return the command that lists the claims on a place in S3, and other places beside it."""
    return (spec.tools["aws"], "s3", "ls", f"{target}.")


def send_command(spec: Spec, checkpoint: str, target: str) -> tuple[str, ...]:
    """Return the command that copies the missing files of a checkpoint to S3, without the marker.

    aws s3 sync compares no content, but a place has files of one content only, so the size identifies a copied file.
    """
    left_out = _without(checkpoint, *_MARKS, spec.values["marker"])
    return (spec.tools["aws"], "s3", "sync", "--size-only", "--only-show-errors", *left_out, checkpoint, target)


def marker_command(spec: Spec, target: str) -> tuple[str, ...]:
    """Return the command that writes its input as the file that marks a checkpoint complete, after all others."""
    return (spec.tools["aws"], "s3", "cp", "--only-show-errors", "-", f"{target}/{spec.values['marker']}")


def rest_command(spec: Spec, checkpoint: str, target: str) -> tuple[str, ...]:
    """Return the command that lists the files of a checkpoint that S3 lacks, or has in another size."""
    left_out = _without(checkpoint, *_MARKS)
    return (spec.tools["aws"], "s3", "sync", "--size-only", "--dryrun", *left_out, checkpoint, target)


def _without(checkpoint: str, *names: str) -> list[str]:
    """Return the options that leave out these files of a checkpoint.

    A name is a pattern there, and the AWS CLI begins it with the path of the checkpoint unless it is absolute. Source:
    awscli, customizations/s3/filters.py.
    """
    whole = [posixpath.join(checkpoint, name) for name in names] if _SIGN.search(checkpoint) else names
    return [word for name in whole for word in ("--exclude", _SIGN.sub(r"[\g<0>]", name))]


def request_file(spec: Spec) -> str:
    """Return the path of the file that requests a checkpoint of a training."""
    return posixpath.join(spec.values["checkpoints"], "checkpoint-now")


def step_file(work: Work) -> str:
    """Return the path for step times; each process of a training appends its number on the node.

    ``node/step_times.py`` reads them; a room above this one.
    """
    return f"/dev/shm/mlcluster-steps.{work.number}"  # noqa: S108 read back only as a file of the job's user


def training_command(work: Work, per_node: int, resume: str, master: str, port: int) -> tuple[str, ...]:
    """Return the step of the training itself, with ``per_node`` processes on each node."""
    spec, values = work.spec, work.spec.values
    torchrun = values["launcher"] == "torchrun"
    tasks = 1 if torchrun else per_node
    variables = {
        **spec.environment,
        "MLCLUSTER_CHECKPOINTS": values["checkpoints"],
        "MLCLUSTER_RESUME": resume,
        "MLCLUSTER_CHECKPOINT_REQUEST": request_file(spec),
        "MLCLUSTER_STEP_FILE": step_file(work),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port),
    }
    if torchrun:
        # A rendezvous would number the nodes in the order of their arrival. The place in Slurm's list is always the
        # same, and each task passes that of its own node.
        launch: tuple[str, ...] = (
            *("--node-rank", "--", "torchrun", f"--nnodes={len(work.nodes)}", f"--nproc-per-node={per_node}"),
            *("--max-restarts=0", f"--master-addr={master}", f"--master-port={port}"),
        )
    else:
        launch = ("--ranks", "--")
    step = srun(
        nodes=len(work.nodes),
        ntasks_per_node=tasks,
        ntasks=len(work.nodes) * tasks,
        mpi="none",
        cpu_bind="none",
        kill_on_bad_exit=1,
        chdir=values["directory"] if values["directory"] and spec.container is None else None,
    )
    scratch = ("--scratch", spec.scratch) if spec.scratch else ()
    return (
        *(*step, *container_options(spec.container), *with_variables(variables, spec.container)),
        *(
            *spec.mlcluster,
            "job-exec",
            *unset_disabled_plugin(variables, spec.container),
            *scratch,
            *launch,
            *map(str, values["command"]),
        ),
    )


def show(work: Work) -> None:
    """Show the steps of a training."""
    spec, values = work.spec, work.spec.values
    work.note(f"PYTHONPATH={shlex.quote(spec.dir)}, until the end of the job:")
    work.run(*hold_command(spec))
    if values["ends_at"]:
        work.note(f"requests a checkpoint {values['signal_seconds']} seconds before {values['ends_at']}")
    if values["notice_seconds"]:
        work.note("beside the training, and requests a checkpoint for what it finds:")
        work.run(*notice_command(work), stderr=work.file("notice.log"))
    if values["monitor_seconds"]:
        work.note("beside the training:")
        work.run(*monitor_command(work))
    work.run(*training_command(work, processes(spec.gpus, None), "LATEST", "ADDRESS", choose_port(work, work.nodes[0])))
    if values["backup"]:
        work.note("for each complete checkpoint that is not backed up, the newest first:")
        checkpoint = posixpath.join(values["checkpoints"], "CHECKPOINT")
        target = copy_target(spec, checkpoint)
        work.run(*list_command(spec, target))
        work.run(*claim_command(spec, checkpoint, checkpoints.claim(target, "CONTENT")))
        work.run(*claims_command(spec, target))
        work.run(*send_command(spec, checkpoint, target))
        work.note(f"with {posixpath.join(checkpoint, values['marker'])} as input:")
        work.run(*marker_command(spec, target))
        work.run(*rest_command(spec, checkpoint, target))
    work.note(f"after a request, unless the training ended with 0, at most {values['requeues']} times:")
    work.run("scontrol", "requeue", work.number)
    only = " that are backed up" if values["backup"] else ""
    work.note(f"keeps the newest {values['keep']} complete checkpoints and removes older ones{only}")


def run(work: Work) -> int:
    """Run a training, or show its steps, and return its exit status."""
    if not isinstance(work, LiveWork):
        show(work)
        return 0
    return Training(work).run()


class Training:
    """One start of a training. ``signalled``: a checkpoint was requested; ``ended_with``: its own exit status."""

    def __init__(self, work: LiveWork) -> None:
        self.work = work
        self.spec = work.spec
        self.values = work.spec.values
        restart = work.variables.get("SLURM_RESTART_COUNT", "")
        self.restart = int(restart) if restart.isdecimal() else 0
        self.signalled = False
        self.requested = False
        self.ended_with: int | None = None
        self.child: Child | None = None
        self._until: dict[str, float] = {}
        self._announced = -1
        self._text = b""

    def note(self, text: str) -> None:
        """Print an event and write it to the results."""
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} restart {self.restart}: {text}\n"
        write(1, line)
        with contextlib.suppress(OSError):
            self.work.append("events.log", line)

    def run(self) -> int:
        """Run the training with its directory locked; return its exit status. Raises ``JobError``, ``SignalError``."""
        try:
            os.makedirs(self.values["checkpoints"], exist_ok=True)
        except OSError as exc:
            raise JobError(
                f"{self.values['checkpoints']} could not be made ({exc.strerror}): set checkpoints to a directory that "
                "you may write to"
            ) from None
        self.work.kept.take()
        with held_directory(self) as holder:
            if holder is None:
                self.note("did not start, since its directory for checkpoints is not available")
                return 1
            # From here on there may be checkpoints, so a signal first saves them.
            self.work.keeps_at_once = False
            try:
                status = self._train()
            except SignalError as exc:
                return self._finish(exc.status, holder)
            except JobError as exc:
                self.work.log(str(exc), 2)
                return self._finish(exc.status, holder)
            except BaseException:
                self._finish(2, holder)
                raise
            return self._finish(status, holder)

    def _train(self) -> int:
        self._remove_request()
        try:
            newest = checkpoints.latest(self._find())
        except OSError as exc:
            raise JobError(
                f"{exc.filename} cannot be read ({exc.strerror}), so the checkpoint to resume from is unknown: see "
                "that the file system answers, and submit again"
            ) from None
        resume = newest.path if newest else ""
        nodes = self.work.nodes
        self.note(f"starts on {' '.join(nodes)}, resumes from {resume or 'nothing'}")
        self._watch()
        per_node = processes(self.spec.gpus, self.work.variables.get("SLURM_GPUS_ON_NODE"))
        port, master = choose_port(self.work, nodes[0]), address(self.work, nodes[0])
        self.child = self.work.start(Step(training_command(self.work, per_node, resume, master, port)))
        while self.child.running:
            self._look()
            self.work.stop_if_signalled()
            self.work.signals.wait(self._seconds(), [self._announced] if self._announced >= 0 else [])
        self._look()
        # A signal that arrived before the end of the training is known takes precedence over that end.
        self.work.stop_if_signalled()
        status = self.ended_with = self.child.status
        self.note(f"training ended with {status}")
        self._remove_request()
        self.work.stop_if_signalled()
        if status and self.signalled and self.restart < self.values["requeues"]:
            self._save()
            self._requeue()
        return status

    def _find(self) -> list[checkpoints.Checkpoint]:
        """Return the checkpoints. Raises OSError."""
        return checkpoints.find(self.work.host, self.values["checkpoints"], self.values["marker"])

    def _found(self) -> list[checkpoints.Checkpoint]:
        """Return the checkpoints, none if they cannot be read."""
        try:
            return self._find()
        except OSError as exc:
            self.work.log(f"{exc.filename} cannot be read ({exc.strerror}): its checkpoints are kept", 2)
            return []

    # Sources of a request for a checkpoint

    def _watch(self) -> None:
        """Start the processes that run beside the training."""
        if self.values["ends_at"]:
            times = capacity(self.values, time.time(), self.restart)
            if times.note:
                self.note(times.note)
            if times.until_request is not None:
                self._until["capacity"] = self.work.host.monotonic() + times.until_request
        if self.values["notice_seconds"]:
            read, write = os.pipe2(os.O_CLOEXEC)
            log = opened_file(self.work.file("notice.log"), os.O_APPEND)
            self.work.start(Step(notice_command(self.work)), stdout=write, stderr=log)
            os.close(write)
            os.close(log)
            self._announced = read
        if self.values["monitor_seconds"]:
            self.work.start(Step(monitor_command(self.work)))

    def _seconds(self) -> float | None:
        """Return the time until the next due event."""
        due = min(self._until.values(), default=None)
        return None if due is None else max(0.0, due - self.work.host.monotonic())

    def _due(self, name: str) -> bool:
        if name not in self._until or self._until[name] > self.work.host.monotonic():
            return False
        del self._until[name]
        return True

    def _look(self) -> None:
        """Handle signals and announcements since the last call."""
        if self.work.signals.noted or self._due("capacity") or self._has_announced():
            self.signalled = True
        if self.child is None or not self.child.running:
            return
        if self.signalled and not self.requested:
            self._request()
        if self._due("grace"):
            # A training that ignores the request must end before Slurm ends the job.
            self.child.terminate()

    def _has_announced(self) -> bool:
        """Return whether a node printed a line; the first counts."""
        if self._announced < 0:
            return False
        os.set_blocking(self._announced, False)
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._announced, 4096)
            self._text += piece
            if piece and b"\n" not in self._text:
                return False
            os.close(self._announced)
            self._announced = -1
            if b"\n" in self._text:
                line = self._text.partition(b"\n")[0].decode("utf-8", "replace")
                self.work.append("notice.log", f"{line}\n")
                return True
        return False

    def _request(self) -> None:
        self.requested = True
        try:
            touch(request_file(self.spec))
        except OSError as exc:
            self.note(f"could not write {request_file(self.spec)}: {exc.strerror}")
        self.note("asks for a checkpoint")
        self._until["grace"] = self.work.host.monotonic() + self.values["grace_seconds"]

    def _remove_request(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(request_file(self.spec))

    # After the training

    def _requeue(self) -> None:
        self.note("goes back into the queue")
        while True:
            status, errors = self.work.answer("scontrol", "requeue", self.work.number, stderr=subprocess.STDOUT)
            if not status:
                return
            self.note(f"is not in the queue: {' '.join(errors.split())}")
            if not _SILENT.search(errors):
                return
            due = self.work.host.monotonic() + RETRY_SECONDS
            while self.work.host.monotonic() < due:
                self.work.signals.wait(max(0.0, due - self.work.host.monotonic()))
                self.work.stop_if_signalled()

    def _save(self) -> None:
        """Copy each complete checkpoint to S3 once, the newest first, since there may be time for one only.

        A copy counts only if a second run finds nothing left to send.
        """
        if not self.values["backup"]:
            return
        for entry in self._found():
            if not entry.complete or entry.backed_up:
                continue
            target = self._copied(entry)
            again = f" to {target}" if target and target != copy_target(self.spec, entry.path) else ""
            self.note(f"backed up {entry.path}{again}" if target else f"NOT backed up: {entry.path}")

    def _copied(self, entry: checkpoints.Checkpoint) -> str:
        """Copy a checkpoint to S3; return the place of the verified copy, empty without one."""
        path = entry.path
        try:
            before = checkpoints.content(path)
            target = self._place(entry, before or "")
        except OSError as exc:
            self.note(f"cannot use {path}: {exc.strerror}")
            return ""
        if not target:
            return ""
        # A full disk takes no mark, and this is when a copy is needed most. Without the mark, a copy that is cut short
        # is not continued later.
        with contextlib.suppress(OSError):
            checkpoints.begin_copy(path, target, before)
        if self.work.run(*send_command(self.spec, path, target)):
            return ""
        try:
            with present_content(posixpath.join(path, self.values["marker"])) as marker:
                # Files that were written during the copy never get the marker in S3, nor a marker that was written
                # after this look any files: beside those of the earlier content it would make them look whole.
                if checkpoints.content(path) != before or not self._has_sent_marker(marker, target):
                    return ""
            status, left = self.work.answer(*rest_command(self.spec, path, target))
            if status or left.strip() or checkpoints.content(path) != before:
                return ""
            checkpoints.end_copy(path, target, before)
        except OSError:
            return ""
        return target

    def _has_sent_marker(self, marker: int, target: str) -> bool:
        child = self.work.start(Step(marker_command(self.spec, target)), stdin=marker)
        self.work.wait_for([child])
        return child.status == 0

    def _place(self, entry: checkpoints.Checkpoint, content: str) -> str:
        """Return the place for the copy of this content of a checkpoint, empty without one. Raises OSError.

        A place never gets files of a second content: where a copy is cut short over an older one, the marker of that
        would make the mixture look complete, and no good copy would be left.
        """
        host, path, first = self.work.host, entry.path, copy_target(self.spec, entry.path)
        again = checkpoints.next_place(first, content)
        if checkpoints.has_begun_copy(host, path, first, content):
            return first
        status, listed = self.work.answer(*list_command(self.spec, first))
        if status:
            is_empty = status == 1 and not listed.strip()
            return (first if self._has_claimed(path, first, content) else again) if is_empty else ""
        if self._has_same_manifest(first, path):
            # The manifest proves nothing about files that it does not list.
            place = first if checkpoints.lists_every_file(host, path, self.values["marker"]) else again
        elif self._has_only_claim(first, content):
            # A copy that was cut short on a full disk, which took no mark.
            place = first
        elif checkpoints.has_copy_at(host, path, first):
            place = again
        else:
            self.note(f"{first} holds another checkpoint of that name: set backup to a prefix of this training alone")
            return ""
        return place if self._is_good(entry) else ""

    def _has_claimed(self, path: str, first: str, content: str) -> bool:
        """Claim an empty place in S3; return whether no other copy has ever claimed it.

        Of two that find it empty at the same moment, the later claim sees both. Until the answer is known, the mark is
        of the place that no other copy can have; a full disk takes no mark.
        """
        with contextlib.suppress(OSError):
            checkpoints.begin_copy(path, checkpoints.next_place(first, content), content)
        if self.work.run(*claim_command(self.spec, path, checkpoints.claim(first, content))):
            return False
        return self._has_only_claim(first, content)

    def _has_only_claim(self, first: str, content: str) -> bool:
        """Return whether a copy of this content alone has claimed a place, so that S3 has only its files there."""
        status, listed = self.work.answer(*claims_command(self.spec, first))
        claims = [line for line in listed.splitlines() if line.endswith(checkpoints.CLAIM)]
        own = posixpath.basename(checkpoints.claim(first, content))
        return status == 0 and len(claims) == 1 and claims[0].endswith(f" {own}")

    def _is_good(self, entry: checkpoints.Checkpoint) -> bool:
        """Return whether a checkpoint may get another copy; False if its content is not that of its manifest."""
        marker = self.values["marker"]
        if not checkpoints.is_manifest(self.work.host.read_text(posixpath.join(entry.path, marker))):
            return True
        if checkpoints.has_its_content(self.work.host, entry, marker, lists_files=True):
            return True
        self.note(f"{entry.path} differs from its manifest, so it is not copied again")
        return False

    def _has_same_manifest(self, target: str, path: str) -> bool:
        """Return whether the copy has the manifest of this checkpoint, as after a restore from it."""
        marker = self.values["marker"]
        text = self.work.host.read_text(posixpath.join(path, marker))
        if not checkpoints.is_manifest(text):
            return False
        status, remote_marker = self.work.answer(self.spec.tools["aws"], "s3", "cp", f"{target}/{marker}", "-")
        return status == 0 and remote_marker == text

    def _finish(self, status: int, holder: Child) -> int:
        """End all running steps, save, prune and store the status; return it.

        The training's own status counts, even if a signal arrives after its end, as with a requeue. On another signal
        the job still saves first, as long as Slurm allows.
        """
        work = self.work
        status = status if self.ended_with is None else self.ended_with
        work.stops = False
        work.signals.ignore()
        work.terminate(but=holder)
        self._save()
        found, values = self._found(), self.values
        if found:
            removed, _code = checkpoints.prune(
                work.host, values["checkpoints"], values["marker"], values["keep"], bool(values["backup"]), found
            )
            write(1, "".join(f"{path}\n" for path in removed))
        self.note(f"ends with {status}")
        work.kept.keep_status(status)
        # No other job may have the directory before its end.
        if self.child is not None and self.child.running:
            work.wait_for([self.child])
            self._save()
        if self._announced >= 0:
            os.close(self._announced)
        return status


def touch(path: str) -> None:
    """Create an empty file if it is missing. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        os.close(files.open_new(path, 0o644))


@contextlib.contextmanager
def present_content(path: str) -> t.Iterator[int]:
    """Yield a descriptor of the content that a file has now, whatever is written to it later. Raises OSError."""
    with os.fdopen(os.memfd_create("content", os.MFD_CLOEXEC), "w+b") as kept:
        # A pipe would be waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            shutil.copyfileobj(file, kept)
        kept.seek(0)
        yield kept.fileno()


@contextlib.contextmanager
def held_directory(training: Training) -> t.Iterator[Child | None]:
    """Lock the directory for checkpoints for this training; yield None if another one has it.

    It is locked until the end of the with statement, which closes the input of the holder.
    """
    work, spec = training.work, training.spec
    (ours_in, its_out), (its_in, ours_out) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    try:
        holder = work.start(Step(hold_command(spec)), stdin=its_in, stdout=its_out, more={"PYTHONPATH": spec.dir})
    finally:
        os.close(its_in)
        os.close(its_out)
    try:
        line = b""
        while not line.endswith(b"\n"):
            work.signals.wait(None, [ours_in])
            work.stop_if_signalled()
            os.set_blocking(ours_in, False)
            with contextlib.suppress(BlockingIOError):
                piece = os.read(ours_in, 1)
                if not piece:
                    break
                line += piece
        held = line.endswith(b"\n")
        if held:
            training.note(line.decode("utf-8", "replace").strip())
        yield holder if held else None
    finally:
        os.close(ours_out)
        os.close(ours_in)
        while holder.running:
            work.signals.wait()
