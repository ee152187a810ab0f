# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters of prove_on_aws, with the clock of the controller."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.filter import prove


@pytest.mark.parametrize("zone", ["UTC", "Asia/Seoul", "America/New_York"])
def test_deadline_is_same_in_every_zone(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    prove.time.tzset()
    monkeypatch.setattr(prove.time, "time", lambda: 1767225600.9)
    try:
        text = prove.prove_user_data("120", "PRIVATE", "PUBLIC")
    finally:
        monkeypatch.undo()
        prove.time.tzset()
    assert "OnCalendar=2026-01-01 02:00:00 UTC" in text


def test_request_of_now_is_unsettled(monkeypatch):
    monkeypatch.setattr(prove.time, "time", lambda: 1767225600.9)
    for requested, is_unsettled in ((1767225600, True), (1767225300, False)):
        found = prove.prove_removals({}, "prove-1", launched={"id": "0123", "requested": requested})
        assert (found["is_unsettled"], found["problem"]) == (is_unsettled, "")


def test_each_filter_is_registered():
    names = {"prove_inventory", "prove_plan", "prove_removals", "prove_user_data"}
    assert set(prove.FilterModule().filters()) == names
