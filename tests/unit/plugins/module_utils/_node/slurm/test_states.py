# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of node states."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import states
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IDLE", ("IDLE", [])),
        ("DOWN*", ("DOWN", ["NOT_RESPONDING"])),
        ("DOWN*+DRAIN", ("DOWN", ["DRAIN", "NOT_RESPONDING"])),
        ("IDLE+CLOUD+POWERED_DOWN", ("IDLE", ["CLOUD", "POWERED_DOWN"])),
        ("idle~", ("IDLE", ["POWERED_DOWN"])),
        ("mixed@", ("MIXED", ["REBOOT_REQUESTED"])),
    ],
)
def test_split(text, expected):
    assert states.split(text) == expected


@pytest.mark.parametrize(
    ("text", "next_state", "expected"),
    [
        ("IDLE", None, "takes"),
        ("MIXED", None, "takes"),
        ("ALLOCATED+COMPLETING", None, "takes"),
        ("IDLE+PLANNED", None, "takes"),
        ("IDLE+CLOUD+POWERED_DOWN", None, "takes"),
        # As a cloud node is while its instance boots.
        ("ALLOCATED*+CLOUD+POWERING_UP", None, "takes"),
        ("IDLE+DYNAMIC_NORM", None, "takes"),
        ("IDLE+RESERVED", None, "takes"),
        ("MIXED+REBOOT_REQUESTED", None, "takes"),
        ("IDLE*", None, "returns"),
        ("IDLE+CLOUD+POWERING_DOWN", None, "returns"),
        ("IDLE+POWER_DOWN", None, "returns"),
        ("MIXED+DRAIN+POWER_DOWN", None, "returns"),
        ("DOWN+CLOUD+POWERING_DOWN", None, "returns"),
        ("DOWN*+CLOUD+POWERING_UP", None, "returns"),
        ("IDLE+REBOOT_ISSUED", None, "returns"),
        ("DOWN+REBOOT_ISSUED", None, "returns"),
        ("MIXED+DRAIN+REBOOT_REQUESTED", "RESUME", "returns"),
        ("DOWN+DRAIN+REBOOT_ISSUED", "UNDRAIN", "returns"),
        ("DOWN+REBOOT", None, "returns"),
        ("DOWN*+REBOOT_REQUESTED", None, "returns"),
        ("IDLE+BLOCKED", None, "returns"),
        ("IDLE+MAINTENANCE", None, "returns"),
        ("IDLE+DRAIN", None, "closed"),
        # No reboot was requested.
        ("IDLE+DRAIN", "RESUME", "closed"),
        ("DRAINED", None, "closed"),
        ("DRAINING", None, "closed"),
        # A person drained it, and the reboot does not end that; recorded from Slurm 22.05.8.
        ("DOWN+DRAIN+REBOOT_ISSUED", None, "closed"),
        ("MIXED+DRAIN+REBOOT_REQUESTED", "DOWN", "closed"),
        ("DOWN+REBOOT_ISSUED", "DOWN", "closed"),
        ("MIXED+REBOOT_REQUESTED", "DOWN", "closed"),
        ("IDLE+CLOUD+DRAIN+POWERING_DOWN", None, "closed"),
        ("DOWN", None, "closed"),
        ("MIXED+FAIL", None, "closed"),
        ("INVAL", None, "closed"),
        ("FUTURE", None, "closed"),
        ("ERROR", None, "closed"),
        # Known to be closed, whatever other words follow.
        ("IDLE+DRAIN+NEW_FLAG", None, "closed"),
        ("", None, "unknown"),
        ("UNKNOWN", None, "unknown"),
        ("DRNG", None, "unknown"),
        ("IDLE+NEW_FLAG", None, "unknown"),
        ("IDLE+POWERING_DOWN+NEW_FLAG", None, "unknown"),
    ],
)
def test_availability(text, next_state, expected):
    assert states.availability(*states.split(text), next_state)[0] == expected


@pytest.mark.parametrize(
    ("text", "next_state", "reason"),
    [
        ("MIXED+CLOUD", None, "partly allocated"),
        ("DOWN*+CLOUD+POWERING_UP", None, "powering up"),
        ("MIXED+DRAIN+REBOOT_REQUESTED", "RESUME", "to be rebooted"),
        ("IDLE+CLOUD+POWERING_DOWN", None, "powering down"),
        ("IDLE+DRAIN+POWERING_DOWN", None, "drained"),
        ("MIXED+REBOOT_REQUESTED", "DOWN", "to be down after its reboot"),
        ("", None, "without a state"),
        ("IDLE+NEW_FLAG", None, "in the state 'NEW_FLAG', which is not known here"),
        ("UNKNOWN", None, "in a state that Slurm does not know yet"),
    ],
)
def test_reason(text, next_state, reason):
    assert states.availability(*states.split(text), next_state)[1] == reason


def test_taking_states_are_an_allow_list():
    assert {word for word, state in states.STATES.items() if state.effect == states.TAKES} == set(
        "IDLE ALLOCATED MIXED COMPLETING PLANNED CLOUD DYNAMIC_FUTURE DYNAMIC_NORM RESERVED POWERED_DOWN POWER_UP "
        "POWERING_UP REBOOT_REQUESTED REBOOT".split()
    )


@pytest.mark.parametrize("word", states.STATES)
def test_each_state_has_text_and_source(word):
    state = states.STATES[word]
    assert state.text and any(place in state.source for place in ("(1)", "(5)", ".html", "src/"))
    assert state.lifts <= set(states.STATES)


def test_marks_are_known_states():
    assert set(states.MARKS.values()) <= set(states.STATES)


@given(st.text(max_size=60), st.none() | st.text(max_size=9))
def test_unlisted_word_never_takes_jobs(text, next_state):
    base, flags = states.split(text)
    if not {base, *flags} <= set(states.STATES):
        assert states.availability(base, flags, next_state)[0] != states.TAKES


@given(
    st.lists(st.sampled_from(sorted(states.STATES)), min_size=1), st.sampled_from([None, "RESUME", "UNDRAIN", "DOWN"])
)
def test_state_combinations_have_reason(words, next_state):
    effect, reason = states.availability(words[0], words[1:], next_state)
    assert effect in (states.TAKES, states.RETURNS, states.CLOSED, states.UNKNOWN) and reason
    if effect == states.TAKES:
        assert {states.STATES[word].effect for word in words if word != "NOT_RESPONDING"} == {states.TAKES}


@pytest.mark.parametrize("flag", [None, "DRAIN", "DRAINED", "MAINT", "RESERVED", "CLOUD", "COMPLETING", "PLANNED"])
@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "MIXED"])
def test_running_slurmd_is_up(state, flag):
    flags = [flag] if flag else []
    assert states.is_up(state, flags)
    assert states.is_drained(state, flags) == (flag in ("DRAIN", "DRAINED"))


@pytest.mark.parametrize(
    "text",
    ["DOWN", "DOWN*", "IDLE*", "IDLE~", "IDLE#", "IDLE%", "IDLE!", "IDLE@", "IDLE^", "IDLE+DRAIN+POWERED_DOWN",
     "IDLE+POWERING_UP", "IDLE+POWER_UP", "IDLE+POWER_DOWN", "MIXED+REBOOT_REQUESTED", "IDLE+REBOOT_ISSUED", "UNKNOWN",
     "INVAL", "IDLE+INVALID_REG", "FUTURE", "ERROR", "FAIL", "IDLE+FAIL", "", "IDLE+NEW_WORD", "NO_RESPOND"],
)  # fmt: skip
def test_unproved_slurmd_is_not_up(text):
    assert not states.is_up(*states.split(text))


def test_states_with_running_slurmd_are_an_allow_list():
    assert {word for word, state in states.STATES.items() if state.up} == set(
        "IDLE ALLOCATED MIXED COMPLETING PLANNED CLOUD DYNAMIC_FUTURE DYNAMIC_NORM RESERVED MAINTENANCE MAINT PERFCTRS "
        "BLOCKED DRAIN DRAINED DRAINING".split()
    )


def test_taking_states_without_slurmd_are_listed():
    taking = {word for word, state in states.STATES.items() if state.effect == states.TAKES and not state.up}
    assert taking == {"POWERED_DOWN", "POWER_UP", "POWERING_UP", "REBOOT_REQUESTED", "REBOOT"}
