# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module waits up to its limit, and then names the holder of the lock."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.modules import package_locks

from tests.unit.fakes.fake_training_host import TrainingHost


def test_free_locks_are_no_change(run_module, monkeypatch):
    monkeypatch.setattr(package_locks, "wait_for_locks", lambda host, seconds: "")
    answer = run_module(package_locks, TrainingHost(), True)
    assert (answer["changed"], answer["seconds"]) == (False, 0.0)


def test_lock_at_time_limit_names_holder(run_module, monkeypatch):
    asked = []
    monkeypatch.setattr(
        package_locks, "wait_for_locks", lambda host, seconds: asked.append(seconds) or "X is held by y"
    )
    answer = run_module(package_locks, TrainingHost(), timeout=7)
    assert answer["msg"].startswith("waited 7 s to change packages, and X is held by y: see what that process")
    assert asked == [7]


def test_negative_limit_is_rejected(run_module):
    answer = run_module(package_locks, TrainingHost(), timeout=-1)
    assert answer["msg"] == "timeout is -1: use the seconds to wait, 0 or more"
