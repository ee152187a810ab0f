# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module that takes away what the role slurm_jobs wrote, on files of a temporary directory."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks, files, remove
from ansible_collections.mlcluster.aws.plugins.modules import slurm_jobs_removal

from tests.unit.fakes.fake_jobs_host import CLUSTER, NO_SLURM


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Return run(check=False, cluster=NO_SLURM), which returns the module's result; the scripts are below tmp_path."""
    places = {name: str(tmp_path / name) for name in checks.HOOKS.values()}
    monkeypatch.setattr(remove, "ROLE_FILES", ())
    (tmp_path / "jobs/tools").mkdir(parents=True)
    (tmp_path / "jobs/results").mkdir()
    (tmp_path / "jobs/mine.json").write_text("{}")
    for entry in files.check_files(checks.wanted(places)):
        (tmp_path / entry.name).write_text(entry.text)
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"ClusterName=c\n{checks.INCLUDE}\n")
    conf.chmod(0o640)

    def call(check=False, cluster=NO_SLURM, settings=({},), **more):
        found = [{**cluster, "settings": one} for one in settings]
        monkeypatch.setattr(remove, "survey", lambda slurm: found.pop(0))
        monkeypatch.setattr(remove.Slurm, "ask", lambda slurm, *words: "")
        given = {"dir": str(tmp_path / "jobs"), "checks": places, "_ansible_check_mode": check, **more}
        with patch_module_args(given), pytest.raises(SystemExit):
            slurm_jobs_removal.main()
        return json.loads(capsys.readouterr().out)

    return call


def test_removal_keeps_results_and_other_files(run, tmp_path):
    answer = run()
    assert answer["changed"] and str(tmp_path / "jobs/tools") in answer["removed"]
    assert {path.name for path in (tmp_path / "jobs").iterdir()} == {"results", "mine.json"}
    assert not (tmp_path / "prolog").exists()
    assert run()["changed"] is False


def test_tools_of_site_are_kept(run, tmp_path):
    tools = tmp_path / "jobs/tools"
    for name in ("ior-4.0.0", "own", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bin").write_text("x")
    (tmp_path / "ior-4.0.0" / files.BUILT).write_text("{}")
    (tmp_path / "elsewhere" / files.BUILT).write_text("{}")
    for name in ("ior-4.0.0", "own"):
        (tmp_path / name).rename(tools / name)
    (tools / "linked").symlink_to(tmp_path / "elsewhere")
    answer = run()
    assert str(tools / "ior-4.0.0") in answer["removed"] and str(tools) not in answer["removed"]
    assert {path.name for path in tools.iterdir()} == {"own", "linked"}
    assert (tools / "own/bin").exists() and (tmp_path / "elsewhere/bin").exists()


def test_check_mode_reports_and_removes_nothing(run, tmp_path):
    answer = run(check=True)
    assert answer["changed"] and str(tmp_path / "prolog") in answer["removed"]
    assert (tmp_path / "prolog").exists() and (tmp_path / "jobs/tools").is_dir()


def test_slurm_conf_keeps_its_mode_and_backup(run, tmp_path):
    conf = tmp_path / "slurm.conf"
    answer = run(cluster=CLUSTER, settings=[{"SLURM_CONF": str(conf)}] * 2)
    assert (answer["configured"], conf.read_text()) == ([str(conf)], "ClusterName=c\n")
    assert oct(conf.stat().st_mode & 0o777) == "0o640"
    assert len(list(tmp_path.glob("slurm.conf.*"))) == 1


def test_script_in_use_fails_task(run, tmp_path):
    used = {"SLURM_CONF": str(tmp_path / "slurm.conf"), "Prolog": str(tmp_path / "prolog")}
    answer = run(cluster=CLUSTER, settings=[used, used])
    assert answer["failed"] and "Slurm still runs them as Prolog" in answer["msg"]
    assert (tmp_path / "prolog").exists() and (tmp_path / "jobs/tools").is_dir()


def test_invalid_settings_are_rejected(run):
    assert "slurm_jobs_checks.gate is ajar" in run(checks={"gate": "ajar"})["msg"]
