# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run nox sessions from one queue, with a sign of life, a log for each and a table of times.

    python -m tests.build.suite SUITE                  the sessions of a suite, two at a time
    python -m tests.build.suite SESSION [ARGUMENT...]  one session of noxfile.py with its arguments

The output of a session goes to ``.build/logs/SESSION.log``. The exit status is 0 when everything passed; a session that
takes longer than allotted is a warning only.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.build import surroundings

CHECKOUT = Path(__file__).resolve().parents[2]
LOGS = CHECKOUT / ".build" / "logs"
COMMAND = (sys.executable, "-m", "nox", "--no-error-on-missing-interpreters", "--session")
WORKERS = 2
HEARTBEAT_SECONDS = 20.0
# On Ctrl-C pytest and Molecule remove what they have set up: containers, guests, clusters.
STOP_SECONDS = 300.0
TAIL_LINES = 60
TAIL_BYTES = 8192
LINE_WIDTH = 110
SLOWEST = 50
LANDMARK = re.compile(r"^(?:PLAY|TASK|RUNNING HANDLER) \[|^Running sanity test|^\S+\.py(?:::| \.)")
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# The closing lines of pytest and Molecule.
CLOSING = re.compile(r"^=+ .*\b\d+ (passed|failed|error|skipped|deselected).* in .*=+$|^\S+ +: actions=\d")
DURATION = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +\S+$")

# SIGTERM and Ctrl-C, which reach no session directly, in the order of their coming.
SIGNALS: list[int] = []

# Seconds that each session may take in a cold run on two cores. The longest begins first.
ALLOTTED = {
    "setup": 600,
    "lint": 180,
    "docs": 120,
    "docs_site": 180,
    "dashboard": 120,
    "sanity": 360,
    "unit": 360,
    "unit_slow": 600,
    "integration": 750,
    "integration_slow": 240,
    "slurm": 1200,
    "slurm_newer": 300,
    "slurm_slow": 240,
    "data": 420,
    "data_slow": 900,
    "data_image": 900,
    "molecule": 2900,
    "molecule_extra": 600,
    "vm": 1000,
    "vm_all": 7200,
    "quick": 90,
    "matrix": 900,
    "pcluster": 300,
}
# Slurm waits for its own intervals and the guest is emulated: neither bears the other beside it.
APART = frozenset(("slurm", "slurm_newer", "slurm_slow", "vm", "vm_all"))
TEST = ("lint", "docs", "sanity", "unit", "integration", "data", "slurm", "molecule")
SUITES = {
    "test": (*TEST, "vm"),
    "test-all": (
        *TEST,
        "vm_all",
        "molecule_extra",
        "docs_site",
        "unit_slow",
        "integration_slow",
        "data_slow",
        "data_image",
        "slurm_newer",
        "slurm_slow",
    ),
}


class Run:
    """One session: its process, its log, and in the end its status and seconds."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        self.name, self.log, self.allotted = name, LOGS / f"{name}.log", ALLOTTED[name]
        self.status: int | None = None
        self.seconds = 0.0
        self.begin = self.printed = time.monotonic()
        print(f"{name}: started, {self.allotted} s allotted, log {self.log.relative_to(CHECKOUT)}", flush=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, name, *(["--", *arguments] if arguments else [])],
                cwd=CHECKOUT,
                env=environment(),
                umask=surroundings.UMASK,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def look(self) -> bool:
        """Return whether the session has ended; print a sign of life now and then."""
        now = time.monotonic()
        if self.process.poll() is None:
            if now - self.printed >= HEARTBEAT_SECONDS:
                line = shorten(last_line(tail(self.log)))
                print(f"  {self.name}: {now - self.begin:.0f} s of {self.allotted} s allotted | {line}", flush=True)
                self.printed = now
            return False
        # The next session must find nothing of this one.
        self.signal(signal.SIGKILL)
        self.status, self.seconds = self.process.returncode, now - self.begin
        return True

    def signal(self, number: int) -> None:
        """Send a signal to the session and to all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def lines(self) -> list[str]:
        """Return the log without colours."""
        return [plain(line) for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]

    def report(self) -> None:
        """Print how the session ended; a failed one with the end of its log."""
        text = f"{self.name}: {self.seconds:.0f} s of {self.allotted} s allotted"
        if self.status:
            print("\n".join(self.lines()[-TAIL_LINES:]))
            text = f"{text}: FAILED with status {self.status}; the whole log is {self.log}"
        elif self.seconds > self.allotted:
            text = f"{text}\nWARNING: {self.name} took longer than allotted."
        print(text, flush=True)


def environment() -> dict[str, str]:
    """Return the environment of every session: the programs of .venv first, as if it were activated."""
    result = surroundings.variables(os.environ)
    result["PATH"] = f"{CHECKOUT / '.venv' / 'bin'}{os.pathsep}{result.get('PATH', os.defpath)}"
    result["ANSIBLE_CONFIG"] = str(CHECKOUT / "ansible.cfg")
    result["PYTHONUNBUFFERED"] = "1"
    # For the session setup alone; tests must not depend on it.
    result["RETRY"] = os.environ.get("RETRY", "")
    return result


def plain(line: str) -> str:
    """Return a line of output without colours and overprinted text."""
    return TERMINAL_CODES.sub("", line).rstrip().rsplit("\r", 1)[-1].strip()


def shorten(line: str) -> str:
    """Cut ``line`` to ``LINE_WIDTH`` characters and mark the cut."""
    return line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…"


def tail(log: Path) -> str:
    """Return the last bytes of a log as text."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read().decode(errors="replace")


def last_line(text: str) -> str:
    """Return the last task or test that ``text`` names, else its last line."""
    lines = [line for line in map(plain, text.splitlines()) if re.search(r"\w", line)]
    landmarks = [line for line in lines if LANDMARK.search(line)]
    return (landmarks or lines or [""])[-1].rstrip("* ")


def next_name(waiting: list[str], running: list[str]) -> str | None:
    """Return the longest waiting session that may run beside the running ones; None if none may start now."""
    if len(running) >= WORKERS:
        return None
    free = [name for name in waiting if name not in APART or APART.isdisjoint(running)]
    return max(free, key=ALLOTTED.__getitem__, default=None)


def drain(names: list[str], arguments: list[str]) -> list[Run]:
    """Run all sessions, failed or not. A stop leaves none behind and begins no other."""
    waiting, running, ended = list(names), [], []
    try:
        while waiting or running:
            if SIGNALS:
                raise SystemExit(128 + SIGNALS[0])
            while name := next_name(waiting, [run.name for run in running]):
                waiting.remove(name)
                running.append(Run(name, arguments))
            time.sleep(0.1)
            for run in [run for run in running if run.look()]:
                running.remove(run)
                ended.append(run)
                run.report()
    except BaseException:
        stop(running)
        raise
    return ended


def stop(running: list[Run]) -> None:
    """Interrupt the sessions and wait until each has cleaned up; a second signal, or the time limit, kills them."""
    try:
        for run in running:
            run.signal(signal.SIGINT)
        limit = time.monotonic() + STOP_SECONDS
        while any(run.process.poll() is None for run in running) and time.monotonic() < limit and len(SIGNALS) < 2:
            time.sleep(0.1)
    finally:
        for run in running:
            run.signal(signal.SIGKILL)
            run.process.wait()


def summary(runs: list[Run], seconds: float) -> str:
    """Return the slowest tests, the table of times and the runners' own closing lines."""
    durations = [line for run in runs for line in run.lines() if DURATION.match(line)]
    durations.sort(key=lambda line: float(line.partition("s")[0]), reverse=True)
    rows = [f"slowest {min(SLOWEST, len(durations))} tests", *durations[:SLOWEST], ""] if durations else []
    rows.append(f"{'session':<18}{'used':>8}{'allotted':>10}  result")
    for run in runs:
        result = f"FAILED ({run.status})" if run.status else "passed"
        over = ", over its time" if run.seconds > run.allotted else ""
        rows.append(f"{run.name:<18}{run.seconds:>6.0f} s{run.allotted:>8} s  {result}{over}")
    rows.append(f"{seconds:.0f} s in all")
    for run in runs:
        rows += [f"{run.name}: {line}" for line in run.lines() if CLOSING.search(line)]
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    """Run a suite or a session; returns the exit status."""
    name, *rest = arguments or [""]
    if (name not in ALLOTTED and name not in SUITES) or (rest and name in SUITES):
        print(f"Usage: suite.py {{{','.join([*SUITES, *ALLOTTED])}}} [ARGUMENT...]", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        # Only noted here: an exception could leave a process behind that has just been started.
        signal.signal(number, lambda number, _frame: SIGNALS.append(number))
    begin = time.monotonic()
    runs = drain(["setup"], [])
    # Without a complete set-up nothing else can run.
    if name != "setup" and not runs[0].status:
        runs += drain(list(SUITES.get(name, (name,))), rest)
        print(f"\n{summary(runs, time.monotonic() - begin)}", flush=True)
    return 1 if any(run.status for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
