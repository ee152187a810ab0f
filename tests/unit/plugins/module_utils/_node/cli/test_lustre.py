# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb for Lustre: tuning and verdicts."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import lustre as lustre_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import hsm as lustre_hsm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import (
    CONFIG_PATH,
    config_text,
    parse_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel

from tests.unit.fakes.fake_lustre_host import LustreHost

TUNED = {"osc.*OST*.max_rpcs_in_flight": 32}


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "STATE_DIRECTORY", str(tmp_path / "state"))
    made = LustreHost(tmp_path)
    made.parameters["osc.*OST*.max_rpcs_in_flight"] = {"osc.a": "8", "osc.b": "32"}
    return made


def test_tune_sets_only_differing_values(host, caplog):
    host.files[CONFIG_PATH] = config_text(
        parse_config({"file_systems": [{"path": host.mount("fsx")}], "tuning": TUNED})
    )
    args = cli.build_parser("1").parse_args(["lustre-tune"])
    assert lustre_cli.tune_verb(args, host) == 0
    assert host.parameters["osc.*OST*.max_rpcs_in_flight"] == {"osc.a": "32", "osc.b": "32"}
    before = len([argv for argv in host.ran if argv[:2] == ["lctl", "set_param"]])
    assert lustre_cli.tune_verb(args, host) == 0
    assert len([argv for argv in host.ran if argv[:2] == ["lctl", "set_param"]]) == before == 1


def test_tune_reports_failures(host, caplog):
    args = cli.build_parser("1").parse_args(["lustre-tune"])
    assert lustre_cli.tune_verb(args, host) == 2
    assert "run the role fsx_lustre on this node first" in caplog.text
    path = host.mount("fsx")
    host.files[CONFIG_PATH] = config_text(parse_config({"file_systems": [{"path": path}], "tuning": TUNED}))
    host.autofs.add(path)
    assert lustre_cli.tune_verb(args, host) == 2
    assert f"no file system of Lustre is mounted ({path} is trigger)" in caplog.text
    host.files[CONFIG_PATH] = "[]"
    assert lustre_cli.tune_verb(args, host) == 2


def test_small_machine_needs_no_tuning(host):
    host.files[CONFIG_PATH] = config_text(parse_config({}))
    assert lustre_cli.tune_verb(cli.build_parser("1").parse_args(["lustre-tune"]), host) == 0
    assert host.ran == []


def test_machine_of_unknown_size_is_not_tuned(host, caplog):
    host.files[CONFIG_PATH] = config_text(parse_config({}))
    host.files["/proc/cpuinfo"] = ""
    args = cli.build_parser("1").parse_args(["lustre-tune"])
    assert lustre_cli.tune_verb(args, host) == 2
    assert "cpus of this machine are unknown" in caplog.text
    host.files[CONFIG_PATH] = config_text(parse_config({"tune": False}))
    assert lustre_cli.tune_verb(args, host) == 0


def test_info_prints_its_verdicts(host, capsys):
    host.files[CONFIG_PATH] = config_text(parse_config({"file_systems": [{"path": host.mount("fsx")}]}))
    assert lustre_cli.show(cli.build_parser("1").parse_args(["lustre-info"]), host) == 0
    assert "PASS lustre.write_read" in capsys.readouterr().out


def test_info_prints_only_requested_id(host, capsys, caplog):
    systems = [{"path": host.mount("fsx"), "efa": True}]
    host.files[CONFIG_PATH] = config_text(parse_config({"file_systems": systems, "efa_interfaces": 2}))
    parser = cli.build_parser("1")
    assert lustre_cli.show(parser.parse_args(["lustre-info", "--only", "lustre.mounted"]), host) == 0
    assert "PASS lustre.mounted" in capsys.readouterr().out
    # The number of interfaces is that of the site, also at boot.
    assert lustre_cli.show(parser.parse_args(["lustre-info", "--only", "lustre.network"]), host) == 1
    assert "expected 2" in capsys.readouterr().out
    assert lustre_cli.show(parser.parse_args(["lustre-info", "--only", "lustre.nothing"]), host) == 2
    assert "the id lustre.nothing and found only lustre.client, " in caplog.text


def test_remaining_files_are_one_sentence():
    tally = lustre_hsm.Tally(files=9, waiting=2, passed_over=3, failures=["/fsx/a: denied", "/fsx/b: denied"])
    assert lustre_cli.tally_problem("release", tally, 60) == (
        "2 files were not done within 60 seconds: run it again to continue; "
        "3 of 9 files were passed over, since S3 does not have them as they are: archive them first; "
        "2 files were refused, the first: /fsx/a: denied"
    )
