# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real child processes."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import child
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.evidence import is_integer

KEYS = {"loads": child.is_boolean, "number": child.or_none(is_integer)}
GOOD = '{"loads": true, "number": 7}'


def asked(source, *arguments, seconds=60, **more):
    return child.ask_child(Host(), source, arguments, KEYS, seconds, **more)


def problem(source, **more):
    with pytest.raises(child.ChildError) as caught:
        asked(source, **more)
    return caught.value


def test_answer_of_program_is_returned():
    assert asked("answer({'loads': True, 'number': int(sys.argv[1])})", "7") == {"loads": True, "number": 7}


def test_long_answer_is_whole():
    found = child.ask_child(Host(), "answer({'text': 'x' * 3000000})", [], {"text": child.is_string}, 60)
    assert len(found["text"]) == 3_000_000


@pytest.mark.parametrize(
    "prints",
    [
        f"print('{GOOD}', flush=True)",
        f"os.write(1, b'{GOOD}')",
        f"os.system('''echo '{GOOD}' ''')",
        f"import atexit; atexit.register(lambda: print('{GOOD}'))",
    ],
)
def test_printed_text_is_no_answer(prints):
    # With another answer beside it, and without.
    assert asked(f"{prints}\nanswer({{'loads': False, 'number': None}})") == {"loads": False, "number": None}
    assert "ended with status 0 and gave no answer" in problem(prints).problem


def test_nothing_runs_after_answer():
    late = "import atexit; atexit.register(lambda: os.write(_way, b'more'))\n"
    assert asked(late + "answer({'loads': True, 'number': 1})")["loads"] is True


def test_text_beside_answer_is_rejected():
    assert problem("os.write(_way, b'{}'); answer({'loads': True, 'number': 1})").started


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("os.kill(os.getpid(), 9)", "was ended by signal 9 and gave no answer"),
        ("os._exit(7)", "ended with status 7 and gave no answer"),
        ("raise OSError('odd')", "ended with status 1 and gave no answer: OSError: odd"),
        (f"os.write(_way, b'{GOOD}'); os._exit(7)", "ended with status 7 and gave no answer"),
        (f"os.write(_way, b'{GOOD}'); os.kill(os.getpid(), 9)", "was ended by signal 9 and gave no answer"),
    ],
)
def test_process_that_ends_badly_gave_no_answer(source, words):
    found = problem(source)
    assert (found.problem, found.started) == (words, True)


def test_process_that_hangs_or_cannot_start_was_not_tried():
    found = problem("import time; time.sleep(60)", seconds=0.3)
    assert (found.problem, found.started) == ("no answer within 0.3 seconds", False)
    assert problem("", python=["/no/such/python"]).started


def test_variables_that_process_does_not_get(monkeypatch):
    monkeypatch.setenv("LEFT_OUT", "1")
    source = "answer({'loads': 'LEFT_OUT' in os.environ, 'number': None})"
    assert [asked(source)["loads"], asked(source, without=["LEFT_OUT"])["loads"]] == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        "", "[]", "null", "[" * 200_000, "{}", '{"loads": true}', '{"loads": 1, "number": 7}',
        '{"loads": true, "number": true}', '{"loads": true, "number": 7.0}', '{"loads": true, "number": NaN}',
        '{"loads": true, "number": 7, "more": 1}', GOOD + GOOD, "warning\n" + GOOD,
    ],
)  # fmt: skip
def test_answer_of_another_shape_is_none(answer):
    class Odd(Host):
        def run(self, argv, timeout=120, check=True, stdin=None):
            return CommandResult(0, answer, "")

    with pytest.raises(child.ChildError, match="ended with status 0 and gave no answer"):
        child.ask_child(Odd(), "", [], KEYS, 1)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (child.is_string, ["", "x"], [None, 1, ["x"]]),
        (child.is_boolean, [True, False], [None, 0, 1, "true"]),
        (is_integer, [0, -1], [None, True, 1.0, "1"]),
        (child.is_string_list, [[], ["x"]], [None, "x", [1], [None]]),
        (child.is_string_dict, [{}, {"a": "x"}], [None, [], {"a": 1}]),
        (child.or_none(child.is_string), [None, "x"], [0, False, []]),
    ],
)
def test_types_of_answer(check, good, bad):
    assert [check(value) for value in good] == [True] * len(good)
    assert [check(value) for value in bad] == [False] * len(bad)
