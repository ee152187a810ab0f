# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verify the local storage: mounts, size, members, and a write and read test."""

from __future__ import annotations

import posixpath
import typing as t

from ..system.host import Host
from ..system.units import starts_at_boot
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable
from .blank import NEVER_WRITTEN, ZEROS
from .config import StorageConfig
from .plan import Plan, expected_disks, select
from .situation import Context

BOOT_UNIT = "mlcluster-storage.service"


def verify(
    host: Host,
    facts: t.Mapping[str, t.Any],
    plan: Plan,
    config: StorageConfig,
    context: Context,
    probe: bool = True,
) -> list[Result]:
    """Return the verdicts storage.plan, storage.disks, storage.blank, storage.mounted, storage.size, storage.members,
    storage.write_read and storage.boot_unit; with probe false the write and read test is skipped and not reported.
    """
    if plan.refusals:
        return [failed("storage.plan", text, severity="isolate") for text in plan.refusals]
    if plan.situation in ("disabled", "no_disks"):
        reason = "the layout is none" if plan.situation == "disabled" else "this node has no instance-store disks"
        return [not_applicable("storage.plan", reason)]
    results = [_disks(facts, config, context), *_blank(facts, plan)]
    for volume in plan.volumes:
        results.append(_mounted(volume, facts))
        if results[-1].status != "pass":
            continue
        results.append(_size(host, volume, facts, config))
        if volume["array_uuid"]:
            results.append(_members(volume, facts))
        if probe:
            results.append(_write_read(host, volume))
    if not plan.volumes:
        results.append(failed("storage.mounted", "nothing is mounted yet: run the role without check mode"))
    results.append(_boot_unit(host))
    return results


def _disks(facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context) -> Result:
    found = len(select(facts, config)[0])
    expected, source = expected_disks(facts, config, context.table_disks)
    if config.devices is not None:
        expected, source = len({facts["named_devices"].get(given) for given in config.devices}), "nvme_raid0_devices"
    if expected is None:
        return undeterminable(
            "storage.disks",
            "the instance type is not known, so the expected number of disks is unknown",
            found=found,
            unit="disks",
            hint="set nvme_raid0_expected_disks",
        )
    if found < expected:
        return failed(
            "storage.disks",
            "instance-store disks are missing",
            severity="isolate",
            expected=expected,
            found=found,
            unit="disks",
            source=source,
            hint="stop and start the instance, or replace it",
        )
    if found > expected:
        return undeterminable(
            "storage.disks",
            "more disks than expected: the expectation is out of date",
            expected=expected,
            found=found,
            unit="disks",
            source=source,
            hint="set nvme_raid0_expected_disks",
        )
    return passed("storage.disks", found, expected=expected, unit="disks", source=source)


def _blank(facts: t.Mapping[str, t.Any], plan: Plan) -> list[Result]:
    """Return the verdict on the blank proof of the disks, now or before the volume was made; empty without a need."""
    proofs = {claim.disk["serial"]: claim.disk["blank"]["proof"] for claim in plan.claims if claim.disk["blank"]}
    proofs = proofs or (facts["record"] or {}).get("blank_proofs") or {}
    if not proofs:
        return []
    if not isinstance(proofs, dict):
        return [undeterminable("storage.blank", "the record of the volume has blank_proofs that are not a dictionary")]
    words = {ZEROS: "sampled reads are zero", NEVER_WRITTEN: "never written since the instance started"}
    found = "; ".join(f"{serial}: {words.get(str(proof), proof)}" for serial, proof in sorted(proofs.items()))
    source = "the proof before the volume is made"
    unknown = sorted(serial for serial, proof in proofs.items() if not isinstance(proof, str) or proof not in words)
    if unknown:
        text = f"the proof for {', '.join(unknown)} is of no known type"
        return [undeterminable("storage.blank", text, found=found, source=source)]
    return [passed("storage.blank", found, source=source)]


def _mounted(volume: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Result:
    scope = Scope(device=volume["device"])
    mounts = [mount for mount in facts["mounts"] if mount["target"] == volume["path"]]
    if not volume["mounted"] or not mounts:
        what = f"found {mounts[-1]['source']}" if mounts else "found nothing mounted"
        return failed(
            "storage.mounted",
            f"{volume['path']} does not carry the local volume: {what}",
            severity="reset",
            expected=volume["fs_uuid"],
            scope=scope,
            hint="run the role again, or 'systemctl restart mlcluster-storage' on the node",
        )
    mount = mounts[-1]
    if "ro" in mount["options"].split(","):
        return failed(
            "storage.mounted",
            f"{volume['path']} is mounted read-only, as ext4 and XFS do after an I/O error",
            severity="isolate",
            scope=scope,
            hint="look with 'dmesg'",
        )
    return passed("storage.mounted", f"{mount['source']} on {volume['path']} ({mount['fstype']})", scope=scope)


def _size(host: Host, volume: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], config: StorageConfig) -> Result:
    scope = Scope(device=volume["device"])
    raw = volume["disk_bytes"]
    found = host.filesystem_size(volume["path"])
    if found is None:
        return undeterminable("storage.size", f"statvfs gave no answer for {volume['path']}", scope=scope)
    floor = raw * (100 - config.size_tolerance_percent) // 100
    fields: dict[str, t.Any] = {
        "expected": floor,
        "found": found,
        "unit": "bytes",
        "scope": scope,
        "source": f"the sum of the disks less {config.size_tolerance_percent} %",
    }
    if not floor <= found <= raw:
        return failed(
            "storage.size",
            f"the filesystem on {volume['path']} does not have the size of its disks",
            hint="look with 'lsblk' whether a disk is left out",
            **fields,
        )
    return passed("storage.size", **fields)


def _members(volume: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Result:
    array = next((a for a in facts["arrays"] if a["uuid"] == volume["array_uuid"]), None)
    wanted = {posixpath.basename(path) for path in volume["disk_paths"]}
    found = len(wanted & set(array["members"])) if array and array["active"] else 0
    fields: dict[str, t.Any] = {
        "expected": len(volume["serials"]),
        "found": found,
        "unit": "disks",
        "scope": Scope(device=volume["device"]),
    }
    if found != len(volume["serials"]):
        return failed(
            "storage.members", "the array does not have the disks it was made of", severity="isolate", **fields
        )
    return passed("storage.members", **fields)


def _write_read(host: Host, volume: t.Mapping[str, t.Any]) -> Result:
    scope = Scope(device=volume["device"])
    size = 1 << 20
    started = host.monotonic()
    try:
        host.write_probe(volume["path"], size)
    except OSError as exc:
        return failed(
            "storage.write_read",
            f"writing and reading back 1 MiB on {volume['path']} failed: {exc.strerror or exc}",
            severity="isolate",
            scope=scope,
            hint="look with 'df', 'mount' and 'dmesg'",
        )
    seconds = round(host.monotonic() - started, 3)
    return passed("storage.write_read", size, unit="bytes", scope=scope, seconds=seconds)


def boot_unit_enabled(host: Host) -> bool:
    """Return whether systemd starts the boot unit by itself."""
    return starts_at_boot(host, BOOT_UNIT)


def _boot_unit(host: Host) -> Result:
    if boot_unit_enabled(host):
        return passed("storage.boot_unit", f"{BOOT_UNIT} is enabled")
    return failed(
        "storage.boot_unit",
        f"{BOOT_UNIT} is not enabled, so a stop and start would leave the node without its volume",
        hint="run the role again",
    )
