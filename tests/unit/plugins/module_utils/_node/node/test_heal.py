# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import heal, healing
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.healing import Event, Policy
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    failed,
    not_applicable,
    passed,
    undeterminable,
)

from tests.unit.fakes.fake_rooted_host import RootedHost

NOW = 1_800_000_000.0
CONFIG = "RebootProgram = /usr/sbin/reboot\nSuspendProgram = /opt/suspend\n"
DRAINED = "mlcluster health: gpu.xid (reboot): Xid 79"
HEALING = "mlcluster heal: {} (gpu.xid): severity {}"


class Head(RootedHost):
    """A controller whose nodes are (name, state, reason, booted); it records the commands."""

    def __init__(self, root, *nodes, config=CONFIG):
        super().__init__(root)
        self.put("/opt/slurm/bin/scontrol", mode=0o755)
        self.nodes, self.config, self.sent, self.refuses = nodes, config, [], False

    def run(self, argv, timeout=120, check=True, stdin=None):
        if "/opt/slurm/bin/scontrol" not in argv:
            return super().run(argv, timeout, check, stdin)
        words = argv[argv.index("/opt/slurm/bin/scontrol") + 1 :]
        if words[0] in ("update", "reboot"):
            self.sent.append(words)
            return CommandResult(1, "", "Access denied") if self.refuses else CommandResult(0, "", "")
        if words[:2] == ["show", "config"]:
            return CommandResult(0, self.config, "")
        lines = [
            f"NodeName={name} CPUTot=8 State={state} BootTime={booted}"
            + (f" Reason={reason} [root@2026-01-31T12:00:00]" if reason else "")
            for name, state, reason, booted in self.nodes
        ]
        return CommandResult(0, "\n".join(lines) + "\n", "")

    def locked(self, path, timeout, mode=0o600):
        return super().locked(path, timeout)


def n1(state="IDLE+DRAIN", reason=DRAINED, booted="2026-01-31T10:00:00"):
    return ("n1", state, reason, booted)


def cluster(head, **more):
    policy = Policy(frozenset(healing.ACTIONS))
    return heal.heal_cluster(head, Slurm(head), policy, NOW, **{"journal": "/var/lib/mlcluster/heal.jsonl", **more})


def test_reboot_keeps_drain_and_is_journaled_first(tmp_path):
    head = Head(tmp_path, n1())
    cluster(head, directory="/textfile")
    # With ASAP Slurm would end the drain itself, and the node would return without proof.
    assert head.sent == [["reboot", "reason=mlcluster heal: reboot (gpu.xid): severity reboot", "n1"]]
    assert heal.read_journal(head) == [Event(NOW, "n1", "reboot", ("gpu.xid",), "severity reboot")]
    assert 'mlcluster_heal_nodes{state="drained"} 1\n' in head.text("/textfile/mlcluster_heal.prom")
    assert 'mlcluster_heal_events{action="reboot"} 1\n' in head.text("/textfile/mlcluster_heal.prom")


def test_dry_run_does_nothing(tmp_path):
    head = Head(tmp_path, n1())
    assert cluster(head, dry_run=True, directory="/textfile") == ["n1: reboot (gpu.xid): severity reboot"]
    assert (head.sent, heal.read_journal(head), head.exists("/textfile")) == ([], [], False)


@pytest.mark.parametrize(
    ("severity", "state", "sent"),
    [
        ("reset", "IDLE+DRAIN", ["State=DRAIN", "Reason=mlcluster heal: reset (gpu.xid): severity reset"]),
        (
            "isolate",
            "IDLE+CLOUD+DRAIN",
            ["State=POWER_DOWN_ASAP", "Reason=mlcluster heal: replace (gpu.xid): severity isolate"],
        ),
    ],
)
def test_other_actions(tmp_path, severity, state, sent):
    head = Head(tmp_path, n1(state, DRAINED.replace("(reboot)", f"({severity})")))
    cluster(head)
    assert head.sent == [["update", "NodeName=n1", *sent]]


def test_unwritable_journal_prevents_actions(tmp_path):
    class Full(Head):
        def write_text(self, path, text, mode=0o644):
            raise OSError(errno.ENOSPC, "No space left on device")

    head = Full(tmp_path, n1())
    with pytest.raises(NodeError, match=r"could not write the journal .*No space left"):
        cluster(head)
    assert head.sent == []


def test_action_that_slurm_refuses_is_event_and_counts(tmp_path):
    head = Head(tmp_path, n1())
    head.refuses = True
    assert "reboot failed: scontrol reboot" in cluster(head)[1]
    assert [event.action for event in heal.read_journal(head)] == ["reboot", "failed"]
    cluster(head)
    assert [event.action for event in heal.read_journal(head)][-1] == "failed"
    cluster(head)
    assert heal.read_journal(head)[-2].action == "isolated"


def test_two_runs_decide_once(tmp_path):
    head = Head(tmp_path, n1())
    cluster(head)
    head.nodes = (n1("IDLE+DRAIN+REBOOT_REQUESTED", HEALING.format("reboot", "reboot")),)
    assert cluster(head) == []
    assert len(head.sent) == 1


def test_torn_line_of_journal_is_skipped(tmp_path):
    head = Head(tmp_path)
    heal.write_journal(head, [Event(NOW, "n1", "reboot", ("a", "b"), "x")])
    head.put("/var/lib/mlcluster/heal.jsonl", head.text("/var/lib/mlcluster/heal.jsonl") + '{"at": 5}\n[]\n{"at')
    (event,) = heal.read_journal(head)
    assert heal.shown(event) == "2027-01-15T08:00:00Z n1: reboot (a, b): x"


def test_journal_is_bounded(tmp_path):
    head = Head(tmp_path)
    heal.write_journal(head, [Event(float(at), "n1", "reset", (), "") for at in range(heal.MAX_LINES + 5)])
    assert [len(heal.read_journal(head)), heal.read_journal(head)[0].at] == [heal.MAX_LINES, 5.0]


@pytest.mark.parametrize(("setting", "action"), [("RebootProgram", "reboot"), ("SuspendProgram", "replace")])
def test_actions_that_slurm_supports(setting, action):
    assert action in heal.supported_actions({setting: "/x"}) and action not in heal.supported_actions({setting: None})


# The node's own part


def node(head, monkeypatch, *results):
    asked = []

    def run_profile(host, profile, options):
        asked.append((profile, options.xid_since))
        return list(results)

    monkeypatch.setattr(profiles, "run_profile", run_profile)
    done = heal.heal_node(head, Slurm(head), "n1", profiles.Options())
    return done, head.sent, asked


WELL = passed("gpu.xid", "no Xid")
BACK = "2026-01-31T12:05:00"


@pytest.mark.parametrize(
    "state", [n1(), n1("IDLE", ""), n1(reason="a person's"), n1(reason=HEALING.format("isolated", "x"))]
)
def test_node_with_no_part_does_nothing(tmp_path, monkeypatch, state):
    assert node(Head(tmp_path, state), monkeypatch, WELL) == (None, [], [])


def test_node_resumes_after_its_reboot_by_full_check(tmp_path, monkeypatch):
    head = Head(tmp_path, n1(reason=HEALING.format("reboot", "reboot : reboot issued"), booted=BACK))
    done, sent, asked = node(head, monkeypatch, WELL)
    assert (done, asked) == ("n1 takes jobs again: the full check proved gpu.xid", [("full", None)])
    assert sent == [["update", "NodeName=n1", "State=RESUME"]]


@pytest.mark.parametrize(
    ("state", "booted"),
    [
        ("IDLE+DRAIN", "2026-01-31T11:59:59"),
        ("DOWN+DRAIN+REBOOT_ISSUED", BACK),
        ("IDLE+DRAIN+REBOOT_REQUESTED", BACK),
        ("IDLE+DRAIN", "None"),
    ],
)
def test_node_before_its_reboot_is_not_proved(tmp_path, monkeypatch, state, booted):
    head = Head(tmp_path, n1(state, HEALING.format("reboot", "reboot"), booted))
    assert node(head, monkeypatch, WELL) == ("n1 waits for its reboot", [], [])


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ((failed("gpu.xid", "Xid 79", severity="isolate"),), "mlcluster health: gpu.xid (isolate): Xid 79"),
        ((WELL, failed("gpu.count", "gone", severity="reset")), "mlcluster health: gpu.count (reset): gone"),
        ((undeterminable("gpu.xid", "no log"),), "mlcluster health: gpu.xid (none): no log"),
        ((WELL, undeterminable("gpu.xid", "no log")), "mlcluster health: gpu.xid (none): no log"),
        (
            (failed("node.root_space", "nearly full", severity="reset"), not_applicable("gpu.xid", "no GPU is here")),
            "mlcluster health: gpu.xid,node.root_space (reset): nearly full",
        ),
        (
            (failed("node.root_space", "nearly full", severity="reset"),),
            "mlcluster health: gpu.xid,node.root_space (reset): nearly full",
        ),
        (
            (WELL, failed("node.root_space", "nearly full", severity="reset")),
            "mlcluster health: node.root_space (reset): nearly full",
        ),
        ((failed("gpu.xid", "rare", severity="monitor"),), "mlcluster health: gpu.xid (monitor): rare"),
        ((passed("gpu.count", 8),), "mlcluster health: gpu.xid (none): the full check has no verdict on it"),
        ((), "mlcluster health: gpu.xid (none): the full check has no verdict on it"),
        (
            (not_applicable("gpu.xid", "no GPU is on this node"),),
            "mlcluster health: gpu.xid (none): it failed, and now it does not apply",
        ),
    ],
)
def test_node_without_proof_stays_drained(tmp_path, monkeypatch, results, reason):
    head = Head(tmp_path, n1(reason=HEALING.format("reboot", "reboot"), booted=BACK))
    _done, sent, _asked = node(head, monkeypatch, *results)
    assert sent == [["update", "NodeName=n1", "State=DRAIN", f"Reason={reason}"]]


def test_volume_that_no_longer_applies_keeps_drain(tmp_path, monkeypatch):
    reason = HEALING.format("reboot", "reboot").replace("gpu.xid", "gpu.xid,storage.mounted")
    head = Head(tmp_path, n1(reason=reason, booted=BACK))
    _done, sent, _asked = node(head, monkeypatch, WELL, not_applicable("storage.mounted", "no local volume"))
    kept = "mlcluster health: storage.mounted (none): it failed, and now it does not apply"
    assert sent == [["update", "NodeName=n1", "State=DRAIN", f"Reason={kept}"]]


def test_check_without_verdict_hides_no_vanished_one(tmp_path, monkeypatch):
    reason = HEALING.format("reboot", "reboot").replace("gpu.xid", "gpu.xid,storage.mounted")
    head = Head(tmp_path, n1(reason=reason, booted=BACK))
    _done, sent, _asked = node(head, monkeypatch, not_applicable("storage.mounted", "no local volume"))
    kept = "mlcluster health: gpu.xid,storage.mounted (none): the full check has no verdict on it"
    assert sent[0][-1] == f"Reason={kept}"


def test_check_that_failed_and_ends_late_is_not_marked(tmp_path, monkeypatch):
    head = Head(
        tmp_path, n1(reason=HEALING.format("reboot", "reboot").replace("gpu.xid", "storage.record"), booted=BACK)
    )
    _done, sent, _asked = node(head, monkeypatch, WELL, undeterminable("storage.record", "no answer"))
    assert sent[0][-1] == "Reason=mlcluster health: storage.record (none): no answer"


def test_ended_job_of_a_domain_is_named_and_not_proved(tmp_path, monkeypatch):
    reason = HEALING.format("reboot", "reboot").replace("gpu.xid", "gpu.xid,imex.domain")
    head = Head(tmp_path, n1(reason=reason, booted=BACK))
    done, sent, _asked = node(head, monkeypatch, WELL, not_applicable("imex.domain", "no job"))
    assert done == "n1 takes jobs again: the full check proved gpu.xid; imex.domain no longer applies"
    assert sent[0][-1] == "State=RESUME"


def test_one_of_several_gpus_may_not_apply(tmp_path, monkeypatch):
    head = Head(tmp_path, n1(reason=HEALING.format("reboot", "reboot"), booted=BACK))
    _done, sent, _asked = node(head, monkeypatch, WELL, not_applicable("gpu.xid", "another"))
    assert sent[0][-1] == "State=RESUME"


def test_other_failure_of_severity_monitor_is_ignored(tmp_path, monkeypatch):
    head = Head(tmp_path, n1(reason=HEALING.format("reboot", "reboot"), booted=BACK))
    _done, sent, _asked = node(head, monkeypatch, WELL, failed("node.kernel", "another", severity="monitor"))
    assert sent[0][-1] == "State=RESUME"


def reset_head(tmp_path, apps="", reset=""):
    head = Head(tmp_path, n1(reason=HEALING.format("reset", "reset")))
    head.answers["nvidia-smi --query-compute-apps"] = apps
    head.answers["nvidia-smi --gpu-reset"] = reset
    return head


def test_reset_is_proved_without_xids_before_it(tmp_path, monkeypatch):
    head = reset_head(tmp_path)
    _done, sent, ((profile, since),) = node(head, monkeypatch, WELL)
    assert (profile, bool(since), sent[0][-1]) == ("full", True, "State=RESUME")
    assert [words[1] for words in head.ran] == ["--query-compute-apps=pid", "--gpu-reset"]


def test_gpu_in_use_is_not_reset(tmp_path, monkeypatch):
    head = reset_head(tmp_path, apps="4711\n")
    done, sent, asked = node(head, monkeypatch, WELL)
    assert (done, asked) == ("n1 could not reset its GPUs: processes have GPUs: 4711", [])
    assert sent[0][-1] == "Reason=mlcluster health: gpu.xid (reboot): the reset failed: processes have GPUs: 4711"


def test_failed_reset_requests_reboot(tmp_path, monkeypatch):
    head = reset_head(tmp_path, reset=CommandResult(3, "", "In use by another client"))
    _done, sent, _asked = node(head, monkeypatch, WELL)
    assert "(reboot): the reset failed: nvidia-smi --gpu-reset ended with status 3" in sent[0][-1]


def test_reset_waits_for_job(tmp_path, monkeypatch):
    head = Head(tmp_path, n1("MIXED+DRAIN", HEALING.format("reset", "reset")))
    assert node(head, monkeypatch, WELL) == ("n1 waits for its jobs before its reset", [], [])


@pytest.mark.parametrize("name", heal.METRICS)
def test_each_metric_is_written(name):
    assert name in heal.metrics(Policy(), [], [Event(NOW, "n1", "reset", (), "")])


@pytest.mark.parametrize(("availability", "count"), [("closed", 1), ("takes", 0)])
@pytest.mark.parametrize(("reason", "state"), [("heal: isolated", "isolated"), ("heal: reset", "healing")])
def test_node_that_takes_jobs_is_not_isolated_or_healing(availability, count, reason, state):
    kept = {"name": "n1", "reason": f"mlcluster {reason} (gpu.xid): x", "flags": [], "availability": availability}
    assert f'mlcluster_heal_nodes{{state="{state}"}} {count}' in heal.metrics(Policy(), [kept], [])
