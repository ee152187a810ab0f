# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Byte counters of the EFA devices before and after a run, which prove that its traffic went through them."""

from __future__ import annotations

import json

from ..system import pci
from ..system.host import Host, NodeError
from .log import short_host

INFINIBAND = "/sys/class/infiniband"
# tx_bytes, send_bytes, rdma_write_bytes and others, by protocol (CloudWatch User Guide, Collect EFA metrics).
_BYTES = "_bytes"

Snapshot = dict[str, dict[str, int]]


def snapshot(host: Host) -> Snapshot:
    """Return {device: {counter: value}} of the byte counters of all ports of this host's EFA devices."""
    found: Snapshot = {}
    for device in host.listdir(INFINIBAND):
        if (host.read_text(f"{INFINIBAND}/{device}/device/vendor") or "").strip() != pci.AMAZON:
            continue
        values: dict[str, int] = {}
        for port in host.listdir(f"{INFINIBAND}/{device}/ports"):
            base = f"{INFINIBAND}/{device}/ports/{port}/hw_counters"
            for name in host.listdir(base):
                text = (host.read_text(f"{base}/{name}") or "").strip()
                if name.endswith(_BYTES) and text.isascii() and text.isdigit():
                    values[name] = values.get(name, 0) + int(text)
        if values:
            found[device] = values
    return found


def parse_snapshots(text: str, what: str) -> dict[str, Snapshot]:
    """Return {host: snapshot} from lines ``{"host": ..., "devices": {...}}``. Raises ``NodeError`` with the line."""
    found: dict[str, Snapshot] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            name, devices = str(entry["host"]), entry["devices"]
            checked = {
                str(device): {str(counter): _count(value) for counter, value in counters.items()}
                for device, counters in devices.items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise NodeError(
                f"line {number} of {what} is not a snapshot of counters: use the output of mlcluster efa-counters on "
                "each host, a line each"
            ) from None
        if short_host(name) in found:
            raise NodeError(
                f"{what} has the host {name} twice: use one file with the output before the test, and one with "
                "the output after it"
            )
        found[short_host(name)] = checked
    return found


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a counter is an integer")
    return value


def largest_growth(before: Snapshot, after: Snapshot) -> int | None:
    """Return the growth in bytes of the counter that grew most; None if one went back or a device is missing.

    It is not documented whether the counters overlap, so they are not added up.
    """
    totals: dict[str, int] = {}
    for device, counters in before.items():
        for name, value in counters.items():
            now = after.get(device, {}).get(name)
            if now is None or now < value:
                return None
            totals[name] = totals.get(name, 0) + now - value
    return max(totals.values(), default=None)
