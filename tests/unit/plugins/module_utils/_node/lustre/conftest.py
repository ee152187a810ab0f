# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel

from tests.unit.fakes.fake_lustre_host import LustreHost


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    made = LustreHost(tmp_path)
    made.parameters["osc.*OST*.max_rpcs_in_flight"] = {"osc.a": "8", "osc.b": "32"}
    return made
