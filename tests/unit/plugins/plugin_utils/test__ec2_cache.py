# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _ec2_cache
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2_fetch import Answer

ANSWER = Answer(records=[{"instance_id": "i-1", "tags": {"a": "{{ ü }}"}}], warnings=["w"], regions=["r"], account="1")


def test_what_is_packed_is_unpacked():
    assert _ec2_cache.unpack(_ec2_cache.pack(ANSWER, "me"), "me") == ANSWER


def test_whoever_has_no_key_may_read_and_whoever_has_another_may_not():
    stored = _ec2_cache.pack(ANSWER, _ec2_cache.who({"AWS_ACCESS_KEY_ID": "a"}, None))
    assert _ec2_cache.unpack(stored, _ec2_cache.who({}, None)) == ANSWER
    assert _ec2_cache.unpack(stored, _ec2_cache.who({"AWS_ACCESS_KEY_ID": "b"}, "profile")) == ANSWER
    assert _ec2_cache.unpack(stored, _ec2_cache.who({"AWS_ACCESS_KEY_ID": "b"}, None)) is None


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "text",
        {},
        {"format": _ec2_cache.FORMAT},
        {"format": _ec2_cache.FORMAT, "identity": "", "answer": "{"},
        {"format": _ec2_cache.FORMAT, "identity": "", "answer": "{}"},
        {"format": _ec2_cache.FORMAT, "identity": "", "answer": "[]"},
        {**_ec2_cache.pack(ANSWER, ""), "format": _ec2_cache.FORMAT + 1},
    ],
)
def test_what_cannot_be_used_is_asked_for_again(stored):
    assert _ec2_cache.unpack(stored, "") is None


def test_the_key_names_what_was_asked_and_nothing_secret():
    key = _ec2_cache.key("base", {"a": [1]}, {"AWS_SECRET_ACCESS_KEY": "s", "HOME": "/"})
    assert key == _ec2_cache.key("base", {"a": (1,)}, {"AWS_ACCESS_KEY_ID": "other"})
    assert key.startswith("base_")
    assert key != _ec2_cache.key("base", {"a": [2]}, {})
    assert key != _ec2_cache.key("base", {"a": [1]}, {"AWS_PROFILE": "p"})
