# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a playbook through ansible-runner and turn its events into progress, timings, a status file and a log.

Each run has a private directory ``<report-dir>/<UTC time>-<pid>/`` with ``status.json`` (schema
``mlcluster.run/1``, replaced atomically while the run continues) and ``ansible.log``; ``<report-dir>/latest``
points to the newest. Exit codes: 0 every host was configured, 1 a host failed or was unreachable,
2 the run gave no verdict (an error before any host, no host at all, time over, interrupted), 3 usage.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import (
    discard_directory,
    open_new,
    replace_file,
)

from .events import COUNTS, from_runner
from .stop import MARKER, Stop, end_workers
from .tracker import Tracker, utc

QUIET_SECONDS = 10
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Lines of output that stand for a run that ends before any host.
TAIL_LINES = 12
RUN_NAME = re.compile(r"\d{8}T\d{6}Z-\d+")


# Called with the object of the status file after each event that changes it.
Watch = Callable[[dict[str, Any]], None]


class RunError(Exception):
    """The run could not be started; the message states what was found and what to do."""


class Display:
    """Progress on a stream: one updating line on a terminal, plain lines elsewhere, at least every ten seconds."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.terminal = stream.isatty()
        self.current = "starting ansible-playbook"
        self.begun = self.since = self.spoke = time.monotonic()
        self.lock = threading.Lock()

    def _stamp(self) -> str:
        return f"[{time.monotonic() - self.begun:4.0f}s]"

    def _put(self, text: str) -> None:
        # Progress is a courtesy: a closed pipe must not end the run.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()
        self.spoke = time.monotonic()

    def line(self, text: str) -> None:
        """Print a permanent line."""
        with self.lock:
            self._put(f"\r\x1b[K{text}\n" if self.terminal else f"{text}\n")

    def task(self, title: str) -> None:
        """Show the task that runs now."""
        with self.lock:
            self.current, self.since = title, time.monotonic()
            if not self.terminal:
                self._put(f"{self._stamp()} {title}\n")
        if self.terminal:
            self.tick()

    def tick(self) -> None:
        """Refresh the updating line, or print a line after a while of silence."""
        with self.lock:
            busy = f"{time.monotonic() - self.since:.0f}s"
            if self.terminal:
                width = shutil.get_terminal_size().columns - 1
                self._put("\r\x1b[K" + f"{self._stamp()} {self.current} ({busy})"[:width])
            elif time.monotonic() - self.spoke >= QUIET_SECONDS:
                self._put(f"{self._stamp()} still at {self.current} ({busy})\n")

    def end(self) -> None:
        """Leave the terminal with a clean line."""
        if self.terminal:
            with self.lock:
                self._put("\r\x1b[K")


def write_json(path: Path, data: object, sync: bool = False) -> None:
    """Replace ``path`` in one step, mode 0600; sync: whether it has to survive a power cut. Raises OSError."""
    replace_file(path, (json.dumps(data, indent=1) + "\n").encode(), 0o600, sync=sync)


class Run:
    """One run's directory, log and status file, and the event handler given to ansible-runner."""

    def __init__(self, playbook: str, report_dir: Path, stream: IO[str], keep: int, watch: Watch | None = None) -> None:
        now = time.time()
        self.watch = watch
        self.tracker = Tracker(playbook, now)
        self.display = Display(stream)
        self.directory = (
            report_dir / f"{datetime.datetime.fromtimestamp(now, datetime.timezone.utc):%Y%m%dT%H%M%SZ}-{os.getpid()}"
        )
        try:
            report_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.directory.mkdir(mode=0o700)
            self.log = os.fdopen(open_new(self.log_file), "w", encoding="utf-8")
            self._publish(report_dir, keep)
        except OSError as exc:
            raise RunError(
                f"cannot keep a report in {report_dir} ({exc.strerror}); name another with --report-dir"
            ) from exc
        self.complained = False
        self.tail: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
        self.save()

    @property
    def log_file(self) -> Path:
        """Ansible's log of this run."""
        return self.directory / "ansible.log"

    @property
    def status_file(self) -> Path:
        """The state of this run, in JSON."""
        return self.directory / "status.json"

    def _publish(self, report_dir: Path, keep: int) -> None:
        link = report_dir / f".latest-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(self.directory.name)
        os.replace(link, report_dir / "latest")
        # Keep the directory of this run, which is the oldest if the clock was set back.
        others = sorted(
            entry for entry in report_dir.iterdir() if RUN_NAME.fullmatch(entry.name) and entry != self.directory
        )
        for entry in others[: max(len(others) - max(keep, 1) + 1, 0)]:
            discard_directory(entry)

    def save(self) -> None:
        """Write the status file; a full disk is reported once and does not end the run."""
        snapshot = self.tracker.snapshot(time.time())
        if self.watch:
            self.watch(snapshot)
        try:
            write_json(self.status_file, snapshot)
        except OSError as exc:
            if not self.complained:
                self.complained = True
                self.display.line(f"cannot write {self.status_file} ({exc.strerror}); the run continues without it")

    def note(self, text: str) -> None:
        """Add lines to the log, each with its time."""
        lines = [line for line in ANSI.sub("", text).splitlines() if line.strip()]
        self.tail.extend(lines)
        with contextlib.suppress(OSError, ValueError):
            self.log.writelines(f"{utc(time.time())} {line}\n" for line in lines)
            self.log.flush()

    def event(self, event: dict[str, Any]) -> bool:
        """Handle an event; False keeps ansible-runner from storing it. Never raises."""
        try:
            self.note(event.get("stdout") or "")
            shown = self.tracker.handle(from_runner(event, self.tracker.latest))
            for kind, text in shown:
                if kind == "task":
                    self.display.task(text)
                elif kind == "failure" or (kind == "role" and not self.watch):
                    # With ``watch`` the caller reports the roles itself.
                    self.display.line(text)
            if shown:
                self.save()
        except Exception as exc:
            # An exception here would leave ansible-playbook without a reader of its output.
            self.note(f"event {event.get('event')} was not understood: {type(exc).__name__}: {exc}")
        return False


def _call_runner(
    run: Run,
    playbook: Path,
    arguments: list[str],
    project: Path,
    timeout: int | None,
    private: str,
    programs: Path | None,
) -> None:
    try:
        import ansible_runner
    except ImportError as exc:
        raise RunError(f"ansible-runner is not installed for {sys.executable}; run make setup") from exc
    path = os.pathsep.join([str(programs or Path(sys.executable).parent), os.environ.get("PATH", "")])
    if shutil.which("ansible-playbook", path=path) is None:
        raise RunError(f"ansible-playbook is neither beside {sys.executable} nor on the PATH; run make setup")
    (Path(private) / "env").mkdir()
    # Seconds between two calls of cancel_callback.
    write_json(Path(private) / "env" / "settings", {"pexpect_timeout": 1})
    stop = Stop(timeout)
    with stop.by_signals():
        completed = ansible_runner.run(
            private_data_dir=private,
            project_dir=str(project),
            playbook=str(playbook),
            cmdline=shlex.join(arguments),
            event_handler=run.event,
            quiet=True,
            suppress_env_files=True,
            fact_cache_type="memory",
            cancel_callback=stop,
            envvars={
                "PATH": path,
                MARKER: private,
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_FORCE_COLOR": "0",
                # ansible-runner turns host key checking off by default.
                "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
            },
        )
    if completed.status == "canceled":
        end_workers(private)
    run.tracker.close("timeout" if stop.late else completed.status, completed.rc, "\n".join(run.tail))


def _arguments(
    private: str, inventories: Sequence[str], extra_vars: dict[str, Any] | None, more: Sequence[str]
) -> list[str]:
    arguments = [word for inventory in inventories for word in ("-i", inventory)]
    if extra_vars:
        # In a private file: every user of the machine can read the command line.
        path = Path(private) / "extra_vars.json"
        write_json(path, extra_vars)
        arguments += ["-e", f"@{path}"]
    return arguments + list(more)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended: ``state`` successful, failed, unreachable, no_hosts, timeout, canceled or error;
    ``status`` is the object of the status file, ``options`` the options of the roles' looks, by role."""

    state: str
    status: dict[str, Any]
    status_file: Path
    log_file: Path
    options: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0: all tasks succeeded; 1: a task failed or a host was unreachable; 2: any other end."""
        return {"successful": 0, "failed": 1, "unreachable": 1}.get(self.state, 2)

    def lines(self) -> list[str]:
        """Return a summary: seconds per role, counts per host, and the path of the log."""
        width = max((len(role) for role in self.status["roles"]), default=0)
        lines = [f"  {role or 'other tasks':{max(width, 11)}} {s:7.1f} s" for role, s in self.status["roles"].items()]
        lines += [
            f"  {host}: "
            + " ".join(f"{count}={counts[count]}" for count in COUNTS if counts[count] or count in COUNTS[:4])
            for host, counts in self.status["hosts"].items()
        ]
        lines.append(f"  {self.state} after {self.status['elapsed']:.0f} s; log {self.log_file}")
        return lines


def run_playbook(
    playbook: Path,
    *,
    inventories: Sequence[str],
    report_dir: Path,
    project_dir: Path,
    extra_vars: dict[str, Any] | None = None,
    arguments: Sequence[str] = (),
    timeout: int | None = None,
    keep: int = 5,
    stream: IO[str] | None = None,
    programs: Path | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run ``playbook`` (with ``project_dir`` as the working directory) and return how it ended.

    ``arguments`` are passed to ansible-playbook unchanged. ``timeout`` is in seconds. ``keep`` is the number of runs
    that stay in ``report_dir``. ``programs`` is the folder of ansible-playbook, by default that of this Python.
    ``watch`` is called with the object of the status file whenever it changes. Raises RunError if nothing could be
    started.
    """
    run = Run(str(playbook), Path(report_dir), stream or sys.stdout, keep, watch)
    stop = threading.Event()

    def refresh_display() -> None:
        while not stop.wait(1):
            run.display.tick()

    ticker = threading.Thread(target=refresh_display, name="progress", daemon=True)
    ticker.start()
    private = tempfile.mkdtemp(prefix="runner-", dir=run.directory)
    try:
        words = _arguments(private, inventories, extra_vars, arguments)
        _call_runner(run, playbook, words, project_dir, timeout, private, programs)
    except BaseException:
        run.tracker.close("error", None)
        raise
    finally:
        # It holds the environment of the run, credentials included.
        discard_directory(private)
        stop.set()
        ticker.join()
        run.display.end()
        run.save()
        run.log.close()
    return _outcome(run)


def _outcome(run: Run) -> Outcome:
    if run.tracker.state == "error":
        run.display.line("ansible-playbook stopped before it had a result:\n" + run.tracker.failures[-1]["message"])
    elif run.tracker.state == "no_hosts":
        run.display.line(
            "no host was configured: the inventory has none for this playbook; check -i and the group names"
        )
    elif run.tracker.state in ("timeout", "canceled"):
        run.display.line(f"the run was stopped ({run.tracker.state}) at {run.display.current}")
    status = run.tracker.snapshot(time.time())
    return Outcome(run.tracker.state, status, run.status_file, run.log_file, run.tracker.options)


def default_report_dir() -> Path:
    """Return ``$XDG_CACHE_HOME/mlcluster/reports``, by default below ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlcluster" / "reports"


def _parser() -> argparse.ArgumentParser:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            self.print_usage(sys.stderr)
            self.exit(3, f"{self.prog}: {message}\n")

    parser = Parser(
        prog="mlcluster_boot.play",
        usage="%(prog)s [options] PLAYBOOK [-- ANSIBLE-PLAYBOOK ARGUMENTS]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("playbook", type=Path, help="the playbook to run")
    parser.add_argument("-i", "--inventory", action="append", default=[], help="may be given more than once")
    parser.add_argument("--report-dir", type=Path, default=default_report_dir(), help="default: %(default)s")
    parser.add_argument(
        "--project-dir", type=Path, default=Path("."), help="working directory of the run; default: here"
    )
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="stop the run after this time")
    parser.add_argument("--keep", type=int, default=5, help="how many runs stay in the report directory")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    own = words.index("--") if "--" in words else len(words)
    args = _parser().parse_args(words[:own])
    try:
        outcome = run_playbook(
            args.playbook.resolve(),
            inventories=[str(Path(name).resolve()) if Path(name).exists() else name for name in args.inventory],
            report_dir=args.report_dir,
            project_dir=args.project_dir.resolve(),
            arguments=words[own + 1 :],
            timeout=args.timeout,
            keep=args.keep,
        )
    except RunError as exc:
        print(f"mlcluster_boot.play: {exc}", file=sys.stderr)
        return 2
    print("\n".join(outcome.lines()))
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
