# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""dcgm-exporter's unit: systemd takes it, docker takes its command, and it reads the labels that Prologs write."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import job_labels
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.rig import templating

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
IMAGE = f"nvcr.io/nvidia/k8s/dcgm-exporter@sha256:{'5' * 64}"


@pytest.fixture
def unit() -> str:
    """The text of the unit as the playbook writes it."""
    variables = templating.load(PLAYBOOKS / "vars/monitor_cluster.yml")
    given = {**variables["monitor_cluster_defaults"], "dcgm_image": IMAGE, "dcgm_port": 9401}
    templar = Templar(loader=DataLoader(), variables={**variables, "monitor_cluster_given": given})
    text = (PLAYBOOKS / "templates/monitor_dcgm.j2").read_text(encoding="utf-8")
    return str(templar.template(templating.trusted(text)))


def words(unit: str, key: str) -> list[str]:
    (line,) = re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)
    return shlex.split(line)


def docker_run(argv: list[str]) -> argparse.Namespace:
    """The options of docker run (docs.docker.com, docker container run) that stand there; any other is refused."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rm", action="store_true")
    parser.add_argument("--name")
    parser.add_argument("--gpus", choices=["all"])
    parser.add_argument("--cap-add", choices=["SYS_ADMIN"])
    parser.add_argument("--publish", type=re.compile(r"(\d+):(\d+)").fullmatch)
    parser.add_argument("--volume", type=re.compile(r"(/[^:]+):(/[^:]+):(ro)").fullmatch)
    parser.add_argument("--env", type=re.compile(r"(\w+)=(.*)").fullmatch)
    parser.add_argument("image")
    return parser.parse_args(argv)


def test_docker_takes_command(unit):
    program, verb, *options = words(unit, "ExecStart")
    assert (program, verb) == ("/usr/bin/docker", "run")
    run = docker_run(options)
    # 9400 is where dcgm-exporter listens; the name is that which ends it.
    assert run.publish.groups() == ("9401", "9400") and run.image == IMAGE
    assert words(unit, "ExecStop") == ["/usr/bin/docker", "stop", run.name]


def test_exporter_reads_job_files_of_prolog(unit, tmp_path):
    run = docker_run(words(unit, "ExecStart")[2:])
    folder = f"{job_labels.DIRECTORY}/gpu-jobs"
    assert run.volume.groups() == (folder, folder, "ro")
    assert run.env.groups() == ("DCGM_HPC_JOB_MAPPING_DIR", folder)
    assert words(unit, "ExecStartPre") == ["/bin/mkdir", "-p", folder]
    # Its README: one file a GPU, named by its index, with the numbers of the jobs, one a line.
    for number, gpus in ((7, (0, 1)), (8, (1,))):
        job_labels.add(Host(), job_labels.Job(number, "alice", gpus), str(tmp_path))
    found = {path.name: path.read_text() for path in (tmp_path / "gpu-jobs").iterdir()}
    assert found == {"0": "7\n", "1": "7\n8\n"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("fault", ["", "Restart=on-failure", "[Install]"])
def test_systemd_takes_unit(unit, tmp_path, fault):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\n")
    docker.chmod(0o755)
    (tmp_path / "docker.service").write_text(f"[Service]\nExecStart={docker}\n")
    path = tmp_path / "mlcluster-dcgm-exporter.service"
    text = unit.replace("/usr/bin/docker", str(docker))
    path.write_text(text.replace(fault, f"{fault}-or-so") if fault else text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)],
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if path.name in line]
    assert bool(errors) is bool(fault), done.stderr
