# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import watch as watch_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import job_labels, watch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.job_labels import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import failed, passed

from tests.unit.fakes.fake_rooted_host import RootedHost


@pytest.fixture
def call(tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOB_USER", "SLURM_JOB_GPUS"):
        monkeypatch.delenv(name, raising=False)
    host = RootedHost(tmp_path / "root")
    monkeypatch.setattr(watch_cli, "Host", lambda: host)

    def go(*words):
        return cli.main(list(words), log_dir=str(tmp_path / "log"))

    go.host = host
    return go


def test_run_passes_options_and_prints_problems(call, monkeypatch, capsys):
    seen = []

    def run(host, options):
        seen.append(options)
        return [passed("gpu.count", 8), failed("storage.mounted", "it is gone")]

    monkeypatch.setattr(watch, "run", run)
    assert call("watch", "--directory", "/x", "--period", "30", "--expected-efa", "32") == 0
    (options,) = seen
    assert (options.directory, options.period, options.health_options.expected_efa) == ("/x", 30, 32)
    assert capsys.readouterr().out == "FAIL storage.mounted: it is gone\n"


def test_unwritable_metrics_are_undeterminable(call, monkeypatch, capsys):
    def run(host, options):
        raise NodeError("could not write /x: look with 'df'")

    monkeypatch.setattr(watch, "run", run)
    assert call("watch") == 2
    assert "watch: could not write /x" in capsys.readouterr().err


def test_relative_directory_is_usage_error(call, capsys):
    assert call("watch", "--directory", "x") == 3
    assert "use an absolute path" in capsys.readouterr().err


def test_labels_use_prolog_and_epilog_variables(call, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_USER", "ali\udcffce")
    monkeypatch.setenv("SLURM_JOB_GPUS", "0,1")
    assert call("job-label", "add") == 0
    assert job_labels.known(call.host) == [Job(7, "ali ce", (0, 1))]
    assert call("job-label", "remove") == 0
    assert job_labels.known(call.host) == []


@pytest.mark.parametrize("number", ["", "x", "0", "99999999999"])
def test_missing_job_is_usage_error(call, monkeypatch, number):
    monkeypatch.setenv("SLURM_JOB_ID", number)
    assert call("job-label", "add") == 3


def test_unwritable_label_is_reported(call, monkeypatch, capsys):
    def fail(host, job):
        raise NodeError("could not write: look with 'df'")

    monkeypatch.setattr(job_labels, "add", fail)
    assert call("job-label", "add", "--job", "7") == 2
    assert "job-label: could not write" in capsys.readouterr().err
