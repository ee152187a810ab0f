# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.state import write_json


def test_state_is_json_for_all_to_read(tmp_path):
    path = tmp_path / "state" / "x.json"
    write_json(Host(), str(path), {"b": 1, "a": [2]})
    assert path.read_text(encoding="utf-8") == '{\n  "a": [\n    2\n  ],\n  "b": 1\n}\n'
    assert os.stat(path).st_mode & 0o777 == 0o644


def test_state_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "state").write_text("a file", encoding="utf-8")
    with pytest.raises(NodeError, match=r"could not write .*/state/x\.json \(.+\): look with 'df' and 'mount'"):
        write_json(Host(), str(tmp_path / "state" / "x.json"), {})
