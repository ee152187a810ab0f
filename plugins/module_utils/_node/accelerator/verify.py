# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on what L{accelerator.look} saw. Pure: facts in, mlcluster.result/1 out."""

from __future__ import annotations

import re
import typing as t

from ..._data import xid_catalog
from ..._data.nvlink import LINKS
from ..verdict.result import SEVERITIES, Result, Scope, failed, not_applicable, passed, undeterminable
from .fabric_manager import joined_by_nvswitch
from .neuron import MEMORY_TOLERANCE_PERCENT, verify_neuron
from .parse import is_model

MEMORY_SOURCE = "NVIDIA GPU Memory Error Management (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt)"
# Reasons that mean too hot or too little power; sw_power_cap is what a GPU at full load shows.
BAD_CLOCKS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")

# How EC2 calls its accelerated types (EC2 User Guide, instance type naming conventions).
ACCELERATED = re.compile(r"(?:p|g|gr|trn|inf|dl|vt)\d")

GPU_CHECKS = (
    "gpu.count",
    "gpu.model",
    "gpu.memory",
    "gpu.driver",
    "gpu.ecc",
    "gpu.recovery",
    "gpu.xid",
    "gpu.clocks",
    "gpu.pcie",
    "gpu.persistence",
    "gpu.mig",
    "gpu.nvlink",
    "gpu.fabric",
    "gpu.topology",
)


def verify(facts: t.Mapping[str, t.Any], mig: bool = False) -> list[Result]:
    """Verdicts with the ids L{GPU_CHECKS}, or neuron.count, neuron.memory and neuron.driver; mig: it is wanted."""
    expected = facts["expected"]
    if facts["neuron"] is not None:
        return verify_neuron(facts["neuron"], expected, facts["expected_source"])
    if facts["smi"] is None:
        return [_without_gpu(facts)]
    results = [_count(facts)]
    if facts["smi"]["problem"]:
        hint = "run 'nvidia-smi' on the node; 'dmesg | grep NVRM' says more"
        ids = [check for check in GPU_CHECKS if check not in ("gpu.count", "gpu.xid")]
        results += [undeterminable(check, facts["smi"]["problem"], hint=hint) for check in ids]
        return [*results, _xid(facts)]
    gpus = facts["smi"]["gpus"]
    results += [_model(facts, gpus), _memory(facts, gpus), _driver(facts)]
    results += [_ecc(gpus), _recovery(gpus), _xid(facts), _clocks(gpus), _pcie(gpus)]
    return [*results, _persistence(gpus), _mig(gpus, mig), _nvlink(facts, gpus), _fabric(facts, gpus), _topology(facts)]


def _without_gpu(facts: t.Mapping[str, t.Any]) -> Result:
    if facts["type_known"] and not facts["expected"]:
        return not_applicable("gpu.count", f"{facts['instance_type']} has no accelerators")
    kind = facts["instance_type"] or ""
    if facts["pci_gpus"] == [] and not facts["type_known"] and ACCELERATED.match(kind):
        return undeterminable("gpu.count", f"no GPU is on the PCI bus, and what {kind} should have is not known")
    if facts["pci_gpus"] == []:
        return not_applicable("gpu.count", "no GPU is on the PCI bus, and the instance type is not known")
    return undeterminable("gpu.count", "the PCI bus cannot be seen, and the instance type is not known")


def _name(gpu: t.Mapping[str, t.Any]) -> str:
    return f"gpu{gpu['index']}"


def _each(
    check: str,
    gpus: t.Sequence[t.Mapping[str, t.Any]],
    judge: t.Callable[[t.Mapping[str, t.Any]], tuple[str, str] | None],
    known: t.Callable[[t.Mapping[str, t.Any]], bool],
    good: str,
    **fields: t.Any,
) -> Result:
    """One verdict on all GPUs: judge gives (severity, sentence part) of what is wrong; known says whether a GPU told
    the fact at all. A GPU that did not is no pass, and what is wrong with another outweighs it.
    """
    wrong = [(gpu, found) for gpu, found in ((gpu, judge(gpu)) for gpu in gpus) if found]
    if wrong:
        severity = max((found[0] for _gpu, found in wrong), key=SEVERITIES.index)
        told = "; ".join(f"{_name(gpu)} {found[1]}" for gpu, found in wrong)
        scope = Scope(device=_name(wrong[0][0])) if len(wrong) == 1 else Scope()
        return failed(check, told, severity=severity, scope=scope, **fields)
    silent = [_name(gpu) for gpu in gpus if not known(gpu)]
    if silent or not gpus:
        return undeterminable(check, f"not told by {', '.join(silent) or 'any GPU'}", **fields)
    return passed(check, good, **fields)


def _count(facts: t.Mapping[str, t.Any]) -> Result:
    smi, pci, expected = facts["smi"], facts["pci_gpus"], facts["expected"]
    wanted = expected["count"] if expected else None
    fields: dict[str, t.Any] = {"expected": wanted, "unit": "GPUs", "source": facts["expected_source"]}
    on_bus = len(pci) if pci is not None else None
    if on_bus is not None and wanted is not None and on_bus < wanted:
        hint = "stop and start the instance, or replace it"
        return failed(
            "gpu.count", "GPUs are missing from the PCI bus", severity="isolate", found=on_bus, hint=hint, **fields
        )
    if facts["lost_gpus"]:
        return failed(
            "gpu.count",
            f"{', '.join(facts['lost_gpus'])} gives no answer on the PCI bus",
            severity="isolate",
            found=(on_bus or 0) - len(facts["lost_gpus"]),
            hint="look for Xid 79 in the kernel log; stop and start the instance, or replace it",
            **fields,
        )
    if smi["problem"]:
        return undeterminable("gpu.count", smi["problem"], found=on_bus, **fields)
    found = len(smi["gpus"])
    fields["found"] = found
    if smi["attached"] is not None and smi["attached"] != found:
        return undeterminable(
            "gpu.count", f"nvidia-smi speaks of {smi['attached']} GPUs and describes others", **fields
        )
    named = [gpu["uuid"] for gpu in smi["gpus"] if gpu["uuid"]]
    if len(set(named)) != len(named):
        return undeterminable("gpu.count", "nvidia-smi describes one GPU several times", **fields)
    least = max(wanted or 0, on_bus or 0)
    if found < least:
        fields["expected"] = least
        return failed(
            "gpu.count",
            "the driver does not offer all GPUs",
            severity="isolate",
            hint="look for Xid 79 and 'fallen off the bus' in the kernel log",
            **fields,
        )
    if wanted is None:
        return undeterminable("gpu.count", "how many GPUs there should be is not known", **fields)
    if found > wanted:
        return undeterminable("gpu.count", "more GPUs than the table says: it is out of date", **fields)
    return passed("gpu.count", **fields)


def _model(facts: t.Mapping[str, t.Any], gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    if not facts["expected"]:
        return undeterminable("gpu.model", "which GPUs there should be is not known")
    wanted = facts["expected"]["name"]

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        other = gpu["name"] and not is_model(wanted, gpu["name"])
        return ("isolate", f"is {gpu['name']}") if other else None

    return _each(
        "gpu.model",
        gpus,
        judge,
        lambda gpu: gpu["name"] is not None,
        ", ".join(sorted({str(gpu["name"]) for gpu in gpus})),
        expected=wanted,
        source=facts["expected_source"],
    )


def _memory(facts: t.Mapping[str, t.Any], gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    if not facts["expected"]:
        return undeterminable("gpu.memory", "how much memory each GPU should have is not known")
    wanted = facts["expected"]["memory_mib"]
    floor = wanted * (100 - MEMORY_TOLERANCE_PERCENT) // 100

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        low = gpu["memory_mib"] is not None and gpu["memory_mib"] < floor
        return ("isolate", f"shows {gpu['memory_mib']} MiB") if low else None

    shown = sorted({gpu["memory_mib"] for gpu in gpus if gpu["memory_mib"] is not None})
    return _each(
        "gpu.memory",
        gpus,
        judge,
        lambda gpu: gpu["memory_mib"] is not None,
        "to ".join(f"{size} MiB " for size in (shown[:1] + shown[1:][-1:])).strip(),
        expected=f"{floor} MiB or more",
        source=facts["expected_source"],
    )


def _driver(facts: t.Mapping[str, t.Any]) -> Result:
    library, module = facts["smi"]["driver"], facts["kernel_module"]["version"]
    if not library:
        return undeterminable("gpu.driver", "nvidia-smi does not name the driver's version")
    if module and module != library:
        return failed(
            "gpu.driver",
            "the loaded kernel module is not of the version of the driver's libraries",
            severity="reboot",
            expected=library,
            found=module,
            hint="reboot the node, and keep the driver's packages on hold",
        )
    return passed("gpu.driver", library)


def _ecc(gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    """Memory: what NVIDIA says calls for a replacement, for a reset, or for nothing."""

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        ecc, rows, pages = gpu["ecc"], gpu["remapped_rows"], gpu["retired_pages"]
        lasting = ecc["sram_threshold_exceeded"] or ecc["unrepairable_memory"]
        pending = rows["pending"] or ecc["channel_repair_pending"] or ecc["tpc_repair_pending"]
        findings = [
            ("isolate", "could not remap a row of its memory", rows["failure"]),
            ("isolate", "has memory that cannot be repaired", lasting),
            ("reboot", "has pages to retire at the next boot", pages["pending"]),
            ("reset", "has a memory repair to carry out at the next reset", pending),
            ("reset", f"had {ecc['volatile']['uncorrectable']} uncorrectable errors", ecc["volatile"]["uncorrectable"]),
            # A page that was retired does no more harm (NVIDIA, Dynamic Page Retirement).
            ("monitor", f"has {pages['double_bit']} pages retired after double-bit errors", pages["double_bit"]),
            ("monitor", "has ECC switched off", ecc["enabled"] is False),
        ]
        return next(((severity, text) for severity, text, there in findings if there), None)

    return _each(
        "gpu.ecc",
        gpus,
        judge,
        lambda gpu: gpu["ecc"]["enabled"] is not None and gpu["ecc"]["volatile"]["uncorrectable"] is not None,
        "no uncorrectable error and no repair pending",
        source=MEMORY_SOURCE,
    )


def _recovery(gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    """The driver's own word on what has to be done; older drivers have none."""
    if gpus and all(gpu["recovery_action"] is None for gpu in gpus):
        return not_applicable("gpu.recovery", "this driver does not name a recovery action")

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        severity = xid_catalog.recovery_severity(gpu["recovery_action"] or "none")
        return (severity, f"asks for: {gpu['recovery_action']}") if severity != "none" else None

    source = "nvidia-smi, gpu_recovery_action"
    return _each("gpu.recovery", gpus, judge, lambda gpu: gpu["recovery_action"] is not None, "None", source=source)


def _xid(facts: t.Mapping[str, t.Any]) -> Result:
    """Xids by NVIDIA's catalog. Those that only say that an application failed do not count against the node."""
    log = facts["kernel_log"]
    if log["problem"]:
        hint = "run as root"
        return undeterminable("gpu.xid", f"the kernel log could not be read: {log['problem']}", hint=hint)
    classes = [{**event, **xid_catalog.classify(event["code"], event["text"])} for event in log["xids"]]
    fatal = [event for event in log["sxids"] if event["fatal"]]
    found = ", ".join(f"Xid {code} {count} times" for code, count in sorted(log["counts"].items(), key=_by_code))
    fields: dict[str, t.Any] = {"found": found or "no Xid", "source": xid_catalog.SOURCE}
    worst = max(classes, key=lambda event: SEVERITIES.index(event["severity"]), default=None)
    # A fatal error of a switch brings Xid 74 to its GPUs, and takes the same reset (Fabric Manager user guide).
    if fatal and (worst is None or SEVERITIES.index(worst["severity"]) < SEVERITIES.index("reset")):
        event = fatal[-1]
        told = f"NVSwitch {event['switch']} reported SXid {event['code']}: {event['text']}"
        return failed("gpu.xid", told, severity="reset", hint="reset all GPUs and NVSwitches", **fields)
    if (worst is None or worst["severity"] == "none") and log["partial"]:
        hint = "look with 'journalctl -k -b | grep Xid', and give the time from which on Xids count"
        return undeterminable(
            "gpu.xid",
            "the kernel log does not reach back to the boot, or is so long that only its end was looked at",
            hint=hint,
            **fields,
        )
    if worst is None or worst["severity"] == "none":
        return passed("gpu.xid", **fields)
    told = f"Xid {worst['code']} on {worst['bus']} since the last boot: {worst['text'] or worst['bucket']}"
    scope = Scope(device=worst["bus"])
    return failed("gpu.xid", told, severity=worst["severity"], hint=worst["action"], scope=scope, **fields)


def _by_code(item: tuple[str, int]) -> int:
    return int(item[0])


def _clocks(gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        bad = [reason for reason in gpu["throttle_reasons"] or () if reason in BAD_CLOCKS]
        return ("monitor", f"has its clocks lowered by {', '.join(bad)}") if bad else None

    def known(gpu: t.Mapping[str, t.Any]) -> bool:
        return gpu["clocks_mhz"]["sm"] is not None and gpu["throttle_reasons"] is not None

    return _each("gpu.clocks", gpus, judge, known, "not lowered by heat or power")


def _pcie(gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    """A GPU with fewer lanes than its neighbours has a bad link. How many a type has in all, no source says: some have
    fewer than the GPU could use. The generation is left out, for it falls when a GPU idles.
    """
    widest = max((gpu["pcie"]["width"] or 0 for gpu in gpus), default=0)

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        width = gpu["pcie"]["width"]
        return ("isolate", f"has {width} of its neighbours' {widest} PCIe lanes") if width and width < widest else None

    return _each("gpu.pcie", gpus, judge, lambda gpu: bool(gpu["pcie"]["width"]), f"{widest} lanes on each GPU")


def _persistence(gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    return _each(
        "gpu.persistence",
        gpus,
        lambda gpu: ("monitor", "has persistence mode off") if gpu["persistence"] is False else None,
        lambda gpu: gpu["persistence"] is not None,
        "on",
        hint="enable nvidia-persistenced",
    )


def _mig(gpus: t.Sequence[t.Mapping[str, t.Any]], wanted: bool) -> Result:
    if gpus and all(gpu["mig"]["enabled"] is None for gpu in gpus):
        if wanted:
            return failed("gpu.mig", "MIG is wanted, and these GPUs do not have it")
        return not_applicable("gpu.mig", "these GPUs do not have MIG")

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        enabled, pending = gpu["mig"]["enabled"], gpu["mig"]["pending"]
        if pending is not None and enabled is not None and pending != enabled:
            return "reset", "changes its MIG mode at the next reset"
        return ("reset", f"has MIG {'on' if enabled else 'off'}") if enabled is not None and enabled != wanted else None

    return _each("gpu.mig", gpus, judge, lambda gpu: gpu["mig"]["enabled"] is not None, "on" if wanted else "off")


def _switched(facts: t.Mapping[str, t.Any]) -> bool | None:
    """Whether the GPUs are joined by NVSwitches; None where the instance type is not known."""
    return joined_by_nvswitch(facts["expected"]) if facts["type_known"] else None


def _unless_switched(facts: t.Mapping[str, t.Any], check: str) -> Result | None:
    switched = _switched(facts)
    if switched is None:
        return undeterminable(check, "whether the GPUs are joined by NVSwitches is not known")
    return None if switched else not_applicable(check, "the GPUs of this type are not joined by NVSwitches")


def _nvlink(facts: t.Mapping[str, t.Any], gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    check, links = "gpu.nvlink", facts["nvlinks"]
    outside = _unless_switched(facts, check)
    if outside:
        return outside
    if links["problem"]:
        return undeterminable(check, links["problem"])
    wanted = LINKS[facts["expected"]["name"]]

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        counted = links["gpus"].get(gpu["uuid"])
        few = counted is not None and counted["active"] < wanted
        return ("reset", f"has {counted['active']} of {wanted} NVLinks up") if counted and few else None

    return _each(
        check,
        gpus,
        judge,
        lambda gpu: gpu["uuid"] in links["gpus"],
        f"{wanted} on each GPU",
        hint="look with 'nvidia-smi nvlink --status' and at the fabric manager's log",
    )


def _fabric(facts: t.Mapping[str, t.Any], gpus: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    """Whether each GPU has joined the NVLink fabric; GPUs before Hopper do not say."""
    check = "gpu.fabric"
    outside = _unless_switched(facts, check)
    if outside:
        return outside
    if facts["expected"]["name"] == "A100":
        return not_applicable(check, "A100 does not tell its fabric state")

    def judge(gpu: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
        state, status = gpu["fabric"]["state"], gpu["fabric"]["status"]
        joined = state == "Completed" and status in ("Success", None)
        return ("reset", f"has fabric state {state}, status {status}") if state and not joined else None

    hint = "start the fabric manager; look with 'journalctl -u nvidia-fabricmanager'"
    return _each(check, gpus, judge, lambda gpu: gpu["fabric"]["state"] is not None, "Completed", hint=hint)


def _topology(facts: t.Mapping[str, t.Any]) -> Result:
    check, topology = "gpu.topology", facts["topology"]
    outside = _unless_switched(facts, check)
    if outside:
        return outside
    if topology["problem"]:
        return undeterminable(check, topology["problem"])
    rows = {name: row for name, row in topology["matrix"].items() if name.startswith("GPU")}
    count = facts["expected"]["count"]
    pairs = {
        f"{name}-{peer}": kind for name, row in rows.items() for peer, kind in row.items() if peer.startswith("GPU")
    }
    others = sorted(f"{pair} {kind}" for pair, kind in pairs.items() if not kind.startswith("NV"))
    if others:
        return failed(check, f"GPUs reach each other without NVLink: {', '.join(others[:8])}", severity="reset")
    if len(rows) < count:
        return undeterminable(check, f"nvidia-smi topo shows {len(rows)} of {count} GPUs")
    if len(pairs) < count * (count - 1):
        return undeterminable(check, f"nvidia-smi topo shows {len(pairs)} of {count * (count - 1)} connections")
    return passed(check, f"every pair by {', '.join(sorted(set(pairs.values())))}")
