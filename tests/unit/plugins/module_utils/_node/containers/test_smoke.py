# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container counts as started only if its output proves it."""

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
                result = fake_grammars.answer(argv, host.answers[words])
                host.ran.append(list(argv))
                if isinstance(result, Exception):
                    raise result
                return result if isinstance(result, CommandResult) else CommandResult(0, result, "")
        raise AssertionError(line)

    host.run = answer
    return host


def ask(host, users=("alice", "bob")):
    return [(result.id, result.status) for result in smoke(host, BIN, IMAGE, users, 60)]


def test_two_users_pmix_and_devices_pass(host):
    assert ask(host) == [
        ("pyxis.container", "pass"),
        ("pyxis.container", "pass"),
        ("pyxis.pmix", "pass"),
        ("pyxis.devices", "pass"),
    ]
    started = [argv for argv in host.ran if f"--container-image={IMAGE}" in argv]
    assert [argv[2] for argv in started] == ["alice", "bob", "alice"]
    assert all("--nodelist=n1" in argv for argv in started)


def test_ignored_option_is_not_a_container(host):
    host.answers["--container-image"] = OUTSIDE
    results = smoke(host, BIN, IMAGE, ["alice"], 60)
    assert [(result.id, result.status) for result in results] == [("pyxis.container", "fail")]
    assert "ran on the host: Pyxis is not active" in results[0].message


def test_failing_container_fails(host):
    host.answers["--container-image"] = CommandError(["srun"], 1, "", "pyxis: failed to import", "failed with status 1")
    assert ask(host) == [("pyxis.container", "fail")] * 2


def test_reason_of_failing_container_is_its_message(host):
    errors = "slurmstepd: error: pyxis:     [INFO] Extracting\nslurmstepd: error: pyxis:     [ERROR] No space\n"
    host.answers["--container-image"] = CommandError(["srun"], 1, "", errors, "failed with status 1")
    (result,) = smoke(host, BIN, IMAGE, ["alice"], 60)
    assert result.message == "no container starts for alice: [ERROR] No space"


@pytest.mark.parametrize(
    ("errors", "hint"),
    [
        (
            "slurmstepd-n1: error: TaskProlog failed status=1\n",
            "Slurm runs TaskProlog inside the container, where it is missing: remove it from slurm.conf",
        ),
        (
            "slurmstepd-n1: error: pyxis:     This account is currently not available.\n",
            "Enroot starts the user's login shell, and that of this user is nologin: choose another user",
        ),
    ],
)
def test_known_cause_is_named(host, errors, hint):
    host.answers["--container-image"] = CommandError(["srun"], 1, "", errors, "failed with status 1")
    (result,) = smoke(host, BIN, IMAGE, ["alice"], 60)
    assert (result.status, result.hint) == ("fail", hint)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("runuser", CommandError(["srun"], 1, "", "Unable to contact slurm controller", "failed with status 1")),
        ("--container-image", CommandError(["srun"], None, "", "", "no answer within 60 seconds")),
        ("--container-image", CommandError(["srun"], 1, "", "srun: Unable to allocate resources", "failed")),
    ],
)
def test_failed_trial_is_undeterminable(host, key, error):
    host.answers[key] = error
    assert ask(host, ["alice"]) == [("pyxis.container", "undeterminable")]


def test_unknown_user_and_missing_image_are_undeterminable(host):
    assert ask(host, ["carol"]) == [("pyxis.container", "undeterminable")]
    (result,) = smoke(host, BIN, "/nowhere.sqsh", ["alice"], 60)
    assert (result.status, result.reason) == ("undeterminable", "/nowhere.sqsh is missing")


def test_trial_without_image_is_not_applicable(host):
    assert [result.status for result in smoke(host, BIN, "", [], 60)] == ["not_applicable"]
    assert host.ran == []


NO_PMIX = "slurmstepd: error: pyxis:     enroot-mount: failed to mount: {}/pmix.35.1 at /x: No such file or directory\n"


@pytest.mark.parametrize(
    ("spool", "hint"),
    [
        (
            "/spool/%n",
            "set SlurmdSpoolDir to a path without %n and %h, which the hook 50-slurm-pmi.sh does not replace",
        ),
        ("/spool", "see the hook 50-slurm-pmi.sh of Enroot, which mounts the directories of PMIx"),
    ],
)
def test_container_that_pmix_prevents_names_its_mount(host, spool, hint):
    host.answers["PMIX_RANK"] = CommandError(["srun"], 1, "", NO_PMIX.format(spool), "failed with status 1")
    found = {result.id: result for result in smoke(host, BIN, IMAGE, ["alice"], 60)}["pyxis.pmix"]
    assert (found.status, found.hint) == ("fail", hint)
    assert found.message == (
        f"no container starts with --mpi=pmix: enroot-mount: failed to mount: {spool}/pmix.35.1 at /x: "
        "No such file or directory"
    )


def test_pmix_fails_without_directory_or_is_skipped(host):
    host.answers["PMIX_RANK"] = CommandError(["srun"], 1, "", "", "failed with status 1")
    assert ("pyxis.pmix", "fail") in ask(host)
    host.answers["PMIX_RANK"] = "ready\n"
    host.answers["--mpi=pmix sh -c true"] = CommandError(["srun"], 1, "", "no libpmix", "failed with status 1")
    assert ("pyxis.pmix", "undeterminable") in ask(host)
    host.answers["--mpi=pmix sh -c true"] = CommandError(["srun"], 1, "", "Invalid MPI type 'pmix'", "failed")
    assert ("pyxis.pmix", "not_applicable") in ask(host)
    host.answers["--mpi=list"] = "MPI plugin types are...\n\tnone\n\tpmi2\n"
    assert ("pyxis.pmix", "not_applicable") in ask(host)


def test_hidden_devices_fail_and_missing_ones_are_skipped(host):
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
        # A partition has a line each; two states are those of two clusters.
        ("idle none\n" * 2, "pass"),
        ("idle none\ndrained Epilog error\n", "undeterminable"),
    ],
)
def test_node_drained_by_epilog_fails(host, state, status):
    known = host.run
    reported = CommandResult(0, state, "")
    host.run = lambda argv, **options: (
        fake_grammars.answer(argv, reported) if "--nodes=n1" in argv else known(argv, **options)
    )
    assert node_state(host, BIN).status == status


def test_unresponsive_slurm_is_not_applicable(host):
    host.answers["sinfo"] = CommandError(["sinfo"], 1, "", "Unable to contact slurm controller", "failed")
    found = node_state(host, BIN)
    assert (found.status, found.reason) == (
        "not_applicable",
        "sinfo gave no answer, so nothing was checked: slurmctld may not run yet",
    )


def test_node_unknown_to_slurm_is_not_applicable(host):
    host.answers["sinfo"] = "n7 elsewhere\n"
    found = node_state(host, BIN)
    assert (found.status, found.reason) == ("not_applicable", "Slurm has no node of this name, so it drains none")


def test_login_node_tries_any_node(host):
    host.answers["sinfo"] = "n7 elsewhere\n"
    assert node_name(host, BIN) == ""
    smoke(host, BIN, IMAGE, ["alice"], 60)
    first, second = [argv for argv in host.ran if "runuser" in argv][:2]
    assert not any(word.startswith("--nodelist") for word in first)
    # On the node of the first step, or the root directories cannot be compared.
    assert "--nodelist=n1" in second


def test_container_of_another_node_proves_nothing(host):
    host.answers["sinfo"] = CommandError(["sinfo"], None, "", "", "no answer within 30 seconds")
    (one,) = smoke(host, BIN, IMAGE, ["alice"], 60)
    assert (one.id, one.status) == ("pyxis.container", "undeterminable")
    assert one.reason.startswith("sinfo gave no answer")
    assert not any("runuser" in argv for argv in host.ran)
