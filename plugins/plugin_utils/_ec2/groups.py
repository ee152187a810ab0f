# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups of an instance by its properties."""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data.ultraservers import is_ultraserver

_BAD = re.compile(r"[^A-Za-z0-9_]")
ENDING_EVENTS = ("instance-retirement", "instance-stop")


@functools.lru_cache(maxsize=10000)
def safe(text: str) -> str:
    """Make ``text`` valid in a group name: ``p5-east`` becomes ``p5_east``."""
    return _BAD.sub("_", text)


def network_path(record: dict[str, Any]) -> list[str]:
    """Return the names of an instance's topology groups, the widest network node first."""
    return [safe(f"topology_{node}") for node in record.get("network_nodes") or ()]


def ultraserver(record: dict[str, Any]) -> str:
    """Return the name of an UltraServer's group, by capacity block, else by nearest network node; empty without."""
    if not is_ultraserver(record["instance_type"]):
        return ""
    block = record.get("capacity_block_id") or (record.get("network_nodes") or ("",))[-1]
    return safe(f"ultraserver_{block}") if block else ""


def _hardware(facts: dict[str, Any]) -> list[str]:
    groups = []
    if facts.get("kind") in ("gpu", "neuron") and facts.get("count"):
        groups.append(facts["kind"])
    if facts.get("efa_attached"):
        groups.append("efa")
    if facts.get("instance_store_count"):
        groups.append("instance_store")
    return groups


def _health(health: dict[str, Any] | None) -> list[str]:
    if not health:
        return []
    groups = []
    if "impaired" in (health.get("system"), health.get("instance"), health.get("ebs")):
        groups.append("impaired")
    if any(event.get("code") in ENDING_EVENTS for event in health.get("events") or ()):
        groups.append("retiring")
    return groups


def of(record: dict[str, Any]) -> list[str]:
    """Return the groups of one record, each once: role, cluster, queue, compute resource, type, zone, hardware, health.

    Those of an UltraServer have its group too. Of the topology only the nearest network node; the wider ones are its
    parents (``network_path``).
    """
    zone = record["availability_zone_id"] or record["availability_zone"]
    named = (
        ("cluster", record["cluster_name"]),
        ("queue", record["queue_name"]),
        ("compute_resource", record["compute_resource_name"]),
        ("type", record["instance_type"]),
        ("az", zone),
    )
    groups = [record["node_type"]] if record["node_type"] else []
    groups += [safe(f"{prefix}_{value}") for prefix, value in named if value]
    groups += _hardware(record["accelerators"])
    groups += [ultraserver(record)] if ultraserver(record) else []
    groups += _health(record.get("health"))
    groups += network_path(record)[-1:]
    return groups


def common_hardware(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by instance type the ``accelerators`` of most of its hosts; hosts differ in attached EFA interfaces."""
    counts: dict[str, Counter[Any]] = {}
    facts: dict[tuple[str, Any], dict[str, Any]] = {}
    for record in records:
        kind, attached = record["instance_type"], record["accelerators"]["efa_attached"]
        counts.setdefault(kind, Counter())[attached] += 1
        facts[kind, attached] = record["accelerators"]
    return {kind: facts[kind, counted.most_common(1)[0][0]] for kind, counted in counts.items()}
