# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache between runs, and the conditions for its use."""

from __future__ import annotations

import os
import sys

import pytest
from ansible.errors import AnsibleParserError
from ansible.plugins.cache import BaseFileCacheModule
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import cache as _ec2_cache

from tests.rig.ec2 import Fault, Fleet, Region

EAST = "us-east-1"


@pytest.fixture
def kept(tmp_path):
    """Options that switch the cache on."""
    return {
        "regions": EAST,
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
    }


def everything(inventory):
    return inventory.groups, {host: inventory.vars(host) for host in inventory.hosts}


def test_cached_run_sends_no_request(play, load, kept, warnings):
    endpoint = play(
        Region(EAST, (Fleet(count=3, tags={"T": "{{ 1 }}"}),), faults=(Fault("DescribeInstanceStatus"),)),
    )
    first = everything(load(**kept, enrich=["health", "topology"]))
    messages, asked = list(warnings), len(endpoint.calls)
    second = everything(load(**kept, enrich=["health", "topology"]))
    assert second == first
    assert len(endpoint.calls) == asked
    assert warnings[len(messages) :] == messages != []


def test_cached_run_does_not_load_botocore(play, load, kept, monkeypatch):
    play(Region(EAST, (Fleet(),)))
    load(**kept)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert len(load(**kept).hosts) == 1
    with pytest.raises(AnsibleParserError, match=r"botocore is needed and cannot be imported .*; install boto3"):
        load(**kept, cache_timeout=1, filters={"tag:a": "b"})


def test_ansible_71169_refresh_asks_again_and_renews(play, load, kept):
    endpoint = play(Region(EAST, (Fleet(tags={"a": "old"}, tags_later={"a": "new"}),)))
    inventories = [load(**kept), load(**kept), load(**kept, read_cache=False), load(**kept)]
    seen = [inventory.vars(inventory.hosts[0])["ec2_tags"]["a"] for inventory in inventories]
    assert seen == ["old", "old", "new", "new"]
    assert endpoint.count("DescribeInstances") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"filters": {"tag:a": "b"}},
        {"regions": ["us-west-2"]},
        {"enrich": ["health"]},
        {"full_record": True},
        {"cluster_name": "x"},
        {"tag_keys": {"queue": "q"}},
        {"hardware": "table"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_question_has_another_entry(play, load, kept, change):
    endpoint = play(Region(EAST, (Fleet(),)), Region("us-west-2", (Fleet(),)))
    load(**kept)
    load(**{**kept, **change})
    assert endpoint.count("DescribeInstances") == 2


def test_include_and_exclude_and_names_work_on_same_entry(play, load, kept):
    endpoint = play(Region(EAST, (Fleet(name="a"), Fleet(name="b"))))
    load(**kept)
    assert load(**kept, exclude="tags.Name == 'a'", hostnames=["tag:Name"]).hosts == ["b"]
    assert endpoint.count("DescribeInstances") == 1


def test_keys_of_another_account_do_not_see_entry(play, load, kept, monkeypatch):
    play(Region(EAST, (Fleet(count=2), Fleet(account="444455556666"))))
    assert len(load(**kept).hosts) == 2
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIARIGOTHER")
    assert len(load(**kept).hosts) == 1


def test_answer_with_failed_region_is_not_kept(play, load, kept):
    west = Region("us-west-2", (Fleet(),), faults=(Fault("DescribeInstances", "InternalError", times=1),))
    play(Region(EAST, (Fleet(),)), west)
    kept["regions"] = [EAST, "us-west-2"]
    assert len(load(**kept, max_attempts=1).hosts) == 1
    assert len(load(**kept, max_attempts=1).hosts) == 2


def test_answer_with_denied_region_is_kept_with_warning(play, load, kept, warnings):
    endpoint = play(Region(EAST, (Fleet(),)), Region("us-west-2", faults=(Fault(),)))
    kept["regions"] = [EAST, "us-west-2"]
    load(**kept)
    load(**kept)
    assert endpoint.count("DescribeInstances", EAST) == 1
    assert len(warnings) == 2
    assert warnings[0] == warnings[1]


def test_amazon_aws_2998_entry_of_another_format_is_not_read(play, load, kept, monkeypatch):
    endpoint = play(Region(EAST, (Fleet(),)))
    load(**kept)
    monkeypatch.setattr(_ec2_cache, "FORMAT", _ec2_cache.FORMAT + 1)
    assert len(load(**kept).hosts) == 1
    assert endpoint.count("DescribeInstances") == 2


def test_no_secret_is_kept(play, load, kept, tmp_path):
    play(Region(EAST, (Fleet(),)))
    load(**kept)
    (entry,) = (tmp_path / "cache").iterdir()
    text = entry.name + entry.read_text()
    assert "AKIARIGMAIN" not in text
    assert "not-a-secret" not in text


def test_unwritable_cache_still_gives_answer(play, load, kept, warnings, monkeypatch):
    play(Region(EAST, (Fleet(),)))

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BaseFileCacheModule, "set", full)
    assert len(load(**kept).hosts) == 1
    assert len(warnings) == 1 and "could not be kept in the cache: [Errno 28] No space left on device" in warnings[0]


def test_concurrently_created_directory_is_used(play, load, kept, warnings, monkeypatch):
    endpoint = play(Region(EAST, (Fleet(),)))
    real, made = os.makedirs, []

    def second(path, *arguments, **options):
        made.append(path)
        real(path)
        real(path, *arguments, **options)

    # The cache plugin has just found no directory.
    monkeypatch.setattr(os, "makedirs", second)
    load(**kept)
    load(**kept)
    assert (made, warnings) == ([kept["cache_connection"]], [])
    assert endpoint.count("DescribeInstances") == 1


def test_missing_cache_plugin_is_named(play, load, kept, warnings):
    play(Region(EAST, (Fleet(),)))
    assert len(load(**{**kept, "cache_plugin": "nowhere"}).hosts) == 1
    assert len(warnings) == 1 and "nowhere" in warnings[0] and "the cache is not used" in warnings[0]


def test_broken_cache_is_used_once(play, load, kept, warnings, monkeypatch):
    play(Region(EAST, (Fleet(),)))

    def down(*_arguments):
        raise ConnectionError("nothing listens")

    monkeypatch.setattr(BaseFileCacheModule, "contains", down)
    monkeypatch.setattr(BaseFileCacheModule, "set", down)
    assert len(load(**kept).hosts) == 1
    assert len(warnings) == 1 and "nothing listens" in warnings[0]
