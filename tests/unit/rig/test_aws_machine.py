# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance of moto has the state that its machine has, and ssh reaches the machine by its address alone."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.ec2.models.instances import Instance

from tests.rig.aws import machine
from tests.rig.vm.command import RigError

TYPE = "c5d.12xlarge"
USER_DATA = '{"ssh_keys": {"ed25519_public": "ssh-ed25519 AAAA run\\n"}}'


class Guest:
    """A guest without a machine; each step waits until a test lets it go on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.running, self.done = folder, {"port": 4711, "accelerator": "tcg"}, True, []
        self.gate, self.fails = threading.Semaphore(0), False

    def __getattr__(self, name: str) -> Any:
        def step(*arguments: Any, **named: Any) -> None:
            assert self.gate.acquire(timeout=30), name
            self.done.append((name, *arguments, *named.items()))
            self.running = name in ("renew", "script", "power_on", "start")
            if self.fails and name != "power_cut":
                raise RigError("no answer")

        return step

    def let(self, steps: int) -> None:
        self.gate.release(steps)


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    for name in ("__init__", "start", "stop", "terminate"):
        monkeypatch.setattr(Instance, name, getattr(Instance, name))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    found = Guest(tmp_path)
    with mock_aws():
        follower = machine.Machine(found, tmp_path / "config", look_seconds=0.01)  # type: ignore[arg-type]
        follower.attach()
        yield found
        follower.detach()


def launch(behaviour: str = "terminate") -> tuple[Any, str]:
    ec2 = boto3.client("ec2", "us-east-1")
    ec2.import_key_pair(KeyName="mine", PublicKeyMaterial=b"ssh-ed25519 " + KEY)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    answer = ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, InstanceType=TYPE, UserData=USER_DATA, KeyName="mine",
        InstanceInitiatedShutdownBehavior=behaviour,
    )  # fmt: skip
    return ec2, answer["Instances"][0]["InstanceId"]


KEY = b"AAAAC3NzaC1lZDI1NTE5AAAAIGgMv0Yp0lE4SS5OaGzRnqvQdgT8l4xJYuE9sRgCzTqZ"


def shown(ec2: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ec2.describe_instances(InstanceIds=[name])["Reservations"][0]["Instances"][0]
    return found


def state(ec2: Any, name: str) -> str:
    return str(shown(ec2, name)["State"]["Name"])


def wait_for(what: Any) -> None:
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until
        time.sleep(0.005)


def reached(guest: Guest, address: str) -> tuple[str, str]:
    """Host name and port that ssh itself takes for an address, and whether it would connect at all."""
    argv = ["ssh", "-G", "-F", str(guest.folder / "config"), address]
    options = dict(line.split(" ", 1) for line in subprocess.check_output(argv, text=True).splitlines() if " " in line)
    return options["hostname"], options.get("proxycommand", options["port"])


def launched(guest: Guest, behaviour: str = "terminate") -> tuple[Any, str, str]:
    ec2, name = launch(behaviour)
    guest.let(4)
    address = shown(ec2, name)["PublicIpAddress"]
    wait_for(lambda: reached(guest, address) == ("127.0.0.1", "4711"))
    return ec2, name, address


def test_launched_instance_has_guest_with_its_disks(guest: Guest) -> None:
    ec2, name = launch()
    assert state(ec2, name) == "running"
    address = shown(ec2, name)["PublicIpAddress"]
    assert reached(guest, address)[1] == "false"
    guest.let(4)
    wait_for(lambda: reached(guest, address) == ("127.0.0.1", "4711"))
    assert [step[0] for step in guest.done] == ["renew", "script", "power_off", "power_on"]
    assert guest.done[0] == ("renew", ("disks", 2)) and guest.done[3] == ("power_on", "tcg", TYPE)
    metadata, user_data = guest.done[1][2:]
    assert json.loads(metadata)["instance-id"] == name and user_data == USER_DATA
    assert json.loads(metadata)["public-keys"] == [f"ssh-ed25519 {KEY.decode()}"]
    assert (guest.folder / "known_hosts").read_text() == "ec2sim ssh-ed25519 AAAA\n"
    assert reached(guest, "192.0.2.1")[1] == "false"


def test_stop_lasts_until_guest_is_off(guest: Guest) -> None:
    ec2, name, address = launched(guest)
    ec2.stop_instances(InstanceIds=[name])
    ec2.stop_instances(InstanceIds=[name])
    assert state(ec2, name) == "stopping"
    guest.let(1)
    wait_for(lambda: state(ec2, name) == "stopped")
    assert reached(guest, address)[1] == "false"
    ec2.start_instances(InstanceIds=[name])
    guest.let(1)
    new = shown(ec2, name)["PublicIpAddress"]
    wait_for(lambda: reached(guest, new) == ("127.0.0.1", "4711"))
    assert new != address and reached(guest, address)[1] == "false"
    assert [step[0] for step in guest.done[4:]] == ["power_off", "start"]


def test_terminated_instance_releases_guest(guest: Guest) -> None:
    ec2, name, _address = launched(guest)
    ec2.terminate_instances(InstanceIds=[name])
    assert state(ec2, name) == "shutting-down"
    guest.let(1)
    wait_for(lambda: state(ec2, name) == "terminated")
    assert guest.done[-1] == ("power_cut",)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    ec2.run_instances(ImageId=image, MinCount=2, MaxCount=2, InstanceType=TYPE)
    guest.let(4)
    wait_for(lambda: len(guest.done) == 9)
    assert [step[0] for step in guest.done].count("renew") == 2


@pytest.mark.parametrize(("behaviour", "wanted"), [("terminate", "terminated"), ("stop", "stopped")])
def test_guest_that_ends_itself_ends_its_instance(guest: Guest, behaviour: str, wanted: str) -> None:
    ec2, name, address = launched(guest, behaviour)
    guest.running = False
    wait_for(lambda: state(ec2, name) == wanted)
    assert reached(guest, address)[1] == "false"


def test_guest_that_does_not_boot_is_not_running_instance(guest: Guest) -> None:
    guest.fails = True
    ec2, name = launch()
    guest.let(2)
    wait_for(lambda: state(ec2, name) == "terminated")
    assert guest.done[-1] == ("power_cut",)
