# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's state of a node, and the steps around a container; tests/integration/slurm runs both on a real Slurm."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.slurm import check_slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import (
    PCS_SCHEDULERS,
    WITHOUT_SLURM,
    Slurm,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes.fake_slurm_node import BIN, NODE, NOT_SET_UP, UP
from tests.unit.fakes.fake_training_host import TrainingHost, hanging


def slurm_of(host, **options):
    return {one.id: one for one in check_slurm(Slurm(host), **options)}


def test_node_that_takes_jobs_passes(host):
    found = slurm_of(host)
    assert {key: one.status for key, one in found.items()} == {"slurm.controller": "pass", "slurm.node": "pass"}
    assert (found["slurm.node"].found, found["slurm.node"].message) == ("takes jobs", "it takes jobs: IDLE")


@pytest.mark.parametrize("rc", [1, 2, 255, -9])
def test_good_text_beside_error_status_is_no_proof(host, rc):
    host.commands[f"{BIN}/scontrol --details"] = CommandResult(rc, NODE.format("IDLE", ""), "slurm_load_node error")
    one = slurm_of(host)["slurm.node"]
    assert (one.status, one.reason) == (
        "undeterminable",
        f"scontrol shows the node and ended with status {rc}: slurm_load_node error",
    )
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(rc, UP, "")
    one = slurm_of(host)["slurm.controller"]
    assert (one.status, f"ended with status {rc}" in one.reason) == ("undeterminable", True)
    # The status of a controller that is down, beside its backup.
    both = f"{UP}Slurmctld(backup) at other is DOWN\n"
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(rc, both, "")
    assert slurm_of(host)["slurm.controller"].status == "pass"


def test_absent_slurm_is_not_applicable():
    for prefix in (None, WITHOUT_SLURM):
        (one,) = check_slurm(Slurm(TrainingHost(), prefix))
        assert (one.status, one.reason) == ("not_applicable", "Slurm is not installed here")


def test_named_or_ambiguous_slurm_is_not_absent():
    (named,) = check_slurm(Slurm(TrainingHost(), "/opt/slurm"))
    assert (named.id, named.status) == ("slurm.controller", "undeterminable")
    assert "looked for scontrol in /opt/slurm/bin" in named.reason
    several = TrainingHost()
    for version in ("24.11", "25.05"):
        several.files[f"{PCS_SCHEDULERS}/slurm-{version}/bin/scontrol"] = ""
    assert [one.status for one in check_slurm(Slurm(several))] == ["undeterminable"]


@pytest.mark.parametrize("names", ["n2", "n2 n3", "n1 n1"])
def test_record_of_another_node_is_undeterminable(host, names):
    record = NODE.format("IDLE", "").partition("\n")[0]
    host.commands[f"{BIN}/scontrol --details"] = "\n".join(record.replace("n1", name) for name in names.split())
    found = slurm_of(host)["slurm.node"]
    assert found.status == "undeterminable" and "asked for n1 and shows n" in found.reason


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("IDLE+DRAIN", "Reason=disk is slow [root@2026-01-31T12:00:00]", "disk is slow"),
        ("DOWN*", "Reason=Not responding [slurm@2026-01-31T12:00:00]", "Not responding"),
        ("MIXED+FAIL", "", "it is failing, and its reason is not set"),
        ("IDLE+POWERING_DOWN", "", "it is powering down"),
        ("IDLE+POWER_DOWN", "", "it is to be powered down"),
        ("IDLE+REBOOT_ISSUED", "", "it is rebooting"),
        ("IDLE+BLOCKED", "", "it is blocked by a job with exclusive topology"),
        ("DRAINED", "", "it is drained"),
        ("INVAL", "", "it is registered with less than slurm.conf states"),
        ("IDLE+INVALID_REG", "", "it is registered with less than slurm.conf states"),
        ("IDLE*", "", "it is not responding"),
        ("IDLE+MAINTENANCE+RESERVED", "", "it is in a maintenance reservation"),
        ("FUTURE", "", "it is defined for the future only"),
    ],
)
def test_node_without_new_jobs_has_severity_monitor(host, state, reason, words):
    host.commands[f"{BIN}/scontrol --details"] = NODE.format(state, reason)
    one = slurm_of(host)["slurm.node"]
    # Not more severe: a drain must not cause itself.
    assert (one.status, one.severity) == ("fail", "monitor") and words in one.message


@pytest.mark.parametrize("state", ["IDLE+POWERING_DOWN", "IDLE+REBOOT_ISSUED", "IDLE+MAINTENANCE"])
def test_temporary_state_needs_no_resume(host, state):
    host.commands[f"{BIN}/scontrol --details"] = NODE.format(state, "")
    assert slurm_of(host)["slurm.node"].hint == "nothing to do: Slurm ends this by itself"


@pytest.mark.parametrize(
    ("state", "word"),
    [("DRNG", "'DRNG'"), ("NO_RESPOND", "'NO_RESPOND'"), ("IDLE+NEW_FLAG", "'NEW_FLAG'"), ("", "without a state"),
     ("UNKNOWN", "that Slurm does not know yet")],
)  # fmt: skip
def test_unknown_state_is_undeterminable(host, state, word):
    host.commands[f"{BIN}/scontrol --details"] = NODE.format(state, "")
    one = slurm_of(host)["slurm.node"]
    assert one.status == "undeterminable" and word in one.reason


@pytest.mark.parametrize(
    ("kind", "status"), [("compute", "fail"), ("head", "not_applicable"), (None, "not_applicable")]
)
def test_unknown_node_fails_only_on_compute_node(host, kind, status):
    host.commands[f"{BIN}/scontrol --details"] = CommandResult(1, "", "Node n1 not found")
    assert slurm_of(host, kind=kind)["slurm.node"].status == status


@pytest.mark.parametrize("kind", ["compute", "head", None])
@pytest.mark.parametrize(
    "answer",
    [
        CommandResult(1, "", "slurm_load_node error: Unable to contact slurm controller (connect failure)"),
        CommandResult(0, "", ""),
        hanging("scontrol show node", 20),
    ],
)
def test_controller_lost_after_ping_is_undeterminable(host, answer, kind):
    host.commands[f"{BIN}/scontrol --details"] = answer
    found = slurm_of(host, kind=kind)
    assert (found["slurm.controller"].status, found["slurm.node"].status) == ("pass", "undeterminable")


@pytest.mark.parametrize(
    ("ping", "status"),
    [
        ("Slurmctld(primary) at head is DOWN\n", "fail"),
        (CommandResult(1, "", "slurm_load_ctl_conf error"), "undeterminable"),
        (CommandResult(1, "", NOT_SET_UP), "not_applicable"),
        (hanging("scontrol ping", 20), "undeterminable"),
    ],
)
def test_controller_without_answer(host, ping, status):
    host.commands[f"{BIN}/scontrol ping"] = ping
    found = slurm_of(host)
    assert (set(found), found["slurm.controller"].status) == ({"slurm.controller"}, status)


def test_compute_node_without_config_is_undeterminable(host):
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(1, "", NOT_SET_UP)
    assert slurm_of(host, kind="compute")["slurm.controller"].status == "undeterminable"


def test_missing_slurm_is_not_applicable():
    assert slurm_of(TrainingHost())["slurm.controller"].status == "not_applicable"


def test_slurm_failures_have_severity_and_message(host):
    host.commands[f"{BIN}/scontrol --details"] = CommandResult(1, "", "Node n1 not found")
    found = slurm_of(host, kind="compute")["slurm.node"]
    assert (found.severity, found.message) == ("reset", "Slurm does not know n1")
    assert slurm_of(host)["slurm.controller"].found == "head up"
    host.commands[f"{BIN}/scontrol ping"] = "Slurmctld(primary) at head is DOWN\n"
    found = slurm_of(host)["slurm.controller"]
    assert (found.severity, found.expected, found.message) == ("reset", "up", "no controller answers")
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(1, "output\n", "")
    assert slurm_of(host)["slurm.controller"].reason == "no controller is known: output"
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(1, "", "")
    assert slurm_of(host)["slurm.controller"].reason == "no controller is known: no output"


def test_scontrol_output_is_shortened(host):
    details = f"{BIN}/scontrol --details"
    host.commands[details] = CommandResult(1, "", "x" * 400)
    assert slurm_of(host)["slurm.node"].reason == f"scontrol shows no node: {'x' * 300}"
    host.commands[details] = CommandResult(1, "", "")
    assert slurm_of(host)["slurm.node"].reason == "scontrol shows no node: no output"
    host.commands[details] = NODE.replace("n1", "n" * 400).format("IDLE", "")
    assert slurm_of(host)["slurm.node"].reason == f"scontrol was asked for n1 and shows {'n' * 300}"


def test_node_is_found_by_host_name(host):
    details = f"{BIN}/scontrol --details"
    host.commands[details] = NODE.replace("NodeName=n1", "NodeName=queue-1").format("IDLE", "")
    found = slurm_of(host)["slurm.node"]
    assert (found.status, found.scope.node) == ("pass", "queue-1")


def test_one_of_two_controllers_is_enough(host):
    host.commands[f"{BIN}/scontrol ping"] = "Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n"
    assert slurm_of(host)["slurm.controller"].found == "b up"


def test_error_output_precedes_output(host):
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(1, "out", "err")
    assert slurm_of(host)["slurm.controller"].reason == "no controller is known: err"
    host.commands[f"{BIN}/scontrol ping"] = CommandResult(1, NOT_SET_UP, "")
    assert slurm_of(host)["slurm.controller"].status == "not_applicable"


def test_drained_node_has_resume_hint(host):
    host.commands[f"{BIN}/scontrol --details"] = NODE.format("IDLE+DRAIN", "")
    found = slurm_of(host)["slurm.node"]
    assert (found.hint, found.found, found.scope.node) == (
        "once it is healthy: scontrol update NodeName=n1 State=RESUME",
        "IDLE+DRAIN",
        "n1",
    )
