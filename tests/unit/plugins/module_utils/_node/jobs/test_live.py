# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps as child processes: files, statuses, signals at any moment, a directory that goes whatever ends the job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.live import (
    ENDING,
    Child,
    LiveWork,
    Signals,
    opened_file,
    replace_process,
    write,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.results import Results
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Spec
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.step import Step
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.work import JobError, SignalError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

VARIABLES = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def work(tmp_path):
    """A job at work with its directory of results."""
    (tmp_path / "results" / "x-7").mkdir(parents=True)
    spec = Spec("x", "node_smoke", str(tmp_path), "python3", 1, 1, 0, "none", {}, None, "", (), {}, {}, {})
    signals = Signals((*ENDING, signal.SIGUSR1))
    live = LiveWork(
        spec, Host(), "7", ("n1",), VARIABLES, signals, Results("x", str(tmp_path / "results" / "x-7")), "0"
    )
    yield live
    live.terminate()
    live.wait_for_the_end()
    signals.close()


def send_signal(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


def test_step_writes_to_its_files_and_has_its_status(work):
    out, err = work.file("out"), work.file("err")
    assert work.run("sh", "-c", "echo a; echo b >&2; exit 3", stdout=out, stderr=err) == 3
    assert (work.read("out"), work.read("err")) == ("a\n", "b\n")
    assert work.run("sh", "-c", "echo a; echo b >&2", stdout=out, stderr=out) == 0
    assert sorted(work.read("out").split()) == ["a", "b"]


def test_step_that_signal_ends_has_status_of_shell(work):
    assert work.run("sh", "-c", "kill -TERM $$") == 143


def test_program_that_is_missing_is_127_and_named(work, capfd):
    assert work.run("/no/such") == 127
    assert capfd.readouterr().err == "x: /no/such: the program is not installed\n"
    # Where the step's own errors go.
    assert work.run("/no/such", stderr="/dev/null") == 127 and capfd.readouterr().err == ""
    assert Child(None).status == 127 and not Child(None).running


def test_file_that_cannot_be_written_is_127_and_named(work, capfd):
    assert work.run("true", stdout="/no/such/file") == 127
    assert capfd.readouterr().err == "x: /no/such/file could not be written: No such file or directory\n"


def test_steps_run_in_parallel(work, tmp_path):
    meets = "touch {0}; until [ -e {1} ]; do sleep 0.01; done"
    one, two = tmp_path / "one", tmp_path / "two"
    steps = [Step(("sh", "-c", meets.format(one, two))), Step(("sh", "-c", f"{meets.format(two, one)}; exit 4"))]
    assert work.together(steps) == [0, 4]


def test_step_reads_nothing_of_job_and_has_its_variables(work):
    os.environ["OF_THE_TEST"] = "1"
    try:
        assert work.ask("sh", "-c", 'cat; echo "$PATH${OF_THE_TEST:-}"') == "/usr/bin:/bin\n"
    finally:
        del os.environ["OF_THE_TEST"]


def test_answer_is_what_is_printed_also_by_what_fails(work):
    assert work.ask("sh", "-c", "echo some; echo error >&2; exit 1") == "some\n"
    assert work.answer("sh", "-c", "echo all; exit 2") == (2, "all\n")
    assert work.answer("sh", "-c", "echo all >&2", stderr=subprocess.STDOUT) == (0, "all\n")


@pytest.mark.parametrize("number", [*ENDING, signal.SIGUSR1])
def test_signal_ends_wait_and_keeps_status_first(work, number):
    with pytest.raises(SignalError) as ended:
        work.run("sh", "-c", f"kill -{int(number)} {os.getpid()}; exec sleep 60")
    assert ended.value.status == 128 + number
    with open(work.kept.status_file, encoding="ascii") as stream:
        assert stream.read() == f"{128 + number}\n"


def test_signal_between_two_steps_ends_job_before_next(work, tmp_path):
    send_signal()
    with pytest.raises(SignalError):
        work.run("touch", str(tmp_path / "ran"))
    assert not (tmp_path / "ran").exists()


def test_signal_is_no_end_where_job_is_at_its_end_already(work):
    work.stops = False
    send_signal()
    assert work.run("true") == 0


def test_ignored_signal_reaches_neither_job_nor_its_steps(work):
    work.signals.ignore()
    send_signal()
    assert work.run("sh", "-c", "kill -TERM $$; exit 5") == 5 and work.signals.received == []


def test_wait_ends_with_time(work):
    began = time.monotonic()
    work.signals.wait(0.05)
    assert 0.04 < time.monotonic() - began < 30


def test_place_goes_with_all_its_files(work, tmp_path):
    place = tmp_path / "place"
    with work.place(str(place), "advice"):
        (place / "file").touch()
    assert not place.exists()


def test_signal_while_place_is_created_removes_it(work, tmp_path):
    send_signal()
    place = tmp_path / "place"
    with pytest.raises(SignalError), work.place(str(place), "advice"):
        raise AssertionError("the signal did not end it")
    assert not place.exists()


def test_signal_removes_place_before_and_after_step_ends(work, tmp_path):
    place = tmp_path / "place"
    # Ends once its directory is gone, and writes into a new one as it ends.
    deaf = f"trap '' TERM; kill -TERM {os.getpid()}; while [ -e {place} ]; do sleep 0.01; done; mkdir {place}"
    with pytest.raises(SignalError), work.place(str(place), "advice"):
        work.run("sh", "-c", deaf)
    assert not place.exists()


def test_place_that_is_taken_is_not_removed(work, tmp_path):
    with (
        pytest.raises(JobError, match=r"could not be made \(File exists\): advice"),
        work.place(str(tmp_path), "advice"),
    ):
        raise AssertionError("it is taken")
    assert tmp_path.exists()


def test_program_is_required_on_path_of_job(work):
    work.require("sh", "advice")
    work.require("/bin/sh", "advice")
    for program in ("/no/such", "no-such", "/etc/passwd"):
        with pytest.raises(JobError, match=f"{program} is not on n1: advice"):
            work.require(program, "advice")


def test_files_among_results(work):
    work.write("a", "1\n")
    work.append("a", "2\n")
    assert work.read("a") == "1\n2\n"
    work.remove("a")
    work.remove("a")
    assert work.read("a") == ""


def test_descriptor_that_takes_nothing_is_known():
    with open("/dev/full", "wb") as full:
        assert not write(full.fileno(), "text")
    assert write(1, "")


def test_program_takes_place_of_this_one_with_its_usual_signals():
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from tests.unit.plugins.inventory import finder; finder.install()\n"
        f"from {replace_process.__module__} import replace_process\n"
        "sys.exit(replace_process(sys.argv[1:], {'PATH': '/usr/bin:/bin'}))"
    )
    look = "grep SigIgn /proc/self/status"
    done = subprocess.run([sys.executable, "-c", program, "sh", "-c", look], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[1], 16) & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)) == 0
    gone = subprocess.run([sys.executable, "-c", program, "/no/such"], capture_output=True, text=True, check=False)
    assert (gone.returncode, gone.stderr) == (127, "/no/such could not be started: No such file or directory\n")


@pytest.mark.parametrize("how", [os.O_TRUNC, os.O_APPEND])
def test_link_in_place_of_output_is_not_followed(tmp_path, how):
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "output").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        opened_file(str(tmp_path / "output"), how)
    assert (tmp_path / "victim").read_text() == "kept"
