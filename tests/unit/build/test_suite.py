# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.build import suite

NOXFILE = ast.parse((suite.CHECKOUT / "noxfile.py").read_text(encoding="utf-8"))
MAKEFILE = (suite.CHECKOUT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture
def sessions(monkeypatch, tmp_path):
    """sessions(name=code, ...) stands Python code in for the sessions of nox."""
    monkeypatch.setattr(suite, "CHECKOUT", tmp_path)
    monkeypatch.setattr(suite, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(suite.signal, "signal", lambda *arguments: None)

    def make(setup="", **codes):
        codes = {"setup": setup, **codes}
        for name, code in codes.items():
            (tmp_path / name).write_text(code, encoding="utf-8")
        monkeypatch.setattr(suite, "ALLOTTED", dict.fromkeys(codes, 60))
        monkeypatch.setattr(suite, "COMMAND", (sys.executable,))
        monkeypatch.setattr(suite, "SUITES", {"all": tuple(name for name in codes if name != "setup")})

    return make


def test_suite_reports_times_and_closing_lines(sessions, capsys):
    recap = "default                   : actions=8  successful=8  disabled=0  skipped=0  missing=0  failed=0"
    sessions(unit="print('===== 3 passed, 1 skipped in 1.20s =====')", molecule=f"print('noise'); print('{recap}')")
    assert suite.main(["all"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^unit +\d+ s +60 s  passed$", out, re.MULTILINE)
    assert "unit: ===== 3 passed, 1 skipped in 1.20s =====\n" in out
    assert f"molecule: {recap}\n" in out


def test_failed_session_fails_suite_and_not_others(sessions, capsys):
    sessions(bad="print('the cause'); raise SystemExit(3)", good="")
    assert suite.main(["all"]) == 1
    out = capsys.readouterr().out
    assert "the cause" in out
    assert re.search(
        r"^bad: \d+ s of 60 s allotted: FAILED with status 3; the whole log is \S+bad.log$", out, re.MULTILINE
    )
    assert re.search(r"^bad .* FAILED \(3\)$", out, re.MULTILINE)
    assert re.search(r"^good .* passed$", out, re.MULTILINE)


def test_failed_setup_starts_nothing_else(sessions, tmp_path):
    sessions(setup="raise SystemExit(1)", unit="open('ran', 'w')")
    assert suite.main(["all"]) == suite.main(["unit"]) == 1
    assert not (tmp_path / "ran").exists()


def test_arguments_reach_one_session(sessions, tmp_path):
    sessions(unit="import sys; print(sys.argv[1:])")
    assert suite.main(["unit", "-k", "word"]) == 0
    assert (tmp_path / "logs" / "unit.log").read_text() == "['--', '-k', 'word']\n"


@pytest.mark.parametrize("words", [[], ["nothing"], ["all", "-k"]])
def test_wrong_usage_is_reported(sessions, capsys, words):
    sessions(unit="")
    assert suite.main(words) == 2
    assert "Usage: suite.py {all,setup,unit}" in capsys.readouterr().err


def test_silent_session_shows_sign_of_life(sessions, capsys, monkeypatch):
    assert suite.HEARTBEAT_SECONDS == 20
    monkeypatch.setattr(suite, "HEARTBEAT_SECONDS", 0.0)
    sessions(unit="import time; print('TASK [role : Install | Things] ***\\nok: [host]', flush=True); time.sleep(1)")
    assert suite.main(["unit"]) == 0
    assert re.search(r"unit: \d+ s of 60 s allotted \| TASK \[role : Install \| Things\]\n", capsys.readouterr().out)


def test_long_session_is_warning_only(sessions, capsys, monkeypatch):
    sessions(unit="")
    monkeypatch.setitem(suite.ALLOTTED, "unit", -1)
    assert suite.main(["unit"]) == 0
    assert "WARNING: unit took longer than allotted." in capsys.readouterr().out


def test_slowest_tests_of_all_sessions_come_in_order(sessions, capsys):
    lines = [f"{seconds}.00s call     tests/test_{name}.py::test" for seconds, name in ((2, "b"), (30, "a"), (1, "c"))]
    sessions(unit=f"print('{lines[0]}')", data=f"print('{lines[1]}\\n{lines[2]}\\n30.00s is not a test')")
    assert suite.main(["all"]) == 0
    assert "\n".join(["slowest 3 tests", lines[1], lines[0], lines[2], ""]) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("one\n----\n", "one"),
        ("\x1b[2m│\x1b[0m TASK [a : B | C]\n", "│ TASK [a : B | C]"),
        ("10%\r50%\r90%\n", "90%"),
        ("tests/unit/test_a.py::test_b PASSED\nnoise\n", "tests/unit/test_a.py::test_b PASSED"),
    ],
)
def test_last_line_names_task_or_test(text, expected):
    assert suite.last_line(text) == expected


@pytest.mark.parametrize(
    ("waiting", "running", "expected"),
    [
        (["unit", "molecule", "slurm"], [], "molecule"),
        (["unit", "slurm"], ["molecule"], "slurm"),
        (["unit", "vm"], ["slurm"], "unit"),
        (["slurm"], ["vm"], None),
        (["vm"], ["molecule"], "vm"),
        (["unit"], ["molecule", "vm"], None),
        ([], [], None),
    ],
)
def test_longest_session_that_may_run_is_next(waiting, running, expected):
    assert suite.next_name(waiting, running) == expected


STOPPED = """
import sys
from pathlib import Path
from tests.build import suite
suite.LOGS = suite.CHECKOUT = Path(sys.argv[1])
suite.COMMAND = ("sh", str(Path(sys.argv[1]) / "session"))
suite.ALLOTTED = dict.fromkeys(("setup", "a", "b", "next"), 9)
suite.SUITES = {"all": ("a", "b", "next")}
sys.exit(suite.main(sys.argv[2:]))
"""
# A session that waits for a program, and leaves another in the background, where Ctrl-C is ignored.
SESSION = """[ "$1" = setup ] && exit
sh -c 'echo $$ >>"$0.left"; exec sleep 600' "$1" &
sh -c 'echo $$ >>"$0"; exec sleep 600' "$1"
true
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("word", "names"), [("all", ("a", "b")), ("a", ("a",))])
def test_stopped_suite_leaves_no_process_and_starts_no_session(tmp_path, word, names, number):
    (tmp_path / "session").write_text(SESSION)
    started = [tmp_path / f"{name}{end}" for name in names for end in ("", ".left")]
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path), word], cwd=suite.CHECKOUT, stdout=subprocess.DEVNULL
    ) as process:
        while not all(path.exists() and path.read_text().endswith("\n") for path in started):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait() == 128 + number
    for path in started:
        expect_gone(int(path.read_text()))
    assert not (tmp_path / "next").exists()


def expect_gone(pid: int) -> None:
    """Wait until a killed process is gone or a zombie, which its new parent has yet to collect."""
    state = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while state.read_text().rpartition(")")[2].split()[0] not in "ZX":
            time.sleep(0.01)


def test_session_is_over_despite_its_leftovers(sessions, tmp_path):
    sessions(unit="import subprocess; print(subprocess.Popen(['sleep', '600']).pid)")
    assert suite.main(["unit"]) == 0
    expect_gone(int((tmp_path / "logs" / "unit.log").read_text()))


def decorated() -> dict[str, ast.FunctionDef]:
    """Return the sessions of noxfile.py by name."""
    functions = [node for node in NOXFILE.body if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in functions if any(ast.unparse(d) == "nox.session" for d in node.decorator_list)}


def test_suite_knows_sessions_of_nox_and_make_calls_no_other():
    assert set(decorated()) == set(suite.ALLOTTED)
    assert {name for names in suite.SUITES.values() for name in names} <= set(decorated())
    called = re.findall(r"\$\(START\) (?:\$\(if \$\(SCENARIO\),)?([\w-]+)", MAKEFILE)
    assert len(called) > 10 and set(called) <= {*suite.ALLOTTED, *suite.SUITES}


def test_every_test_has_time_for_busiest_machine():
    texts = [node.value for node in ast.walk(NOXFILE) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    limits = [int(text.partition("=")[2]) for text in texts if text.startswith("--timeout=")]
    assert limits and min(limits) >= 300
