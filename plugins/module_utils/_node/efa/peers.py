# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that other nodes answer, so that a security group that drops EFA's traffic is reported before a job hangs.

EFA needs a security group that allows all traffic from and to itself, so a TCP connection to a port on which no program
listens must be refused by the peer. A connection without an answer was dropped on the way.
"""

from __future__ import annotations

import json
import sys
import typing as t

from ..system.host import CommandError, Host
from ..verdict.result import Result, Scope, failed, passed, undeterminable

# The first port that no service is registered for (RFC 6335, dynamic ports).
PROBE_PORT = 49152
PEER_SECONDS = 5
SOURCE = "EFA needs all traffic from and to its own security group (Amazon EC2 User Guide, Get started with EFA)"

# Runs as python -c SOURCE PORT SECONDS PEER...; all peers at once and until one deadline, so that many silent ones, or
# names that no server resolves, cost no more than one.
_CHILD = """
import json, socket, sys, threading, time
answers, begun = {}, {}
def ask(peer, port, seconds):
    try:
        places = [entry[4][:2] for entry in socket.getaddrinfo(peer, port, 0, socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as problem:
        answers[peer] = "name: " + str(problem)
        return
    begun[peer] = time.monotonic()
    for place in places:
        try:
            socket.create_connection(place, seconds).close()
        except ConnectionRefusedError:
            pass
        except OSError as problem:
            why = str(problem)
            continue
        answers[peer] = "answered"
        return
    answers[peer] = "silent: " + why
port, seconds = int(sys.argv[1]), float(sys.argv[2])
ends = time.monotonic() + 2 * seconds
threads = [threading.Thread(target=ask, args=(peer, port, seconds), daemon=True) for peer in sys.argv[3:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(max(0.0, ends - time.monotonic()))
now, late = time.monotonic(), "unknown: its name was resolved late"
waiting = {peer: "silent: no answer in time" if now - at >= seconds else late for peer, at in dict(begun).items()}
sys.stdout.write(json.dumps({**waiting, **dict(answers)}) + "\\n")
"""


def ask_peers(host: Host, peers: t.Sequence[str]) -> dict[str, str]:
    """Return {peer: "answered", "silent: why", "name: why" (it has no address), or "unknown: why"}."""
    # An empty name is this node itself.
    asked = [peer for peer in peers if peer.strip()]
    python = sys.executable or "python3"
    argv = [python, "-I", "-c", _CHILD, str(PROBE_PORT), str(PEER_SECONDS), *asked]
    try:
        answers = dict(json.loads(host.run(argv, timeout=4 * PEER_SECONDS).stdout)) if asked else {}
    except (CommandError, TypeError, ValueError) as exc:
        why = exc.stderr.strip() if isinstance(exc, CommandError) else str(exc)
        return dict.fromkeys(peers, f"unknown: the probe did not end well: {why[-200:]}")
    answers.update({peer: "name: it is empty" for peer in peers if not peer.strip()})
    return {peer: str(answers.get(peer, "unknown: its name was not resolved in time")) for peer in peers}


def verify_peers(answers: t.Mapping[str, str]) -> list[Result]:
    """Return one verdict efa.peers for each peer."""
    return [_peer(peer, answer) for peer, answer in answers.items()]


def _peer(peer: str, answer: str) -> Result:
    kind, _colon, why = answer.partition(": ")
    fields: dict[str, t.Any] = {"scope": Scope(device=peer), "source": SOURCE}
    if kind == "answered":
        return passed("efa.peers", f"answers on TCP port {PROBE_PORT}", **fields)
    if kind == "silent":
        return failed(
            "efa.peers",
            f"the peer cannot be reached ({why})",
            hint="let its security group allow all traffic from and to itself, and look for a firewall on the node",
            **fields,
        )
    return undeterminable("efa.peers", f"the peer could not be queried ({why})", **fields)
