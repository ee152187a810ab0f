# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run one part of the suite, or a whole suite, with progress, a log file and a time account.

    step.py run NAME [ARGUMENT...]   one part; the arguments are added to its command
    step.py suite NAME               the parts of a suite, in lanes side by side, then the account and the runners'
                                     verdicts

A part's output goes to ``.build/logs/NAME.log``; with V=1 in the environment to the terminal too.
The exit status is 0 when everything passed. Taking longer than allotted is a warning only.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.build import surroundings
from tests.build.parts import PARTS, SUITES, Part

CHECKOUT = Path(__file__).resolve().parents[2]
LOGS = CHECKOUT / ".build" / "logs"
HEARTBEAT_SECONDS = 15.0
TAIL_LINES = 60
LINE_WIDTH = 110
LANDMARK = re.compile(r"^(?:PLAY|TASK|RUNNING HANDLER) \[|^Running sanity test|^\S+\.py(?:::| \.)")
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Outcome:
    """What one part came to: exit status, seconds used, seconds allotted, its log."""

    name: str
    status: int
    used: float
    allotted: int
    log: Path


def plain(line: str) -> str:
    """A line of output without colours and carriage-return overprinting."""
    return TERMINAL_CODES.sub("", line).rstrip().rsplit("\r", 1)[-1].strip()


def shorten(line: str, width: int = LINE_WIDTH) -> str:
    """Cut ``line`` to ``width`` characters, marking the cut."""
    return line if len(line) <= width else line[: width - 1] + "…"


def last_line(text: str) -> str:
    """The line of ``text`` that best tells what is going on: the last task or test, else the last one."""
    lines = [line for line in map(plain, text.splitlines()) if re.search(r"\w", line)]
    landmarks = [line for line in lines if LANDMARK.search(line)]
    return (landmarks or lines or [""])[-1].rstrip("* ")


def environment() -> dict[str, str]:
    """The environment of every part: the venv's programs first, as if it were activated."""
    result = surroundings.variables(os.environ)
    result["PATH"] = f"{CHECKOUT / '.venv' / 'bin'}{os.pathsep}{result.get('PATH', os.defpath)}"
    result["ANSIBLE_CONFIG"] = str(CHECKOUT / "ansible.cfg")
    result["PYTHONUNBUFFERED"] = "1"
    # What set-up is told, and nothing that tests may find.
    result["RETRY"] = os.environ.get("RETRY", "")
    return result


def follow(process: subprocess.Popen[bytes], name: str, allotted: int, log: Path, verbose: bool) -> None:
    """Copy the output of ``process`` to ``log`` and print how far it is now and then."""
    begin = printed = time.monotonic()
    recent = b""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector, open(log, "wb") as file:
        selector.register(process.stdout, selectors.EVENT_READ)
        open_ended = True
        while open_ended:
            if selector.select(timeout=1.0):
                data = os.read(process.stdout.fileno(), 65536)
                open_ended = bool(data)
                file.write(data)
                file.flush()
                recent = (recent + data)[-8192:]
                if verbose:
                    sys.stdout.buffer.write(data)
                    sys.stdout.flush()
            elif process.poll() is not None:
                # What a part has left behind holds its output open, for as long as it pleases.
                open_ended = False
            now = time.monotonic()
            if not verbose and now - printed >= HEARTBEAT_SECONDS:
                said = shorten(last_line(recent.decode(errors="replace")))
                print(f"  {name}: {now - begin:.0f} s of {allotted} s allotted | {said}", flush=True)
                printed = now


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a part and to what it has started; where nothing is left of them that is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


class Running:
    """The processes of the parts that run now: a stopped suite must leave none, and start no other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def start(self, command: list[str]) -> subprocess.Popen[bytes] | None:
        """Start a part's command in the checkout; None when everything was told to stop."""
        with self._lock:
            if self.stopped:
                return None
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=environment(),
                umask=surroundings.UMASK,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            self._processes.add(process)
            return process

    def stop(self) -> None:
        """Interrupt every part, and all that it waits for: on Ctrl-C pytest undoes what its fixtures have set up."""
        with self._lock:
            self.stopped = True
            for process in self._processes:
                if process.poll() is None:
                    signal_group(process, signal.SIGINT)

    def on_termination(self, number: int, frame: object) -> None:
        """The handler of SIGTERM and of Ctrl-C, which reaches no part by itself."""
        # Not here: the lock may be held by the very code that the signal interrupted.
        threading.Thread(target=self.stop).start()
        raise SystemExit(128 + number)


RUNNING = Running()


def run_part(name: str, part: Part, arguments: list[str]) -> Outcome:
    """Run one part to its end, telling how it goes."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    command = [sys.executable if word == "{python}" else word for word in (*part.command, *arguments)]
    print(f"{name}: started, {part.allotted} s allotted, log {log.relative_to(CHECKOUT)}", flush=True)
    begin = time.monotonic()
    try:
        process = RUNNING.start(command)
    except FileNotFoundError:
        print(f"{name}: {command[0]} is not there: run make setup first.", file=sys.stderr)
        return Outcome(name, 127, 0.0, part.allotted, log)
    if process is None:
        return Outcome(name, 128 + signal.SIGTERM, 0.0, part.allotted, log)
    follow(process, name, part.allotted, log, verbose=os.environ.get("V") == "1")
    status = process.wait()
    # The next part is to find nothing of this one.
    signal_group(process, signal.SIGKILL)
    return Outcome(name, status, time.monotonic() - begin, part.allotted, log)


def report(outcome: Outcome) -> None:
    """Say how a part ended; a failed one with the end of its log."""
    text = f"{outcome.name}: {outcome.used:.0f} s of {outcome.allotted} s allotted"
    if outcome.status and outcome.log.exists():
        lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-TAIL_LINES:]))
        print(f"{text}: FAILED with status {outcome.status}; the whole log is {outcome.log}")
    elif outcome.status:
        print(f"{text}: FAILED with status {outcome.status}")
    else:
        print(text)
        if outcome.used > outcome.allotted:
            print(f"WARNING: {outcome.name} took longer than allotted.")
    sys.stdout.flush()


def closing_lines(outcome: Outcome, pattern: str | None) -> list[str]:
    """The runner's own verdict lines in the log of a part, colours removed."""
    if pattern is None or not outcome.log.exists():
        return []
    lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [plain(line) for line in lines if re.search(pattern, plain(line))]


def account(outcomes: list[Outcome]) -> str:
    """The table of seconds used and allotted."""
    rows = [f"{'part':<12}{'used':>8}{'allotted':>10}  result"]
    for outcome in outcomes:
        result = f"FAILED ({outcome.status})" if outcome.status else "passed"
        over = ", over its time" if outcome.used > outcome.allotted else ""
        rows.append(f"{outcome.name:<12}{outcome.used:>6.0f} s{outcome.allotted:>8} s  {result}{over}")
    return "\n".join(rows)


def run_lane(names: tuple[str, ...], arguments: list[str]) -> list[Outcome]:
    """Run the parts of a lane in turn, the failed ones too: each has something to tell."""
    outcomes = []
    for name in names:
        outcome = run_part(name, PARTS[name], arguments)
        report(outcome)
        outcomes.append(outcome)
    return outcomes


def run_stage(lanes: tuple[tuple[str, ...], ...], arguments: list[str]) -> list[Outcome]:
    """Run the lanes of a stage side by side, each part with ``arguments``; told to end, wait until all have."""
    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(run_lane, lane, arguments) for lane in lanes]
        try:
            # In pieces: a signal that comes just before a wait begins is handled only when that wait ends.
            while wait(running, timeout=1.0).not_done:
                pass
            return [outcome for lane in running for outcome in lane.result()]
        except BaseException:
            RUNNING.stop()
            raise


def run_suite(stages: tuple[tuple[tuple[str, ...], ...], ...]) -> int:
    """Run the stages in turn; a stage that failed, set-up that is, lets no other begin."""
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    for lanes in stages:
        if any(outcome.status for outcome in outcomes):
            break
        outcomes += run_stage(lanes, [])
    print(f"\n{account(outcomes)}\n{time.monotonic() - begin:.0f} s in all\n")
    for outcome in outcomes:
        for line in closing_lines(outcome, PARTS[outcome.name].closing):
            print(f"{outcome.name}:\n{line}")
    return max((1 if outcome.status else 0) for outcome in outcomes)


def main(arguments: list[str]) -> int:
    """Entry point; returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, RUNNING.on_termination)
    if len(arguments) >= 2 and arguments[0] == "run" and arguments[1] in PARTS:
        (outcome,) = run_stage(((arguments[1],),), arguments[2:])
        for line in closing_lines(outcome, PARTS[outcome.name].closing):
            print(line)
        return 1 if outcome.status else 0
    if len(arguments) == 2 and arguments[0] == "suite" and arguments[1] in SUITES:
        return run_suite(SUITES[arguments[1]])
    print(
        f"Usage: step.py run {{{','.join(PARTS)}}} [ARGUMENT...] | step.py suite {{{','.join(SUITES)}}}",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
