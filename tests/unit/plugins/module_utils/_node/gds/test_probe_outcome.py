# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outcomes of the process that calls libcufile, from its steps, and of gdscheck, from its output."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import probe as gds_probe
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.probe import Ended, library_version, read_outcome

from tests.unit.fakes.fake_gds_host import FIXTURES, fixture


def brief(answer):
    return answer["state"], answer["step"], answer["err"]


def steps(*lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_silent_child_is_crash_at_start():
    answer = read_outcome(Ended(1, "Traceback\nValueError: x\n", 0.1), "", "")
    assert (answer["state"], answer["step"]) == ("crash", "start")
    assert answer["reason"] == "start ended the process with status 1: ValueError: x"


def test_truncated_line_of_child_is_ignored():
    text = steps({"begin": "load"}, {"step": "load", "version": 1190}, {"begin": "open"}) + '{"step": "op'
    answer = read_outcome(Ended(None, "", 30.0), text, "")
    assert (brief(answer), answer["version"]) == (("hang", "open", None), "1.19")


def test_child_that_ended_without_answer_is_crash():
    answer = read_outcome(Ended(0, "", 0.1), steps({"begin": "load"}), "")
    assert answer["state"] == "crash"


WHOLE = (
    {"begin": "create"},
    {"step": "create", "err": 0},
    {"begin": "load"},
    {"step": "load", "absent": [], "version": 1190},
    {"begin": "open"},
    {"step": "open", "err": 0, "cu_err": 0},
    {"begin": "register"},
    {"step": "register", "err": 0, "cu_err": 0},
    {"begin": "buffer"},
    {"step": "buffer", "err": 0},
    {"begin": "write"},
    {"step": "write", "err": 0, "cu_err": 0},
    {"begin": "read"},
    {"step": "read", "err": 0, "cu_err": 0},
    {"step": "compare", "err": 0, "same": True},
    {"step": "done"},
)


def test_good_answer_has_no_error():
    answer = read_outcome(Ended(0, "", 0.12345), steps(*WHOLE), "")
    assert (answer["err"], answer["cu_err"], answer["seconds"]) == (0, 0, 0.123)


@pytest.mark.parametrize("last", ["done", "stopped"])
def test_bad_exit_after_whole_answer_is_crash(last):
    answer = read_outcome(Ended(3, "x\n", 0.1), steps(*WHOLE[:-1], {"step": last}), "")
    assert answer["state"] == "crash"
    assert answer["reason"] == "read ended the process with status 3: x"


@pytest.mark.parametrize(("number", "version"), [(None, None), (0, None), (1, "0.0"), (1000, "1.0"), (1190, "1.19")])
def test_version_of_load(number, version):
    load = {"step": "load", "absent": [], "version": number}
    assert read_outcome(Ended(0, "", 0.1), steps({"begin": "load"}, load), "")["version"] == version


def test_whole_answer_is_good():
    assert brief(read_outcome(Ended(0, "", 0.1), steps(*WHOLE), "")) == ("ok", "read", 0)
    assert brief(read_outcome(Ended(0, "", 0.1), steps(*WHOLE[2:6], {"step": "done"}), "")) == ("ok", "open", 0)


@pytest.mark.parametrize("lost", ["create", "load", "open", "register", "buffer", "write", "read", "compare"])
def test_lost_answer_of_step_proves_nothing(lost):
    answer = read_outcome(Ended(0, "", 0.1), steps(*(line for line in WHOLE if line.get("step") != lost)), "")
    assert (answer["state"], answer["step"]) == ("crash", lost)
    assert answer["reason"] == f"the answer of {lost} is not in what the process reported"


def test_run_that_ended_early_without_error_proves_nothing():
    answer = read_outcome(Ended(0, "", 0.1), steps(*WHOLE[:6], {"step": "stopped"}), "")
    assert answer["state"] == "crash"


def test_step_never_begun_proves_nothing():
    answer = read_outcome(Ended(0, "", 0.1), steps(*WHOLE[:6], {"step": "done"}), "")
    assert (answer["state"], answer["step"]) == ("crash", "register")


def test_version_is_as_exact_as_can_be():
    full = {"table": {"versions": {"GDS release version": "1.15.1.6"}}, "version": "1.15"}
    less = {"table": {"versions": {}}, "version": "1.15"}
    version = gds_probe.library_version
    assert version(full, "1.15.1") == "1.15.1.6"
    assert version(less, "1.15.1") == "1.15.1"
    assert version(less, None) == "1.15"
    assert version(None, None) is None


def script(tmp_path, text):
    path = tmp_path / "gdscheck"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_gdscheck(tmp_path):
    recorded = FIXTURES / "gdscheck-1.16-unsupported.txt"
    answer = gds_probe.gdscheck(script(tmp_path, f"test $1 = -p && cat {recorded}\n"))
    assert (answer["state"], answer["table"]["drivers"]["NVMe"]) == ("ok", [])


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        ("echo 'cuInit Failed'; exit 1", "crash", "status 1: cuInit Failed"),
        ("kill -SEGV $$", "crash", "status -11: no message"),
        ("exec sleep 100", "hang", "no answer within 0.5 seconds"),
    ],
)
def test_gdscheck_that_gives_no_table(tmp_path, text, state, words):
    answer = gds_probe.gdscheck(script(tmp_path, text), seconds=0.5 if state == "hang" else 600)
    assert answer["state"] == state
    assert answer["reason"].endswith(words)
    assert answer["table"]["drivers"] == {}


def test_unstartable_gdscheck_is_crash(tmp_path):
    assert gds_probe.gdscheck(str(tmp_path / "missing"))["reason"].endswith("No such file or directory")


def test_recorded_log_of_library_without_cuda_gives_its_reason():
    text = steps({"begin": "load"}, {"step": "load"}, {"begin": "open"}, {"step": "open", "err": 5033, "cu_err": 0})
    answer = read_outcome(Ended(0, "", 0.1), text + steps({"step": "stopped"}), fixture("libcufile-1.15-no-cuda.log"))
    assert answer["reason"] == "cuFileDriverOpen gave 5033 (nvidia-fs setup error): unable to load,  libcuda.so.1"


def test_child_that_stopped_after_good_steps_proves_nothing():
    answer = read_outcome(Ended(0, "", 0.1), steps(*WHOLE[:-1], {"step": "stopped"}), "")
    assert brief(answer) == ("crash", "done", None)


def test_name_without_version_is_no_version():
    assert library_version(None, "so") is None
    assert library_version(None, "1.15") == "1.15"
    outcome = read_outcome(Ended(0, "", 0.1), steps(*WHOLE), "")
    assert library_version(outcome, "so") == "1.19"
    assert library_version(outcome, "1.19.1") == "1.19.1"
