# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a cluster of the rig, and its configuration files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from .processes import RigError

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
GPUS_MAX = 16
# If a node pauses for longer than MessageTimeout while a job starts, Slurm requeues the job and holds it for two
# minutes. With Slurm's default of ten seconds, a pause of 13 s on a busy machine made a job of one second take 135 s.
PATIENT = "60"
# For Spec.settings: a dead node is detected in 9 to 25 seconds instead of 26. A MessageTimeout of 2 made it 7 seconds,
# but then a node counted as dead after a pause of two seconds.
FAST_FAILURE = {"MessageTimeout": "10", "TCPTimeout": "1", "SlurmdTimeout": "2"}


@dataclasses.dataclass(frozen=True)
class Spec:
    """A cluster of nodes n1 to nN, each with GPUs (as GRES gpu), processors and memory in MiB.

    partitions: {name: options of slurm.conf}, such as ``{"Nodes": "n[1-2]", "MaxTime": "10"}``; by default the
    partition ``main`` has all nodes. settings: lines of slurm.conf that override the rig's (``{"MinJobAge": "2"}``).
    node_settings: options of every node (``{"Feature": "p5"}``). topology and plugstack: the text of topology.conf and
    plugstack.conf. private: existing directories that each node replaces by an empty one of its own. mounts:
    SOURCE:TARGET of bind mounts on every node. own_addresses: each node has its own address on the loopback network.
    """

    nodes: int = 2
    gpus: int = 8
    cpus: int = 8
    memory_mib: int = 1000
    accounting: bool = False
    partitions: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    node_settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    topology: str = ""
    plugstack: str = ""
    private: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    own_addresses: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 64:
            raise RigError(f"a cluster of {self.nodes} nodes was requested: use 1 to 64")
        if not 0 <= self.gpus <= GPUS_MAX:
            raise RigError(f"{self.gpus} GPUs a node were requested: use 0 to {GPUS_MAX}")

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def all_nodes(self) -> str:
        """All nodes in Slurm's notation."""
        return f"n[1-{self.nodes}]" if self.nodes > 1 else "n1"


@dataclasses.dataclass(frozen=True)
class Ports:
    """TCP ports on 127.0.0.1 of the controller, the accounting daemon, its database, and each node."""

    controller: int
    accounting: int
    database: int
    nodes: tuple[int, ...]


def address_of(spec: Spec, ports: Ports, number: int) -> str:
    """Return the address of node nNUMBER; with own_addresses it depends on the controller's port."""
    if not spec.own_addresses:
        return "127.0.0.1"
    return f"127.{ports.controller >> 8}.{ports.controller & 255}.{number}"


def _pairs(settings: Mapping[str, str]) -> str:
    return "".join(f" {key}={value}" for key, value in settings.items())


def slurm_conf(spec: Spec, root: Path, ports: Ports, hostname: str) -> str:
    """Return the text of slurm.conf for a cluster whose files are in ``root``."""
    settings = {
        "ClusterName": "rig",
        "SlurmctldHost": f"{hostname}(127.0.0.1)",
        "SlurmctldPort": str(ports.controller),
        "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={root}/munge/socket",
        "CredType": "cred/munge",
        "StateSaveLocation": f"{root}/state",
        "SlurmdSpoolDir": f"{root}/spool/%n",
        "SlurmctldPidFile": f"{root}/run/slurmctld.pid",
        "SlurmdPidFile": f"{root}/run/slurmd-%n.pid",
        "SlurmctldLogFile": f"{root}/log/slurmctld.log",
        "SlurmdLogFile": f"{root}/log/slurmd-%n.log",
        # A plugin that does not use the host's control groups.
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "MpiDefault": "none",
        "ReturnToService": "2",
        "SlurmdTimeout": "5",
        # Instead of Slurm's default of ten seconds: see PATIENT.
        "MessageTimeout": PATIENT,
        "KillWait": "2",
        # Slurm's defaults (3 s before a batch job is scheduled, 60 s between passes over the queue) are for many jobs.
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1",
        "MailProg": "/bin/true",
        # Nodes may have more processors than this machine.
        "SlurmdParameters": "config_overrides",
        "PlugStackConfig": f"{root}/etc/plugstack.conf",
    }
    if spec.gpus:
        settings["GresTypes"] = "gpu"
    if spec.topology:
        settings["TopologyPlugin"] = "topology/block" if "BlockName=" in spec.topology else "topology/tree"
    if spec.accounting:
        settings |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(ports.accounting),
            # AuthInfo does not apply to connections with the accounting daemon, which need the munge socket here.
            "AccountingStoragePass": f"{root}/munge/socket",
            "AccountingStorageTRES": "gres/gpu",
        }
    lines = [f"{key}={value}" for key, value in {**settings, **spec.settings}.items()]
    hardware = {"CPUs": str(spec.cpus), "RealMemory": str(spec.memory_mib)}
    if spec.gpus:
        hardware["Gres"] = f"gpu:{spec.gpus}"
    options = _pairs({**hardware, **spec.node_settings})
    for number, (name, port) in enumerate(zip(spec.names, ports.nodes), 1):
        address = address_of(spec, ports, number)
        lines.append(f"NodeName={name} NodeHostname={name} NodeAddr={address} Port={port}{options} State=UNKNOWN")
    partitions = spec.partitions or {"main": {"Nodes": spec.all_nodes, "Default": "YES", "MaxTime": "01:00:00"}}
    lines += [f"PartitionName={name}{_pairs(of)} State=UP" for name, of in partitions.items()]
    return "\n".join(lines) + "\n"


def slurmdbd_conf(root: Path, ports: Ports, password: str) -> str:
    """Return the text of slurmdbd.conf."""
    return f"""AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports.accounting}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports.database}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct_db
LogFile={root}/log/slurmdbd.log
PidFile={root}/run/slurmdbd.pid
"""


def files(spec: Spec, root: Path, ports: Ports, hostname: str) -> dict[str, str]:
    """Return {name: text} of the files of the configuration directory."""
    found = {
        "slurm.conf": slurm_conf(spec, root, ports, hostname),
        "cgroup.conf": "CgroupPlugin=cgroup/v1\n",
        # Nodes share /tmp, in which they would all make the same directory for a step.
        "mpi.conf": f"PMIxCliTmpDirBase={root}/local\n",
        "plugstack.conf": spec.plugstack or "# no plugins\n",
    }
    if spec.gpus:
        last = f"[0-{spec.gpus - 1}]" if spec.gpus > 1 else "0"
        found["gres.conf"] = f"NodeName={spec.all_nodes} Name=gpu File={root}/dev/nvidia{last}\n"
    if spec.topology:
        found["topology.conf"] = spec.topology
    return found
