# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role's verdicts, messages, facts and time limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import parse_role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel

from tests.unit.fakes.fake_lustre_host import ME, MY_GROUP, LustreHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LustreHost:
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    made = LustreHost(tmp_path)
    made.files["/etc/os-release"] = "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04\n"
    made.files["/proc/1/comm"] = "systemd\n"
    return made


def test_facts_are_plain_json(host: LustreHost) -> None:
    facts = role.look(host, parse_role({"file_systems": [{"path": host.mount("fsx")}]}))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["system"]["distribution"], facts["steps"], facts["lnet_loaded"]) == ("Ubuntu", 0, False)
    # Packages to hold on this distribution.
    assert set(facts["packages"]) == {"lustre-client-modules-x", "linux-image-aws"}


def test_node_without_lustre_has_no_verdicts(host: LustreHost) -> None:
    config = parse_role({})
    assert role.verify(role.look(host, config), config) == []


def test_image_is_judged_without_mounts(host: LustreHost) -> None:
    config = parse_role({"image_build": True, "directories": [], "file_systems": [{"path": host.mount("fsx")}]})
    facts = role.look(host, config)
    assert facts["probes"] == {}
    assert [entry.id for entry in role.verify(facts, config)] == ["lustre.client", "lustre.held"]


def test_read_only_look_writes_nothing(host: LustreHost, monkeypatch: pytest.MonkeyPatch) -> None:
    path = host.mount("fsx")
    written: list[str] = []
    monkeypatch.setattr(LustreHost, "write_probe", lambda self, place, size=0: written.append(place))
    monkeypatch.setattr(role.lustre, "run_all", lambda host, checks, seconds: [check.look(host)[0] for check in checks])
    options = {"file_systems": [{"path": path}]}
    role.look(host, parse_role({**options, **role.READ_ONLY}))
    assert written == []
    role.look(host, parse_role(options))
    assert written == [path]


def test_only_head_node_reports_directory_differences(host: LustreHost) -> None:
    path = host.mount("fsx")
    (host.root / "fsx" / "a").mkdir(mode=0o700)
    options = {
        "file_systems": [{"path": path}],
        "directories": [{"path": f"{path}/a", "owner": ME, "group": MY_GROUP}],
    }
    for head, shown in ((True, [f"{path}/a exists and is left as it is: mode is 0700 instead of 2775"]), (False, [])):
        config = parse_role({**options, "head_node": head})
        assert list(role.report(role.look(host, config), config).info) == shown


def test_mounts_are_a_fact_for_other_roles(host: LustreHost) -> None:
    path = host.mount("fsx")
    config = parse_role({"file_systems": [{"path": path, "efa": True}, {"path": "/fsx-not-here"}]})
    (mount,) = role.report(role.look(host, config), config).facts["mlcluster_fsx_lustre"]["mounts"]
    assert (mount["path"], mount["efa"]) == (path, True)


def test_time_limit_covers_silent_mounts() -> None:
    few = parse_role({"file_systems": [{"path": "/fsx"}]})
    many = parse_role({"file_systems": [{"path": f"/fsx{number}"} for number in range(20)], "timeout": 60})
    assert role.seconds(few) > 3 * 30
    assert role.seconds(many) > 20 * 3 * 60
