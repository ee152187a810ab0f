# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Notices of EC2 to an instance, in the documented formats, and their evaluation."""

from __future__ import annotations

import argparse
import email.utils
import json
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import notice as slurm_notice
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


class Sleeper(Host):
    def __init__(self):
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)


def spot(seconds):
    return json.dumps(
        {"action": "terminate", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))}
    )


def scheduled(seconds, code="instance-stop", state="active"):
    event = {"Code": code, "State": state, "NotBefore": email.utils.formatdate(time.time() + seconds, usegmt=True)[5:]}
    return json.dumps([event])


def watch(*looks, before=600, every=0):
    """Return the exit code and the number of sleeps; each look is the two answers, or an error."""
    left = list(looks)

    def get(path):
        if isinstance(left[0], Exception):
            raise left.pop(0)
        return left[0][0] if path == slurm_notice.SPOT else left.pop(0)[1]

    host = Sleeper()
    code = slurm_notice.watch(argparse.Namespace(before=before, every=every), host, get)
    return code, len(host.slept)


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ((None, None), 0),
        ((None, "[]"), 0),
        ((spot(100), None), 1),
        # One day left, by a clock that was set back.
        ((spot(86400), None), 1),
        ((None, scheduled(10000)), 0),
        ((None, scheduled(100)), 1),
        ((None, scheduled(100, state="completed")), 0),
        ((None, scheduled(100, code="system-maintenance")), 0),
        ((spot(10000), scheduled(100, code="instance-retirement")), 1),
        ((None, scheduled(10000, code="instance-retirement")), 0),
        (("{", "{"), 0),
        (('{"action": "stop"}', '{"Code": 1}'), 0),
        (('{"time": 3}', '[{"Code": "instance-stop", "State": "active"}]'), 0),
    ],
)
def test_notice_decides_exit_code(answers, code):
    assert watch(answers) == (code, 0)


def test_watch_repeats_until_notice_despite_missing_answer():
    assert watch((None, None), NodeError("late"), (None, scheduled(5000)), (spot(10), None), every=5) == (1, 3)


def test_spot_notice_respects_short_period():
    assert watch((spot(100), None), before=60) == (0, 0)
    assert watch((spot(50), None), before=60) == (1, 0)


def test_missing_metadata_is_undeterminable():
    assert watch(NodeError("no answer"), every=5) == (2, 0)


def test_unreachable_metadata_is_one_sentence():
    with pytest.raises(NodeError, match=r"the instance metadata at http://127\.0\.0\.1:9 do not answer"):
        slurm_notice.metadata("http://127.0.0.1:9")("x")


def test_invalid_endpoint_is_usage_error(monkeypatch):
    monkeypatch.setenv(slurm_notice.ENDPOINT_VARIABLE, "file:///etc")
    assert slurm_notice.watch(argparse.Namespace(before=1, every=0)) == 3
