# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster: its start and end, its daemons and nodes, and commands that use it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import accounting, record
from .processes import LIMIT, Process, RigError, alive, children, end, spawn, tail, wait_for
from .spec import Spec, address_of, files

INIT = Path(__file__).with_name("node_init.py")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "unshare", "mount")


class Cluster:
    """A cluster with a name. Methods raise RigError if they fail."""

    def __init__(self, name: str = "demo") -> None:
        self.name = name
        self.root = record.folder(name)

    # Up and down

    def up(self, spec: Spec, owned: bool = False) -> Cluster:
        """Make the cluster and wait until its nodes are idle; an existing cluster of that name is removed first.

        An ``owned`` cluster belongs to this process: after its end, the next ``up`` or ``down`` of any name removes it.
        """
        self._check_host(spec)
        record.sweep()
        with record.locked(self.name):
            record.remove(self.name)
            self._make_files(spec, owned)
            try:
                self._start(spec)
            except BaseException:
                record.remove(self.name)
                raise
        return self

    def down(self) -> bool:
        """End every process of the cluster and remove its files; return whether it existed."""
        record.sweep()
        with record.locked(self.name):
            return record.remove(self.name)

    def _check_host(self, spec: Spec) -> None:
        if os.geteuid() != 0:
            raise RigError("the Slurm rig makes namespaces and host names, which needs root: run it with sudo")
        for path in spec.private:
            if not Path(path).is_dir():
                raise RigError(f"{path} is to be private to each node and is not a directory here: create it first")
        programs = PROGRAMS + (("slurmdbd", "mariadbd", "mariadb") if spec.accounting else ())
        missing = [program for program in programs if not shutil.which(program)]
        if missing:
            raise RigError(f"the Slurm rig needs {', '.join(missing)}, not installed here: run `make setup`")

    def _make_files(self, spec: Spec, owned: bool) -> None:
        self.root.mkdir(mode=0o755)
        owner = record.this_process() if owned else None
        ports = record.create(self.root, spec, owner).ports
        for directory in ("etc", "log", "munge", "run", "dev", "local", "spool", "nodes"):
            (self.root / directory).mkdir(mode=0o755)
        for directory in ("state", "database"):
            (self.root / directory).mkdir(mode=0o700)
        for node in spec.names:
            (self.root / "spool" / node).mkdir(mode=0o755)
            (self.root / "nodes" / node).mkdir(mode=0o755)
            for index, path in enumerate((str(self.local), *spec.private)):
                own = self.root / "nodes" / node / str(index)
                own.mkdir()
                own.chmod(0o1777 if path == str(self.local) else Path(path).stat().st_mode & 0o7777)
        for gpu in range(spec.gpus):
            # Device nodes like /dev/null: with plain files a job would get GPUs without CUDA_VISIBLE_DEVICES.
            os.mknod(self.root / "dev" / f"nvidia{gpu}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        key = self.root / "etc/munge.key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(1024))
        hosts = Path("/etc/hosts").read_text(encoding="utf-8")
        # slurmd listens on its node's address in this file.
        own = "".join(f"{address_of(spec, ports, number)} {name}\n" for number, name in enumerate(spec.names, 1))
        (self.root / "etc/hosts").write_text(f"{own}{hosts}", encoding="utf-8")
        self._write_configuration(spec, ports)

    def _write_configuration(self, spec: Spec, ports: record.Ports) -> None:
        for name, text in files(spec, self.root, ports, socket.gethostname().partition(".")[0]).items():
            new = self.root / "etc" / f".{name}"
            new.write_text(text, encoding="utf-8")
            new.rename(self.root / "etc" / name)

    def _start(self, spec: Spec) -> None:
        self._launch("munged", [
            "munged", "--foreground", "--force", f"--key-file={self.root}/etc/munge.key",
            f"--socket={self.root}/munge/socket", f"--pid-file={self.root}/run/munged.pid",
            f"--log-file={self.root}/log/munged.log", f"--seed-file={self.root}/munge/seed",
        ])  # fmt: skip
        self._wait((self.root / "munge/socket").exists, "munged")
        if spec.accounting:
            accounting.install(self.root)
            self._launch("mariadbd", accounting.database_argv(self.root, self.record.ports))
            accounting.prepare(self.root, self.record.ports, lambda: self._ended("mariadbd"))
            self.start("slurmdbd")
        self.start("slurmctld")
        for node in spec.names:
            self.power_on(node)
        self._wait(lambda: set(spec.names) <= set(self.nodes_in("idle")), *spec.names, "slurmctld")

    # State

    @property
    def record(self) -> record.Record:
        """Return the record of the cluster."""
        found = record.load(self.root)
        if found is None:
            raise RigError(f"there is no cluster called {self.name}: start one with `python -m tests.rig.slurm up`")
        return found

    @property
    def local(self) -> Path:
        """The path of the node's own disk: the same on every node, with separate contents."""
        return self.root / "local"

    def local_of(self, node: str) -> Path:
        """Return the path of the node's own disk outside of the node."""
        return self.root / "nodes" / node / "0"

    def environment(self) -> dict[str, str]:
        """Return the environment for a command that uses this cluster."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
        return {**kept, "SLURM_CONF": f"{self.root}/etc/slurm.conf"}

    def run(
        self, *argv: str, check: bool = True, timeout: float = LIMIT, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that uses the cluster."""
        done = subprocess.run(
            argv, env=self.environment(), capture_output=True, text=True, timeout=timeout, input=stdin, check=False
        )
        if check and done.returncode:
            raise RigError(
                f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done

    def nodes_in(self, *states: str) -> list[str]:
        """Return the nodes in any of these states of sinfo; no nodes while the controller does not answer."""
        done = self.run("sinfo", "--noheader", "--Node", "--format=%N %T", check=False)
        rows = [line.split() for line in done.stdout.splitlines() if done.returncode == 0]
        return sorted({row[0] for row in rows if row[1].rstrip("*~#!%$@^-+") in states})

    def _answering(self) -> list[str]:
        """Return the nodes with power and a running slurmd."""
        on = [
            node for node, process in self.record.processes.items() if node in self.record.spec.names and alive(process)
        ]
        return [node for node in on if self._slurmd(node) is not None]

    def _known(self) -> list[str]:
        """Return the nodes that have registered since the controller started."""
        done = self.run("sinfo", "--noheader", "--Node", "--format=%N %T", check=False)
        rows = [line.split() for line in done.stdout.splitlines()]
        return [node for node, state in rows if not state.endswith("*") and not state.startswith(("unk", "down"))]

    def status(self) -> dict[str, object]:
        """Return whether the cluster runs, its directory, its daemons and the state of each node."""
        found = self.record
        done = self.run("sinfo", "--noheader", "--Node", "--format=%N %T", check=False)
        return {
            "name": self.name,
            "root": str(self.root),
            "SLURM_CONF": f"{self.root}/etc/slurm.conf",
            "daemons": {role: alive(process) for role, process in found.processes.items()},
            "nodes": dict(line.split() for line in done.stdout.splitlines()) if done.returncode == 0 else {},
        }

    # Daemons

    def start(self, daemon: str) -> None:
        """Start slurmctld or slurmdbd, and wait until it answers."""
        self._launch(daemon, [daemon, "-D"])
        if daemon == "slurmdbd":
            self._wait(lambda: self.run("sacctmgr", "-n", "show", "cluster", check=False).returncode == 0, daemon)
            self.run("sacctmgr", "--immediate", "add", "cluster", "rig", check=False)
        else:
            self._wait(lambda: self.run("scontrol", "ping", check=False).returncode == 0, daemon)
            # A node runs no job with GPUs until it has registered with a new controller.
            self._wait(lambda: not set(self._answering()) - set(self._known()), daemon)

    def stop(self, daemon: str) -> None:
        """End slurmctld or slurmdbd."""
        end([self.record.processes[daemon]], signal.SIGTERM)

    def power_on(self, node: str, rebooted: bool = False) -> None:
        """Start a node without waiting for it.

        By default slurmd reports the boot of this machine as the node's; with ``rebooted`` it reports a new boot.
        """
        found = self.record
        own = (str(self.local), *found.spec.private)
        binds = [f"{self.root}/nodes/{node}/{index}:{path}" for index, path in enumerate(own)]
        binds += [f"{self.root}/etc/hosts:/etc/hosts", *found.spec.mounts]
        self._launch(node, [
            "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation=private",
            sys.executable, "-I", str(INIT), node, *binds, "--", "slurmd", "-D", "-N", node,
            *(["-b"] if rebooted else []),
        ])  # fmt: skip

    def power_off(self, node: str) -> None:
        """Kill a node with all its processes at once; Slurm notices after SlurmdTimeout."""
        end([self.record.processes[node]])

    def stop_slurmd(self, node: str) -> None:
        """Kill slurmd of a node; its jobs continue."""
        slurmd = self._slurmd(node)
        os.kill(self._init(node), signal.SIGUSR2)
        # Also waits for the end of the zombie: until the node has reaped it, it starts no other slurmd.
        wait_for(f"slurmd of {node} to end", lambda: not Path(f"/proc/{slurmd}").exists(), poll=0.01)

    def start_slurmd(self, node: str) -> None:
        """Start slurmd of a node again."""
        os.kill(self._init(node), signal.SIGUSR1)

    def configure(self, **settings: str) -> None:
        """Change these settings in slurm.conf and wait until the daemons have read it."""
        found = self.record
        found.spec.settings.update(settings)  # type: ignore[attr-defined]
        found.save(self.root)
        self._write_configuration(found.spec, found.ports)
        before = {node: self._has_read(node) for node in self._answering()}
        self.run("scontrol", "reconfigure")
        # slurmctld only notifies the nodes, and a busy node would run the next job with its old configuration.
        for node, times in before.items():
            self._wait(lambda node=node, times=times: self._has_read(node) > times, node)  # type: ignore[misc]

    def _has_read(self, node: str) -> int:
        """Return how often slurmd of a node has read its configuration, by the last message of that in its log."""
        return (self.root / "log" / f"slurmd-{node}.log").read_text(encoding="utf-8").count(" CPU frequency setting ")

    def _init(self, node: str) -> int:
        below = children(self.record.processes[node].pid)
        if not below:
            raise RigError(f"{node} is off: power_on it first")
        return below[0]

    def _slurmd(self, node: str) -> int | None:
        for pid in children(self._init(node)):
            # Other processes of the node may end meanwhile.
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == "slurmd":
                    return pid
        return None

    def _launch(self, role: str, argv: Sequence[str]) -> Process:
        found = self.record
        process = spawn(argv, self.root / "log" / f"{role}.out", found.mark, self.environment())
        found.processes[role] = process
        found.save(self.root)
        return process

    def _ended(self, *roles: str) -> str:
        """Return an ended daemon or node of these with the end of its log; an empty string while all run."""
        for role in roles:
            if not alive(self.record.processes[role]):
                return f"{role} has ended; its log ends:\n{tail(self.root / 'log' / f'{role}.out')}"
        return ""

    def _wait(self, probe: Callable[[], bool], *roles: str) -> None:
        """Wait for a true value of ``probe``, which needs these daemons and nodes; fail if one of them ends."""
        try:
            wait_for(f"{' and '.join(roles)} to answer", probe, over=lambda: self._ended(*roles))
        except RigError as exc:
            logs = "\n".join(tail(self.root / "log" / f"{role}.out") for role in roles)
            raise RigError(f"{exc}; the logs end:\n{logs}") from exc
