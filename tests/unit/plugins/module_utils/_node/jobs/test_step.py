# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument lists of steps, and the line that shows one."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.plugin import CLEARED
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import step
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Container

HOSTILE = ("$(touch x)", "`id`", "'; rm -rf ~; '", 'a"b', "two words", "-n", "a\nb", "~", "*", "{1,2}", "!!", "", "\\")


def test_line_is_what_a_shell_would_run(tmp_path):
    line = step.Step(("printf", "%s\\0", *HOSTILE), "out put", "err'or").line()
    subprocess.run(["bash", "-c", line], check=True, cwd=tmp_path)
    assert (tmp_path / "out put").read_text().split("\0")[:-1] == list(HOSTILE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err'or", "out put"]


def test_line_with_both_streams_in_one_file():
    assert step.Step(("a", "b c"), "/x", "/x").line() == "a 'b c' >/x 2>&1"
    assert step.Step(("a",)).line() == "a"


def test_options_are_long_bare_or_left_out():
    found = step.srun(nodes=2, ntasks_per_node=0, overlap=True, chdir=None, mpi="none")
    assert found == ("srun", "--nodes=2", "--ntasks-per-node=0", "--overlap", "--mpi=none")


def test_a_task_on_each_node_in_one_step():
    found = step.each_node(("n1", "n2"), time=2)
    assert found == ("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mpi=none", "--time=2")


def test_container_has_its_mounts_as_one_word():
    container = Container("docker://r#a b", ("/a:/a", "/b:/b:ro"), "/w")
    assert step.container_options(container) == (
        "--container-image=docker://r#a b", "--container-mounts=/a:/a,/b:/b:ro", "--container-workdir=/w",
    )  # fmt: skip
    assert step.container_options(None) == ()


def test_variables_stand_before_the_program():
    assert step.with_variables({"A": "b c", "D": ""}) == ("env", "A=b c", "D=")
    assert step.with_variables({}) == ("env",)


OUTER = {
    "PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_MEM_PER_CPU": "1", "SLURM_STEP_ID": "0", "SLURM_STEPMGR": "x",
    "SLURM_CPU_BIND_TYPE": "x", "SLURM_MEM_BIND": "x", "SLURM_DISTRIBUTION": "cyclic", "SLURM_CPUS_PER_TASK": "2",
    "SLURM_GPUS_PER_TASK": "1", "SLURM_NTASKS": "4",
}  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "sbatch", "kept"),
    [
        (OUTER, (), {"PATH", "SLURM_JOB_ID", "SLURM_NTASKS"}),
        (
            OUTER,
            ("distribution", "cpus-per-task"),
            {"PATH", "SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_DISTRIBUTION", "SLURM_CPUS_PER_TASK"},
        ),
        # Submitted from no step: what it has is of this job.
        ({**OUTER, "SLURM_STEP_ID": ""}, (), set(OUTER) - {"SLURM_MEM_PER_CPU"}),
    ],
)
def test_variables_of_the_job_around_this_one_are_left_out(variables, sbatch, kept):
    assert set(step.own_variables(variables, sbatch)) == kept


def test_variables_of_an_image_that_choose_the_transport_are_cleared():
    container = Container("/x.sqsh", (), "/w")
    words = step.with_variables({"NCCL_NET": "Libfabric", "A": "b"}, container)
    assert words[0] == "env" and words[-2:] == ("NCCL_NET=Libfabric", "A=b")
    cleared = words[1:-2]
    assert set(cleared[::2]) == {"-u"} and set(cleared[1::2]) == set(CLEARED) - {"NCCL_NET"}
    image = dict.fromkeys((*CLEARED, "NCCL_NET_PLUGIN", "NCCL_DEBUG"), "of the image")
    image["PATH"] = os.environ["PATH"]
    shown = subprocess.run([*words, "env"], env=image, capture_output=True, text=True, check=True).stdout
    left = dict(line.split("=", 1) for line in shown.splitlines())
    assert {name: value for name, value in left.items() if name not in ("PATH", "_")} == {
        "NCCL_NET": "Libfabric",
        "A": "b",
        "NCCL_NET_PLUGIN": "of the image",
        "NCCL_DEBUG": "of the image",
    }


def test_image_without_plugins_gets_them_back():
    container = Container("/x.sqsh", (), "/w")
    assert step.without_no_plugin({}, container) == ("--without", "NCCL_NET_PLUGIN=none")
    assert step.without_no_plugin({"NCCL_NET_PLUGIN": "ofi"}, container) == ()
    assert step.without_no_plugin({}, None) == ()
