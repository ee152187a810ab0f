# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook prove_on_aws with an account of moto whose instance is the guest, cloud-init, ssh and each step."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig import aws, controller
from tests.rig.vm.command import wait_for
from tests.rig.vm.guest import Guest
from tests.vm.conftest import NAME

pytestmark = pytest.mark.vm

REGION = "us-east-1"
RUN = "prove-vm"
# Has two instance-store disks in EC2's table of types, and so in the guest.
TYPE = "c5d.12xlarge"
TIMER = "mlcluster-prove-deadline.timer"
# Only the playbook below requests this operation; the controller is killed then.
DEATH = "iam:ListAccountAliases"
DIES = f"""
- hosts: prove-node
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
  tasks:
    - amazon.aws.aws_caller_info:
        region: {REGION}
"""
Prove = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def account(session_guest: Guest, tmp_path: Path) -> Iterator[aws.Aws]:
    """Yield an account whose instance is the guest."""
    server = aws.Aws(tmp_path, NAME)
    yield server
    server.stop()


@pytest.fixture
def prove(account: aws.Aws, tmp_path: Path) -> Prove:
    """Return ``prove(**variables)``, which runs the playbook with an ssh configuration as for a bastion host."""
    ssh = f"-F {account.ssh_config} -o ControlMaster=auto -o ControlPersist=300s"
    environment = controller.environment(tmp_path, ANSIBLE_SSH_ARGS=ssh, **account.environment())

    def run(**variables: Any) -> subprocess.CompletedProcess[str]:
        named = {f"prove_on_aws_{name}": value for name, value in {"region": REGION, **variables}.items()}
        argv = [controller.ROOT / ".venv" / "bin" / "ansible-playbook", "playbooks/prove_on_aws.yml"]
        argv += ["-i", "inventories/cluster", "-e", json.dumps(named)]
        return subprocess.run(
            argv, cwd=controller.ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    return run


def settings(account: aws.Aws, tmp_path: Path) -> dict[str, Any]:
    images = account.client("ec2", REGION).describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])
    image = next(one["ImageId"] for one in images["Images"] if one.get("Platform") != "windows")
    return {
        "type": TYPE, "image": image, "ssh_cidr": "192.0.2.7/32", "run": RUN, "confirm": TYPE, "user": "debian",
        "max_dollars_an_hour": 3, "folder": str(tmp_path / "runs"),
    }  # fmt: skip


def instances(account: aws.Aws) -> dict[str, str]:
    """Return {instance ID: state} of every instance that was ever launched."""
    answer = account.client("ec2", REGION).describe_instances()["Reservations"]
    return {one["InstanceId"]: one["State"]["Name"] for entry in answer for one in entry["Instances"]}


def rest(account: aws.Aws) -> list[str]:
    """Return the names of key pairs, and of security groups other than the default ones."""
    ec2 = account.client("ec2", REGION)
    groups = [one["GroupName"] for one in ec2.describe_security_groups()["SecurityGroups"]]
    keys = [one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]]
    return keys + [name for name in groups if name != "default"]


def logs(folder: Path) -> str:
    """Return the last lines of the two newest logs."""
    found = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
    return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found[-2:])


@pytest.mark.timeout(3600)
def test_run_proves_virtual_node_and_leaves_nothing(
    account: aws.Aws, prove: Prove, session_guest: Guest, tmp_path: Path
) -> None:
    done = prove(**settings(account, tmp_path))
    folder = tmp_path / "runs" / RUN
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:] + logs(folder)
    assert set(instances(account).values()) == {"terminated"}
    assert rest(account) == [] and not session_guest.running

    text = (folder / "evidence.json").read_text(encoding="utf-8")
    document = json.loads(text)
    steps = {step["name"]: step for step in document["steps"]}
    assert {step["state"] for step in steps.values()} == {"passed"}
    for name in ("site", "verify", "verify_after_reboot", "verify_after_start"):
        verdicts = {entry["id"]: entry["status"] for entry in steps[name]["verdicts"]}
        assert verdicts["storage.mounted"] == verdicts["storage.members"] == "pass", (name, verdicts)
        assert "fail" not in verdicts.values(), (name, verdicts)
    assert document["facts"]["system"].startswith("Debian 13") and "-cloud-amd64" in document["facts"]["kernel"]
    assert document["type"] == TYPE
    assert not re.findall(r"\b(?:i|ami|vpc|subnet)-[0-9a-f]{8,}|\b\d+\.\d+\.\d+\.\d+\b(?!\.)", text)
    assert sorted(path.name for path in folder.iterdir() if path.suffix not in (".log", ".jsonl")) == [
        "evidence.json", "facts.json",
    ]  # fmt: skip


def test_deadline_ends_node_of_killed_controller(
    account: aws.Aws, prove: Prove, session_guest: Guest, tmp_path: Path
) -> None:
    """The controller is killed after the first step; the node's timer survives a reboot and ends the instance."""
    playbook = tmp_path / "dies.yml"
    playbook.write_text(DIES, encoding="utf-8")
    account.kill_at(f"controller {DEATH}")
    killed = prove(**settings(account, tmp_path), playbooks={"site": str(playbook)}, minutes=30)
    assert killed.returncode == -9, killed.stdout[-4000:] + killed.stderr[-2000:] + logs(tmp_path / "runs" / RUN)
    account.kill_at("")
    assert list(instances(account).values()) == ["running"]

    node = Guest(session_guest.name)
    node.reboot()
    assert node.run(["systemctl", "is-active", TIMER]).out == "active\n"
    # The new time is past the timer's, and the machine powers off before ssh returns.
    node.run('date -u -s "+40 minutes"', check=False)
    wait_for(
        "the instance to end itself",
        lambda: True if list(instances(account).values()) == ["terminated"] else None,
        timeout=300,
    )
    assert not node.running

    swept = prove(sweep=RUN)
    assert swept.returncode == 0 and f"nothing of {RUN} is left" in swept.stdout, swept.stdout[-2000:]
    assert rest(account) == []
