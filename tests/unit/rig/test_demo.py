# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hooks.mlcluster_boot import play
from plugins.module_utils._node.verdict import result
from tests.rig.demo import inventory as demo_inventory
from tests.rig.demo import site as demo

STATUS = {
    "name": "demo",
    "running": True,
    "instance_type": "p4d.24xlarge",
    "accelerator": "tcg",
    "ssh": {"port": 2222},
    "ansible": {"ansible_host": "127.0.0.1", "ansible_port": 2222},
}
RECORD = {
    "layout": "raid0",
    "path": "/data",
    "device": "/dev/md127",
    "state": "intact",
    "owner": "ours",
    "disks": [{"path": "/dev/nvme1n1"}, {"path": "/dev/nvme2n1"}],
}
MOUNT = {"target": "/data", "source": "/dev/md127", "fstype": "ext4", "size": 4 * 1024**3}


def report(*results):
    return result.Report(host="demo", time="2026-11-27T22:40:00Z", results=results)


GOOD = report(result.passed("storage.disks", 2), result.passed("storage.mounted", "/data"))
JOB = report(result.passed("smoke.tasks", "1 task"))


def outcome(tmp_path, state="successful", changed=7):
    status = {
        "elapsed": 61.4,
        "roles": {"": 3.0, "nvme_raid0": 58.2},
        "hosts": {"demo": {"changed": changed}},
        "failures": [],
    }
    return play.Outcome(state, status, tmp_path / "status.json", tmp_path / "ansible.log")


def test_verdict_shows_layout_and_path_of_report(tmp_path):
    lines = demo.verdict(STATUS, False, outcome(tmp_path), demo.Proof(RECORD, MOUNT, GOOD, JOB))
    assert lines == [
        "mlcluster.aws demo: PASS (3 checks passed, on the node and in a job on it)",
        "  node    demo, a local p4d.24xlarge under tcg, started now, ssh port 2222",
        "  layout  raid0 over 2 disks: /dev/nvme1n1 /dev/nvme2n1",
        "  device  /dev/md127",
        "  mount   /data ext4 4 GiB",
        "  state   intact, owner ours",
        "  run     changed=7 in 61 s (nvme_raid0 58 s)",
        "  job     node_smoke ran by Slurm on demo: pass, 1 checks",
        f"  report  {tmp_path}",
    ]


@pytest.mark.parametrize(
    "state, proof, code, words",
    [
        ("successful", demo.Proof(RECORD, MOUNT, GOOD, JOB), 0, "3 checks"),
        ("successful", demo.Proof(RECORD, MOUNT, GOOD), 2, "the job gave no verdict"),
        ("successful", demo.Proof(RECORD, MOUNT, GOOD, report()), 2, "has no check in it"),
        (
            "successful",
            demo.Proof(RECORD, MOUNT, GOOD, report(result.failed("smoke.tasks", "none came"))),
            1,
            "FAIL smoke.tasks: none came",
        ),
        ("failed", demo.Proof(RECORD, MOUNT, GOOD, JOB), 1, "ended as failed"),
        ("no_hosts", demo.Proof(RECORD, MOUNT, GOOD, JOB), 2, "ended as no_hosts"),
        ("successful", demo.Proof(RECORD, MOUNT, None), 2, "no verdict"),
        ("successful", demo.Proof(None, None, None), 2, "no verdict"),
        ("successful", demo.Proof(RECORD, None, GOOD, JOB), 1, "findmnt does not see"),
        ("successful", demo.Proof(RECORD, MOUNT, report(), JOB), 2, "no check"),
        (
            "successful",
            demo.Proof(
                RECORD, MOUNT, report(result.passed("a", 1), result.failed("storage.members", "one is gone")), JOB
            ),
            1,
            "FAIL storage.members: one is gone",
        ),
        (
            "successful",
            demo.Proof(RECORD, MOUNT, report(result.undeterminable("storage.size", "no answer")), JOB),
            2,
            "storage.size: no answer",
        ),
    ],
)
def test_only_confirmed_run_passes(tmp_path, state, proof, code, words):
    found, why = demo.judge(outcome(tmp_path, state), proof)
    assert found == code
    assert words in why
    assert demo.verdict(STATUS, True, outcome(tmp_path, state), proof)[0].startswith("mlcluster.aws demo: ")


def test_node_is_asked_for_record_mount_and_verdict():
    answers = {
        "cat ": json.dumps({**RECORD, "path": "/my data"}),
        "findmnt ": json.dumps({"filesystems": [MOUNT]}),
        "python3 ": result.dumps(GOOD),
        "cd /data/jobs/results": result.dumps(JOB),
    }
    asked = []

    def ssh(line):
        asked.append(line)
        return next(text for start, text in answers.items() if line.startswith(start))

    proof = demo.ask(ssh)
    assert proof == demo.Proof({**RECORD, "path": "/my data"}, MOUNT, GOOD, JOB)
    assert "--mountpoint '/my data' " in asked[1]


@pytest.mark.parametrize("answer", ["", "cat: no such file", "[]", "null", "{}"])
def test_useless_answer_proves_nothing(answer):
    proof = demo.ask(lambda line: answer)
    assert (proof.mount, proof.report, proof.job) == (None, None, None)


def fake_rig(monkeypatch, statuses, ssh=0):
    """Replace the rig by one whose ``status`` gives one answer after the other; return the verbs that were run."""
    verbs = []

    def rig(*words, capture=False, check=True):
        verbs.append(words[0])
        text = json.dumps(statuses.pop(0)) if words[0] == "status" else ""
        return subprocess.CompletedProcess(words, ssh if words[0] == "ssh" else 0, text)

    monkeypatch.setattr(demo, "rig", rig)
    return verbs


@pytest.mark.parametrize(
    "statuses, ssh, verbs, reused",
    [
        ([STATUS], 0, ["status", "ssh"], True),
        ([{"running": False}, STATUS], 0, ["status", "up", "status"], False),
        ([STATUS, STATUS], 255, ["status", "ssh", "up", "status"], False),
    ],
)
def test_answering_node_is_reused(monkeypatch, statuses, ssh, verbs, reused):
    run = fake_rig(monkeypatch, statuses, ssh)
    assert demo.bring_up() == (STATUS, reused)
    assert run == verbs


def test_failed_rig_ends_demo_with_sentence(monkeypatch, capsys):
    monkeypatch.setattr(demo, "RIG", [sys.executable, "-c", "import sys; sys.exit(1)"])
    assert demo.main() == 2
    assert "python3 -m tests.rig.vm status` failed" in capsys.readouterr().err


def test_whole_demo_leaves_its_verdict_beside_log(monkeypatch, tmp_path, capsys):
    fake_rig(monkeypatch, [STATUS])
    monkeypatch.setattr(demo.play, "run_playbook", lambda *args, **options: outcome(tmp_path, changed=0))
    monkeypatch.setattr(demo, "ask", lambda ssh: demo.Proof(RECORD, MOUNT, GOOD, JOB))
    assert demo.main() == 0
    out = capsys.readouterr().out
    assert "changed=0" in out
    assert "python3 -m tests.rig.vm down" in out
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert (document["verdict"], document["report"]["schema"]) == (0, "mlcluster.report/1")


@pytest.mark.parametrize(
    "number, text",
    [(None, "0 B"), (512, "512 B"), (4 * 1024**3, "4 GiB"), (30400e9, "27.65 TiB"), (5e16, "4.547e+04 TiB")],
)
def test_sizes_are_in_binary_units(number, text):
    assert demo.size(number) == text


def answer(monkeypatch, status):
    done = subprocess.CompletedProcess([], 0, json.dumps(status))
    monkeypatch.setattr(demo_inventory.subprocess, "run", lambda *args, **options: done)


def test_demo_inventory_has_running_node(monkeypatch, capsys):
    answer(monkeypatch, STATUS)
    assert demo_inventory.main() == 0
    assert json.loads(capsys.readouterr().out) == {
        "instance_store": {"hosts": ["demo"]},
        "head": {"hosts": ["demo"]},
        "_meta": {"hostvars": {"demo": STATUS["ansible"]}},
    }


def test_demo_inventory_reports_missing_node(monkeypatch, capsys):
    answer(monkeypatch, {"name": "demo", "running": False})
    assert demo_inventory.main() == 1
    assert "make site" in capsys.readouterr().err
