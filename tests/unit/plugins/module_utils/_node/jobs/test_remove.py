# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way back: first out of Slurm's configuration, then the files; what is not ours stays."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks as node_checks
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import config as jobs_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import files, remove
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import domains
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import role_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import slurm_jobs

from tests.rig.slurm.scripts import Role
from tests.unit.fakes.fake_jobs_host import CONF, NO_SLURM, SILENT, JobsHost

CHECKS = node_checks.wanted({})
OWN = "/etc/slurm/mlcluster_checks.conf"
OTHER = "NodeName=n1\n"


@pytest.fixture
def host(monkeypatch):
    """A machine where the role has written everything, and Slurm runs it."""
    found = JobsHost()
    monkeypatch.setattr(remove, "survey", found.survey)
    jobs = Role(jobs=[{"name": "smoke", "kind": "node_smoke"}], dir="/fsx/jobs").jobs
    state = node_checks.slurm_state(CHECKS, found.cluster["settings"], 0)
    own = files.slurm_file(CHECKS, found.cluster["settings"], state)
    for entry in (*files.job_files(jobs), *files.check_files(CHECKS), own):
        found.texts[entry.path] = entry.text
    found.texts.update(
        {"/fsx/jobs/mlcluster.pyz": "", "/fsx/jobs/mine.sbatch": "#!/bin/sh\n", "/fsx/jobs/b.json": "{}"}
    )
    found.texts[CONF] += f"{node_checks.INCLUDE}\n{OTHER}"
    found.reconfigure()
    return found


def deregister(host, changes=True):
    written = {}

    def rewrite(path, text):
        written[path] = host.texts[path] = text

    changed = remove.deregister_checks(host, Slurm(host), CHECKS, rewrite if changes else None)
    return changed, written


def test_only_our_files_are_found(host):
    found = remove.find(host, "/fsx/jobs", CHECKS)
    assert found["scripts"] == list(node_checks.paths(CHECKS).values())
    assert found["files"] == ["/fsx/jobs/smoke.json", "/fsx/jobs/smoke.sbatch", "/fsx/jobs/mlcluster.pyz"]
    host.texts["/etc/mlcluster/slurm/prolog"] = "#!/bin/sh\nexit 0\n"
    host.states["/etc/mlcluster/slurm/epilog"] = {"is_link": True}
    assert [path.rpartition("/")[2] for path in remove.find(host, "/fsx/jobs", CHECKS)["scripts"]] == [
        "task_prolog",
        "health_check",
    ]


def test_deregister_reconfigures_slurm_and_removes_script(host):
    changed, written = deregister(host)
    assert (changed, written) == ([CONF, OWN], {CONF: f"ClusterName=c\n{OTHER}"})
    assert host.ran[-1][-1] == "reconfigure" and OWN not in host.texts


def test_check_mode_changes_nothing(host):
    before = dict(host.texts)
    assert deregister(host, changes=False) == ([CONF, OWN], {})
    assert (host.texts, host.ran) == (before, [])


def test_script_that_slurm_still_runs_stays(host):
    host.texts[CONF] = "Prolog=/etc/mlcluster/slurm/prolog\n"
    host.cluster["settings"] = {"SLURM_CONF": CONF, "Prolog": "/etc/mlcluster/slurm/prolog"}
    with pytest.raises(NodeError, match=r"Slurm still runs them as Prolog and an absent one would drain every node"):
        deregister(host)


def test_scripts_stay_while_controller_is_silent(host):
    host.cluster = dict(SILENT)
    with pytest.raises(NodeError, match="the scripts of slurm_jobs_checks stay: looked for a running controller"):
        deregister(host)
    assert host.texts[OWN]


@pytest.mark.parametrize("answers", [0, 1])
def test_scripts_stay_if_settings_are_unknown(host, monkeypatch, answers):
    host.texts[CONF] = f"Prolog=/etc/mlcluster/slurm/prolog\n{host.texts[CONF]}"
    unknown = {**host.cluster, "settings": {}, "problems": ["scontrol show config ended with status 1"]}
    answered = [dict(host.cluster)] * answers + [unknown]
    monkeypatch.setattr(remove, "survey", lambda slurm: answered.pop(0))
    with pytest.raises(NodeError, match="the scripts of slurm_jobs_checks stay: scontrol show config"):
        deregister(host)


def test_machine_without_slurm_changes_no_configuration(host):
    host.cluster = dict(NO_SLURM)
    assert deregister(host) == ([], {})


def test_everything_found_is_deleted(host, tmp_path):
    (tmp_path / "tools/ior/bin").mkdir(parents=True)
    ours = {"directories": [str(tmp_path / "tools/ior")], "emptied": [str(tmp_path / "tools")]}
    found = {**remove.find(host, "/fsx/jobs", CHECKS), **ours}
    remove.remove(host, found)
    assert sorted(path for path in host.texts if path.startswith("/fsx")) == [
        "/fsx/jobs/b.json",
        "/fsx/jobs/mine.sbatch",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The folder of the data programs, and the node's record of what the role wrote there."""
    monkeypatch.setattr(remove.node_checks, "paths", lambda checks: {})
    folder, record = tmp_path / "mlcluster_data", {}
    for name in ("__init__.py", "files/s3.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
        record[f"mlcluster_data/{name}"] = Host().sha256(str(folder / name))
    (folder / "files/__pycache__").mkdir()
    (folder / "files/__pycache__/s3.cpython-312.pyc").write_bytes(b"")
    spec = jobs_config.ARGUMENT_SPEC
    (tmp_path / "slurm_jobs.json").write_text(role_file.role_file("slurm_jobs", {"data_sums": record}, spec).text)
    monkeypatch.setattr(role_file, "DIRECTORY", str(tmp_path))
    return folder


def test_data_programs_go_and_files_of_others_stay(tmp_path, data):
    """A folder of the same name may hold a data set."""
    found = remove.find(Host(), str(tmp_path), CHECKS)
    assert found["emptied"] == [str(data / "files/__pycache__"), str(data / "files"), str(data)]
    (data / "shard-0.tar").write_bytes(b"precious")
    (data / "files/mine.py").write_text("print(1)\n")
    (data / "link").symlink_to(tmp_path)
    remove.remove(Host(), remove.find(Host(), str(tmp_path), CHECKS))
    assert (sorted(os.listdir(data)), os.listdir(data / "files")) == (["files", "link", "shard-0.tar"], ["mine.py"])


def test_changed_programs_and_copies_are_kept(tmp_path, data):
    """A user may train with a copy of one of our programs, with our first lines in it."""
    (data / "mine.py").write_text((data / "__init__.py").read_text() + "changed = 1\n")
    (data / "files/s3.py").write_text("# files/s3.py, with a fix\n")
    remove.remove(Host(), remove.find(Host(), str(tmp_path), CHECKS))
    assert sorted(str(path.relative_to(data)) for path in data.rglob("*.py")) == ["files/s3.py", "mine.py"]


def other_kind(path, kind, target):
    """Put a directory, link or pipe at a path."""
    {"link": lambda: path.symlink_to(target), "pipe": lambda: os.mkfifo(path), "directory": path.mkdir}[kind]()


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
@pytest.mark.parametrize("name", ["files/__pycache__/mine.pyc", "files/__pycache__/s3.cpython-312.pyc", "__init__.py"])
def test_link_pipe_or_directory_is_no_program(tmp_path, data, kind, name):
    target = tmp_path / "precious"
    target.write_text("# __init__.py\n")
    (data / name).unlink(missing_ok=True)
    other_kind(data / name, kind, target)
    found = remove.find(Host(), str(tmp_path), CHECKS)
    assert str(data / name) not in found["files"]
    if kind != "directory":
        assert str((data / name).parent) not in found["emptied"]
        remove.remove(Host(), found)
        assert os.path.lexists(data / name) and target.read_text() == "# __init__.py\n"


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_runtime_of_another_kind_is_kept(tmp_path, data, kind):
    other_kind(tmp_path / files.RUNTIME_NAME, kind, tmp_path / "precious")
    found = remove.find(Host(), str(tmp_path), CHECKS)
    assert str(tmp_path / files.RUNTIME_NAME) not in found["files"]
    remove.remove(Host(), found)
    assert os.path.lexists(tmp_path / files.RUNTIME_NAME)


@pytest.mark.parametrize("text", [None, "{", '{"schema": "mlcluster.role/1", "options": {}}'])
def test_programs_stay_without_record_of_role(tmp_path, data, text):
    (tmp_path / "slurm_jobs.json").unlink()
    if text is not None:
        (tmp_path / "slurm_jobs.json").write_text(text)
    assert not [path for path in remove.find(Host(), str(tmp_path), CHECKS)["files"] if path.endswith(".py")]


def test_record_of_role_goes_after_programs(tmp_path, data, monkeypatch):
    """Otherwise a removal that was interrupted could not continue."""
    monkeypatch.setattr(remove, "ROLE_FILES", (str(tmp_path / "slurm_jobs.json"),))
    assert remove.find(Host(), str(tmp_path), CHECKS)["files"][-1] == str(tmp_path / "slurm_jobs.json")


def test_job_that_user_copied_is_kept(host):
    script, spec = host.texts["/fsx/jobs/smoke.sbatch"], host.texts["/fsx/jobs/smoke.json"]
    host.texts.update({"/fsx/jobs/mine2.sbatch": f"{script}echo mine\n", "/fsx/jobs/mine2.json": spec})
    found = remove.find(host, "/fsx/jobs", CHECKS)["files"]
    assert found == ["/fsx/jobs/smoke.json", "/fsx/jobs/smoke.sbatch", "/fsx/jobs/mlcluster.pyz"]


def test_record_of_role_has_sum_of_every_program():
    """A run of the role keeps on the node the sums that ``find`` reads."""
    kept = {"data_sums": slurm_jobs.data_sums()}
    document = json.loads(role_file.role_file("slurm_jobs", kept, domains.DOMAINS["slurm_jobs"].spec).text)
    assert len(document["options"]["data_sums"]) > 30
    assert "data_sums" not in domains.DOMAINS["slurm_jobs"].transient
