# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import heal as heal_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import heal
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.healing import Event
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes.fake_rooted_host import RootedHost


@pytest.fixture
def call(tmp_path, monkeypatch):
    host = RootedHost(tmp_path / "root")
    monkeypatch.setattr(heal_cli, "Host", lambda: host)

    def go(*words):
        return cli.main(["heal", *words], log_dir=str(tmp_path / "log"))

    go.host = host
    return go


def test_run_uses_policy_file(call, monkeypatch, capsys):
    seen = []

    def act(host, slurm, policy, now, directory, dry_run):
        seen.append((policy.most, directory, dry_run))
        return ["n1: reboot (gpu.xid): severity reboot"]

    monkeypatch.setattr(heal, "heal_cluster", act)
    call.host.put("/etc/mlcluster/heal.json", json.dumps({"schema": "mlcluster.heal/1", "most": "5%"}))
    assert call("--dry-run", "--directory", "/x") == 0
    assert seen == [("5%", "/x", True)]
    assert "heal: n1: reboot (gpu.xid): severity reboot" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", [None, "{", '{"schema": "mlcluster.heal/2"}', '{"schema": "mlcluster.heal/1", "most": -1}']
)
def test_invalid_policy_changes_nothing(call, monkeypatch, text):
    monkeypatch.setattr(heal, "heal_cluster", lambda *args, **more: pytest.fail("it acted"))
    if text is not None:
        call.host.put("/etc/mlcluster/heal.json", text)
    assert call() == 2


def test_journal_is_printed(call, capsys):
    assert call("--journal") == 0
    assert capsys.readouterr().out == "nothing was done\n"
    heal.write_journal(call.host, [Event(at, "n1", "reset", ("gpu.xid",), "x") for at in (1.0, 2.0)])
    assert call("--journal", "--lines", "1") == 0
    assert capsys.readouterr().out == "1970-01-01T00:00:02Z n1: reset (gpu.xid): x\n"


def test_node_heals_itself(call, monkeypatch, capsys):
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setattr(heal, "heal_node", lambda host, slurm, name, options: f"{name} takes jobs again")
    assert call("--node") == 0
    assert "heal: n7 takes jobs again" in capsys.readouterr().err


def test_missing_slurm_answer_is_undeterminable(call, monkeypatch, capsys):
    def fail(*args):
        raise NodeError("scontrol ended with status 1: see that slurmctld runs")

    monkeypatch.setattr(heal, "heal_node", fail)
    assert call("--node") == 2
    assert "heal: scontrol ended" in capsys.readouterr().err
