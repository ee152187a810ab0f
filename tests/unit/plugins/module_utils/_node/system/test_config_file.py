# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of configuration files are one sentence."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify as slurm_verdict
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import config_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

from tests.unit.plugins.module_utils._node.system.test_deep_json import DEEP


def test_unreadable_config_file_is_one_sentence(tmp_path):
    deep = tmp_path / "deep.json"
    deep.write_text(DEEP)
    with pytest.raises(NodeError, match="is not valid JSON"):
        config_file.read_config(Host(), str(deep), "nvme_raid0")
    with pytest.raises(NodeError, match="must be a JSON object"):
        slurm_verdict.parse_asked(DEEP)


def test_unreadable_settings_are_not_missing(tmp_path):
    path = tmp_path / "storage.json"
    assert not config_file.is_configured(Host(), str(path))
    path.write_text("{}")
    assert config_file.is_configured(Host(), str(path))
    path.unlink()
    path.mkdir()
    with pytest.raises(NodeError, match="is there and could not be read"):
        config_file.is_configured(Host(), str(path))
