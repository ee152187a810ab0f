# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container counts as started only when it was seen from inside."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.smoke import node_name, node_state, smoke
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_grammars
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

BIN = "/opt/slurm/bin"
IMAGE = "/shared/smoke.sqsh"
OUTSIDE = "node=n1 root=8:2 efa=/dev/infiniband\n"
INSIDE = "node=n1 root=0:77 efa=/dev/infiniband\n"


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "ip-10-0-0-1.internal")
    host = rooted.node(tmp_path)
    host.put(IMAGE)
    host.answers["sinfo"] = "n1 ip-10-0-0-1\nn2 ip-10-0-0-2\n"
    host.answers["--mpi=list"] = "MPI plugin types are...\n\tnone\n\tpmix\nversions: pmix_v4\n"
    host.answers["runuser"] = OUTSIDE
    host.answers["--container-image"] = INSIDE
    host.answers["PMIX_RANK"] = "ready\n"

    def answer(argv, **_options):
        line = " ".join(argv)
        for words in ("PMIX_RANK", "--mpi=pmix sh -c true", "--container-image", "--mpi=list", "sinfo", "runuser"):
            if words in line and words in host.answers:
                said = fake_grammars.answer(argv, host.answers[words])
                host.ran.append(list(argv))
                if isinstance(said, Exception):
                    raise said
                return said if isinstance(said, CommandResult) else CommandResult(0, said, "")
        raise AssertionError(line)

    host.run = answer
    return host


def ask(host, users=("alice", "bob")):
    return [(result.id, result.status) for result in smoke(host, BIN, IMAGE, users, 60)]


def test_two_users_pmix_and_devices(host):
    assert ask(host) == [
        ("pyxis.container", "pass"),
        ("pyxis.container", "pass"),
        ("pyxis.pmix", "pass"),
        ("pyxis.devices", "pass"),
    ]
    started = [argv for argv in host.ran if f"--container-image={IMAGE}" in argv]
    assert [argv[2] for argv in started] == ["alice", "bob", "alice"]
    assert all("--nodelist=n1" in argv for argv in started)


def test_option_that_is_ignored_is_no_container(host):
    host.answers["--container-image"] = OUTSIDE
    results = smoke(host, BIN, IMAGE, ["alice"], 60)
    assert [(result.id, result.status) for result in results] == [("pyxis.container", "fail")]
    assert "ran on the host: Pyxis is not at work" in results[0].message


def test_container_that_does_not_start(host):
    host.answers["--container-image"] = CommandError(["srun"], 1, "", "pyxis: failed to import", "failed with status 1")
    assert ask(host) == [("pyxis.container", "fail")] * 2


def test_task_prolog_that_stops_every_container_is_named(host):
    said = "slurmstepd-n1: error: TaskProlog failed status=1\n"
    host.answers["--container-image"] = CommandError(["srun"], 1, "", said, "failed with status 1")
    (result,) = smoke(host, BIN, IMAGE, ["alice"], 60)
    assert (result.status, result.hint) == (
        "fail",
        "Slurm runs TaskProlog inside the container and ends what has none: take it out of slurm.conf",
    )


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("runuser", CommandError(["srun"], 1, "", "Unable to contact slurm controller", "failed with status 1")),
        ("--container-image", CommandError(["srun"], None, "", "", "no answer within 60 seconds")),
        ("--container-image", CommandError(["srun"], 1, "", "srun: Unable to allocate resources", "failed")),
    ],
)
def test_what_could_not_be_tried_is_undeterminable(host, key, error):
    host.answers[key] = error
    assert ask(host, ["alice"]) == [("pyxis.container", "undeterminable")]


def test_unknown_user_and_missing_image_are_undeterminable(host):
    assert ask(host, ["carol"]) == [("pyxis.container", "undeterminable")]
    (result,) = smoke(host, BIN, "/nowhere.sqsh", ["alice"], 60)
    assert (result.status, result.reason) == ("undeterminable", "/nowhere.sqsh is not there")


def test_no_image_no_trial(host):
    assert [result.status for result in smoke(host, BIN, "", [], 60)] == ["not_applicable"]
    assert host.ran == []


def test_pmix_without_its_directory_and_slurm_without_pmix(host):
    host.answers["PMIX_RANK"] = CommandError(["srun"], 1, "", "", "failed with status 1")
    assert ("pyxis.pmix", "fail") in ask(host)
    host.answers["PMIX_RANK"] = "ready\n"
    host.answers["--mpi=pmix sh -c true"] = CommandError(["srun"], 1, "", "no libpmix", "failed with status 1")
    assert ("pyxis.pmix", "undeterminable") in ask(host)
    host.answers["--mpi=pmix sh -c true"] = CommandError(["srun"], 1, "", "Invalid MPI type 'pmix'", "failed")
    assert ("pyxis.pmix", "not_applicable") in ask(host)
    host.answers["--mpi=list"] = "MPI plugin types are...\n\tnone\n\tpmi2\n"
    assert ("pyxis.pmix", "not_applicable") in ask(host)


def test_devices_that_are_hidden_and_node_without_any(host):
    host.answers["--container-image"] = "node=n1 root=0:77 efa=\n"
    assert ("pyxis.devices", "fail") in ask(host)
    host.answers["runuser"] = "node=n1 root=8:2 efa=\n"
    assert ("pyxis.devices", "not_applicable") in ask(host)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("idle none\n", "pass"),
        ("drained maintenance of power\n", "pass"),
        ("idle Epilog error\n", "pass"),
        ("draining Epilog error\n", "fail"),
        ("drained Prolog error\n", "fail"),
        ("down* Prolog error\n", "fail"),
        ("inval Epilog error\n", "fail"),
        ("polished Epilog error\n", "undeterminable"),
        ("\n", "undeterminable"),
    ],
)
def test_node_that_epilog_has_drained(host, state, status):
    known = host.run
    told = CommandResult(0, state, "")
    host.run = lambda argv, **options: (
        fake_grammars.answer(argv, told) if "--nodes=n1" in argv else known(argv, **options)
    )
    assert node_state(host, BIN).status == status


def test_slurm_that_gives_no_answer_says_nothing_about_node(host):
    host.answers["sinfo"] = CommandError(["sinfo"], 1, "", "Unable to contact slurm controller", "failed")
    assert node_state(host, BIN).status == "not_applicable"


def test_node_that_runs_no_jobs_tries_any(host):
    host.answers["sinfo"] = "n7 elsewhere\n"
    assert node_name(host, BIN) == ""
    smoke(host, BIN, IMAGE, ["alice"], 60)
    first, second = [argv for argv in host.ran if "runuser" in argv][:2]
    assert not any(word.startswith("--nodelist") for word in first)
    # Where the first ran, or the root directories could not be compared.
    assert "--nodelist=n1" in second
