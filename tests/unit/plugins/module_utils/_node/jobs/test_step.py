# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Argument lists of steps, and the line that shows one."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.plugin import (
    CLEARED,
    DEFAULTS,
    NCCL_CONF,
    nccl_setting,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import step
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Container

HOSTILE = ("$(touch x)", "`id`", "'; rm -rf ~; '", 'a"b', "two words", "-n", "a\nb", "~", "*", "{1,2}", "!!", "", "\\")


def test_line_is_what_shell_would_run(tmp_path):
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


def test_task_on_each_node_in_one_step():
    found = step.each_node(("n1", "n2"), time=2)
    assert found == ("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mpi=none", "--time=2")


def test_container_has_its_mounts_as_one_word():
    container = Container("docker://r#a b", ("/a:/a", "/b:/b:ro"), "/w")
    assert step.container_options(container) == (
        "--container-image=docker://r#a b", "--container-mounts=/a:/a,/b:/b:ro", "--container-workdir=/w",
    )  # fmt: skip
    assert step.container_options(None) == ()


def test_variables_stand_before_program():
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
        ({"PATH": "/bin", "PYXIS_CONTAINER_IMAGE": "/x.sqsh", "PYXIS_CONTAINER_READONLY": "1"}, (), {"PATH"}),
        # Submitted from no step: what it has is of this job.
        ({**OUTER, "SLURM_STEP_ID": ""}, (), set(OUTER) - {"SLURM_MEM_PER_CPU"}),
    ],
)
def test_variables_of_job_around_this_one_are_left_out(variables, sbatch, kept):
    assert set(step.own_variables(variables, sbatch)) == kept


LOADER = {"LD_LIBRARY_PATH": "/opt/host/lib", "LD_PRELOAD": "/opt/host/lib/a.so", "LD_AUDIT": "/opt/host/lib/b.so"}


@pytest.mark.parametrize("around", [{}, OUTER])
def test_loader_of_host_stays_outside_of_container(around):
    container = Container("/x.sqsh", (), "/w")
    kept = step.own_variables({**around, **LOADER}, ())
    assert {name: kept.get(name) for name in LOADER} == LOADER
    assert step.own_variables({**around, **LOADER}, (), container) == step.own_variables(around, ())


def test_container_of_first_start_may_be_replaced():
    assert step.enroot_variables(Container("/x.sqsh", (), "/w")) == {"ENROOT_FORCE_OVERRIDE": "yes"}
    assert step.enroot_variables(None) == {}


def test_variables_of_image_that_choose_transport_are_cleared():
    container = Container("/x.sqsh", (), "/w")
    words = step.with_variables({"NCCL_NET": "Libfabric", "A": "b"}, container)
    assert words[0] == "env" and words[-2:] == ("NCCL_NET=Libfabric", "A=b")
    cleared = words[1 : words.index("NCCL_CONF_FILE=/dev/null")]
    assert set(cleared[::2]) == {"-u"} and set(cleared[1::2]) == set(CLEARED) - {"NCCL_NET", *DEFAULTS}
    image = dict.fromkeys((*CLEARED, "NCCL_NET_PLUGIN", "NCCL_DEBUG"), "of the image")
    image["PATH"] = os.environ["PATH"]
    shown = subprocess.run([*words, "env"], env=image, capture_output=True, text=True, check=True).stdout
    left = dict(line.split("=", 1) for line in shown.splitlines())
    assert {name: value for name, value in left.items() if name not in ("PATH", "_")} == {
        "NCCL_NET": "Libfabric",
        "A": "b",
        "NCCL_NET_PLUGIN": "of the image",
        "NCCL_DEBUG": "of the image",
        **DEFAULTS,
    }


class Conf:
    """A container whose image has an /etc/nccl.conf and one of its user, as NCCL in a step there reads them."""

    def __init__(self, variables, own):
        self.variables = {"HOME": "/root", **variables}
        self.files = {NCCL_CONF: "NCCL_P2P_DISABLE=1\nNCCL_SHM_DISABLE=1\n", "/root/.nccl.conf": own}

    def variable(self, name):
        return self.variables.get(name)

    def read_text(self, path):
        return self.files.get(path)


def test_settings_in_files_of_image_are_overridden():
    words = step.with_variables({}, Container("/x.sqsh", (), "/w"))
    assert words[-len(DEFAULTS) :] == tuple(f"{name}={value}" for name, value in DEFAULTS.items())
    inside, own = dict(word.split("=") for word in words[-len(DEFAULTS) :]), "NCCL_NET=Socket\n"
    before = {name: nccl_setting(Conf({}, own), name)["value"] for name in (*DEFAULTS, "NCCL_NET")}
    assert before == {"NCCL_CONF_FILE": None, "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"}
    after = {name: nccl_setting(Conf(inside, own), name)["value"] for name in (*DEFAULTS, "NCCL_NET")}
    assert after == {**DEFAULTS, "NCCL_NET": None}


def test_own_value_of_job_counts_before_default():
    words = step.with_variables({"NCCL_P2P_DISABLE": "1"}, Container("/x.sqsh", (), "/w"))
    assert "NCCL_P2P_DISABLE=1" in words and "NCCL_P2P_DISABLE=0" not in words
    assert not [word for word in step.with_variables({"A": "b"}) if word.startswith("NCCL_")]


def test_image_without_plugins_gets_them_back():
    container = Container("/x.sqsh", (), "/w")
    assert step.unset_disabled_plugin({}, container) == ("--without", "NCCL_NET_PLUGIN=none")
    assert step.unset_disabled_plugin({"NCCL_NET_PLUGIN": "ofi"}, container) == ()
    assert step.unset_disabled_plugin({}, None) == ()


@pytest.mark.parametrize(
    ("image", "left"), [("none", None), ("aws-ofi", "aws-ofi"), ("", ""), (None, None), ("none; id", "none; id")]
)
def test_image_without_python_gets_plugins_back(image, left):
    words = step.unset_disabled_plugin_in_shell({}, Container("/x.sqsh", (), "/w"))
    variables = {"PATH": os.environ["PATH"], **({} if image is None else {"NCCL_NET_PLUGIN": image})}
    inside = [*words, "env", "A=$(id) b", "env"]
    shown = subprocess.run(inside, env=variables, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in shown.splitlines())
    assert (found.get("NCCL_NET_PLUGIN"), found["A"]) == (left, "$(id) b")


def test_plugin_that_job_sets_is_kept():
    assert step.unset_disabled_plugin_in_shell({"NCCL_NET_PLUGIN": "none"}, Container("/x.sqsh", (), "/w")) == ()
    assert step.unset_disabled_plugin_in_shell({}, None) == ()
