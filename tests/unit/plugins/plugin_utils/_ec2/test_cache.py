# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import cache as _ec2_cache
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.fetch import Answer

ANSWER = Answer(records=[{"instance_id": "i-1", "tags": {"a": "{{ ü }}"}}], warnings=["w"], regions=["r"], account="1")


def test_packed_entry_is_unpacked():
    assert _ec2_cache.unpack(_ec2_cache.pack(ANSWER, "me"), "me") == ANSWER


@pytest.mark.parametrize(
    ("environment", "profile", "is_read"),
    [
        ({"AWS_ACCESS_KEY_ID": "a"}, None, True),
        ({"AWS_ACCESS_KEY_ID": "b"}, None, False),
        ({}, None, False),
        ({"AWS_ACCESS_KEY_ID": "a"}, "profile", False),
    ],
)
def test_entry_made_with_key_is_read_with_that_key_only(environment, profile, is_read):
    stored = _ec2_cache.pack(ANSWER, _ec2_cache.access_key_digest({"AWS_ACCESS_KEY_ID": "a"}, None))
    assert (_ec2_cache.unpack(stored, _ec2_cache.access_key_digest(environment, profile)) == ANSWER) is is_read


def test_entry_made_without_key_is_not_read_with_one():
    stored = _ec2_cache.pack(ANSWER, _ec2_cache.access_key_digest({}, None))
    assert _ec2_cache.unpack(stored, _ec2_cache.access_key_digest({}, None)) == ANSWER
    assert _ec2_cache.unpack(stored, _ec2_cache.access_key_digest({"AWS_ACCESS_KEY_ID": "a"}, None)) is None


@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "HOME"])
def test_key_changes_with_files_of_profile(tmp_path, name):
    folder = tmp_path / ".aws" if name == "HOME" else tmp_path
    folder.mkdir(exist_ok=True)
    path = folder / "credentials"
    environment = {name: str(tmp_path if name == "HOME" else path)}
    keys = [_ec2_cache.key("base", {}, environment)]
    for text in ("[default]\naws_access_key_id = A\n", "[default]\naws_access_key_id = BB\n"):
        path.write_text(text)
        keys.append(_ec2_cache.key("base", {}, environment))
    assert len(set(keys)) == 3
    assert _ec2_cache.key("base", {}, environment) == keys[-1]


PACKED = _ec2_cache.pack(ANSWER, "")
NEWER = {**PACKED, "format": _ec2_cache.FORMAT + 1}


@pytest.mark.parametrize("stored", [None, NEWER])
def test_missing_or_outdated_entry_is_asked_for_again(stored):
    assert _ec2_cache.unpack(stored, "") is None


def resealed(text):
    """Return an entry whose digest matches its content."""
    return {**PACKED, "answer": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ("text", "not an entry of this plugin"),
        ([], "not an entry of this plugin"),
        ({}, "not an entry of this plugin"),
        ({"format": _ec2_cache.FORMAT}, "not an entry of this plugin"),
        ({**PACKED, "answer": {}}, "not an entry of this plugin"),
        ({**PACKED, "answer": "{}"}, "changed since"),
        ({**PACKED, "answer": PACKED["answer"].replace("i-1", "i-2")}, "changed since"),
        ({**PACKED, "sha256": None}, "changed since"),
        (resealed("{"), "no answer"),
        (resealed("{}"), "no answer"),
        (resealed("[]"), "no answer"),
    ],
)
def test_damaged_entry_is_reported(stored, problem):
    with pytest.raises(_ec2_cache.DamagedError, match=problem):
        _ec2_cache.unpack(stored, "")


def test_only_world_writable_directory_counts_as_open(tmp_path, monkeypatch):
    assert _ec2_cache.open_to_all(str(tmp_path)) is None
    monkeypatch.setenv("PLACE", str(tmp_path))
    tmp_path.chmod(0o1777)
    assert _ec2_cache.open_to_all("$PLACE") == str(tmp_path)
    (tmp_path / "file").touch(0o666)
    for other in (None, "", "localhost:6379:0", str(tmp_path / "absent"), str(tmp_path / "file"), "a\0b"):
        assert _ec2_cache.open_to_all(other) is None


def test_key_has_request_and_no_secret():
    key = _ec2_cache.key("base", {"a": [1]}, {"AWS_SECRET_ACCESS_KEY": "s", "PATH": "/"})
    assert key == _ec2_cache.key("base", {"a": (1,)}, {"AWS_ACCESS_KEY_ID": "other"})
    assert key.startswith("base_")
    assert key != _ec2_cache.key("base", {"a": [2]}, {})
    assert key != _ec2_cache.key("base", {"a": [1]}, {"AWS_PROFILE": "p"})
    # Users have different profiles.
    assert key != _ec2_cache.key("base", {"a": [1]}, {"HOME": "/home/other"})
