# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import imex as imex_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import config

from tests.unit.fakes.fake_imex_host import TYPE, FakeImexHost, table

APART = table(["C N N", "C C C", "C C C"])


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(host, *words) gives the exit code and what was printed."""
    monkeypatch.setenv("SLURMD_NODENAME", "n1")

    def go(host, *words, kind=TYPE):
        monkeypatch.setattr(imex_cli, "Host", lambda: host)
        code = cli.main(["imex", *words, "--instance-type", kind], log_dir=str(tmp_path))
        return code, capsys.readouterr().out

    return go


def test_up_and_down(run):
    host = FakeImexHost()
    code, out = run(host, "up")
    assert code == 0 and out.startswith('PASS imex.domain: found {"nodes": 3')
    assert run(host, "status")[0] == 0
    code, out = run(host, "down")
    assert code == 0 and "that of job 7 is removed" in out
    assert config.RECORD not in host.files


def test_nodes_outside_of_domain_are_logged(run, tmp_path):
    host = FakeImexHost()
    host.slurm["show topology"] = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
    host.tables = [table(["C C", "C C"])]
    assert run(host, "up")[0] == 0
    log = (tmp_path / "imex.log").read_text(encoding="utf-8")
    assert "1 nodes of the job are in other blocks, and not in this domain" in log


def test_unconcerned_node_runs_no_slurm_command(run):
    host = FakeImexHost()
    code, out = run(host, "up", kind="p5.48xlarge")
    assert (code, host.ran) == (0, []) and "p5.48xlarge is not part of an UltraServer" in out


@pytest.mark.parametrize("kind", ["", "p6e-gb300r.36xlarge"])
@pytest.mark.parametrize(("mode", "code"), [("required", 1), ("best_effort", 0), ("none", 0)])
def test_unknown_type_starts_no_job(run, mode, code, kind):
    host = FakeImexHost()
    found = run(host, "up", "--mode", mode, kind=kind)
    assert found[0] == code and ("use --instance-type" in found[1]) == (mode != "none")
    assert not [line for line in host.ran if "restart" in line]


def test_mode_none_does_nothing(run):
    host = FakeImexHost()
    assert run(host, "up", "--mode", "none")[0] == 0
    assert not [line for line in host.ran if "restart" in line or "scontrol" in line]


@pytest.mark.parametrize(("mode", "code"), [("required", 1), ("best_effort", 0)])
def test_failed_domain_decides_exit_code(run, mode, code):
    host = FakeImexHost()
    host.tables = [APART]
    found = run(host, "up", "--mode", mode, "--seconds", "1")
    assert found[0] == code and "10.0.0.2 is not joined (N)" in found[1]
    assert not [line for line in host.ran if "scontrol update" in line]


def test_drain_has_state_as_reason(run):
    host = FakeImexHost()
    host.tables = [APART]
    host.slurm["update NodeName"] = ""
    assert run(host, "up", "--seconds", "1", "--drain")[0] == 1
    (line,) = [line for line in host.ran if "update NodeName=n1" in line]
    assert "mlcluster health: imex.domain (reset): 10.0.0.2 is not joined (N)" in line


def test_unknown_job_is_kept_away(run):
    host = FakeImexHost()
    del host.slurm["show node"]
    code, out = run(host, "up")
    assert code == 1 and out.startswith("???? imex.domain: ")


def test_epilog_without_job_is_error(run):
    assert run(FakeImexHost(SLURM_JOB_ID=""), "down")[0] == 1


def test_failure_is_forgotten_on_request(run):
    host = FakeImexHost()
    host.after_restart = None
    run(host, "up", "--seconds", "1")
    assert run(host, "status")[0] == 1
    assert (run(host, "forget")[0], run(host, "status")[0]) == (0, 0)


def test_json_is_one_report(run):
    document = json.loads(run(FakeImexHost(), "status", "--json")[1])
    assert [one["id"] for one in document["results"]] == ["imex.service", "imex.domain", "imex.channel"]


def test_invalid_service_is_usage_error(run):
    assert run(FakeImexHost(), "status", "--service", "a b")[0] == 3
