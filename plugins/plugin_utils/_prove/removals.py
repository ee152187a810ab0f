# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select what a sweep removes: resources with the tags of the run and of the project that the run launched. Pure.

"Launch more like this" of EC2 copies the tags of an instance, and may copy them to volumes, so tags prove nothing of
these: only the record of the run does. It has the ids, and the client token of the launch, which EC2 never copies. EC2
has one key pair, and one group in a VPC, of a name; the run makes them under its own, with the random id of its record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .plan import ID_TAG, PROJECT, PROJECT_TAG, REGION, RUN, RUN_TAG

# EC2 lists a terminated instance for an hour; it costs nothing.
GONE = ("terminated",)
# EC2 may list a resource late: its guide advises to ask again for up to five minutes (Eventual consistency).
SETTLED_SECONDS = 300
# Kind of resource, and the key of its name in the results of amazon.aws.
ID_KEYS = {"instances": "instance_id", "volumes": "id", "keys": "key_name", "groups": "group_id"}


def removals(
    found: Mapping[str, Iterable[Mapping[str, Any]]],
    run: str,
    region: str | None = None,
    launched: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return names by kind that a sweep of ``run`` removes, ``kept``, ``lost``, ``runs`` with resources, ``problem``.

    ``found`` has the results of ec2_instance_info, ec2_vol_info, ec2_key_info and ec2_security_group_info by kind;
    ``launched``, the instances with the client token of the record; and ``before``, those before they were terminated.
    ``launched``: the record of the run. ``kept``: other instances and volumes with the tags of the run, and the key
    pair and group that they may use. ``lost``: instances that the run launched and that lack its tags now.
    """
    record = launched or {}
    existing = {kind: [entry for entry in found.get(kind) or () if _is_there(kind, entry)] for kind in ID_KEYS}
    tagged = {
        kind: sorted({str(entry[ID_KEYS[kind]]) for entry in entries if RUN.match(run) and run_of(entry) == run})
        for kind, entries in existing.items()
    }
    own = {name for kind in ("instances", "volumes") for name in record.get(kind) or ()}
    own |= {str(entry["instance_id"]) for entry in existing["instances"] if _has_token(entry, record)}
    own |= _disks(entry for entry in found.get("before") or () if _has_token(entry, record) and run_of(entry) == run)
    kept = [name for kind in ("instances", "volumes") for name in tagged[kind] if name not in own]
    answer: dict[str, Any] = {kind: [name for name in tagged[kind] if name in own] for kind in ("instances", "volumes")}
    alone = not kept
    for kind, key in (("keys", "key_name"), ("groups", "group_name")):
        named = {
            str(entry[ID_KEYS[kind]]) for entry in existing[kind] if entry.get(key) == run and _has_id(entry, record)
        }
        answer[kind] = [name for name in tagged[kind] if name in named and alone]
        kept += [name for name in tagged[kind] if name not in answer[kind]]
    answer["kept"] = kept
    answer["lost"] = sorted(
        str(entry["instance_id"])
        for entry in found.get("launched") or ()
        if _is_there("instances", entry) and _has_token(entry, record) and run_of(entry) != run
    )
    answer["runs"] = sorted({run_of(entry) for entries in existing.values() for entry in entries} - {""})
    answer["problem"] = problem(run, region) or _elsewhere(run, region, record)
    return answer


def is_unsettled(record: Mapping[str, Any], now: float) -> bool:
    """Return whether EC2 may not list an instance yet that it launched: the answer to the request was lost."""
    requested = record.get("requested")
    if not isinstance(requested, int) or record.get("instances") or record.get("refused"):
        return False
    return now < requested + SETTLED_SECONDS


def _disks(instances: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the volumes of instances."""
    disks = [disk.get("ebs") or {} for entry in instances for disk in entry.get("block_device_mappings") or ()]
    return {str(disk["volume_id"]) for disk in disks if disk.get("volume_id")}


def _has_token(entry: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    return bool(record.get("id")) and entry.get("client_token") == record["id"]


def _has_id(entry: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether the record names this key pair or group; a record that names no id has an instance at least."""
    tags = entry.get("tags")
    if not record.get("id"):
        return bool(record.get("instances"))
    return isinstance(tags, Mapping) and tags.get(ID_TAG) == record["id"]


def problem(run: Any, region: Any = None) -> str:
    """Return the errors in the name of a run and in the region; ``list`` is valid and names no run."""
    if region is not None and not (isinstance(region, str) and REGION.match(region)):
        return f"nothing was removed: prove_on_aws_region is '{region}'; use a region like us-east-1"
    if isinstance(run, str) and (run == "list" or RUN.match(run)):
        return ""
    return f"nothing was removed: prove_on_aws_sweep is '{run}'; use the name of a run, or 'list' to list all runs"


def _elsewhere(run: str, region: str | None, launched: Mapping[str, Any]) -> str:
    """Return that the run was in another region, where its instance may still run."""
    if region is None or launched.get("region") in (None, region):
        return ""
    actual = launched["region"]
    return f"nothing was removed: {run} was launched in {actual}, not in {region}; add -e prove_on_aws_region={actual}"


def run_of(entry: Mapping[str, Any]) -> str:
    """Return the run that a resource belongs to; empty if it is not the project's."""
    tags = entry.get("tags")
    if not isinstance(tags, Mapping) or tags.get(PROJECT_TAG) != PROJECT:
        return ""
    return str(tags.get(RUN_TAG) or "")


def _is_there(kind: str, entry: Mapping[str, Any]) -> bool:
    if kind != "instances":
        return bool(entry.get(ID_KEYS[kind]))
    state = entry.get("state")
    return bool(entry.get("instance_id")) and not (isinstance(state, Mapping) and state.get("name") in GONE)
