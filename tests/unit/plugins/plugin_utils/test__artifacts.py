# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts

SIGNED = {
    "name": "tool",
    "platform": "any",
    "version": "2.0",
    "url": "https://example.com/tool-{version}.tar.gz",
    "sha256": "",
    "sha256_source": "",
    "signature": {
        "url": "https://example.com/tool-{version}.sig",
        "key_url": "https://example.com/key",
        "fingerprint": "A" * 40,
    },
    "source": "its home page",
}
OLDER = {**SIGNED, "version": "1.0", "sha256": "1" * 64, "sha256_source": "its home page"}
BUILT = {**SIGNED, "name": "built", "platform": "deb-amd64", "signature": None}
TABLE = (SIGNED, OLDER, BUILT)


def find(*arguments, **options):
    return _artifacts.find(*arguments, table=TABLE, **options)


def test_first_of_table_is_default():
    found = find("tool")
    assert (found["version"], found["url"]) == ("2.0", "https://example.com/tool-2.0.tar.gz")
    assert (found["signature_url"], found["fingerprint"]) == ("https://example.com/tool-2.0.sig", "A" * 40)


def test_without_table_and_lock_there_is_no_checksum():
    assert (find("tool")["sha256"], find("tool")["sha256_source"]) == ("", "")


def test_checksum_comes_with_its_source():
    found = find("tool", version="1.0")
    assert (found["sha256"], found["sha256_source"]) == ("1" * 64, "its home page")


def test_lock_fills_what_table_leaves_empty():
    lock = [{"name": "tool", "platform": "any", "version": "2.0", "sha256": "2" * 64}]
    assert find("tool", locks=lock)["sha256"] == "2" * 64
    assert find("tool", locks=lock)["sha256_source"] == "artifacts.lock.yml"


@pytest.mark.parametrize("other", [{"name": "x"}, {"platform": "deb-amd64"}, {"version": "2.1"}])
def test_lock_of_another_artifact_is_not_taken(other):
    lock = [{"name": "tool", "platform": "any", "version": "2.0", "sha256": "2" * 64, **other}]
    assert find("tool", locks=lock)["sha256"] == ""


def test_lock_does_not_overrule_table():
    lock = [{"name": "tool", "platform": "any", "version": "1.0", "sha256": "2" * 64}]
    assert find("tool", version="1.0", locks=lock)["sha256"] == "1" * 64


def test_unknown_version_has_no_checksum_of_another_one():
    found = find("tool", version="3.0")
    assert (found["url"], found["sha256"]) == ("https://example.com/tool-3.0.tar.gz", "")


def test_builds_are_reported_apart():
    assert find("built", "deb-amd64")["signature_url"] == ""
    with pytest.raises(_artifacts.ArtifactError, match="no artifact built for rpm-x86_64; there are built for deb"):
        find("built", "rpm-x86_64")


def test_missing_lock_is_empty(tmp_path):
    assert _artifacts.read_lock(tmp_path / "none.yml") == []


@pytest.mark.parametrize("text", ["[]", "artifacts: 3", "artifacts: [3]", "{", "other: []"])
def test_invalid_lock_is_rejected(tmp_path, text):
    path = tmp_path / "artifacts.lock.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(_artifacts.ArtifactError, match="is not a lock of artifacts"):
        _artifacts.read_lock(path)


def test_published_checksum_is_used():
    found = _artifacts.find("aws-efa-installer", version="1.47.0")
    assert found["sha256"].startswith("2df4201e0468")
    assert found["sha256_source"].startswith("Amazon EC2 User Guide")
