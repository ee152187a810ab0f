# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the output of lnetctl and lfs, and the mount table. Pure functions."""

from __future__ import annotations

import re
import typing as t

_FIELD = re.compile(r"(?:- )?([a-z_ ]+):\s*(.*)")
_HSM = re.compile(r"(?P<path>.*): \((?P<flags>0x[0-9a-f]+)\)(?P<words>[^,]*)(?:, archive_id:(?P<archive>\d+))?")
IPV4 = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?=\s|\Z)")
# Bits of lustre/include/uapi/linux/lustre/lustre_user.h, enum hsm_states.
HSM_BITS = {
    "exists": 0x01,
    "dirty": 0x02,
    "released": 0x04,
    "archived": 0x08,
    "norelease": 0x10,
    "noarchive": 0x20,
    "lost": 0x40,
}


def parse_net_show(text: str) -> dict[str, dict[str, int]]:
    """Return 'lnetctl net show -v' by the type of the net (tcp, efa, ...): {nids, up, sent, received}.

    Several nets of a type (tcp, tcp1) keep their own names; the interfaces of a net are added up.
    """
    nets: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for row in text.splitlines():
        found = _FIELD.match(row.strip())
        if not found:
            continue
        key, value = found.group(1).strip(), found.group(2).strip()
        if key == "net type":
            current = nets.setdefault(value, {"nids": 0, "up": 0, "sent": 0, "received": 0})
        elif current is None:
            continue
        elif key == "nid":
            current["nids"] += 1
        elif key == "status":
            current["up"] += value == "up"
        elif key in ("send_count", "recv_count") and value.isdigit():
            current["sent" if key == "send_count" else "received"] += int(value)
    return nets


def parse_peer_show(text: str) -> list[dict[str, t.Any]]:
    """Return the peers in 'lnetctl peer show -v': nids, and in sent the messages by the type of the net."""
    peers: list[dict[str, t.Any]] = []
    net = ""
    for row in text.splitlines():
        found = _FIELD.match(row.strip())
        key, value = (found.group(1).strip(), found.group(2).strip()) if found else ("", "")
        if key == "primary nid":
            peers.append({"nids": [value], "sent": {}})
            net = ""
        elif key == "nid" and peers:
            net = value.partition("@")[2]
            peers[-1]["nids"] = list(dict.fromkeys([*peers[-1]["nids"], value]))
            peers[-1]["sent"].setdefault(net, 0)
        elif key == "send_count" and peers and net and value.isdigit():
            peers[-1]["sent"][net] += int(value)
    return peers


def parse_instance(text: str) -> tuple[str, str] | None:
    """Return name and instance of the file system in the output of 'lfs getname PATH'; None for another output."""
    found = re.match(r"([A-Za-z0-9_.-]+)-([0-9a-f]+)(?=\s|\Z)", text)
    return (found.group(1), found.group(2)) if found else None


def parse_parameters(text: str) -> dict[str, str]:
    """Parse the output of 'lctl get_param', one name=value a line."""
    found = {}
    for row in text.splitlines():
        name, separator, value = row.partition("=")
        if separator and name.strip():
            found[name.strip()] = value.strip()
    return found


def parse_hsm_state(text: str) -> dict[str, t.Any] | None:
    """Return a line of 'lfs hsm_state' as {path, flags, states, archive_id}; None for another line.

    states are the names of the flags, in the order of the bits.
    """
    found = _HSM.fullmatch(text.rstrip("\n"))
    if not found:
        return None
    flags = int(found.group("flags"), 16)
    return {
        "path": found.group("path"),
        "flags": flags,
        "states": [name for name, bit in HSM_BITS.items() if flags & bit],
        "archive_id": int(found.group("archive")) if found.group("archive") else None,
    }


def servers(source: object) -> list[str]:
    """Return the servers in a source such as 10.0.1.7@tcp:10.0.1.8@tcp:/NAME, without their nets; empty for no source.

    Colons separate servers, commas the addresses of one.
    """
    nids, separator, _name = source.partition(":/") if isinstance(source, str) else ("", "", "")
    return [nid.partition("@")[0] for nid in re.split("[:,]", nids)] if separator else []


def parse_addresses(text: str) -> list[str]:
    """Return the addresses in the output of 'getent ahostsv4': the first word of each line, each once."""
    return sorted({line.split()[0] for line in text.splitlines() if IPV4.match(line)})


def top_mount(path: str, mounts: t.Iterable[t.Mapping[str, t.Any]]) -> t.Mapping[str, t.Any] | None:
    """Return the mount on exactly this path, the last of several; None if there is none."""
    found = None
    for mount in mounts:
        if mount["target"] == path:
            found = mount
    return found


def lustre_paths(mounts: t.Iterable[t.Mapping[str, t.Any]], fstab: t.Iterable[t.Mapping[str, str]]) -> list[str]:
    """Return every path with Lustre in the mount table or in fstab, sorted."""
    return sorted(
        {str(mount["target"]) for mount in mounts if mount["fstype"] == "lustre"}
        | {entry["path"] for entry in fstab if entry["fstype"] == "lustre"}
    )
