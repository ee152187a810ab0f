# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data servers of one file system, and the number of messages that LNet sent to each, by net.

The counters of LNet's own interfaces count all file systems of a node; those of its peers belong to one server.
"""

from __future__ import annotations

import typing as t

from ..system.ask import ask
from ..system.host import Host
from .parse import parse_instance, parse_parameters, parse_peer_show

Peers = t.Sequence[t.Mapping[str, t.Any]]


def data_servers(host: Host, path: str, timeout: float) -> tuple[list[str], str | None]:
    """Return the NIDs of the servers of a mounted file system's OSTs, or why they are unknown."""
    output, problem = ask(host, ["lfs", "getname", path], timeout=timeout)
    if problem:
        return [], problem
    instance = parse_instance(output)
    if instance is None:
        return [], f"lfs getname shows no file system: {output.strip()[:100] or 'nothing'}"
    # Two file systems may have the same name, so the pattern includes the instance of this mount.
    parameter = f"osc.{instance[0]}-OST*-osc-{instance[1]}.ost_conn_uuid"
    output, problem = ask(host, ["lctl", "get_param", parameter], timeout=timeout)
    if problem:
        return [], problem
    nids = sorted({nid for nid in parse_parameters(output).values() if "@" in nid})
    return nids, None if nids else f"lctl has no {parameter}"


def peers(host: Host, timeout: float) -> tuple[Peers, str | None]:
    """Return LNet's peers with their counters, or why they are unknown."""
    output, problem = ask(host, ["lnetctl", "peer", "show", "-v"], timeout=timeout)
    return ([], problem) if problem else (parse_peer_show(output), None)


def sent_to(nids: t.Iterable[str], before: Peers, after: Peers) -> list[dict[str, t.Any]]:
    """Return for each server: nid, nets (None if LNet does not list the server) and sent (messages by net)."""
    rows = []
    for nid in nids:
        old, new = _peer(nid, before), _peer(nid, after)
        sent = {net: count - (old or {}).get(net, 0) for net, count in (new or {}).items()}
        rows.append({"nid": nid, "nets": sorted(new) if new else None, "sent": sent})
    return rows


def _peer(nid: str, peers: Peers) -> t.Mapping[str, int] | None:
    """Return the messages by net of the peer with this address; None if there is none."""
    return next((peer["sent"] for peer in peers if nid in peer["nids"]), None)
