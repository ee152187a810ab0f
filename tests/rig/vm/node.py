# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine and its folder: power, ssh, snapshots. Plans of disks are in guest.py."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

from . import cache, image, qemu
from .command import Result, RigError, run, tail_of, wait_for

# The path of a UNIX socket has at most 107 bytes, and ssh appends 17 bytes while it makes the socket.
CONTROL_PATH_BYTES = 88
BOOT_SECONDS = 900.0


def ssh_config(folder: Path, port: int, key: Path) -> str:
    """Return an ssh configuration in which every host name means this guest.

    One shared connection saves the guest a key exchange per command. ``close_ssh`` has to end it before the guest is
    restored or rebooted; otherwise ssh would hang.
    """

    def quoted(path: Path) -> str:
        return '"' + str(path).replace("%", "%%") + '"'

    lines = [
        "Host *",
        "HostName 127.0.0.1",
        f"Port {port}",
        "User root",
        f"IdentityFile {quoted(key)}",
        "IdentitiesOnly yes",
        "BatchMode yes",
        f"HostKeyAlias {image.HOSTNAME}",
        f"UserKnownHostsFile {quoted(folder / 'known_hosts')}",
        "StrictHostKeyChecking yes",
        "KexAlgorithms curve25519-sha256",
        "Ciphers chacha20-poly1305@openssh.com",
        "ConnectTimeout 10",
        "ServerAliveInterval 20",
        "ServerAliveCountMax 6",
        "LogLevel ERROR",
    ]
    control = folder / "ssh.sock"
    if len(os.fsencode(control)) <= CONTROL_PATH_BYTES:
        lines += ["ControlMaster auto", "ControlPersist 300", f"ControlPath {quoted(control)}"]
    return "\n    ".join(lines) + "\n"


def remote_command(command: Union[str, Sequence[str]]) -> str:
    """Return the line that ssh passes to the guest's shell: a string unchanged, a list quoted word by word."""
    return command if isinstance(command, str) else shlex.join(command)


class Node:
    """A guest's folder: root.qcow2, hw.qcow2, plan.raw, state.json, console.log, ssh_config."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.state: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError):
            self.state = json.loads((folder / "state.json").read_text(encoding="utf-8"))

    def save(self) -> None:
        """Write the state, so that another process can use this guest."""
        cache.write_private(self.folder / "state.json", json.dumps(self.state, indent=1))

    @property
    def running(self) -> bool:
        """Whether the guest's QEMU process runs."""
        return qemu.pid_of(self.folder) is not None

    def need_running(self) -> None:
        """Raise RigError when the guest is off."""
        if not self.running:
            raise RigError(f"the guest {self.folder.name} is not running: start it with `up`.")

    def console_tail(self, lines: int = 30) -> str:
        """Return the last lines of the guest's serial console."""
        return tail_of(self.folder / "console.log", lines)

    # -- power ------------------------------------------------------------------------------------------------------

    def power_on(self, accelerator: str, instance_type: str, load: Optional[str] = None) -> None:
        """Start QEMU, with a boot or from the snapshot ``load``, on the guest's last ssh port or a free one."""
        for attempt in (1, 2, 3):
            port = self.state.get("port") if attempt == 1 else None
            machine = qemu.Machine(accelerator, instance_type, port or qemu.free_port(), load)
            try:
                qemu.start(self.folder, machine)
                break
            except RigError as exc:
                # Another process may take the free port before QEMU does.
                if attempt == 3 or "Could not set up host forwarding" not in str(exc):
                    raise
        self.state.update(machine._asdict())
        self.save()
        config = ssh_config(self.folder, machine.port, cache.ssh_key())
        cache.write_private(self.folder / "ssh_config", config)

    def power_cut(self) -> None:
        """End QEMU without a shutdown of the guest."""
        self.close_ssh()
        qemu.stop(self.folder)

    def power_off(self) -> None:
        """Shut the guest down and wait until QEMU has ended."""
        self.need_running()
        self.run("systemctl poweroff", check=False)
        self.close_ssh()
        try:
            qemu.wait_gone(self.folder, timeout=300)
        except RigError as exc:
            raise self.with_console(str(exc)) from exc

    # -- ssh --------------------------------------------------------------------------------------------------------

    def ssh_argv(self, *options: str) -> list[str]:
        """Return the command line that logs in to the guest; a remote command may follow."""
        return ["ssh", "-F", str(self.folder / "ssh_config"), *options, self.folder.name]

    def close_ssh(self) -> None:
        """End the shared ssh connection, before a step that would leave it hanging."""
        if (self.folder / "ssh.sock").exists():
            run(self.ssh_argv("-O", "exit"), "ending the shared ssh connection", check=False, timeout=20)
            (self.folder / "ssh.sock").unlink(missing_ok=True)

    def run(
        self,
        command: Union[str, Sequence[str]],
        *,
        check: bool = True,
        timeout: float = 600.0,
        stdin: Optional[str] = None,
        what: Optional[str] = None,
    ) -> Result:
        """Run a shell line (str) or a program (list) as root in the guest; see command.run for ``what`` and errors."""
        self.need_running()
        words = remote_command(command)
        what = what or f"in the guest: {words[:60]}"
        return run([*self.ssh_argv(), words], what, check=check, timeout=timeout, stdin=stdin)

    def script(self, text: str, *arguments: str, timeout: float = 900.0, what: str = "a script in the guest") -> str:
        """Run a shell script (stops at the first error, undefined variables are errors) and return its output."""
        return self.run(["sh", "-eu", "-c", text, "sh", *arguments], timeout=timeout, what=what).out

    def copy_to(self, source: Path, target: str) -> None:
        """Copy a file or a folder of the host to the absolute path ``target`` in the guest."""
        config = str(self.folder / "ssh_config")
        argv = ["scp", "-q", "-r", "-F", config, str(source), f"{self.folder.name}:{target}"]
        run(argv, f"copying {source.name} into the guest")

    def boot_id(self, seconds: int = 20) -> Optional[str]:
        """Return the id of the guest's current boot, or None if ssh does not answer for ``seconds`` seconds."""
        if not self.running:
            raise self.with_console("the guest's QEMU has ended while the guest was waited for")
        argv = self.ssh_argv("-o", f"ConnectTimeout={seconds}")
        read = "cat /proc/sys/kernel/random/boot_id"
        try:
            answer = run([*argv, read], "asking the guest", check=False, timeout=4 * seconds)
        except RigError:
            # A shared connection hangs for minutes after the guest has reset itself.
            self.close_ssh()
            return None
        return answer.out.strip() if answer.rc == 0 else None

    def wait_ssh(self, timeout: float = BOOT_SECONDS, not_boot: Optional[str] = None) -> str:
        """Wait until ssh answers, in a boot other than ``not_boot`` if that is given; return the boot's id.

        Raises RigError with the console's tail after ``timeout`` seconds, or at once when QEMU ends.
        """

        # Short timeouts notice an early answer; on a busy host only a longer timeout gets an answer at all.
        limits = iter(range(4, 1000))

        def probe() -> Optional[str]:
            found = self.boot_id(min(20, next(limits)))
            return None if found == not_boot else found

        try:
            return wait_for("the guest to answer ssh", probe, timeout=timeout)
        except RigError as exc:
            raise self.with_console(str(exc)) from exc

    def with_console(self, message: str) -> RigError:
        """Return an error of this message and the last lines of the console."""
        return RigError(f"{message}\nThe console's last lines:\n{self.console_tail()}")

    def reboot(self) -> float:
        """Reboot the guest by systemctl; return the seconds until ssh answered in the new boot."""
        self.need_running()
        started = time.monotonic()
        before = self.boot_id()
        # A login during the reset would hang, so none is tried before it.
        with qemu.monitor(self.folder) as connection:
            self.run("systemctl reboot", check=False)
            self.close_ssh()
            try:
                connection.wait_event("RESET", timeout=300)
            except RigError as exc:
                raise self.with_console(str(exc)) from exc
        self.wait_ssh(not_boot=before)
        return time.monotonic() - started

    # -- snapshots --------------------------------------------------------------------------------------------------

    def save_snapshot(self, name: str) -> None:
        """Save memory and disks in a snapshot inside the qcow2 files."""
        self.need_running()
        with qemu.monitor(self.folder) as connection:
            connection.human(f"savevm {qemu.check_snapshot_name(name)}")

    def load_snapshot(self, name: str) -> None:
        """Restore memory and disks of a snapshot in a new QEMU process on the same port, and set the clock.

        ``loadvm`` in a running QEMU process never sets an emulated CPU's time stamp counter back, so the guest's clock
        would jump ahead by the age of that process.
        """
        self.power_cut()
        self.power_on(self.state["accelerator"], self.state["instance_type"], load=qemu.check_snapshot_name(name))
        self.resumed()

    def resumed(self) -> None:
        """Wait for ssh after memory was loaded, and set the guest's clock."""
        self.wait_ssh(timeout=300)
        self.run(["date", "-u", "-s", f"@{time.time():.0f}"])

    def copy_disks_from(self, base: Path) -> None:
        """Copy the base's disks, which contain its snapshots."""
        for name in ("root.qcow2", "hw.qcow2"):
            run(["cp", "--reflink=auto", str(base / name), str(self.folder / name)], f"copying {name}")
        shutil.copyfile(base / "known_hosts", self.folder / "known_hosts")
