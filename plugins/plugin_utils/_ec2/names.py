# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of instances in the inventory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
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
    "public_dns": "public_dns_name",
    "public_dns_name": "public_dns_name",
    "dns_name": "public_dns_name",
    "ipv6_address": "ipv6_address",
    "slurm_node_name": "slurm_node_name",
}
_NAMED = ("instance_id", "private_dns", "private_ip", "public_dns", "public_ip", "ipv6_address", "slurm_node_name")
# Ansible does not treat these names as remote nodes.
RESERVED = frozenset({"all", "ungrouped", "localhost", "localhost.localdomain", "127.0.0.1", "::1"})
# A leading - could be read as an option; a leading . is a hidden file, and .. the directory above host_vars.
_BAD = re.compile(r"[^\w.-]|^[.-]", re.UNICODE)
_LONGEST = 253


class NamingError(ValueError):
    """An entry of ``hostnames`` that is not known."""


@dataclass(frozen=True)
class Source:
    """The source of a part of a name: ``kind`` is ``field`` (of a record), ``tag`` or ``literal``."""

    kind: str
    key: str

    def of(self, record: Mapping[str, Any]) -> str:
        """Return the part for this instance, empty without a value."""
        if self.kind == "literal":
            return self.key
        value = record["tags"].get(self.key) if self.kind == "tag" else record.get(self.key)
        return str(value).strip() if value else ""


@dataclass(frozen=True)
class Preference:
    """One entry of ``hostnames``: a name with an optional prefix."""

    name: Source
    prefix: Source | None = None
    separator: str = "_"

    def of(self, record: Mapping[str, Any]) -> str:
        """Return the name for this instance, empty without a value; without prefix if that has no value."""
        name = self.name.of(record)
        before = self.prefix.of(record) if self.prefix and name else ""
        return f"{before}{self.separator}{name}" if before else name


def check(preferences: Sequence[Any]) -> list[Preference]:
    """Parse the option ``hostnames``: strings, or mappings of name, prefix and separator. Raises NamingError."""
    result = []
    for entry in preferences:
        if not isinstance(entry, Mapping):
            result.append(Preference(_source(entry)))
            continue
        unknown = sorted(set(map(str, entry)) - {"name", "prefix", "separator"})
        if unknown or "name" not in entry:
            raise NamingError(f"hostnames: {dict(entry)} must have a name, and may have prefix and separator")
        prefix = _source(entry["prefix"]) if entry.get("prefix") else None
        result.append(Preference(_source(entry["name"]), prefix, str(entry.get("separator", "_"))))
    return result


def _source(entry: Any) -> Source:
    kind, separator, key = str(entry).partition(":")
    if kind == "tag" and separator and key:
        if "=" in key or "|" in key:
            raise NamingError(
                f"hostnames: '{entry}' is more than the key of a tag; write tag:{re.split('[=|]', key)[0].strip()}, "
                "select instances with filters or include, and change names with compose or groups"
            )
        return Source("tag", key)
    if kind == "literal" and separator and key:
        return Source("literal", key)
    field = SOURCES.get(str(entry).replace("-", "_"))
    if field is None:
        raise NamingError(
            f"hostnames: '{entry}' is not known; use {', '.join(_NAMED)}, tag:KEY, or literal:TEXT for the same text "
            "on all"
        )
    return Source("field", field)


def fields(preferences: Sequence[Preference]) -> set[str]:
    """Return the fields of a record that names use."""
    return _keys(preferences, "field")


def tags(preferences: Sequence[Preference]) -> set[str]:
    """Return the keys of tags that names use."""
    return _keys(preferences, "tag")


def _keys(preferences: Sequence[Preference], kind: str) -> set[str]:
    sources = [part for one in preferences for part in (one.name, one.prefix) if part]
    return {source.key for source in sources if source.kind == kind}


def safe(text: str) -> str:
    """Replace all characters that have a meaning in host patterns, templates or command lines by ``_``."""
    return _BAD.sub("_", text)[:_LONGEST]


def choose(record: dict[str, Any], preferences: Sequence[Preference]) -> str:
    """Return the first preference with a value for this instance, otherwise its id."""
    for preference in preferences:
        name = preference.of(record)
        if name:
            return safe(name)
    return str(record["instance_id"])


def assign(
    records: list[dict[str, Any]],
    preferences: Sequence[Preference],
    taken: Container[str],
    owners: Mapping[str, str],
) -> tuple[list[str], list[str]]:
    """Return names in the order of the records, and the names that were ambiguous or unusable.

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
    # A changed name may equal another's tag: append the id until all names differ.
    while len(set(names)) < len(names):
        counts = Counter(names)
        twice = [index for index, name in enumerate(names) if counts[name] > 1]
        for index in [index for index in twice if names[index] == wanted[index]] or twice:
            clashes[names[index]] = None
            names[index] = f"{names[index]}-{records[index]['instance_id']}"
    return names, list(clashes)
