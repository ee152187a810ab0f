# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start of a job for which a domain is made: its nodes and their addresses, as Slurm has them."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ..slurm import parse as slurm_parse
from ..slurm.client import Slurm, is_unanswered, node_name
from ..system.host import Host, NodeError
from . import parse

SECONDS = 10
# Whether a job has exclusive nodes: words of SLURM_JOB_EXCLUSIVE and of scontrol's Exclusive= since Slurm 26.05, and of
# SLURM_JOB_OVERSUBSCRIBE and OverSubscribe= before (Slurm's prolog guide; AWS PCS User Guide).
# NO means one thing in the first and the other in the second.
EXCLUSIVE = {"NODE": True, "TOPO": True, "NO": False, "USER": False, "MCS": False}
OVERSUBSCRIBE = {"NO": True, "TOPO": True, "EXCLUSIVE": True, "YES": False, "OK": False, "USER": False, "MCS": False}


@dataclasses.dataclass(frozen=True)
class Job:
    """A start of a job. ``members`` maps the names of its nodes in this node's block to their addresses."""

    job_id: int
    restarts: int
    node: str
    exclusive: bool
    members: t.Mapping[str, str]
    # Nodes of the job in other blocks, which NVLink does not reach from here.
    outside: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Return the address of this node."""
        return self.members[self.node]


def look_job(host: Host, slurm: Slurm) -> Job:
    """Return the job whose Prolog this is. Raises ``NodeError`` for a missing answer of Slurm."""
    job_id = slurm_parse.number(host.variable("SLURM_JOB_ID"))
    if not job_id:
        raise NodeError("no job is named: run this where Slurm sets SLURM_JOB_ID, such as in a Prolog")
    node = node_name()
    expression, restarts = host.variable("SLURM_NODELIST"), host.variable("SLURM_JOB_RESTART_COUNT")
    words = host.variable("SLURM_JOB_EXCLUSIVE"), host.variable("SLURM_JOB_OVERSUBSCRIBE")
    if expression is None or restarts is None or not any(words):
        asked = ask_job(slurm, job_id)
        expression, words = expression or asked["nodes"], words if any(words) else asked["sharing"]
        restarts = restarts or str(asked["restarts"])
    names = slurm_parse.expand(expression)
    if node not in names:
        raise NodeError(f"Slurm has job {job_id} on {expression or 'no node'}, and this node is {node}")
    exclusive = is_exclusive(*words)
    within, outside = in_block(slurm, node, names)
    return Job(
        job_id=job_id,
        restarts=slurm_parse.number(restarts) or 0,
        node=node,
        exclusive=exclusive,
        members=members(host, slurm, within) if exclusive else {},
        outside=tuple(outside),
    )


def is_exclusive(exclusive: str | None, oversubscribe: str | None) -> bool:
    """Return whether a job has exclusive nodes. Raises ``NodeError`` for an unknown word."""
    word, known = (exclusive, EXCLUSIVE) if exclusive else (oversubscribe, OVERSUBSCRIBE)
    if word not in known:
        raise NodeError(
            f"Slurm has {word or 'no word'} for whether the job has its nodes for itself, and {', '.join(known)} are "
            "known: see 'scontrol show job'"
        )
    return known[word]


def ask_job(slurm: Slurm, job_id: int) -> dict[str, t.Any]:
    """Return nodes, restarts and the words on shared nodes of a job. Raises ``NodeError``."""
    text = slurm.ask("scontrol", "--oneliner", "show", "job", str(job_id), timeout=SECONDS)
    found = slurm_parse.jobs(text, job_id)
    # For the leader of a heterogeneous job, every element is printed.
    own = [one for one in found if one["job_id"] == job_id]
    if len(own) != 1:
        raise NodeError(f"queried Slurm for job {job_id} and it showed {len(own)}: see 'scontrol show job {job_id}'")
    return {**own[0], "sharing": slurm_parse.sharing(text, job_id)}


def in_block(slurm: Slurm, node: str, names: t.Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the nodes in the same block of Slurm's topology as this node, and the others.

    Without a block topology all nodes count as one domain, as do nodes without a block.
    """
    if len(names) == 1:
        return list(names), []
    completed = slurm.run("scontrol", "show", "topology", timeout=SECONDS)
    if is_unanswered(completed):
        raise NodeError(
            f"queried Slurm for its topology and got no answer ({completed.stderr.strip()}): see 'scontrol ping'"
        )
    blocks = [frozenset(slurm_parse.expand(expression)) for expression in parse.blocks(completed.stdout).values()]
    # Each node of the job must get the same lists.
    own = next((block for block in blocks if node in block), frozenset(names).difference(*blocks))
    return [name for name in names if name in own], [name for name in names if name not in own]


def members(host: Host, slurm: Slurm, names: t.Sequence[str]) -> dict[str, str]:
    """Return {name: address} of these nodes. Raises ``NodeError`` for a node without its own address."""
    records = slurm_parse.nodes(slurm.ask("scontrol", "--oneliner", "show", "node", ",".join(names), timeout=SECONDS))
    found = {one["name"]: one["address"] for one in records}
    missing = [name for name in names if not found.get(name)]
    if missing:
        raise NodeError(f"Slurm reports no address of {', '.join(missing[:4])}: see 'scontrol show node {missing[0]}'")
    addressed = {name: _address(host, name, found[name]) for name in names}
    if len(set(addressed.values())) != len(addressed):
        raise NodeError("two nodes of the job have one address: set NodeAddr of each in slurm.conf")
    return addressed


def _address(host: Host, name: str, address: str) -> str:
    if parse.is_address(address):
        return parse.canonical(address)
    # If NodeAddr is not set, it is the node's name.
    for found in host.addresses_of(address):
        if not ipaddress.ip_address(found).is_loopback:
            return found
    raise NodeError(
        f"Slurm has {address} as address of {name}, which resolves to none but loopback: set NodeAddr of the node"
    )
