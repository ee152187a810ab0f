# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine behind an instance of moto: the guest is launched, stopped, started and terminated with it.

As in EC2, an instance is running as soon as its machine has power, and stopped or terminated when it has none. If a
machine powers itself off, the launch's shutdown behavior decides about its instance. One instance at a time has the
guest.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance

from tests.rig.vm import image
from tests.rig.vm.command import RigError, progress
from tests.rig.vm.guest import Guest

CLOUD_INIT = Path(__file__).with_name("cloud_init.sh")
CODES = {"running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
LOOK_SECONDS = 1.0
HOST_KEY = re.compile(r'"ed25519_public": "(\S+ \S+)')


def disks(kind: str) -> int:
    """Return how many instance-store disks an instance type has."""
    found = INSTANCE_TYPES[kind].get("InstanceStorageInfo", {}).get("Disks", [])
    return sum(int(entry["Count"]) for entry in found)


def seed(instance: Instance) -> tuple[str, str]:
    """Return cloud-init's data of an instance: its metadata and its user data."""
    keys = instance.ec2_backend.describe_key_pairs([instance.key_name]) if instance.key_name else []
    metadata = {
        "instance-id": instance.id,
        "local-hostname": instance.private_dns_name.partition(".")[0],
        "public-keys": [key.public_key.strip() for key in keys],
    }
    return json.dumps(metadata), instance.user_data.decode() if instance.user_data else ""


def ssh_config(address: str | None, port: int) -> str:
    """Return an ssh configuration that connects to the machine by its instance's address, and to no other host."""
    reached = [f"Host {address}", "    HostName 127.0.0.1", f"    Port {port}"] if address else []
    return "\n".join([*reached, f"Host * !{address}" if address else "Host *", "    ProxyCommand false", ""])


def enter(instance: Instance, state: str) -> None:
    """Set the instance to a state that moto skips."""
    instance._state.name, instance._state.code = state, CODES[state]


class Machine:
    """The guest, its instance, and the thread that applies changes of the instance to the guest."""

    def __init__(self, guest: Guest, config: Path, look_seconds: float = LOOK_SECONDS) -> None:
        self._guest, self._config, self._look_seconds = guest, config, look_seconds
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._instance: Instance | None = None
        # Moto's functions, for a machine that has powered itself off.
        self._ended: dict[str, Callable[[Instance], Any]] = {}
        self._on = False
        self._publish(None)

    def attach(self) -> None:
        """Patch moto so that the next instance of this process gets the guest if no other instance has it."""
        make, start, stop, terminate = Instance.__init__, Instance.start, Instance.stop, Instance.terminate
        self._ended = {"stop": stop, "terminate": terminate}

        def made(instance: Instance, *arguments: Any, **named: Any) -> None:
            make(instance, *arguments, **named)
            if self._instance is None:
                self._instance = instance
                self._jobs.put(self._launch)

        def started(instance: Instance) -> Any:
            return self._follow(instance, start, "running", self._start)

        def stopped(instance: Instance) -> Any:
            return self._follow(instance, stop, "stopping", self._stop)

        def terminated(instance: Instance) -> Any:
            return self._follow(instance, terminate, "shutting-down", self._terminate)

        Instance.__init__, Instance.start = made, started  # type: ignore[method-assign]
        Instance.stop, Instance.terminate = stopped, terminated  # type: ignore[method-assign]
        threading.Thread(target=self._work, daemon=True).start()

    def detach(self) -> None:
        """End the thread; the guest is not changed."""
        self._jobs.put(None)

    def _follow(self, instance: Instance, change: Any, state: str, job: Callable[[], None]) -> Any:
        before = change(instance)
        if instance is self._instance and before.name != instance.state:
            enter(instance, state)
            # A repeated request is done once.
            if before.name != state:
                self._jobs.put(job)
        return before

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._look_seconds)
            except queue.Empty:
                job = self._watch
            if job is None:
                return
            try:
                job()
            except RigError as exc:
                progress(f"the machine of {self._instance and self._instance.id} is lost: {exc}")
                self._terminate()

    def _publish(self, address: str | None) -> None:
        self._config.write_text(ssh_config(address, self._guest.state.get("port", 0)), encoding="utf-8")

    def _launch(self) -> None:
        instance, guest = self._instance, self._guest
        assert instance is not None
        metadata, user_data = seed(instance)
        guest.renew(disks=disks(instance.instance_type))
        guest.script(CLOUD_INIT.read_text(encoding="utf-8"), metadata, user_data)
        # After the first boot the guest has the host key of the user data, which the rig has to accept, too.
        if found := HOST_KEY.search(user_data):
            with open(guest.folder / "known_hosts", "a", encoding="utf-8") as stream:
                stream.write(f"{image.HOSTNAME} {found[1]}\n")
        guest.power_off()
        guest.state["instance_type"] = instance.instance_type
        guest.power_on(guest.state["accelerator"], instance.instance_type)
        self._powered(instance)

    def _powered(self, instance: Instance) -> None:
        self._on = True
        self._publish(instance.public_ip)

    def _start(self) -> None:
        assert self._instance is not None
        self._guest.start()
        self._powered(self._instance)

    def _stop(self) -> None:
        try:
            self._guest.power_off()
        except RigError as exc:
            # After a timeout EC2 cuts the power, too.
            progress(str(exc))
            self._guest.power_cut()
        self._off("stopped")

    def _terminate(self) -> None:
        self._guest.power_cut()
        self._off("terminated")

    def _off(self, state: str) -> None:
        self._on = False
        self._publish(None)
        if self._instance is not None:
            enter(self._instance, state)
        if state == "terminated":
            self._instance = None

    def _watch(self) -> None:
        if self._instance is None or not self._on or self._guest.running:
            return
        wanted = self._instance.instance_initiated_shutdown_behavior
        # A reader of the new state must not reach the guest any more.
        self._publish(None)
        self._ended[wanted](self._instance)
        self._off("terminated" if wanted == "terminate" else "stopped")
