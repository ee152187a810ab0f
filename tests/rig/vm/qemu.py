# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The QEMU process of a guest: its command line, its monitor, its start and end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from . import cache
from .command import RigError, progress, run, spawn, tail_of, wait_for

PROGRAM = "qemu-system-x86_64"
# With two virtual CPUs under multi-threaded TCG, the kernel can panic while it patches its own code.
CPUS = 1
MEMORY_MB = 1536
INSTANCE_TYPE = "trn2.48xlarge"
INSTANCE_ID = "i-0ec2517a9e0000001"
# The longest command is a snapshot of a busy machine on a slow disk.
MONITOR_SECONDS = 180.0
ACCELERATORS = {"tcg": "tcg,thread=multi,tb-size=512", "kvm": "kvm"}


class Machine(NamedTuple):
    """The settings of a start: accelerator, instance type, forwarded port, snapshot to load."""

    accelerator: str
    instance_type: str
    port: int
    load: Optional[str] = None


def argv(machine: Machine) -> list[str]:
    """Return QEMU's command line. Paths are relative to the guest's folder, so they need no escaping."""
    disk = "if=none,cache=unsafe,aio=threads,discard=unmap,format=qcow2"
    smbios = "manufacturer=Amazon EC2"
    command = [
        PROGRAM, "-name", "mlcluster-rig", "-M", "q35,sata=off,smbus=off", "-accel", ACCELERATORS[machine.accelerator],
        "-cpu", "qemu64,-svm", "-smp", str(CPUS), "-m", str(MEMORY_MB), "-nodefaults", "-no-user-config",
        "-display", "none", "-smbios", "type=0,vendor=Amazon EC2,version=1.0",
        "-smbios", f"type=1,{smbios},product={machine.instance_type}",
        "-smbios", f"type=2,{smbios},asset={INSTANCE_ID}",
        "-smbios", f"type=3,{smbios}",
        "-drive", f"{disk},id=root,file=root.qcow2", "-device", "virtio-blk-pci,drive=root,serial=root,bootindex=0",
        "-drive", f"{disk},id=hw,file=hw.qcow2", "-device", "virtio-blk-pci,drive=hw,serial=hw",
        "-drive", "if=none,id=plan,file=plan.raw,format=raw,readonly=on",
        "-device", "virtio-blk-pci,drive=plan,serial=plan",
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{machine.port}-:22",
        "-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci",
        "-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console",
        "-qmp", "unix:qmp.sock,server=on,wait=off",
    ]  # fmt: skip
    return command + (["-loadvm", machine.load] if machine.load else [])


def version() -> str:
    """Return the first line of ``qemu --version``."""
    return run([PROGRAM, "--version"], "asking QEMU for its version").out.splitlines()[0]


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _folders() -> Iterator[tuple[int, str]]:
    # From /proc and not from a file: a killed starter may have written none.
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and os.path.basename(os.readlink(f"/proc/{entry}/exe")) == PROGRAM:
                yield int(entry), os.readlink(f"/proc/{entry}/cwd")


def pid_of(folder: Path) -> Optional[int]:
    """Return the process ID of the QEMU that runs in the guest's folder, or None."""
    wanted = str(folder.resolve())
    return next((pid for pid, where in _folders() if where == wanted), None)


def end_orphans(root: Path) -> None:
    """End every QEMU whose folder inside ``root`` was removed: it cannot be reached any more."""
    for pid, where in _folders():
        if where.startswith(f"{root.resolve()}/") and where.endswith(" (deleted)"):
            progress(f"ending the QEMU process {pid}, whose folder is gone")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Monitor:
    """A QMP connection. It is opened for each use, as QEMU serves one client at a time."""

    def __init__(self, folder: Path):
        # The path of a UNIX socket has at most 107 bytes; a user's cache folder may be longer.
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(MONITOR_SECONDS)
        self._buffer = b""
        self._events: list[str] = []
        try:
            self._socket.connect(f"/proc/self/fd/{self._folder}/qmp.sock")
            self._read()
            self.execute("qmp_capabilities")
        except (OSError, RigError) as exc:
            self.close()
            raise RigError(f"QEMU's monitor in {folder} does not answer ({exc}).") from exc

    def close(self) -> None:
        """End the connection."""
        self._socket.close()
        os.close(self._folder)

    def _read(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = self._socket.recv(65536)
            if not data:
                raise RigError("QEMU ended while its monitor was in use.")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "event" in answer:
            self._events.append(answer["event"])
        return answer

    def wait_event(self, name: str, timeout: float) -> None:
        """Wait for an event, such as RESET; events since the connection was opened count."""

        def look() -> Optional[bool]:
            while b"\n" in self._buffer or select.select([self._socket], [], [], 0)[0]:
                self._read()
            return True if name in self._events else None

        wait_for(f"the guest to come to {name}", look, timeout=timeout, poll=0.2)

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run one QMP command and return its result. Raises RigError with QEMU's message if it fails."""
        request: dict[str, Any] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            answer = self._read()
            if "error" in answer:
                raise RigError(f"QEMU refused {command}: {answer['error'].get('desc', answer['error'])}")
            if "return" in answer:
                return answer["return"]

    def human(self, line: str) -> None:
        """Run a command that only the human monitor has (savevm, loadvm). Raises RigError if it prints anything."""
        output = self.execute("human-monitor-command", **{"command-line": line}).strip()
        if output:
            raise RigError(f"QEMU refused {line}: {output}")


@contextlib.contextmanager
def monitor(folder: Path) -> Iterator[Monitor]:
    """Open the monitor of the guest in ``folder`` and close it after the block."""
    connection = Monitor(folder)
    try:
        yield connection
    finally:
        connection.close()


def check_snapshot_name(name: str) -> str:
    """Return ``name`` if QEMU's monitor reads it as one word. Raises RigError otherwise."""
    # A name of digits only would be read as a snapshot's number.
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,60}", name):
        raise RigError(f"{name!r} is not a snapshot name: use a letter, then letters, digits, '_', '.' and '-'.")
    return name


def start(folder: Path, machine: Machine) -> None:
    """Start QEMU and wait until its monitor answers. Raises RigError with QEMU's message if it ends instead."""
    end_orphans(cache.root())
    (folder / "qmp.sock").unlink(missing_ok=True)
    with open(folder / "qemu.err", "wb") as errors:
        process = spawn(argv(machine), cwd=folder, stderr=errors)

    def answers() -> Optional[bool]:
        if process.poll() is not None:
            raise RigError(f"QEMU ended with status {process.returncode}:\n{tail_of(folder / 'qemu.err')}")
        try:
            with monitor(folder):
                return True
        except RigError:
            return None

    try:
        wait_for("QEMU's monitor", answers, timeout=120, poll=0.1)
    except BaseException:
        process.kill()
        process.wait()
        raise


def stop(folder: Path) -> None:
    """End the guest as a power cut does; a guest that does not run is not an error."""
    pid = pid_of(folder)
    if pid is None:
        return
    try:
        with monitor(folder) as connection:
            connection.execute("quit")
    except RigError as exc:
        progress(f"{exc} It is killed.")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_gone(folder, timeout=60)


def wait_gone(folder: Path, timeout: float) -> None:
    """Wait until the guest's QEMU has ended. Raises RigError after ``timeout`` seconds."""
    wait_for("QEMU to end", lambda: True if pid_of(folder) is None else None, timeout=timeout, poll=0.1)
