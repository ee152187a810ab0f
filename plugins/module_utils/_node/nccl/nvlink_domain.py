# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdict on whether the hosts of an NVLink domain used NVLink (MNNVL), or silently fell back to the network.

NCCL counts all hosts of one NVLink domain as one node, logs ``MNNVL 1`` for its communicator, and the channels
inside as ``via P2P/MNNVL`` (NVIDIA/nccl, init.cc and transport/p2p.cc). Without an IMEX domain or a channel it logs
``MNNVL 0``, uses the network, and its tests pass.
"""

from __future__ import annotations

import typing as t

from ..._data.ultraservers import is_ultraserver
from ..verdict import result
from ..verdict.evidence import Field, Subject, decide, exactly, is_text, never
from .fabric import damaged, nvlink_groups
from .log import HostChannels
from .table import Run

CHECK = "nccl.nvlink_domain"
_HINT = (
    "Run 'mlcluster imex status' on each node while the job runs; a job has a domain only where it has its nodes for "
    "itself"
)
_LOG_HINT = "Run it with NCCL_DEBUG=INFO, and keep the output of all ranks"


def verdict(
    run: Run, ranks: int | None, nodes: int | None, instance_type: str | None, domains: int | None
) -> result.Result | None:
    """Return the verdict on a run, None if no NVLink joins its hosts; ``domains``: the number of their domains."""
    concerned = is_ultraserver(instance_type)
    if concerned is False and not run.log.mnnvl:
        return None
    if concerned is None:
        # The meaning of Slurm's blocks is unknown too.
        domains = None
    if len(run.hosts) == 1:
        return result.not_applicable(CHECK, "one_node", message="a run on one node does not use the domain")
    between = run.log.between(run.where)
    groups = nvlink_groups(run.hosts, between)
    if domains is not None and domains >= len(run.hosts) == len(groups):
        return result.not_applicable(CHECK, "one_each", message="each node is of another UltraServer")
    evidence = {"asked": ranks is not None and nodes is not None, **_evidence(run, ranks, groups)}
    # If the number of UltraServers is unknown, each host that logs 0 may be in another one.
    fallen = is_text if domains is not None else never
    fields = (
        Field(
            "asked",
            exactly(True),
            reason="not_asked",
            unknown="the requested number of ranks and nodes is unknown",
            hint="Set the number of ranks and nodes of the job",
        ),
        Field("ranks", exactly(""), reason="no_ranks", unknown="{}", hint="Keep the whole output of rank 0"),
        Field("silent", exactly(""), reason="no_log", unknown="{} did not log whether NVLink joins it", hint=_LOG_HINT),
        Field("contradiction", exactly(""), reason="contradictory", unknown="{}", hint=_LOG_HINT),
        Field(
            "unread",
            exactly(0),
            reason="unread",
            unknown="{} lines of channels and networks name none that is known here",
            hint=_LOG_HINT,
        ),
        Field(
            "apart",
            exactly(""),
            fallen,
            "NCCL went over the network where NVLink joins the nodes: {} logged MNNVL 0",
            "reset",
            reason="not_joined",
            unknown="{} logged MNNVL 0: NVLink joins it with no other node of the run",
            hint=_HINT,
        ),
        Field(
            "unjoined",
            exactly(""),
            fallen,
            "no channel over NVLink was logged by {}",
            "reset",
            reason="no_channels",
            unknown="no channel over NVLink was logged by {}",
            hint=_LOG_HINT,
        ),
        Field(
            "network",
            exactly(""),
            fallen,
            "NCCL went over the network where NVLink joins the nodes: {} logged such channels",
            "reset",
            reason="fell_back",
            unknown="{} logged channels over the network to a host that NVLink joins to it",
            hint=_HINT,
        ),
        Field(
            "domains",
            exactly(len(groups) if domains is None else domains),
            lambda value: domains is not None and isinstance(value, int) and value > domains,
            f"the nodes are of {domains} UltraServers, and NVLink joined them to {{}} groups{_left(groups, domains)}",
            "reset",
            reason="unread",
            unknown="NCCL counted {} NVLink domains, which the channels do not show"
            if domains is None
            else f"the nodes are of {domains} UltraServers, and NCCL counted {{}} NVLink domains",
        ),
        Field(
            "table", exactly(True), reason="no_traffic", unknown="the table has no row: nothing crossed the channels"
        ),
    )
    channels = sum(one.direct for one in between.values())
    found = {"domains": groups, "nvlink_channels": channels}
    judged = decide(CHECK, fields, [Subject(evidence)], found, hint=_HINT)
    if judged.status != result.PASS:
        return judged
    return result.passed(
        CHECK,
        found,
        message=f"{len(run.hosts)} hosts of {len(groups)} NVLink domains: {channels} channels between them over NVLink",
        source="communicators and channels logged by every host",
    )


def _evidence(run: Run, ranks: int | None, groups: t.Sequence[t.Sequence[str]]) -> dict[str, t.Any]:
    logged = {host: run.log.joined.get(host, set()) for host in run.hosts}
    alone = [one[0] for one in groups if len(one) == 1]
    between = run.log.between(run.where)
    counted = {len(groups), *run.log.nodes}
    return {
        "ranks": damaged(run, ranks) or "",
        "silent": _some(host for host, words in logged.items() if not words),
        "contradiction": "channels were logged by other hosts than those their ranks are on"
        if run.log.contradictions
        else "",
        "apart": _some(host for host, words in logged.items() if "0" in words),
        # A single host of an UltraServer has channels over the network only.
        "unjoined": _some(host for host in alone if not (between.get(host) or HostChannels()).networks),
        "unread": run.log.unread,
        "network": _some(
            host
            for group in groups
            for host in group
            if (between.get(host) or HostChannels()).peers & set(group) - {host}
        ),
        "domains": len(groups) if counted == {len(groups)} else max(counted - {len(groups)}),
        "table": any(row.size for row in run.rows),
    }


def _left(groups: t.Sequence[t.Sequence[str]], domains: int | None) -> str:
    """Return the hosts outside of the largest groups, which are not in their domain, as the end of a sentence."""
    by_size = sorted(groups, key=len, reverse=True)
    left = [host for group in by_size[domains or 0 :] for host in group]
    # Of groups of one size, the right one is unknown.
    apart = domains and left and len(by_size[domains]) < len(by_size[domains - 1])
    return f"; not in one of the largest: {_some(left)}" if apart else ""


def _some(hosts: t.Iterable[str]) -> str:
    return result.first_of(sorted(hosts), 3)
