# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.job import look_job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, NodeError

from tests.unit.fakes.fake_imex_host import ADDRESSES, FakeImexHost


@pytest.fixture(autouse=True)
def node(monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")


def look(host):
    return look_job(host, Slurm(host))


def test_job_by_variables_of_its_prolog():
    host = FakeImexHost()
    job = look(host)
    assert (job.job_id, job.restarts, job.node, job.exclusive) == (7, 0, "n1", True)
    assert (job.members, job.address, job.outside) == (ADDRESSES, "10.0.0.1", ())
    assert not [line for line in host.ran if "show job" in line]


def test_older_slurm_is_asked_for_job():
    host = FakeImexHost()
    del host.variables["SLURM_JOB_OVERSUBSCRIBE"], host.variables["SLURM_JOB_RESTART_COUNT"]
    host.slurm["show job"] = host.slurm["show job"].replace("Restarts=0", "Restarts=2")
    job = look(host)
    assert (job.exclusive, job.restarts) == (True, 2)


@pytest.mark.parametrize(
    ("word", "exclusive"),
    [("NO", True), ("TOPO", True), ("EXCLUSIVE", True), ("YES", False), ("OK", False), ("USER", False), ("MCS", False)],
)
def test_job_that_shares_its_nodes(word, exclusive):
    job = look(FakeImexHost(SLURM_JOB_OVERSUBSCRIBE=word))
    assert (job.exclusive, job.members) == (exclusive, ADDRESSES if exclusive else {})


@pytest.mark.parametrize(
    ("word", "exclusive"), [("NODE", True), ("TOPO", True), ("NO", False), ("USER", False), ("MCS", False)]
)
def test_newer_slurm_has_variable_of_its_own(word, exclusive):
    host = FakeImexHost(SLURM_JOB_EXCLUSIVE=word, SLURM_JOB_OVERSUBSCRIBE="NO")
    assert look(host).exclusive is exclusive
    host = FakeImexHost()
    del host.variables["SLURM_JOB_OVERSUBSCRIBE"]
    host.slurm["show job"] = host.slurm["show job"].strip() + f" Exclusive={word}\n"
    assert look(host).exclusive is exclusive


@pytest.mark.parametrize("variable", ["SLURM_JOB_EXCLUSIVE", "SLURM_JOB_OVERSUBSCRIBE"])
def test_unknown_word_on_shared_nodes_is_no_answer(variable):
    with pytest.raises(NodeError, match="Slurm has RACK for whether"):
        look(FakeImexHost(**{variable: "RACK"}))


def test_topology_without_answer_is_no_single_block(monkeypatch):
    host = FakeImexHost()
    answer = host._answer
    silent = CommandResult(1, "", "slurm_load_topo error: Unable to contact slurm controller (connect failure)")
    monkeypatch.setattr(host, "_answer", lambda line: silent if "topology" in line else answer(line))
    with pytest.raises(NodeError, match="queried Slurm for its topology and got no answer"):
        look(host)


def test_nodes_of_other_blocks_are_outside():
    host = FakeImexHost()
    host.slurm["show topology"] = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 Nodes=n3\n"
    job = look(host)
    assert (list(job.members), job.outside) == (["n1", "n2"], ("n3",))


def test_part_of_heterogeneous_job_has_its_own_words():
    host = FakeImexHost()
    del host.variables["SLURM_JOB_OVERSUBSCRIBE"]
    own = host.slurm["show job"]
    host.slurm["show job"] = own.replace("JobId=7", "JobId=6").replace("OverSubscribe=NO", "OverSubscribe=OK") + own
    assert look(host).exclusive is True


def test_nodes_in_no_block_are_one_list_on_each_node(monkeypatch):
    lists = {}
    for node in ADDRESSES:
        host = FakeImexHost()
        host.slurm["show topology"] = "BlockName=b1 BlockIndex=0 Nodes=n1 BlockSize=1\n"
        monkeypatch.setenv("SLURMD_NODENAME", node)
        lists[node] = sorted(look(host).members)
    assert lists == {"n1": ["n1"], "n2": ["n2", "n3"], "n3": ["n2", "n3"]}


def test_address_has_one_form_on_all_nodes():
    host = FakeImexHost()
    host.slurm["show node"] = host.slurm["show node"].replace("10.0.0.2", "FD00:0:0::2")
    assert look(host).members["n2"] == "fd00::2"


def test_name_in_place_of_address_is_resolved():
    host = FakeImexHost(SLURM_NODELIST="n1")
    host.slurm["show node"] = "NodeName=n1 NodeAddr=host-2 State=IDLE\n"
    assert look(host).members == {"n1": "10.0.0.9"}


@pytest.mark.parametrize(
    ("variables", "nodes", "part"),
    [
        ({"SLURM_JOB_ID": ""}, None, "no job is named"),
        ({"SLURM_NODELIST": "n[2-3]"}, None, "Slurm has job 7 on n[2-3], and this node is n1"),
        ({}, "NodeName=n1 NodeAddr=10.0.0.1 State=IDLE\n", "Slurm reports no address of n2, n3"),
        ({"SLURM_NODELIST": "n1"}, "NodeName=n1 NodeAddr=host-1 State=IDLE\n", "resolves to none but loopback"),
        (
            {"SLURM_NODELIST": "n[1-2]"},
            "NodeName=n1 NodeAddr=10.0.0.1 State=IDLE\nNodeName=n2 NodeAddr=10.0.0.1 State=IDLE\n",
            "two nodes of the job have one address",
        ),
    ],
)
def test_job_that_cannot_be_read(variables, nodes, part):
    host = FakeImexHost(**variables)
    if nodes:
        host.slurm["show node"] = nodes
    with pytest.raises(NodeError) as raised:
        look(host)
    assert part in str(raised.value)


def test_job_name_that_poses_as_slurm_output():
    host = FakeImexHost()
    del host.variables["SLURM_JOB_OVERSUBSCRIBE"]
    host.slurm["show job"] = (
        "JobId=7 JobName=OverSubscribe=NO UserId=a(1) JobState=RUNNING Restarts=0 NodeList=n[1-3] OverSubscribe=OK\n"
    )
    assert not look(host).exclusive


@pytest.mark.parametrize("variable", ["SLURM_NODELIST", "SLURM_JOB_RESTART_COUNT", "SLURM_JOB_OVERSUBSCRIBE"])
def test_missing_variable_is_asked_of_slurm(variable):
    host = FakeImexHost(SLURM_JOB_RESTART_COUNT="1")
    del host.variables[variable]
    host.slurm["show job"] = host.slurm["show job"].replace("Restarts=0", "Restarts=2").replace("n[1-3]", "n[1-2]")
    job = look(host)
    assert job.restarts == (2 if variable == "SLURM_JOB_RESTART_COUNT" else 1)
    assert list(job.members) == (["n1", "n2"] if variable == "SLURM_NODELIST" else ["n1", "n2", "n3"])
    # The words of the environment precede those of Slurm.
    host.variables["SLURM_JOB_OVERSUBSCRIBE"] = "OK"
    assert look(host).exclusive is False


def test_number_of_restarts_that_is_none_is_zero():
    assert look(FakeImexHost(SLURM_JOB_RESTART_COUNT="N/A")).restarts == 0


def test_topology_is_not_asked_for_single_node():
    host = FakeImexHost(SLURM_NODELIST="n1")
    assert list(look(host).members) == ["n1"] and not [line for line in host.ran if "topology" in line]


def test_four_nodes_without_address_are_named():
    host = FakeImexHost(SLURM_NODELIST="n[1-6]")
    host.slurm["show node"] = "NodeName=n1 NodeAddr=10.0.0.1 State=IDLE\n"
    with pytest.raises(NodeError, match="no address of n2, n3, n4, n5: see 'scontrol show node n2'"):
        look(host)


def test_job_that_slurm_does_not_show_is_reported():
    host = FakeImexHost()
    del host.variables["SLURM_JOB_OVERSUBSCRIBE"]
    host.slurm["show job"] = ""
    with pytest.raises(NodeError, match="queried Slurm for job 7 and it showed 0: see"):
        look(host)
