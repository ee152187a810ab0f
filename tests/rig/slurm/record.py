# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a cluster on disk, by which later commands, also after a crash, find its processes and files."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import random
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from .processes import Process, RigError, alive, end, identify, marked
from .spec import NAME, Ports, Spec

# Below the kernel's ephemeral ports (32768 and up), above the ports that jobs use by their number.
PORTS = range(30000, 32000)


def base() -> Path:
    """Return the directory of this user's clusters; it is short, as the path of a socket has at most 107 bytes."""
    path = Path(f"/tmp/mlcluster-slurm-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise RigError(f"{path} is not a directory of this user: remove it, then run again")
    return path


def folder(name: str) -> Path:
    """Return the directory of the cluster of that name. Raises RigError for an invalid name."""
    if not NAME.fullmatch(name):
        raise RigError(f"{name!r} is not a name for a cluster: use lower-case letters, digits and hyphens, 31 at most")
    return base() / name


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of the cluster."""
    with open(base() / f".{name}.lock", "w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@dataclasses.dataclass
class Record:
    """The content of rig.json.

    mark is in the environment of every daemon. owner is the process with which the cluster ends, or None if it stays
    until ``down``. processes are the daemons by role (``munged``, ``slurmctld``, ``n1``).
    """

    mark: str
    spec: Spec
    ports: Ports
    owner: Process | None = None
    processes: dict[str, Process] = dataclasses.field(default_factory=dict)

    def save(self, root: Path) -> None:
        """Write the record atomically."""
        temporary = root / "rig.json.new"
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        temporary.rename(root / "rig.json")


def load(root: Path) -> Record | None:
    """Return the record of the cluster in ``root``; None if it is missing."""
    try:
        data = json.loads((root / "rig.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    # A record of another commit may have more settings; only its processes and its owner matter here.
    known = {field.name for field in dataclasses.fields(Spec)}
    spec = {key: value for key, value in data["spec"].items() if key in known}
    spec.update({name: tuple(spec.get(name, ())) for name in ("private", "mounts")})
    ports = {**data["ports"], "nodes": tuple(data["ports"]["nodes"])}
    return Record(
        mark=data["mark"],
        spec=Spec(**spec),
        ports=Ports(**ports),
        owner=Process(*data["owner"]) if data["owner"] else None,
        processes={role: Process(*pair) for role, pair in data["processes"].items()},
    )


def names() -> list[str]:
    """Return the names of all clusters, including leftovers."""
    return sorted(entry.name for entry in base().iterdir() if entry.is_dir() and NAME.fullmatch(entry.name))


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_ports(nodes: int) -> Ports:
    """Return ports on which no program listens and that no other cluster has."""
    taken: set[int] = set()
    for name in names():
        record = load(base() / name)
        if record:
            taken |= {record.ports.controller, record.ports.accounting, record.ports.database, *record.ports.nodes}
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if port not in taken and _free(port):
            found.append(port)
            if len(found) == nodes + 3:
                return Ports(found[0], found[1], found[2], tuple(found[3:]))
    raise RigError(f"looked for {nodes + 3} free ports from {PORTS[0]} to {PORTS[-1]} and found {len(found)}")


def create(root: Path, spec: Spec, owner: Process | None) -> Record:
    """Write the record of a new cluster, which reserves its ports, and return it."""
    # Names of clusters do not begin with a hyphen.
    with locked("-ports"):
        found = Record(secrets.token_hex(16), spec, choose_ports(spec.nodes), owner)
        found.save(root)
    return found


def remove(name: str) -> bool:
    """End the processes of a cluster and remove its files; return whether it existed.

    Its processes are those of the record, if they still run, and those with its mark, as a killed rig may not have
    recorded the processes that it had just started.
    """
    root = folder(name)
    if not root.exists():
        return False
    record = load(root)
    if record:
        end(record.processes.values())
        end(marked(record.mark))
    shutil.rmtree(root)
    return True


def sweep() -> list[str]:
    """Remove the clusters whose owners have ended; return their names."""
    swept = []
    for name in names():
        with locked(name):
            record = load(base() / name)
            if record and record.owner and not alive(record.owner):
                remove(name)
                swept.append(name)
    return swept


def this_process() -> Process:
    """Return the current process."""
    found = identify(os.getpid())
    if found is None:
        raise RigError("/proc does not show this process: the rig needs Linux with /proc mounted")
    return found
