# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleLookupError
from ansible.plugins.loader import lookup_loader
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts


@pytest.fixture
def lookup(monkeypatch, tmp_path):
    """Load the lookup as Ansible does, in a collection without a lock."""
    monkeypatch.setattr(_artifacts, "collection_lock", lambda: tmp_path / "artifacts.lock.yml")
    return lookup_loader.get("mlcluster.aws.artifact")


def test_artifact_of_table(lookup):
    (found,) = lookup.run(["aws-efa-installer"])
    assert found["url"] == f"https://efa-installer.amazonaws.com/aws-efa-installer-{found['version']}.tar.gz"
    assert found["fingerprint"] == "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC"


def test_lock_of_user_is_read(lookup, tmp_path):
    lock = tmp_path / "mine.yml"
    lock.write_text(
        f"artifacts: [{{name: aws-efa-installer, platform: any, version: 9.9.9, sha256: {'3' * 64}}}]\n",
        encoding="utf-8",
    )
    (found,) = lookup.run(["aws-efa-installer"], version="9.9.9", lock_file=str(lock))
    assert found["sha256"] == "3" * 64


def test_unknown_name_is_lookups_error(lookup):
    with pytest.raises(AnsibleLookupError, match="no artifact nothing for any; there are"):
        lookup.run(["nothing"])
