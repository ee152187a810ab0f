# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated cluster to report on: its nodes' verdicts, results of its validation, and times of its set-up."""

from __future__ import annotations

import typing as t

TIME = "2026-01-31T12:00:00Z"
ATTACK = "</script><img src=x onerror=alert(1)>|`*_"
SIZES = [2**power for power in range(20, 35, 2)]


def verdict(check: str, status: str = "pass", **fields: t.Any) -> dict[str, t.Any]:
    entry = {"schema": "mlcluster.result/1", "id": check, "status": status, **fields}
    return {"found": "well", **entry} if status == "pass" else entry


# A verdict on each subject of the profile full besides those on the GPUs.
OTHERS = (
    "node.clock storage.plan scratch.space dcgm.fields efa.devices gds.mode mounts.answer lustre.mounted "
    "enroot.config slurm.node imex.service pcluster.diag"
)


def others(*given: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the other verdicts of the profile full besides ``given``: not applicable."""
    known = {entry["id"].partition(".")[0] for entry in given if isinstance(entry.get("id"), str)}
    return [
        verdict(check, "not_applicable", reason="not here")
        for check in [*OTHERS.split(), "gpu.count"]
        if check.partition(".")[0] not in known
    ]


def node(name: str, *verdicts: dict[str, t.Any], **fields: t.Any) -> dict[str, t.Any]:
    """Return a node that answered; healthy by default."""
    versions = fields.pop("versions", {"driver": "580.95.05", "kernel": "6.8.0-1030-aws"})
    results = list(verdicts) or [verdict("gpu.count", found=8, expected=8, unit="GPUs")]
    results += others(*results)
    return {
        "name": name,
        "kind": "compute",
        "instance_type": "p5.48xlarge",
        "queue": "gpu",
        "place": ["nn-1"],
        "health": {"results": results, "versions": versions, "seconds": 4.5},
        **fields,
    }


def silent(name: str) -> dict[str, t.Any]:
    return node(name, health={"unreachable": True, "msg": "Failed to connect to the host via ssh:\nno route to host"})


def broken(name: str, message: str = "a GPU fell off the bus") -> dict[str, t.Any]:
    return node(
        name,
        verdict(
            "gpu.count", "fail", severity="isolate", message=message, expected=8, found=7, unit="GPUs",
            hint="stop the instance and start it again",
        ),
    )  # fmt: skip


def cluster(size: int) -> list[dict[str, t.Any]]:
    """Return many nodes with many verdicts; every 29th is broken, and one has another driver."""
    nodes = []
    for number in range(1, size + 1):
        name, where = f"p5-dy-{number}", {"queue": f"p5-{number // 320}", "place": [f"nn-{number // 32}"]}
        if number % 29 == 3:
            nodes.append({**broken(name), **where})
            continue
        every = [verdict(f"check.number_{check}", found=check) for check in range(60)]
        every += [
            verdict("gpu.count", found=8, expected=8, unit="GPUs"),
            verdict("scratch.space", found=90 + number % 17 / 10, unit="% free"),
        ]
        versions = {"driver": "570.1" if number == 7 else "580.95.05", "kernel": "6.8.0-1030-aws"}
        nodes.append(node(name, *every, versions=versions, **where))
    return nodes


def bandwidth(share: float, device: str | None = None, status: str = "pass", **fields: t.Any) -> dict[str, t.Any]:
    figures = {str(size): round(480 * share * size / (size + 2**24), 2) for size in SIZES}
    return verdict(
        "nccl.bandwidth.all_reduce_perf",
        status,
        found=figures,
        message="measured",
        unit="GB/s by size",
        scope={"node": None, "instance_id": None, "device": device},
        **fields,
    )


def validation(*results: dict[str, t.Any], status: str = "pass", time: str = TIME) -> dict[str, t.Any]:
    job = {"name": "nccl_all", "job_id": 7, "state": "COMPLETED", "nodes": 2, "seconds": 88}
    return {
        "schema": "mlcluster.validation/1",
        "cluster": "train",
        "time": time,
        "jobs": [{**job, "status": status, "results": list(results)}],
    }


RUN = {"schema": "mlcluster.run/1", "roles": {"": 3.2, "nvme_raid0": 11.5, "efa_nccl": 40.0}}
