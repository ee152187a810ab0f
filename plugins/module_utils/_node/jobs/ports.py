# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The meeting point of a job's ranks: the address of a node, and a free port."""

from __future__ import annotations

import re

from .step import srun
from .work import Work

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
# Below the ports that the kernel assigns.
FIRST, COUNT = 20000, 10000
# The step between two tries of a job, so that it does not try the ports of the next job numbers.
STRIDE = 3163
TRIES = 100
_NODE_ADDRESS = re.compile(r" NodeAddr=(\S*)")
_IPV4 = re.compile(r"\d+(\.\d+){3}", re.ASCII)


def taken(port: int, sockets: str) -> bool:
    """Return whether a socket listens or is connected on a port, by the socket tables of a node. Pure.

    State 06, TIME_WAIT (net/tcp_states.h), is an ended connection, which does not prevent listening.
    """
    row = rf"^ *[0-9]+: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]+ 0[^6] "
    return bool(re.search(row, sockets, re.MULTILINE))


def choose(job: int, sockets: str, but: int = 0) -> int:
    """Return the first of this job's ports that is neither taken nor ``but``. Pure."""
    for at in range(TRIES):
        port = FIRST + (job + at * STRIDE) % COUNT
        if port != but and not taken(port, sockets):
            return port
    return FIRST + (job + TRIES * STRIDE) % COUNT


def sockets(work: Work, node: str) -> str:
    """Return the tables of a node's sockets; of this node without a step."""
    if node == work.nodes[0]:
        return "".join(work.host.read_text(path) or "" for path in TABLES)
    return work.ask(*srun(overlap=True, nodes=1, nodelist=node, ntasks=1, mpi="none", time=2), "cat", *TABLES)


def choose_port(work: Work, node: str, but: int = 0) -> int:
    """Return a free port of a node, which differs from job to job."""
    return choose(work.job, sockets(work, node), but)


def address(work: Work, node: str) -> str:
    """Return the address of a node in Slurm. /etc/hosts may have several addresses for its name."""
    found = _NODE_ADDRESS.search(work.ask("scontrol", "--oneliner", "show", "node", node))
    at = found.group(1) if found else ""
    if not _IPV4.fullmatch(at) and ":" not in at:
        at = (work.ask("getent", "ahostsv4", at or node).split() or [at])[0]
    return at or node
