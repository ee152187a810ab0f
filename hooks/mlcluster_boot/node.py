# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Type of the node, and the roles that it runs."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import pci
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.instance import instance_type as firmware_type

from .options import OptionsError, RoleRequest

# cfn_node_type of /etc/parallelcluster/cfnconfig. AWS does not support this file for scripts, so it may be missing.
CFN_NODE_TYPES = {"HeadNode": "head", "LoginNode": "login", "ComputeFleet": "compute"}
METADATA = "http://169.254.169.254"
METADATA_SECONDS = 2
# Controller model of EC2's NVMe instance store.
INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"
# The roles in the order in which they run. A role runs on nodes that are in any of its groups.
ROLES: Mapping[str, frozenset[str]] = {
    "nvme_raid0": frozenset({"instance_store"}),
    "efa_nccl": frozenset({"efa"}),
    "fsx_lustre": frozenset({"fsx"}),
    "nvidia_gds": frozenset({"gpu"}),
    "enroot_pyxis": frozenset({"compute", "login", "head"}),
    "slurm_jobs": frozenset({"head"}),
}
# Roles that run on one type of node only, since they write files that all nodes share.
SHARED = {"slurm_jobs": "head"}
# Roles whose failure is a warning by default.
BEST_EFFORT = frozenset({"nvidia_gds"})


@dataclasses.dataclass(frozen=True)
class Node:
    """Facts of the node. ``groups`` are those of the inventory; an unknown id or type is empty.

    ``gpus``: NVIDIA GPUs on the PCI bus; None if the bus cannot be read.
    """

    kind: str
    source: str
    instance_id: str
    instance_type: str
    queue: str
    groups: tuple[str, ...]
    gpus: int | None = None


@dataclasses.dataclass(frozen=True)
class Role:
    """A role of this run. ``required``: its failure fails the node."""

    name: str
    required: bool

    @property
    def full_name(self) -> str:
        """The name with its collection."""
        return self.name if "." in self.name else f"mlcluster.aws.{self.name}"


def read_cfnconfig(path: Path) -> dict[str, str]:
    """Return the ``name=value`` lines of ParallelCluster's file, unquoted; empty if it cannot be read."""
    values = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        found = re.fullmatch(r"\s*(?:export\s+)?(\w+)=(.*)", line)
        if found:
            try:
                values[found[1]] = " ".join(shlex.split(found[2]))
            except ValueError:
                values[found[1]] = found[2].strip()
    return values


def metadata(names: Sequence[str]) -> dict[str, str]:
    """Return values of the instance metadata service (IMDSv2); empty strings without an answer."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return dict.fromkeys(names, "")
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA).rstrip("/")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(path: str, method: str, header: str, value: str) -> str:
        request = urllib.request.Request(f"{base}/latest/{path}", method=method, headers={header: value})  # noqa: S310
        with opener.open(request, timeout=METADATA_SECONDS) as answer:
            return str(answer.read(4096).decode("utf-8", "replace").strip())

    try:
        token = ask("api/token", "PUT", "X-aws-ec2-metadata-token-ttl-seconds", "60")
        return {name: ask(f"meta-data/{name}", "GET", "X-aws-ec2-metadata-token", token) for name in names}
    except (OSError, ValueError):
        return dict.fromkeys(names, "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def hardware_groups(sysfs: Path, bus: pci.Bus) -> list[str]:
    """Return which of ``instance_store``, ``efa`` and ``gpu`` the kernel lists; needs no driver."""
    groups = []
    if any(_text(path) == INSTANCE_STORE for path in sysfs.glob("class/nvme/*/model")):
        groups.append("instance_store")
    groups += ["efa"] if bus.efa else []
    groups += ["gpu"] if bus.gpus else []
    return groups


def count_gpus(host: Host, sysfs: Path, bus: pci.Bus) -> int | None:
    """Return the number of NVIDIA GPUs that answer on the PCI bus; needs no driver. None if the bus is unreadable."""
    return len(bus.gpus) - len(pci.lost(host, bus.gpus, str(sysfs))) if bus.readable else None


def lost_gpus(node: Node) -> str:
    """Return a sentence if the node has fewer GPUs than its type, or they could not be counted; empty otherwise."""
    wanted = instance_types.disks_and_gpus(instance_types.lookup(node.instance_type))[1]
    if not wanted:
        return ""
    if node.gpus is None:
        return f"the PCI bus cannot be read, so the {wanted} GPUs of {node.instance_type} were not counted"
    if node.gpus >= wanted:
        return ""
    hint = "look for Xid 79 with 'dmesg', then stop and start the instance, or replace it"
    return f"the PCI bus has {node.gpus} of the {wanted} GPUs of {node.instance_type}: {hint}"


def expected_groups(instance_type: str) -> list[str]:
    """Return the groups of the hardware that every instance of a type has; an unknown type has none.

    EFA is missing: the launch of an instance decides whether it is attached.
    """
    disks, gpus = instance_types.disks_and_gpus(instance_types.lookup(instance_type))
    return [group for group, count in (("instance_store", disks), ("gpu", gpus)) if count]


def look(root: Path, node_type: str | None) -> Node:
    """Return the facts of the node from cfnconfig, /opt/slurm, sysfs and the instance metadata.

    Without an answer of the metadata service, the instance type is that of the firmware.
    Hardware of the instance type is in the groups even if the kernel lists none, so that its role reports the loss.
    """
    cfn = read_cfnconfig(root / "etc/parallelcluster/cfnconfig")
    cfn_kind = CFN_NODE_TYPES.get(cfn.get("cfn_node_type", ""))
    if node_type:
        kind, source = node_type, "--node-type"
    elif cfn_kind:
        kind, source = cfn_kind, "cfnconfig"
    elif (root / "opt/slurm").is_dir() or (root / "opt/aws/pcs").is_dir():
        # A head node of ParallelCluster has cfnconfig; AWS PCS has no head node to log in to.
        kind, source = "compute", "/opt/slurm"
    else:
        kind, source = "standalone", "neither cfnconfig nor /opt/slurm"
    cloud = metadata(("instance-id", "instance-type"))
    host, sysfs = Host(), root / "sys"
    instance_type = cloud["instance-type"] or firmware_type(host, str(sysfs)) or ""
    bus = pci.look(host, str(sysfs))
    groups = hardware_groups(sysfs, bus)
    groups += [group for group in expected_groups(instance_type) if group not in groups]
    groups += [kind] if kind != "standalone" else []
    return Node(
        kind,
        source,
        cloud["instance-id"],
        instance_type,
        cfn.get("cfn_scheduler_queue_name", ""),
        tuple(groups),
        count_gpus(host, sysfs, bus),
    )


def choose_roles(
    node: Node,
    requests: Sequence[RoleRequest],
    required: bool | None,
    available: Sequence[str],
    variables: Mapping[str, object],
) -> list[Role]:
    """Return the roles of this run in order. Raises OptionsError for an unknown role, or one for other nodes.

    ``:required`` of a role overrides ``--required``, which overrides the default of the role.
    """
    if requests:
        unknown = [request.name for request in requests if "." not in request.name and request.name not in available]
        if unknown:
            raise OptionsError(f"the bundle has no role {', '.join(unknown)}; it has {', '.join(sorted(available))}")
        astray = [request.name for request in requests if SHARED.get(request.name, node.kind) != node.kind]
        if astray:
            raise OptionsError(
                f"{', '.join(astray)} writes files that all nodes share, which only the head node may do, and this is "
                f"a {node.kind} node: leave it out of --roles"
            )
        named = list(requests)
    else:
        groups = set(node.groups) | ({"fsx"} if any(name.startswith("fsx_lustre_") for name in variables) else set())
        named = [RoleRequest(name, None) for name, takes in ROLES.items() if takes & groups and name in available]
    return [
        Role(
            request.name,
            next(level for level in (request.required, required, request.name not in BEST_EFFORT) if level is not None),
        )
        for request in named
    ]
