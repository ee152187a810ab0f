# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the hardware in the inventory with what the node has. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plan import NO_SLURM as NO_CONTAINERS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.plan import UNKNOWN_COUNT
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.plan import NO_SLURM as NO_JOBS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import WITHOUT_SLURM
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result, failed, undeterminable

# Prefixes of variables of the inventory ec2_nodes: the default, and with hostvars_prefix: ''.
PREFIXES = ("ec2_", "")
VARIABLES = tuple(prefix + name for prefix in PREFIXES for name in ("instance_type", "accelerators", "efa_attached"))
# Groups whose nodes have Slurm. A cluster without a head node, such as plain EC2 instances, may have no Slurm.
CLUSTER = ("head", "compute", "login")
# The boot hook passes the type of its node in this variable, since its inventory has no groups.
KIND = "configure_node_kind"
LISTED = "the inventory lists the node as"


@dataclasses.dataclass(frozen=True)
class Hardware:
    """Numbers of devices in the inventory, 0 if unknown; ``source`` names their origin.

    ``efa_known``: whether the inventory determines the number of EFA devices, also of none.
    """

    source: str = ""
    disks: int = 0
    gpus: int = 0
    efa: int = 0
    efa_known: bool = False


def known_hardware(variables: Mapping[str, Any]) -> Hardware:
    """Return the hardware by inventory variables: instance type, EC2's answer, attached EFA interfaces."""
    name = _first(variables, "instance_type", str)
    row = instance_types.lookup(name) if name else None
    given = _first(variables, "accelerators", Mapping) or {}
    disks, gpus = instance_types.disks_and_gpus(row)
    if "kind" in given:
        gpus = given.get("count") if given["kind"] == "gpu" else 0
    attached = _first(variables, "efa_attached", int)
    is_known = attached is not None or "efa_attached" in given or row is not None
    if attached is None:
        # The launch determines how many are attached; the type has the maximum.
        attached = given.get("efa_attached", 1 if instance_types.has_efa(row) else 0)
    return Hardware(
        source=f"{'this node is' if variables.get(KIND) else LISTED} {f'a {name}' if name else 'an instance'}",
        disks=_number(given.get("instance_store_count", disks)),
        gpus=_number(gpus),
        efa=_number(attached),
        efa_known=is_known,
    )


def _first(variables: Mapping[str, Any], name: str, kind: type) -> Any:
    for prefix in PREFIXES:
        value = variables.get(prefix + name)
        if isinstance(value, kind) and not isinstance(value, bool):
            return value
    return None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def missing(
    role: str, answer: Mapping[str, Any], options: Mapping[str, Any], variables: Mapping[str, Any]
) -> list[Result]:
    """Return a verdict for each thing that the node must have, or may have to have, and a role did not find.

    ``variables`` are those of the node: ``VARIABLES``, ``KIND``, and Ansible's ``group_names`` and ``groups``.
    """
    kind = variables.get(KIND)
    if kind in CLUSTER:
        groups, has_head = [kind], True
    else:
        groups, has_head = variables.get("group_names") or [], bool((variables.get("groups") or {}).get("head"))
    hardware = known_hardware(variables)
    return [
        *missing_hardware(role, answer, options, hardware),
        *unknown_efa(role, answer, options, hardware, groups),
        *missing_slurm(role, answer, options, groups, has_head),
    ]


def missing_hardware(
    role: str, answer: Mapping[str, Any], options: Mapping[str, Any], hardware: Hardware
) -> list[Result]:
    """Return a failure if the role found less than the inventory has; the site's own numbers take precedence."""
    is_absent = not answer["plan"]["concerned"]
    stated = hardware.source
    if role == "nvme_raid0" and is_absent and hardware.disks and not _is_own(options, "expected_disks", "devices"):
        if options.get("layout") == "none":
            return []
        text = f"{stated} with {hardware.disks} disks of instance store, and none was found"
        return [_lacks("disks", text, hardware.disks, 0, "stop and start the instance, or correct the inventory")]
    if role == "nvidia_gds" and is_absent and hardware.gpus:
        text = f"{stated} with {hardware.gpus} GPUs, and no NVIDIA driver is loaded"
        return [_lacks("gpus", text, hardware.gpus, 0, "use an image with a driver, or correct the inventory")]
    if role == "efa_nccl" and hardware.efa and not _is_own(options, "expected_devices"):
        found = 0 if is_absent else _devices(answer)
        if found is not None and found < hardware.efa:
            text = f"{stated} with {hardware.efa} EFA interfaces attached, and {found} were found"
            hint = "look with lspci and dmesg, or correct the inventory"
            return [_lacks("efa", text, hardware.efa, found, hint)]
    return []


def unknown_efa(
    role: str, answer: Mapping[str, Any], options: Mapping[str, Any], hardware: Hardware, groups: Collection[str]
) -> list[Result]:
    """Return an undeterminable verdict for a node of the group efa of an unknown type, if the role found no device."""
    is_unknown = not answer["plan"]["concerned"] and UNKNOWN_COUNT in answer["plan"]["reason"]
    # The role has a verdict of its own for names of accelerated types.
    is_judged = hardware.efa_known or _devices(answer) is not None or _is_own(options, "expected_devices")
    if role != "efa_nccl" or "efa" not in groups or not is_unknown or is_judged:
        return []
    return [
        undeterminable(
            "inventory.efa",
            "unknown_type",
            message="the node is in the group efa, its instance type is unknown, and no EFA device was found",
            hint="set ec2_instance_type, or efa_nccl_expected_devices (0 for none), or take it out of the group efa",
        )
    ]


def missing_slurm(
    role: str, answer: Mapping[str, Any], options: Mapping[str, Any], groups: Collection[str], has_head: bool
) -> list[Result]:
    """Return a failure if a role found no Slurm on a node of a cluster, as with an unmounted /opt/slurm.

    ``groups`` are those of the node; ``has_head`` is whether the inventory has a host in the group head.
    """
    found = [group for group in CLUSTER if group in groups]
    is_absent = not answer["plan"]["concerned"] and answer["plan"]["reason"] in (NO_CONTAINERS, NO_JOBS)
    if not found or not has_head or not is_absent or options.get("slurm_prefix") == WITHOUT_SLURM:
        return []
    text = f"this is a {found[0]} node of a cluster, and no Slurm was found on it"
    hint = (
        f"check that the directory of Slurm, such as /opt/slurm, is mounted; {role}_slurm_prefix sets another; set "
        f"{WITHOUT_SLURM} if the node has no Slurm"
    )
    return [_lacks("slurm", text, "Slurm", "no Slurm", hint)]


def _is_own(options: Mapping[str, Any], *names: str) -> bool:
    return any(options.get(name) is not None for name in names)


def _devices(answer: Mapping[str, Any]) -> int | None:
    counts = [entry["found"] for entry in answer["results"] if entry["id"] == "efa.devices"]
    return counts[0] if counts and isinstance(counts[0], int) else None


def _lacks(what: str, text: str, expected: int | str, found: int | str, hint: str) -> Result:
    return failed(f"inventory.{what}", text, "isolate", expected=expected, found=found, hint=hint)
