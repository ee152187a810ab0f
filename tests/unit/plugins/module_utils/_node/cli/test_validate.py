# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import types

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import validate as validate_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.request import NotSubmittedError

PASSED = {"status": "pass", "exit_code": 0, "lines": ["job verdict", "smoke PASS"], "problems": [], "bad_nodes": {}}


class Fake:
    """A validation with the verdict that the test gives it."""

    verdict = types.MappingProxyType(PASSED)
    late = ()
    lost = ()
    refused: tuple[Exception, ...] = ()

    def __init__(self, slurm, options, progress):
        self.slurm, self.options, self.progress, self.done, self.changed = slurm, options, progress, [], False
        Fake.last = self

    def prepare(self):
        if self.refused:
            raise self.refused[0]

    def preview(self):
        self.progress("smoke: sbatch")

    def submit(self):
        self.changed = True

    def follow(self):
        self.done.append("follow")

    def judge(self):
        return self.verdict

    def drain(self, verdict):
        self.done.append("drain")
        return list(self.late)

    def keep(self, verdict):
        self.done.append("keep")
        return list(self.lost)

    file = "/d/results/validation-7.json"


@pytest.fixture
def call(tmp_path, monkeypatch):
    """call(*words, **of_fake) gives exit status and outcome."""
    monkeypatch.setattr(validate_cli, "Validation", Fake)

    def run(*words, **given):
        for name, value in given.items():
            monkeypatch.setattr(Fake, name, value)
        outcome = tmp_path / "outcome"
        code = cli.main(["validate", f"--outcome={outcome}", *words], log_dir=str(tmp_path / "log"))
        return code, json.loads(outcome.read_text())

    return run


FAILED = {**PASSED, "status": "fail", "exit_code": 1, "problems": ["nccl: n2 is slow"]}
UNSURE = {**PASSED, "status": "undeterminable", "exit_code": 2, "problems": ["nccl: no figure"]}


def test_options_reach_validation(call):
    assert call("--nodes=all", "--nodelist=n[1-2],n4", "--undrain=n1", "--partition=gpu", "--timeout=60", "--drain",
                "--cluster=train", "--dir=/d", "--slurm-conf=/c", "smoke", "nccl")[0] == 0  # fmt: skip
    options = Fake.last.options
    assert (options.names, options.nodes, options.nodelist) == (("smoke", "nccl"), "all", ("n1", "n2", "n4"))
    assert (options.undrain, options.partition, options.timeout) == (("n1",), "gpu", 60)
    assert (options.cluster, options.directory, options.drain) == ("train", "/d", True)
    assert Fake.last.slurm.conf == "/c"


def test_pass_prints_table_and_drains_nothing(call, capsys):
    assert call() == (0, {"changed": True, "file": "/d/results/validation-7.json"})
    assert capsys.readouterr() == ("job verdict\nsmoke PASS\n", "")
    assert Fake.last.done == ["follow", "keep"]


def test_failure_drains_on_request(call, capsys):
    assert call("--drain", verdict=FAILED)[0] == 1
    assert Fake.last.done == ["follow", "drain", "keep"]
    assert capsys.readouterr().err == "validation is fail (exit code 1): nccl: n2 is slow\n"


@pytest.mark.parametrize(("words", "code"), [((), 2), (("--accept-undeterminable",), 0)])
def test_undeterminable_passes_only_if_accepted(call, words, code):
    assert call(*words, verdict=UNSURE)[0] == code
    assert call(*words, verdict=FAILED)[0] == 1


def test_unwritten_verdict_is_not_a_pass(call, capsys):
    code, outcome = call("--drain", late=["n2 was to be drained"], lost=["the verdict was not written"])
    assert (code, outcome["file"]) == (2, None)
    message = "validation is pass (exit code 0): n2 was to be drained; the verdict was not written\n"
    assert capsys.readouterr().err == message


def test_refusal_submits_nothing(call, capsys):
    assert call(refused=(NotSubmittedError(["no job dance"]),)) == (2, {"changed": False, "file": None})
    assert capsys.readouterr().err == "validate: nothing was submitted: no job dance.\n"


def test_dry_run_submits_nothing(call, capsys):
    assert call("--dry-run") == (0, {"changed": False, "file": None})
    assert capsys.readouterr().out == "smoke: sbatch\n" and Fake.last.done == []


@pytest.mark.parametrize("words", [["--nodes=0"], ["--nodes=many"], ["--nodelist=n[1-99999]"], ["--timeout=0"]])
def test_invalid_arguments_are_usage_errors(call, words):
    with pytest.raises(SystemExit) as ended:
        call(*words)
    assert ended.value.code == 3
