# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options and return values of the module, on the node of lustre_host."""

from __future__ import annotations

import os

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel
from ansible_collections.mlcluster.aws.plugins.modules import lustre_info as module

from tests.unit.fakes.fake_lustre_host import LustreHost


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    return LustreHost(tmp_path)


def test_all_documented_keys_are_returned(host, run_module, tmp_path):
    nothing = str(tmp_path / "nothing")
    answer = run_module(module, host, file_systems=[{"path": host.mount("fsx")}], files=[nothing])
    assert set(yaml.safe_load(module.RETURN)) == set(answer) - {"changed", "invocation"}
    assert answer["changed"] is False
    assert (answer["files"], answer["paths"]) == ({nothing: None}, {nothing: None})


def test_probe_writes_and_check_mode_does_not(host, run_module):
    path = host.mount("fsx")
    probes = {
        check: run_module(module, host, check, file_systems=[{"path": path}], probe=True)["probes"]
        for check in (False, True)
    }
    assert probes[False][path]["status"] == "pass"
    assert probes[True] == {}
    assert os.listdir(path) == []


def test_problems_are_lines_that_do_not_pass(host, run_module, tmp_path):
    answer = run_module(module, host, file_systems=[{"path": str(tmp_path / "none")}], packages=["lustre-*"])
    assert answer["problems"] == [line for line in answer["lines"] if not line.startswith(("PASS", "n/a"))]
    assert [result["id"] for result in answer["results"]][:3] == ["lustre.client", "lustre.next_kernel", "lustre.held"]
    assert any("nothing is mounted there" in line for line in answer["problems"])


def test_bad_options_are_rejected_before_any_command(host, run_module):
    message = run_module(module, host, file_systems=[{"path": "/data"}], timeout=0)["msg"]
    assert "/data is the local NVMe volume" in message
    assert "timeout is 0: use 1 to 300" in message
    assert host.ran == []
