# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data servers of one file system, and how many messages LNet sent to each of them over which net.

The counters of LNet's own interfaces count all file systems of a node; those of its peers belong to one server.
"""

from __future__ import annotations

import typing as t

from ..system.ask import ask
from ..system.host import Host
from .parse import parse_instance, parse_parameters, parse_peer_show

Peers = t.Sequence[t.Mapping[str, t.Any]]


def data_servers(host: Host, path: str, timeout: float) -> tuple[list[str], str | None]:
    """Return the NIDs of the servers of a mounted file system's OSTs, and why they are unknown."""
    output, problem = ask(host, ["lfs", "getname", path], timeout=timeout)
    if problem:
        return [], problem
    instance = parse_instance(output)
    if instance is None:
        return [], f"lfs getname shows no file system: {output.strip()[:100] or 'nothing'}"
    # The instance is that of the mount: two file systems may have one name.
    parameter = f"osc.{instance[0]}-OST*-osc-{instance[1]}.ost_conn_uuid"
    output, problem = ask(host, ["lctl", "get_param", parameter], timeout=timeout)
    if problem:
        return [], problem
    nids = sorted({nid for nid in parse_parameters(output).values() if "@" in nid})
    return nids, None if nids else f"lctl has no {parameter}"


def peers(host: Host, timeout: float) -> tuple[Peers, str | None]:
    """Return LNet's peers with their counters, and why they are unknown."""
    output, problem = ask(host, ["lnetctl", "peer", "show", "-v"], timeout=timeout)
    return ([], problem) if problem else (parse_peer_show(output), None)


def sent_to(nids: t.Iterable[str], before: Peers, after: Peers) -> list[dict[str, t.Any]]:
    """Return for each server: nid, nets (those by which LNet knows it; None if it does not), sent (messages by net)."""
    rows = []
    for nid in nids:
        then, now = _peer(nid, before), _peer(nid, after)
        sent = {net: count - (then or {}).get(net, 0) for net, count in (now or {}).items()}
        rows.append({"nid": nid, "nets": sorted(now) if now else None, "sent": sent})
    return rows


def _peer(nid: str, peers: Peers) -> t.Mapping[str, int] | None:
    """Return the messages by net of the peer with this address; None if there is none."""
    return next((peer["sent"] for peer in peers if nid in peer["nids"]), None)
