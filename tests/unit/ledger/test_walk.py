# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.unit.ledger.walk import UNKNOWN, Excuse, Leaf, Room, changed, room_tests

GOOD = {"ecc_errors": "0", "name": "x", "speed": "10 MHz"}


def room(*excuses, judged=("ecc_errors", "speed"), limit=10.0):
    def judge(output):
        good = all(output.get(key) == GOOD[key] for key in judged if key != "speed")
        speed = output.get("speed") or ""
        fast = speed.endswith(" MHz") and float(speed.split()[0]) >= limit
        return {"a": "pass" if good and (fast or "speed" not in judged) else "fail"}

    def leaf(key):
        return Leaf(key, GOOD[key], lambda text: {k: text if k == key else v for k, v in GOOD.items()})

    return Room("toy", GOOD, [leaf(key) for key in GOOD], judge, excuses)


NAME = Excuse("name", "a name and nothing more")
FASTER = Excuse("speed", "a faster one is as good", ("ten times",))


def test_changes_of_text():
    assert changed("Yes") == {**UNKNOWN, "opposite": "No"}
    assert changed("10.50 MHz") == {**UNKNOWN, "zero": "0.00 MHz", "half": "5.25 MHz", "ten times": "105.00 MHz"}
    assert changed("0") == UNKNOWN
    assert "N/A" not in changed("N/A")


def test_ledger_that_covers_all_is_good():
    for test in room_tests(room(NAME, FASTER)):
        test()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (room(FASTER), "name: 'x' -> N/A"),
        (room(NAME), "speed: '10 MHz' -> ten times"),
        (room(NAME, FASTER, judged=("speed",)), "ecc_errors: '0' -> ERR!"),
    ],
)
def test_change_that_no_verdict_notices_is_hole(bad, words):
    sample, every_leaf, _ledger = room_tests(bad)
    for test in (sample, every_leaf):
        with pytest.raises(AssertionError) as found:
            test()
        assert words in str(found.value)


def test_excuse_that_is_not_needed_is_dropped():
    every_leaf = room_tests(room(NAME, FASTER, limit=float("inf"), judged=("ecc_errors",)))[1]
    with pytest.raises(AssertionError):
        every_leaf()
    half = Excuse("speed", "half is noticed", ("half",))
    with pytest.raises(AssertionError, match="these are noticed"):
        room_tests(room(NAME, FASTER, half))[1]()


@pytest.mark.parametrize(
    ("excuse", "words"),
    [
        (Excuse("nmae", "a name and nothing more"), "has no leaf nmae"),
        (Excuse("name", ""), "has no reason"),
        (Excuse("ecc_errors", "judged elsewhere"), "excuses .*ecc_errors"),
        (Excuse("*", "everything there is"), "excuses .*ecc_errors"),
        (Excuse("ecc_errors", "judged elsewhere", ("zero", "N/A")), "excuses .*ecc_errors"),
    ],
)
def test_bad_ledger_is_refused(excuse, words):
    with pytest.raises(AssertionError, match=words):
        room_tests(room(excuse))[2]()


def test_output_without_pass_is_refused():
    with pytest.raises(AssertionError, match="has no pass"):
        room_tests(room(NAME, limit=99.0))[0]()
