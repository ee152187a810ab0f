# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name that each instance has in the inventory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

SOURCES = {
    "instance_id": "instance_id",
    "private_dns": "private_dns_name",
    "private_dns_name": "private_dns_name",
    "private_ip": "private_ip_address",
    "private_ip_address": "private_ip_address",
    "public_ip": "public_ip_address",
    "public_ip_address": "public_ip_address",
    "ip_address": "public_ip_address",
    "slurm_node_name": "slurm_node_name",
}
# A host of one of these names would be something else to Ansible than a remote node.
RESERVED = frozenset({"all", "ungrouped", "localhost", "localhost.localdomain", "127.0.0.1", "::1"})
# A leading - would be an option to some program; a leading . is a hidden file, and .. the directory above host_vars.
_BAD = re.compile(r"[^\w.-]|^[.-]", re.UNICODE)
_LONGEST = 253


class NamingError(ValueError):
    """An entry of ``hostnames`` that is not known."""


def check(preferences: list[str]) -> list[tuple[str, str]]:
    """Pairs of kind (``field`` or ``tag``) and key from the option ``hostnames``. Raises NamingError."""
    result = []
    for entry in preferences:
        kind, separator, tag = str(entry).partition(":")
        if kind == "tag" and separator and tag:
            result.append(("tag", tag))
            continue
        field = SOURCES.get(str(entry).replace("-", "_"))
        if field is None:
            known = ", ".join(["instance_id", "private_dns", "private_ip", "public_ip", "slurm_node_name", "tag:KEY"])
            raise NamingError(f"hostnames: '{entry}' is not known; use {known}")
        result.append(("field", field))
    return result


def safe(text: str) -> str:
    """``text`` with everything replaced by ``_`` that has a meaning in host patterns, templates or command lines."""
    return _BAD.sub("_", text)[:_LONGEST]


def choose(record: dict[str, Any], preferences: list[tuple[str, str]]) -> str:
    """The first preference that this instance has a value for, its id otherwise."""
    for kind, key in preferences:
        value = record["tags"].get(key) if kind == "tag" else record.get(key)
        if value and value.strip():
            return safe(value.strip())
    return record["instance_id"]


def assign(
    records: list[dict[str, Any]],
    preferences: list[tuple[str, str]],
    taken: Container[str],
    owners: Mapping[str, str],
) -> tuple[list[str], list[str]]:
    """Names in the order of the records, and the names that more than one wanted or that could not be used.

    Every instance that shares its name, or whose name is in ``taken`` (groups) or RESERVED, or is in ``owners`` that of
    another instance, gets its instance id appended, so no host depends on which one came first.
    """
    if not preferences:
        return [record["instance_id"] for record in records], []
    wanted = [choose(record, preferences) for record in records]
    counts = Counter(wanted)
    clashes: dict[str, None] = {}
    names = []
    for name, record in zip(wanted, records):
        identity = record["instance_id"]
        if counts[name] > 1 or name in RESERVED or name in taken or owners.get(name, identity) != identity:
            clashes[name] = None
            name = f"{name}-{identity}"
        names.append(name)
    # Some tag may be what another name has become: it gets its id appended, until no two names are the same.
    while len(set(names)) < len(names):
        counts = Counter(names)
        twice = [index for index, name in enumerate(names) if counts[name] > 1]
        for index in [index for index in twice if names[index] == wanted[index]] or twice:
            clashes[names[index]] = None
            names[index] = f"{names[index]}-{records[index]['instance_id']}"
    return names, list(clashes)
