# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running job: its steps as child processes, its signals, its end.

A signal only sets a flag and ends a wait. So no critical section is interrupted: every started step is known, and every
temporary directory is removed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
import typing as t

from ..system import files
from ..system.host import CommandError, Host
from .results import Results
from .spec import Spec
from .step import Step
from .work import JobError, SignalError, Work

# Signals that end a job, from any sender. A kind with ``signal`` gets USR1 for another purpose.
ENDING = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTERM,
    signal.SIGXCPU,
)
NOT_STARTED = 127


class Signals:
    """The signals that this process received, and waits for signals and for the end of a child."""

    def __init__(self, ending: t.Sequence[int], noted: t.Sequence[int] = ()) -> None:
        """``received`` has the signals that end the job, in order; ``noted`` those that the job kind handles."""
        self.received: list[int] = []
        self.noted: list[int] = []
        self._ending = frozenset(ending)
        numbers = (*ending, *noted)
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = {number: signal.signal(number, self._note) for number in numbers}
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # The runtime has blocked them since its first line, so an earlier signal is delivered now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING, signal.SIGUSR1))

    def _note(self, number: int, _frame: t.Any) -> None:
        (self.received if number in self._ending else self.noted).append(number)

    def wait(self, seconds: float | None = None, streams: t.Collection[int] = ()) -> None:
        """Wait for a signal, the end of a child, data in a stream, or the time limit."""
        if self._read in select.select([self._read, *streams], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._read, 512):
                    pass

    def ignore(self) -> None:
        """Ignore signals that end the job, in this process and in children started from now on."""
        for number in self._before:
            if number != signal.SIGCHLD:
                signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        """Restore the signal handlers of the process."""
        signal.set_wakeup_fd(self._wakeup)
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._read)
        os.close(self._write)


class Child:
    """A started step; ``process`` is None if it could not be started."""

    def __init__(self, process: subprocess.Popen[bytes] | None) -> None:
        self.process = process

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process is not None and self.process.poll() is None

    @property
    def status(self) -> int:
        """Its exit status as in a shell: 128 plus the signal that ended it, 127 if it was not started."""
        if self.process is None:
            return NOT_STARTED
        code = int(self.process.returncode)
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Send TERM."""
        if self.running and self.process is not None:
            self.process.terminate()


class LiveWork(Work):
    """A job in its batch step, with the variables that its steps get."""

    def __init__(
        self, spec: Spec, host: Host, number: str, nodes: t.Sequence[str], variables: t.Mapping[str, str],
        signals: Signals, results: Results, version: str,
    ) -> None:  # fmt: skip
        super().__init__(spec, host, number, nodes, f"{number}-{int(time.time())}")
        self.version = version
        # In seconds since 1970, as in the reports of nodes.
        self.started = int(time.time())
        # Whether the status is stored as soon as a signal ends the job; otherwise the kind stores it.
        self.keeps_at_once = True
        # Whether a signal still ends the running steps.
        self.stops = True
        self.variables = variables
        self.signals = signals
        self.kept = results
        self._children: list[Child] = []

    def log(self, text: str, stream: int = 1) -> bool:
        """Print lines after the name of the job; return whether they could be written."""
        return write(stream, f"{self.spec.name}: {text}\n")

    def start(
        self, step: Step, stdin: int = subprocess.DEVNULL, stdout: int | None = None, stderr: int | None = None,
        more: t.Mapping[str, str] | None = None,
    ) -> Child:  # fmt: skip
        """Start a step and return it. The descriptors replace its files; ``more`` are variables."""
        with contextlib.ExitStack() as opened:

            def stream(path: str, given: int | None) -> int | None:
                if not path:
                    return given
                handle = opened_file(path, os.O_TRUNC)
                opened.callback(os.close, handle)
                return handle

            child, err = Child(None), stderr
            try:
                out = stream(step.stdout, stdout)
                err = out if step.stderr and step.stderr == step.stdout else stream(step.stderr, stderr)
                variables = {**self.variables, **(more or {})}
                child = Child(self.host.start(step.argv, variables, stdin, out, err))
            except CommandError as exc:
                # To the same stream as the step's own errors.
                self.log(f"{step.argv[0]}: {exc.problem}", 2 if err is None else err)
            except OSError as exc:
                self.log(f"{exc.filename} could not be written: {exc.strerror}", 2)
        self._children = [one for one in self._children if one.running] + [child]
        return child

    def wait_for(self, children: t.Sequence[Child]) -> None:
        """Wait until all of these have ended. Raises ``SignalError`` for a signal that ends the job."""
        self.stop_if_signalled()
        while any(child.running for child in children):
            self.signals.wait()
            self.stop_if_signalled()

    def stop_if_signalled(self) -> None:
        """Raise ``SignalError`` once a signal has arrived; the status is stored first, since the rest may take long."""
        if self.signals.received and self.stops:
            status = 128 + self.signals.received[0]
            if self.keeps_at_once:
                self.kept.keep_status(status)
            raise SignalError(status)

    def together(self, steps: t.Sequence[Step]) -> list[int]:
        children = []
        for step in steps:
            self.stop_if_signalled()
            children.append(self.start(step))
        self.wait_for(children)
        return [child.status for child in children]

    def answer(self, *argv: str, stderr: int | None = None) -> tuple[int, str]:
        """Return the exit status and the output of a command; its errors go to ``stderr``."""
        with os.fdopen(os.memfd_create("answer", os.MFD_CLOEXEC), "r+", encoding="utf-8", errors="replace") as answer:
            child = self.start(
                Step(argv), stdout=answer.fileno(), stderr=answer.fileno() if stderr == subprocess.STDOUT else stderr
            )
            self.wait_for([child])
            answer.seek(0)
            return child.status, answer.read()

    def ask(self, *argv: str) -> str:
        return self.answer(*argv, stderr=subprocess.DEVNULL)[1]

    def require(self, program: str, advice: str) -> None:
        if not self.host.which(program, self.variables.get("PATH", os.defpath)):
            raise JobError(f"{program} is not on {self.nodes[0]}: {advice}")

    def write(self, name: str, text: str) -> None:
        self.host.write_text(self.file(name), text)

    def append(self, name: str, text: str) -> None:
        handle = opened_file(self.file(name), os.O_APPEND)
        try:
            write(handle, text)
        finally:
            os.close(handle)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.file(name))

    @contextlib.contextmanager
    def place(self, path: str, advice: str) -> t.Iterator[None]:
        try:
            os.mkdir(path)
        except OSError as exc:
            raise JobError(f"{path} could not be made ({exc.strerror}): {advice}") from None
        try:
            self.stop_if_signalled()
            yield
        finally:
            self.terminate()
            # A step that ignores the signal is killed together with this process, so its files are removed before its
            # end; later files are removed after that.
            files.discard_directory(path)
            self.wait_for_the_end()
            files.discard_directory(path)

    def terminate(self, but: Child | None = None) -> None:
        """Send TERM to every running step except one."""
        for child in self._children:
            if child is not but:
                child.terminate()

    def wait_for_the_end(self) -> None:
        """Wait until every step has ended, whatever signals come."""
        while any(child.running for child in self._children):
            self.signals.wait()


def opened_file(path: str, how: int) -> int:
    """Return a descriptor for the output of steps, in the job's own directory. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | how, 0o644)


def replace_process(argv: t.Sequence[str], variables: t.Mapping[str, str]) -> int:
    """Replace this process by another program; return only if that fails, with the status of a shell."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores these signals, and the program would inherit that.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), dict(variables))  # noqa: S606
    except OSError as exc:
        write(2, f"{argv[0]} could not be started: {exc.strerror}\n")
    return NOT_STARTED


def write(stream: int, text: str) -> bool:
    """Write to a descriptor; return whether all of it could be written."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        while data:
            data = data[os.write(stream, data) :]
    except OSError:
        return False
    return True
