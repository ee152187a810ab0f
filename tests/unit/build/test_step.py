# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.build import parts, step
from tests.build.parts import Part


@pytest.fixture
def logs(monkeypatch, tmp_path):
    monkeypatch.setattr(step, "CHECKOUT", tmp_path)
    monkeypatch.setattr(step, "LOGS", tmp_path / "logs")
    monkeypatch.delenv("V", raising=False)
    # Neither the handler that main installs nor the order to stop may outlive the test.
    monkeypatch.setattr(step.signal, "signal", lambda *arguments: None)
    monkeypatch.setattr(step, "RUNNING", step.Running())
    return tmp_path / "logs"


def python(code: str, allotted: int = 60, closing: str | None = None) -> Part:
    return Part(allotted, ("{python}", "-c", code), closing)


def test_a_part_that_passes_says_so_in_one_line(logs, capsys):
    outcome = step.run_part("demo", python("print('much output')"), [])
    capsys.readouterr()
    step.report(outcome)
    assert (outcome.status, (logs / "demo.log").read_text()) == (0, "much output\n")
    assert capsys.readouterr().out == f"demo: {outcome.used:.0f} s of 60 s allotted\n"


def test_arguments_are_handed_on(logs):
    step.run_part("demo", python("import sys; print(sys.argv[1:])"), ["-k", "word"])
    assert (logs / "demo.log").read_text() == "['-k', 'word']\n"


def test_a_part_that_fails_shows_its_end_and_its_log(logs, capsys):
    outcome = step.run_part("demo", python("print('the cause'); raise SystemExit(3)"), [])
    step.report(outcome)
    out = capsys.readouterr().out
    assert outcome.status == 3
    assert "the cause" in out
    assert f"FAILED with status 3; the whole log is {logs / 'demo.log'}" in out


def test_a_missing_program_asks_for_set_up(logs, capsys):
    outcome = step.run_part("demo", Part(1, (".venv/bin/none",)), [])
    assert outcome.status == 127
    assert "run make setup first" in capsys.readouterr().err


def test_taking_too_long_is_a_warning_only(logs, capsys):
    step.report(step.Outcome("demo", 0, 61.0, 60, logs / "demo.log"))
    assert "WARNING: demo took longer than allotted." in capsys.readouterr().out


def test_a_silent_part_is_spoken_for(logs, capsys, monkeypatch):
    monkeypatch.setattr(step, "HEARTBEAT_SECONDS", 0.0)
    step.run_part("demo", python("print('TASK [role : Install | Things] ***', flush=True); print('ok: [host]')"), [])
    assert "s of 60 s allotted | TASK [role : Install | Things]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("one\n----\n", "one"),
        ("\x1b[2m│\x1b[0m TASK [a : B | C]\n", "│ TASK [a : B | C]"),
        ("10%\r50%\r90%\n", "90%"),
        ("TASK [a : B | C] ****\nok: [host]\n", "TASK [a : B | C]"),
        ("tests/unit/test_a.py::test_b PASSED\nnoise\n", "tests/unit/test_a.py::test_b PASSED"),
    ],
)
def test_last_line(text, expected):
    assert step.last_line(text) == expected


def test_shorten_marks_the_cut():
    assert step.shorten("x" * 10, 10) == "x" * 10
    assert step.shorten("x" * 11, 10) == "x" * 9 + "…"


def test_closing_lines_are_the_runner_s_own(logs):
    code = "print('noise'); print('===== 3 passed, 1 skipped in 1.20s =====')"
    outcome = step.run_part("demo", python(code), [])
    assert step.closing_lines(outcome, parts.PYTEST_CLOSING) == ["===== 3 passed, 1 skipped in 1.20s ====="]


@pytest.mark.parametrize(
    "line",
    [
        "== 1 failed, 2 passed in 3.00s ==",
        "=== 12 passed in 0.10s ===",
        "== 2 errors in 1s ==",
        "= 5 deselected in 1s =",
    ],
)
def test_every_pytest_verdict_is_recognised(logs, line):
    assert step.closing_lines(step.run_part("demo", python(f"print('{line}')"), []), parts.PYTEST_CLOSING) == [line]


def test_molecule_s_recap_is_shown_with_its_tests(logs):
    recap = "default                   : actions=8  successful=8  disabled=0  skipped=0  missing=0  failed=0"
    outcome = step.run_part("demo", python(f"print('== 2 passed in 1.00s ==\\n{recap}')"), [])
    assert step.closing_lines(outcome, parts.MOLECULE_CLOSING) == ["== 2 passed in 1.00s ==", recap]


def test_a_suite_goes_on_after_a_failure_and_fails_in_the_end(logs, capsys, monkeypatch):
    monkeypatch.setattr(step, "PARTS", {"bad": python("raise SystemExit(1)"), "good": python("print('fine')")})
    assert step.run_suite(((("bad", "good"),),)) == 1
    table = capsys.readouterr().out
    assert re.search(r"^good +\d+ s +60 s +passed$", table, re.MULTILINE)
    assert re.search(r"^bad +\d+ s +60 s +FAILED \(1\)$", table, re.MULTILINE)


def test_a_suite_stops_when_set_up_fails(logs, monkeypatch):
    monkeypatch.setattr(step, "PARTS", {"setup": python("raise SystemExit(1)"), "next": python("print('ran')")})
    assert step.run_suite(((("setup",),), (("next",),))) == 1
    assert not (logs / "next.log").exists()


# Each says that it is there and waits until the other is.
MEETING = """
import pathlib, sys, time
pathlib.Path("{me}").touch()
limit = time.monotonic() + 600
while not pathlib.Path("{other}").exists():
    if time.monotonic() > limit:
        sys.exit("{other} never came")
    time.sleep(0.01)
"""


def test_lanes_run_side_by_side(logs, monkeypatch):
    monkeypatch.setattr(step, "PARTS", {me: python(MEETING.format(me=me, other=other)) for me, other in ("ab", "ba")})
    assert step.run_suite(((("a",), ("b",)),)) == 0


STOPPED = """
import sys
from pathlib import Path
from tests.build import step
from tests.build.parts import Part
step.LOGS = step.CHECKOUT = Path(sys.argv[1])
# What a part waits for, and what it has left in the background, deaf to Ctrl-C.
COMMAND = "sh -c 'echo $$ >>{0}.left; exec sleep 600' & sh -c 'echo $$ >>{0}; exec sleep 600'; true"
step.PARTS = {name: Part(9, ("sh", "-c", COMMAND.format(name))) for name in ("a", "b", "next")}
step.SUITES = {"demo": ((("a", "next"), ("b",)),)}
sys.exit(step.main(sys.argv[2:]))
"""


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("words", "names"), [(("suite", "demo"), ("a", "b")), (("run", "a"), ("a",))])
def test_whoever_is_told_to_end_leaves_no_part_and_starts_no_other(tmp_path, words, names, signal_number):
    started = [tmp_path / f"{name}{end}" for name in names for end in ("", ".left")]
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path), *words], cwd=step.CHECKOUT, stdout=subprocess.DEVNULL
    ) as suite:
        while not all(path.exists() and path.read_text().endswith("\n") for path in started):
            assert suite.poll() is None
            time.sleep(0.01)
        suite.send_signal(signal_number)
        assert suite.wait() == 128 + signal_number
    for path in started:
        expect_gone(int(path.read_text()))
    assert not (tmp_path / "next").exists()


def expect_gone(pid: int) -> None:
    """A process that was killed is there until whoever inherited it has taken note."""
    state = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while state.read_text().rpartition(")")[2].split()[0] not in "ZX":
            time.sleep(0.01)


def test_a_part_that_has_ended_is_not_waited_for_because_of_what_it_left(logs, capsys):
    left = Part(9, ("sh", "-c", "sleep 600 & echo $!; exit 3"))
    outcome = step.run_part("demo", left, [])
    assert outcome.status == 3
    expect_gone(int(outcome.log.read_text()))


def test_the_environment_is_that_of_the_checkout(monkeypatch):
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", "/elsewhere")
    result = step.environment()
    assert result["PATH"].startswith(str(step.CHECKOUT / ".venv" / "bin"))
    assert "ANSIBLE_COLLECTIONS_PATH" not in result


def test_suites_name_parts_that_exist():
    for stages in parts.SUITES.values():
        names = [name for lanes in stages for lane in lanes for name in lane]
        assert set(names) <= parts.PARTS.keys()
        assert len(names) == len(set(names))
        assert stages[0] == (("setup",),)


def test_wrong_usage_is_told(capsys):
    assert step.main(["run", "nothing"]) == 2
    assert "Usage: step.py" in capsys.readouterr().err


def test_run_hands_on_the_status(logs, monkeypatch):
    monkeypatch.setattr(step, "PARTS", {"demo": python(f"import sys; sys.exit({'sys.argv[1:] == []'})")})
    assert step.main(["run", "demo"]) == 1
    assert step.main(["run", "demo", "word"]) == 0


def test_the_log_of_a_part_is_of_its_last_run(logs):
    for word in ("first", "second"):
        step.run_part("demo", python(f"print('{word}')"), [])
    assert (logs / "demo.log").read_text() == "second\n"
