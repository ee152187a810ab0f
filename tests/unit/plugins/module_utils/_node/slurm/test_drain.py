# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data.checks import CHECKS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import drain as health_drain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    failed,
    none_expected,
    not_applicable,
    passed,
    undeterminable,
)

BROKEN = [failed("gpu.count", "2 GPUs\nare missing", severity="isolate"), failed("storage.mounted", "not mounted")]
OURS = "mlcluster health: gpu.count,storage.mounted (isolate): 2 GPUs are missing"


class Controller(Host):
    """A controller that knows one node; the line is from scontrol (Slurm 22.05), shortened."""

    def __init__(self, state="IDLE", reason=None, known=True, after=""):
        stated = f" Reason={reason} [root@2026-01-31T12:00:00]{after}" if reason else ""
        self.line = f"NodeName=n1 Arch=x86_64 CPUTot=8 State={state}{stated}\n" if known else ""
        self.updates = []

    def exists(self, path):
        return path == "/opt/slurm/bin/scontrol"

    def run(self, argv, timeout=120, check=True, stdin=None):
        words = argv[argv.index("/opt/slurm/bin/scontrol") + 1 :]
        if words[0] == "update":
            self.updates.append(words[1:])
        return CommandResult(0, self.line if words[-1] == "n1" else "", "")


def drain(controller):
    return health_drain.drain(Slurm(controller), "n1", BROKEN, 2), controller.updates


def test_node_is_drained_with_reason():
    assert drain(Controller()) == (f"drained n1: {OURS}", [["NodeName=n1", "State=DRAIN", f"Reason={OURS}"]])


@pytest.mark.parametrize("reason", ["a person's: gpu.count", OURS, "Prolog error"])
def test_other_or_same_drain_is_unchanged(reason):
    assert drain(Controller("IDLE+DRAIN", reason)) == (f"n1 is drained already: {reason}", [])


def test_drain_without_reason_is_unchanged():
    assert drain(Controller("IDLE+DRAIN")) == ("n1 is drained already: no reason is given", [])


def test_second_check_ignores_instance_keys():
    # ParallelCluster 3.12.1 and newer add these keys behind the reason.
    controller = Controller("IDLE+DRAIN", OURS, after=" InstanceId=i-0abc InstanceType=p5.48xlarge")
    assert drain(controller) == (f"n1 is drained already: {OURS}", [])


def test_own_drain_for_other_check_gets_new_reason():
    assert drain(Controller("IDLE+DRAIN", "mlcluster health: efa.devices: old"))[1]


def test_earlier_checks_stay_in_reason():
    _message, ((_node, _state, reason),) = drain(Controller("IDLE+DRAIN", "mlcluster health: efa.devices: old"))
    assert reason.startswith("Reason=mlcluster health: efa.devices,gpu.count,storage.mounted (isolate): ")


def test_own_drain_for_more_checks_is_unchanged():
    more = OURS.replace("gpu.count", "efa.devices,gpu.count")
    assert drain(Controller("IDLE+DRAIN", more)) == (f"n1 is drained already: {more}", [])


def undrain(controller, *results):
    return health_drain.undrain(Slurm(controller), "n1", results, 2), controller.updates


WELL = (passed("gpu.count", 8), passed("storage.mounted", "/dev/md127"))


def test_own_drain_ends_when_its_checks_pass():
    message, updates = undrain(Controller("IDLE+DRAIN", OURS), *WELL)
    assert (message, updates) == (
        "n1 takes jobs again; it was drained for gpu.count, storage.mounted",
        [["NodeName=n1", "State=UNDRAIN"]],
    )


@pytest.mark.parametrize(
    ("state", "reason"), [("IDLE+DRAIN", "a person's"), ("IDLE+DRAIN", None), ("IDLE", None), ("DOWN", OURS)]
)
def test_other_state_is_not_undrained(state, reason):
    assert undrain(Controller(state, reason), *WELL) == (None, [])


@pytest.mark.parametrize(
    "results",
    [
        WELL[:1],
        (WELL[0], undeterminable("storage.mounted", "no answer")),
        (WELL[0], failed("storage.mounted", "not mounted", severity="monitor")),
    ],
)
def test_unproved_check_keeps_drain(results):
    message, updates = undrain(Controller("IDLE+DRAIN", OURS), *results)
    assert (message, updates) == ("n1 stays drained: storage.mounted is not proved to be healthy", [])


@pytest.mark.parametrize("name", ["gpu.count", "storage.mounted", "mounts.answer", "node.service", "imex.service"])
def test_check_that_no_longer_applies_keeps_drain(name):
    controller = Controller("IDLE+DRAIN", f"mlcluster health: {name} (reset): it failed")
    message, updates = undrain(controller, not_applicable(name, "nothing is there"), passed("gpu.xid", 0))
    assert (message, updates) == (f"n1 stays drained: {name} is not proved to be healthy", [])


@pytest.mark.parametrize("name", ["imex.domain", "imex.channel"])
def test_check_of_ended_job_does_not_keep_drain(name):
    controller = Controller("IDLE+DRAIN", f"mlcluster health: {name} (reset): no peer")
    assert undrain(controller, not_applicable(name, "no job"))[1] == [["NodeName=n1", "State=UNDRAIN"]]


LATE = undeterminable("imex.service", "it did not end in time")
GONE = not_applicable("imex.service", "no UltraServer")
UNPROVED = "mlcluster health: imex.service? (none): it did not end in time"


def drained_by(controller, *results):
    return health_drain.drain(Slurm(controller), "n1", results, 2), controller.updates


def test_late_check_that_does_not_apply_keeps_no_drain():
    """As on every node without an UltraServer whose closed gate had one slow check."""
    _message, ((_node, _state, reason),) = drained_by(Controller(), LATE)
    assert reason == f"Reason={UNPROVED}"
    assert drained_by(Controller("IDLE+DRAIN", UNPROVED), LATE)[1] == []
    assert undrain(Controller("IDLE+DRAIN", UNPROVED), GONE)[1] == [["NodeName=n1", "State=UNDRAIN"]]
    assert undrain(Controller("IDLE+DRAIN", UNPROVED), LATE)[1] == []
    assert undrain(Controller("IDLE+DRAIN", UNPROVED))[1] == []


def test_late_check_beside_a_failure_is_marked():
    failure = failed("mounts.answer", "no answer", severity="reset")
    wanted = "mlcluster health: mounts.answer,imex.service? (reset): no answer"
    assert drained_by(Controller(), failure, LATE)[1][0][-1] == f"Reason={wanted}"
    assert drained_by(Controller("IDLE+DRAIN", wanted), LATE)[1] == []
    alone = wanted.replace(",imex.service?", "")
    assert drained_by(Controller("IDLE+DRAIN", alone), LATE)[1][0][-1] == f"Reason={wanted}"
    ends = Controller("IDLE+DRAIN", wanted)
    assert undrain(ends, GONE, passed("mounts.answer", "nfs"))[1] == [["NodeName=n1", "State=UNDRAIN"]]
    assert undrain(Controller("IDLE+DRAIN", wanted), GONE)[1] == []


def test_failure_of_late_check_ends_its_mark():
    failure = failed("imex.service", "it is not installed", severity="reset")
    wanted = "mlcluster health: imex.service (reset): it is not installed"
    assert drained_by(Controller("IDLE+DRAIN", UNPROVED), failure)[1][0][-1] == f"Reason={wanted}"
    assert drained_by(Controller("IDLE+DRAIN", wanted), LATE)[1] == []
    assert undrain(Controller("IDLE+DRAIN", wanted), GONE)[1] == []


def test_reason_keeps_all_its_ids():
    """A cut list of ids would not be our drain, and nothing would end it."""
    many = [failed(f"gpu.check_{number}", "x" * 300, severity="reset") for number in range(60)]
    reason = health_drain.reason_for(many)
    assert health_drain.drained_for(reason) == ([one.id for one in many], "reset")
    assert reason.endswith(f"(reset): {'x' * 60}")


def test_late_check_of_hardware_needs_a_pass():
    """A GPU that is gone may make its check late first."""
    (_message, ((_node, _state, reason),)) = drained_by(Controller(), undeterminable("gpu.count", "late"))
    assert reason == "Reason=mlcluster health: gpu.count (none): late"
    kept = Controller("IDLE+DRAIN", reason.partition("=")[2])
    assert undrain(kept, not_applicable("gpu.count", "no GPU"))[1] == []
    proof = none_expected("gpu.count", "m7i.large has no accelerators", "the table of types")
    assert undrain(kept, proof)[1] == [["NodeName=n1", "State=UNDRAIN"]]


def test_check_of_a_job_has_no_mark():
    late = undeterminable("imex.domain", "late")
    assert health_drain.reason_for([late, LATE]) == "mlcluster health: imex.domain,imex.service? (none): late"


def test_undeterminable_check_that_found_something_applied():
    found = undeterminable("dcgm.fields", "7 of 8 GPUs", found=7)
    assert health_drain.reason_for([found]) == "mlcluster health: dcgm.fields (none): 7 of 8 GPUs"


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        (OURS, ("gpu.count", "storage.mounted")),
        ("mlcluster health: gpu.xid,imex.service? (reboot): x", ("gpu.xid",)),
        (UNPROVED, ("imex.service",)),
        ("a person's", ()),
    ],
)
def test_healing_proves_what_failed(reason, found):
    assert health_drain.checks_to_prove(reason) == found


# How the drain of a check of the profiles prolog and full ends, besides a pass.
ENDS = dict.fromkeys(health_drain.ENDS_WITH_JOB, "job")
ENDS.update(dict.fromkeys(health_drain.NEEDS_PROOF, "proof"))
DRAINING = sorted(name for name, _why, _severities, who in CHECKS if {"prolog", "full"} & set(who))


@pytest.mark.parametrize("name", DRAINING)
def test_each_drain_has_an_end(name):
    """A check drains late or failed, and then passes, does not apply by a proof, or does not apply."""
    ended = {}
    for how, verdict in {"late": undeterminable(name, "late"), "failed": failed(name, "bad", severity="reset")}.items():
        reason = health_drain.reason_for([verdict])
        for now in (
            passed(name, 1),
            none_expected(name, "none", "the table"),
            not_applicable(name, "gone"),
            not_applicable(name, "gone", found=0),
            not_applicable(name, "gone", expected=8, found=8, source="the table"),
        ):
            ended.setdefault(how, []).append(bool(undrain(Controller("IDLE+DRAIN", reason), now)[1]))
    gone = {"job": [True] * 3, "proof": [False] * 3}
    way = ENDS.get(name)
    assert ended["late"] == [True, True, *gone.get(way, [True] * 3)]
    assert ended["failed"] == [True, True, *gone.get(way if way == "job" else "proof")]


def test_checks_that_can_drain_are_known():
    assert len(DRAINING) > 80 and set(ENDS) <= set(DRAINING)


def test_unknown_node_is_reported():
    with pytest.raises(NodeError, match="queried Slurm for the node n1 and it showed 0: set SLURMD_NODENAME"):
        drain(Controller(known=False))


def test_reason_without_text_states_failure():
    assert health_drain.reason_for([passed("a", 1)]) == "mlcluster health: a (none): it failed"
    assert health_drain.reason_for([undeterminable("a", "x", message="y")]) == "mlcluster health: a? (none): y"


def test_reason_is_one_short_line():
    assert len(health_drain.reason_for([undeterminable("a", "x" * 500)])) == 200
    assert health_drain.reason_for([undeterminable("a", "x\n\x1b[2Jy")]) == "mlcluster health: a? (none): x [2Jy"


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        (OURS, (["gpu.count", "storage.mounted"], "isolate")),
        ("mlcluster health: gpu.count: of an older release", (["gpu.count"], "none")),
        ("mlcluster health: gpu.count (worse): of a newer one", None),
        ("a person's (isolate): x", None),
        ("", None),
        (None, None),
    ],
)
def test_checks_are_read_from_drain_reason(reason, found):
    assert health_drain.drained_for(reason) == found
