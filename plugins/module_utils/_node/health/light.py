# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that are cheap enough for a Prolog: they read files of the kernel and, for Xids only, its log.

They reuse the looks of the other parts, on a host that runs no programs.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ..accelerator import look as accelerator
from ..accelerator.verify import verify as verify_accelerators
from ..efa import look as efa
from ..efa.verify import verify as verify_efa
from ..scratch import directories as scratch
from ..scratch import made
from ..storage.config import CONFIG_PATH
from ..storage.record import RECORD_PATH, read_document
from ..system.config_file import is_configured
from ..system.host import CommandError, CommandResult, Host, NodeError
from ..system.mounts import read_mounts
from ..verdict.result import (
    FAIL,
    NOT_APPLICABLE,
    PASS,
    Result,
    Scope,
    failed,
    none_expected,
    not_applicable,
    passed,
    undeterminable,
)

MIN_FREE_PERCENT = 5


def running_only(host: Host, *programs: str) -> Host:
    """Return the same host, on which only these programs are installed."""

    def run(argv: t.Sequence[str], *more: t.Any, **options: t.Any) -> CommandResult:
        if argv[0] not in programs:
            raise CommandError(argv, None, "", "", "left out of a light check")
        return host.run(argv, *more, **options)

    light = copy.copy(host)
    vars(light).update(run=run, which=lambda program: host.which(program) if program in programs else None)
    return light


def check_efa(host: Host, options: efa.Options) -> list[Result]:
    """Return the verdict efa.devices, from sysfs alone."""
    verdicts = verify_efa(efa.look(running_only(host), options))
    return [verdict for verdict in verdicts if verdict.id == "efa.devices"]


def check_accelerators(host: Host, options: accelerator.Options) -> list[Result]:
    """Return gpu.count, on Neuron also neuron.driver and neuron.count, without nvidia-smi: it hangs if a GPU hangs."""
    facts = accelerator.look(running_only(host), options)
    verdicts = {verdict.id: verdict for verdict in verify_accelerators(facts)}
    if facts["neuron"] is not None:
        return [verdicts["neuron.driver"], _neuron_count(facts), *no_gpus(facts)]
    # A failure that is visible on the bus needs no nvidia-smi.
    if facts["smi"] is None or verdicts["gpu.count"].status == FAIL:
        return [verdicts["gpu.count"]]
    return [_gpu_count(host, facts)]


def no_gpus(facts: t.Mapping[str, t.Any], check: str = "gpu.count") -> list[Result]:
    """Return that a check of GPUs does not apply to a node whose type has Neuron devices; nothing for any other.

    A check of that name which ended late is known not to apply by it.
    """
    expected = facts["expected"]
    if facts["neuron"] is None or not expected or expected["kind"] != "neuron" or facts["pci_gpus"]:
        return []
    return [none_expected(check, "this node has Neuron devices", facts["expected_source"], "GPUs")]


def _neuron_count(facts: t.Mapping[str, t.Any]) -> Result:
    found, expected = facts["neuron"]["device_nodes"], facts["expected"]
    if not expected or expected["kind"] != "neuron":
        return undeterminable("neuron.count", "the expected Neuron devices are not known", found=found)
    fields: dict[str, t.Any] = {"expected": expected["count"], "found": found, "unit": "devices"}
    fields["source"] = facts["expected_source"]
    if found < expected["count"]:
        return failed("neuron.count", "device nodes are missing from /dev", severity="isolate", **fields)
    if found > expected["count"]:
        return undeterminable("neuron.count", "there are more device nodes than expected", **fields)
    return passed("neuron.count", **fields)


def _gpu_count(host: Host, facts: t.Mapping[str, t.Any]) -> Result:
    on_bus, expected = facts["pci_gpus"], facts["expected"]
    wanted = max(expected["count"] if expected else 0, len(on_bus or ()))
    offered = len(host.listdir("/proc/driver/nvidia/gpus"))
    fields: dict[str, t.Any] = {"expected": wanted, "found": offered, "unit": "GPUs"}
    fields["source"] = facts["expected_source"] or "the PCI bus"
    if not facts["kernel_module"]["version"]:
        return failed(
            "gpu.count", "the NVIDIA driver is not loaded", severity="reset", hint="run 'modprobe nvidia'", **fields
        )
    if offered < wanted:
        return failed("gpu.count", "the driver does not offer all GPUs", severity="isolate", **fields)
    if not expected:
        return undeterminable("gpu.count", "the expected number of GPUs is not known", **fields)
    if offered > wanted:
        return undeterminable("gpu.count", "the driver offers more GPUs than expected", **fields)
    return passed("gpu.count", **fields)


def check_xids(host: Host, options: accelerator.Options, allowed: t.Collection[int] = ()) -> list[Result]:
    """Return the verdicts gpu.xid and gpu.xid_count, from the kernel log of this boot."""
    facts = accelerator.look(running_only(host, "journalctl", "dmesg"), options)
    if facts["neuron"] is not None:
        return no_gpus(facts, "gpu.xid") or [not_applicable("gpu.xid", "this node has Neuron devices")]
    if facts["smi"] is None:
        # As its count: whether a GPU is here may be unknown.
        return [dataclasses.replace(one, id="gpu.xid") for one in verify_accelerators(facts) if one.id == "gpu.count"]
    return [verdict for verdict in judge_accelerators(facts, allowed) if verdict.id.startswith("gpu.xid")]


def judge_accelerators(
    facts: t.Mapping[str, t.Any], allowed: t.Collection[int] = (), mig: bool = False
) -> list[Result]:
    """Return all verdicts on the accelerators.

    Xids that a site allows are only counted, in gpu.xid_count {code: times, total}. mig: the GPUs are split by MIG.
    """
    log = facts["kernel_log"]
    if not log or log["problem"]:
        return verify_accelerators(facts, mig)
    counts = {**log["counts"], "total": sum(log["counts"].values())}
    left = [event for event in log["xids"] if event["code"] not in allowed]
    judged = verify_accelerators({**facts, "kernel_log": {**log, "xids": left}}, mig)
    if facts["smi"] is None or log["partial"]:
        return judged
    return [*judged, passed("gpu.xid_count", counts, unit="Xids", message="as counted; gpu.xid judges them")]


def check_storage(host: Host) -> list[Result]:
    """Return storage.record and, for each volume of the record, storage.mounted; touches no filesystem."""
    try:
        recorded, configured = is_configured(host, RECORD_PATH), is_configured(host, CONFIG_PATH)
    except NodeError as exc:
        return [undeterminable("storage.record", str(exc))]
    if not recorded:
        if not configured:
            return [not_applicable("storage.record", "this node has no local storage to check")]
        hint = "look with 'systemctl status mlcluster-storage'"
        message = f"{CONFIG_PATH} configures local storage, and {RECORD_PATH} is missing"
        return [failed("storage.record", message, severity="reset", hint=hint)]
    record = read_document(host, RECORD_PATH)
    if record is None or not isinstance(record.get("state"), str):
        return [undeterminable("storage.record", f"{RECORD_PATH} is damaged", hint="run the role nvme_raid0 again")]
    state = record["state"]
    if state not in ("intact", "recreated", "none"):
        message = f"the local storage is {state}: {record.get('reason') or 'no reason is given'}"
        return [failed("storage.record", message, severity="isolate", found=state)]
    boot = (host.read_text("/proc/sys/kernel/random/boot_id") or "").strip()
    if boot and record.get("boot_id") == boot:
        judged = passed("storage.record", state)
    else:
        # The boot unit ended before it wrote a record; whether the volume is mounted can be checked anyway.
        hint = "look with 'systemctl status mlcluster-storage'"
        message = f"{RECORD_PATH} was not written in this boot"
        judged = undeterminable("storage.record", message, found=state, hint=hint)
    volumes = record.get("volumes")
    if state == "none":
        # Volumes in such a record were there before the layout none: nothing proves their disks.
        left = not_applicable("storage.record", "the local volume was taken off this node")
        return [left if volumes and judged.status == PASS else judged]
    if not volumes:
        message = f"{RECORD_PATH} has the state {state} and lists no volume"
        return [undeterminable("storage.record", message, found=state, hint="run the role nvme_raid0 again")]
    try:
        mounts = read_mounts(host)
    except NodeError as exc:
        return [judged, undeterminable("storage.mounted", str(exc))]
    return [judged, *(_mounted(host, volume, mounts) for volume in volumes)]


def _mounted(host: Host, volume: t.Mapping[str, t.Any], mounts: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    scope = Scope(device=volume["path"])
    mount = next((one for one in reversed(mounts) if one["target"] == volume["path"]), None)
    hint = "run 'systemctl restart mlcluster-storage' on the node"
    if mount is None:
        return failed("storage.mounted", "the local volume is not mounted", severity="reset", scope=scope, hint=hint)
    options = mount["options"].split(",")
    if "ro" in options:
        message = "it is mounted read-only, as ext4 and XFS do after an I/O error"
        return failed("storage.mounted", message, severity="isolate", scope=scope, hint="look with 'dmesg'")
    link = f"/dev/disk/by-uuid/{volume['fs_uuid']}"
    wanted, found = host.realpath(link), host.realpath(mount["source"])
    if not volume["fs_uuid"] or not host.exists(link):
        message = f"the device with the volume's file system is not known: {link} is missing"
        return undeterminable("storage.mounted", message, scope=scope, found=mount["source"])
    if "rw" not in options:
        message = f"it is not known to be writable: its options are '{mount['options']}'"
        return undeterminable("storage.mounted", message, scope=scope)
    if wanted != found:
        message = f"something else is mounted there: {mount['source']}"
        return failed("storage.mounted", message, severity="isolate", scope=scope, expected=wanted, found=found)
    return passed("storage.mounted", f"{mount['source']} ({mount['fstype']})", scope=scope)


def check_scratch(host: Host, base: str | None, least_percent: int = MIN_FREE_PERCENT) -> list[Result]:
    """Return the verdicts on the volume of the jobs' directories, and whether the last job got its directory."""
    base = base or scratch.default_base(host)
    found = _job_volume(host, base, least_percent)
    # Without the volume no job is to have a directory.
    return found if base is None or found[0].status == NOT_APPLICABLE else [*found, made.verify(host, base)]


def _job_volume(host: Host, base: str | None, least_percent: int) -> list[Result]:
    """Return scratch.space and scratch.write for the filesystem of the jobs' directories."""
    try:
        if read_document(host, RECORD_PATH) is None and host.exists(RECORD_PATH):
            # On which path the volume has to be mounted is not known either.
            return [undeterminable("scratch.space", f"{RECORD_PATH} is damaged", hint="run the role nvme_raid0 again")]
        if base is None:
            return [not_applicable("scratch.space", "this node has no local volume for the jobs' directories")]
        missing = scratch.no_volume(host, base)
        if missing:
            return [not_applicable("scratch.space", missing)]
        try:
            away = scratch.unmounted_volume(host, base)
        except NodeError as exc:
            return [undeterminable("scratch.space", str(exc), scope=Scope(device=base))]
        if away:
            return [failed("scratch.space", away, severity="reset", scope=Scope(device=base))]
        if host.is_root():
            with scratch.opened_base(base, or_above=True) as handle:
                free = scratch.free_percent(handle)
        else:
            free = scratch.free_percent(base.rsplit("/", 1)[0] or "/")
    except NodeError as exc:
        return [failed("scratch.space", str(exc), severity="reset")]
    except OSError as exc:
        return [undeterminable("scratch.space", f"{base}: {exc.strerror}", hint="run as root")]
    scope = Scope(device=base)
    fields: dict[str, t.Any] = {"expected": least_percent, "found": min(free.values()), "unit": "% free"}
    if min(free.values()) < least_percent:
        which = min(free, key=lambda what: free[what])
        hint = "run 'mlcluster scratch sweep', then check with 'du' what fills it"
        message = f"free {which} are running out"
        return [failed("scratch.space", message, severity="reset", scope=scope, hint=hint, **fields)]
    space = passed("scratch.space", scope=scope, **fields)
    if not host.is_root():
        # Only root can write there.
        return [space]
    started = host.monotonic()
    try:
        host.write_probe(base if host.exists(base) else base.rsplit("/", 1)[0] or "/", 4096)
    except OSError as exc:
        message = f"writing and reading back 4 KiB failed: {exc.strerror or exc}"
        return [space, failed("scratch.write", message, severity="isolate", scope=scope, hint="look with 'dmesg'")]
    seconds = round(host.monotonic() - started, 3)
    return [space, passed("scratch.write", 4096, unit="bytes", scope=scope, seconds=seconds)]
