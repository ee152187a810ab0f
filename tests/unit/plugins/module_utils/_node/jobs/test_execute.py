# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables and arguments that a task adds for its program."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import execute
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

TASK = {"SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16", "SLURM_NODEID": "1", "SLURM_JOB_ID": "7"}


def test_ranks_are_those_of_task():
    found = execute.task_variables(TASK, "", ranks=True)
    assert {name: found[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")} == {
        "RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16",
    }  # fmt: skip
    assert execute.task_variables(TASK, "") == TASK


def test_ranks_outside_of_step_are_rejected():
    with pytest.raises(NodeError, match="SLURM_LOCALID is not set, so this is not a task of Slurm: start it with srun"):
        execute.task_variables({**TASK, "SLURM_LOCALID": ""}, "", ranks=True)
    with pytest.raises(NodeError, match="SLURM_NODEID is not set"):
        execute.task_command({}, ["torchrun"], node_rank=True)


def test_number_of_node_is_first_option_of_program():
    assert execute.task_command(TASK, ["torchrun", "-m", "x"], node_rank=True) == [
        "torchrun",
        "--node-rank=1",
        "-m",
        "x",
    ]
    assert execute.task_command({}, ["a", "b c"]) == ["a", "b c"]


def test_directory_of_job_is_reported_where_there_is_one():
    found = execute.task_variables({"TMPDIR": "/tmp"}, "/local/job-7/tmp")
    assert found == {"TMPDIR": "/local/job-7/tmp", "MLCLUSTER_SCRATCH": "/local/job-7/tmp"}


@pytest.mark.parametrize(
    ("variables", "scratch", "spool"),
    [
        ({}, "/s", "/s"),
        ({}, "", ""),
        ({"MLCLUSTER_SPOOL": "/own"}, "/s", "/own"),
        ({"MLCLUSTER_SPOOL": ""}, "/s", "/s"),
    ],
)
def test_shards_go_to_option_or_local_disks_first(variables, scratch, spool):
    assert execute.task_variables(variables, scratch, spool=True)["MLCLUSTER_SPOOL"] == spool


def test_directory_counts_only_if_it_is_of_this_user(tmp_path):
    base, host = str(tmp_path), Host()
    assert execute.scratch_directory(host, base, TASK) == ""
    own = tmp_path / "job-7" / "tmp"
    own.mkdir(parents=True)
    assert execute.scratch_directory(host, base, TASK) == str(own)
    assert execute.scratch_directory(host, "", TASK) == ""
    if os.geteuid() == 0:
        os.chown(own, 1001, 1001)
        assert execute.scratch_directory(host, base, TASK) == ""
    own.rmdir()
    own.symlink_to(tmp_path)
    assert execute.scratch_directory(host, base, TASK) == ""


@pytest.mark.parametrize(("value", "kept"), [("none", False), ("ofi", True), ("None", True)])
def test_variable_is_left_out_only_with_its_value(value, kept):
    found = execute.task_variables({"NCCL_NET_PLUGIN": value, "A": "none"}, "", without=["NCCL_NET_PLUGIN=none"])
    assert ("NCCL_NET_PLUGIN" in found, found["A"]) == (kept, "none")
