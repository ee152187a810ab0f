# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on the facts of ``accelerator.look``. Pure: facts in, mlcluster.result/1 out.

Each verdict lists its evidence as ``verdict.evidence`` fields; a missing or unknown field makes it undeterminable.
"""

from __future__ import annotations

import re
import typing as t

from ..._data import xid_catalog
from ..._data.nvlink import GB_PER_S, LINKS, WITHOUT
from ..system.versions import at_least, version_key
from ..verdict.evidence import (
    Facts,
    Field,
    Subject,
    Test,
    above,
    below,
    decide,
    exactly,
    is_number,
    is_text,
    never,
    within,
)
from ..verdict.result import (
    FAIL,
    SEVERITIES,
    Result,
    Scope,
    failed,
    first_of,
    none_expected,
    not_applicable,
    passed,
    undeterminable,
)
from .fabric import NO_CLUSTER
from .fabric_manager import joined_by_nvswitch
from .neuron import MEMORY_EXCESS_PERCENT, MEMORY_TOLERANCE_PERCENT, verify_neuron
from .parse import ACCELERATED, COUNTERS, EC2_TYPE, FIELDS, XID_RECOVERY, is_model

# The smallest number of GPUs that can be joined.
_PAIR = 2
MEMORY_SOURCE = "NVIDIA GPU Memory Error Management (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt)"
# Reasons that mean too hot or too little power; sw_power_cap is normal for a GPU at full load.
BAD_CLOCKS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
# Reasons that are not a fault, active or not.
HARMLESS_CLOCKS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "sync_boost",
    "display_clocks_setting",
    "display_clock_setting",
)
# Celsius. A value outside the range is not a temperature.
_TEMPERATURES = (1, 130)
_PCIE_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_PCIE_GENERATIONS = (1, 7)
# GPUs that retire pages where newer ones remap rows (NVIDIA, Dynamic Page Retirement).
_RETIRING = ("kepler", "maxwell", "pascal", "volta", "turing")
_RETIRING_MODELS = ("K80", "M60", "P100", "V100", "T4", "T4G")
# Driver releases with a recorded document that has the fields; an older driver may lack them.
_SINCE_RESET = "555.42"
_SINCE_RECOVERY = "575.51"
_SINCE_REPAIR = "580.159"

NAMING = "EC2 User Guide, instance type naming conventions"

GPU_CHECKS = (
    "gpu.count",
    "gpu.answers",
    "gpu.inforom",
    "gpu.model",
    "gpu.memory",
    "gpu.driver",
    "gpu.ecc",
    "gpu.recovery",
    "gpu.xid",
    "gpu.clocks",
    "gpu.pcie",
    "gpu.persistence",
    "gpu.compute_mode",
    "gpu.mig",
    "gpu.nvlink",
    "gpu.fabric",
    "gpu.topology",
)


def verify(facts: Facts, mig: bool = False) -> list[Result]:
    """Return verdicts with the ids ``GPU_CHECKS``, or those of Neuron devices; ``mig``: whether MIG is required."""
    expected = facts["expected"]
    if facts["neuron"] is not None:
        return verify_neuron(facts["neuron"], expected, facts["expected_source"])
    if facts["smi"] is None:
        return [_without_gpu(facts)]
    results = [_count(facts)]
    if facts["smi"]["problem"]:
        hint = "run 'nvidia-smi' on the node; 'dmesg | grep NVRM' shows more"
        ids = [check for check in GPU_CHECKS if check not in ("gpu.count", "gpu.xid")]
        results += [undeterminable(check, facts["smi"]["problem"], hint=hint) for check in ids]
        return [*results, _xid(facts)]
    gpus, driver = _subjects(facts), facts["smi"]["driver"]
    results += [_answers(gpus), _inforom(facts, gpus), _model(facts, gpus), _memory(facts, gpus), _driver(facts)]
    results += [_ecc(gpus, driver), _recovery(gpus, driver), _xid(facts), _clocks(gpus, driver), _pcie(gpus, driver)]
    results += [_persistence(gpus), _compute_mode(gpus), _mig(gpus, mig), _nvlink(facts, gpus, mig)]
    return [*results, _fabric(facts, gpus, driver), _topology(facts, mig)]


def _without_gpu(facts: Facts) -> Result:
    if facts["type_known"] and not facts["expected"]:
        why = f"{facts['instance_type']} has no accelerators"
        return none_expected("gpu.count", why, facts["expected_source"] or NAMING, "GPUs")
    kind = facts["instance_type"] or ""
    if facts["pci_gpus"] == [] and not facts["type_known"] and ACCELERATED.match(kind):
        return undeterminable("gpu.count", f"no GPU is on the PCI bus, and what {kind} should have is not known")
    if facts["pci_gpus"] == [] and not facts["type_known"] and EC2_TYPE.fullmatch(kind):
        return none_expected("gpu.count", f"{kind} has no GPU by its name, and none is on the PCI bus", NAMING, "GPUs")
    if facts["pci_gpus"] == []:
        return not_applicable("gpu.count", "no GPU is on the PCI bus, and the instance type is not known")
    return undeterminable("gpu.count", "the PCI bus cannot be seen, and the instance type is not known")


def _subjects(facts: Facts) -> list[Subject]:
    return [Subject(gpu, f"gpu{gpu['index']}", gpu["unreadable"]) for gpu in facts["smi"]["gpus"]]


def _field(
    name: str,
    good: Test,
    bad: Test = never,
    text: str = "is bad: {}",
    severity: str = "monitor",
    when: t.Callable[[Facts], bool] | None = None,
) -> Field:
    """Return a field whose label in messages is its path in nvidia-smi's document."""
    return Field(name, good, bad, text, severity, FIELDS[name][1], when)


def _values(gpus: t.Sequence[Subject], name: str) -> list[t.Any]:
    """Return the values of a fact (path of one or two parts) that can be compared between GPUs."""
    parts = name.split(".")
    found = [gpu.facts[parts[0]] if len(parts) == 1 else gpu.facts[parts[0]][parts[1]] for gpu in gpus]
    return [value for value in found if value is not None]


def _printed(name: str, driver: str | None, since: str) -> t.Callable[[Facts], bool]:
    """Return a test of whether a field counts as evidence: it exists, or this driver must print it."""
    have = version_key(driver)
    # A driver of unknown version must print all fields of the newest.
    newer = not have or at_least(have, version_key(since))

    def is_printed(facts: Facts) -> bool:
        value: t.Any = facts
        for part in name.split("."):
            value = value[part]
        return newer or value is not None or name in facts["unreadable"]

    return is_printed


def _is_na(facts: Facts, name: str) -> bool:
    return facts["unreadable"].get(name, "").strip("[]").upper() == "N/A"


def _retires_pages(facts: Facts) -> bool:
    """Return whether a GPU retires pages of its memory; a GPU of unknown architecture counts as a newer one."""
    if facts["architecture"]:
        return facts["architecture"].lower() in _RETIRING
    return any(is_model(model, facts["name"] or "") for model in _RETIRING_MODELS)


def _count(facts: Facts) -> Result:
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
            found=len(pci or ()) - len(facts["lost_gpus"]),
            hint="look for Xid 79 in the kernel log; stop and start the instance, or replace it",
            **fields,
        )
    if smi["problem"]:
        return undeterminable("gpu.count", smi["problem"], found=on_bus, **fields)
    found = len(smi["gpus"])
    silent = [gpu for gpu in smi["gpus"] if not (gpu["uuid"] or gpu["name"] or gpu["memory_mib"])]
    if silent:
        fields["found"] = found - len(silent)
        names = ", ".join(f"gpu{gpu['index']}" for gpu in silent)
        return failed(
            "gpu.count",
            f"{names} is listed and does not answer: no name, UUID or memory can be read",
            severity="reset",
            hint="run 'nvidia-smi -q' and look for Xids in the kernel log; reset the GPU, or replace the instance",
            **fields,
        )
    fields["found"] = found
    if smi["attached"] != found:
        return undeterminable(
            "gpu.count",
            f"nvidia-smi lists {found} GPUs, and attached_gpus reads {smi['attached'] or 'no number'}",
            **fields,
        )
    named = [gpu["uuid"] for gpu in smi["gpus"] if gpu["uuid"]]
    if len(set(named)) != len(named):
        return undeterminable("gpu.count", "nvidia-smi describes one GPU several times", **fields)
    minimum = max(wanted or 0, on_bus or 0)
    if found < minimum:
        fields["expected"] = minimum
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
        return undeterminable("gpu.count", "more GPUs than the table has: it is out of date", **fields)
    return decide("gpu.count", (_field("uuid", is_text),), _subjects(facts), **fields)


def _answers(gpus: t.Sequence[Subject]) -> Result:
    """Return the verdict that no field of a GPU contains a driver error instead of a value."""
    wrong = [f"{gpu.name} {path} reads '{text}'" for gpu in gpus for path, text in gpu.facts["errors"].items()]
    if wrong or not gpus:
        return undeterminable(
            "gpu.answers",
            "unread",
            message=first_of(wrong, 8, "; ") or "there is nothing to judge",
            hint="run 'nvidia-smi -q'; if it stays, reset the GPU, or replace the instance",
        )
    return passed("gpu.answers", f"{len(gpus)} GPUs without an error in any field")


def _inforom(facts: Facts, gpus: t.Sequence[Subject]) -> Result:
    """Return the verdict on the InfoROM of each GPU; nvidia-smi warns about it outside of its document."""
    warnings = [line for line in facts["smi"]["warnings"] if re.search(r"inforom is corrupt", line, re.IGNORECASE)]
    hint = "ask AWS for another instance if it stays after a stop and start: the GPU's own log is gone with it"
    if warnings:
        return failed("gpu.inforom", f"nvidia-smi reports: {'; '.join(warnings)[:300]}", severity="monitor", hint=hint)
    return decide("gpu.inforom", (_field("inforom", is_text),), gpus, "readable on each GPU", hint=hint)


def _model(facts: Facts, gpus: t.Sequence[Subject]) -> Result:
    if not facts["expected"]:
        return undeterminable("gpu.model", "which GPUs there should be is not known")
    wanted = facts["expected"]["name"]
    name = _field(
        "name",
        lambda name: is_text(name) and is_model(wanted, name),
        lambda name: is_text(name) and not is_model(wanted, name),
        "is {}",
        "isolate",
    )
    found = ", ".join(sorted(set(_values(gpus, "name"))))
    return decide("gpu.model", (name,), gpus, found, expected=wanted, source=facts["expected_source"])


def _memory(facts: Facts, gpus: t.Sequence[Subject]) -> Result:
    if not facts["expected"] or facts["expected"]["memory_mib"] is None:
        return undeterminable("gpu.memory", "how much memory each GPU should have is not known")
    wanted = facts["expected"]["memory_mib"]
    floor = wanted * (100 - MEMORY_TOLERANCE_PERCENT) // 100
    maximum = wanted * (100 + MEMORY_EXCESS_PERCENT) // 100
    sizes = sorted(set(_values(gpus, "memory_mib")))
    return decide(
        "gpu.memory",
        (_field("memory_mib", within(floor, maximum), below(floor), "shows {} MiB", "isolate"),),
        gpus,
        "to ".join(f"{size} MiB " for size in (sizes[:1] + sizes[1:][-1:])).strip(),
        expected=f"{floor} MiB or more",
        source=facts["expected_source"],
    )


def _driver(facts: Facts) -> Result:
    library, module = facts["smi"]["driver"], facts["kernel_module"]["version"]
    evidence = (
        Field("library", is_text, label="driver_version of nvidia-smi"),
        Field(
            "module",
            exactly(library),
            lambda version: bool(library) and is_text(version) and version != library,
            "the loaded kernel module is not of the version of the driver's libraries",
            "reboot",
            label="the version in /proc/driver/nvidia/version",
        ),
    )
    result = decide("gpu.driver", evidence, [Subject({"library": library, "module": module})], library)
    if result.status != FAIL:
        return result
    return failed(
        "gpu.driver",
        result.message or "",
        severity=result.severity,
        expected=library,
        found=module,
        hint="reboot the node, and keep the driver's packages on hold",
    )


def _no(name: str, text: str, severity: str, when: t.Callable[[Facts], bool] | None = None) -> Field:
    """Return a field whose good value is ``No`` and whose bad value is ``Yes``."""
    return _field(name, exactly(False), exactly(True), text, severity, when=when)


def _counted(name: str, when: t.Callable[[Facts], bool] | None = None) -> Field:
    """Return a field that must hold a number, of any value."""
    return _field(name, within(0), when=when)


def _has(path: str) -> t.Callable[[Facts], bool]:
    """Return a test whether the counter of this dotted path is required for the GPU."""
    _ecc_part, scope, _counters, name = path.split(".", 3)
    return lambda facts: name in facts["ecc"][scope]["counters"]


def _counters() -> t.Iterator[Field]:
    for scope in ("volatile", "aggregate"):
        for name in COUNTERS:
            path = f"ecc.{scope}.counters.{name}"
            # Errors from before the driver was loaded are judged by their effects, as NVIDIA does, in the fields below.
            harmless = scope == "aggregate" or ("uncorrectable" not in name and "double_bit" not in name)
            yield Field(
                path,
                within(0) if harmless else exactly(0),
                never if harmless else above(0),
                "had {} uncorrectable errors",
                "reset",
                label=f"ecc_errors/{scope}/{name}",
                when=_has(path),
            )


def _ecc_evidence(driver: str | None) -> list[Field]:
    def remaps(facts: Facts) -> bool:
        return not _retires_pages(facts)

    def printed(name: str, since: str, all_gpus: bool = True) -> t.Callable[[Facts], bool]:
        is_printed = _printed(name, driver, since)

        def evidence(facts: Facts) -> bool:
            # Hopper and newer repair channels and TPCs: an older GPU may report N/A.
            if not all_gpus and _is_na(facts, name) and facts["architecture"] in ("Ampere", "Ada Lovelace"):
                return False
            return remaps(facts) and is_printed(facts)

        return evidence

    def histogram(name: str) -> t.Callable[[Facts], bool]:
        is_printed = printed(name, _SINCE_RESET)
        return lambda facts: is_printed(facts) and not _is_na(facts, "remapped_rows/row_remapper_histogram")

    def retires(name: str) -> t.Callable[[Facts], bool]:
        # GPUs that remap rows read N/A in these fields.
        is_printed = _printed(name, driver, _SINCE_RESET)
        return lambda facts: _retires_pages(facts) or (is_printed(facts) and not _is_na(facts, name))

    def remapping(name: str) -> t.Callable[[Facts], bool]:
        is_printed = _printed(name, "0", "1")
        return lambda facts: remaps(facts) or (is_printed(facts) and not _is_na(facts, name))

    rows, repair = "remapped_rows", "has a memory repair to carry out at the next reset"
    return [
        _no(f"{rows}.failure", "could not remap a row of its memory", "isolate", remapping(f"{rows}.failure")),
        _no(
            "ecc.sram_threshold_exceeded",
            "has memory that cannot be repaired",
            "isolate",
            printed("ecc.sram_threshold_exceeded", _SINCE_RESET),
        ),
        _no(
            "ecc.unrepairable_memory",
            "has memory that cannot be repaired",
            "isolate",
            printed("ecc.unrepairable_memory", _SINCE_REPAIR, all_gpus=False),
        ),
        _no(
            "retired_pages.pending",
            "has pages to retire at the next boot",
            "reboot",
            retires("retired_pages.pending"),
        ),
        _no(
            "retired_pages.pending_blacklist",
            "has pages to retire at the next boot",
            "reboot",
            retires("retired_pages.pending_blacklist"),
        ),
        _no(f"{rows}.pending", repair, "reset", remapping(f"{rows}.pending")),
        *(
            _no(f"ecc.{name}", repair, "reset", printed(f"ecc.{name}", _SINCE_REPAIR, all_gpus=False))
            for name in ("channel_repair_pending", "tpc_repair_pending")
        ),
        *_counters(),
        # A retired page does no more harm (NVIDIA, Dynamic Page Retirement).
        _field(
            "retired_pages.double_bit",
            exactly(0),
            above(0),
            "has {} pages retired after double-bit errors",
            "monitor",
            when=retires("retired_pages.double_bit"),
        ),
        _counted("retired_pages.single_bit", retires("retired_pages.single_bit")),
        _field("ecc.enabled", exactly(True), exactly(False), "has ECC switched off", "monitor"),
        _field("ecc.pending", exactly(True), exactly(False), "has ECC off after the next reset", "monitor"),
        _counted(f"{rows}.correctable", remapping(f"{rows}.correctable")),
        _counted(f"{rows}.uncorrectable", remapping(f"{rows}.uncorrectable")),
        *(
            _counted(f"{rows}.{name}", printed(f"{rows}.{name}", _SINCE_REPAIR, all_gpus=False))
            for name in ("correctable_inactive", "uncorrectable_inactive")
        ),
        *(_counted(name, histogram(name)) for name in FIELDS if name.startswith(f"{rows}.banks.")),
        *(_counted(name, printed(name, _SINCE_RESET)) for name in FIELDS if name.startswith("ecc.sram_sources.")),
    ]


def _ecc(gpus: t.Sequence[Subject], driver: str | None) -> Result:
    """Return the verdict on the memory by NVIDIA's rules: replace, reset, or no action."""
    # A block of the document may be missing as a whole.
    return decide(
        "gpu.ecc",
        _ecc_evidence(driver),
        gpus,
        "no uncorrectable error and no repair pending",
        source=MEMORY_SOURCE,
    )


def _recovery(gpus: t.Sequence[Subject], driver: str | None) -> Result:
    """Return the verdict on the driver's recovery action; older drivers have a reset status instead, or neither."""
    action = _printed("recovery_action", driver, _SINCE_RECOVERY)
    source = "nvidia-smi, gpu_recovery_action"

    def old(name: str) -> t.Callable[[Facts], bool]:
        is_printed = _printed(name, "0", "1")
        return lambda facts: not action(facts) and is_printed(facts) and not _is_na(facts, name)

    reset = Field("requires_reset", exactly(False), exactly(True), "requires a reset, according to its fields", "reset")
    evidence = [
        reset,
        *(
            _field(
                "recovery_action",
                lambda word: is_text(word) and word.lower() == "none",
                _asks_for(severity),
                "asks for: {}",
                severity,
                when=action,
            )
            for severity in SEVERITIES[1:]
        ),
        _no("reset_status.required", "requires a reset", "reset", old("reset_status.required")),
        _no("reset_status.recommended", "asks for: drain and reset", "reset", old("reset_status.recommended")),
    ]
    result = decide("gpu.recovery", evidence, gpus, "None", source=source)
    # Without any of these fields the verdict is not a pass: their absence proves nothing.
    applies = [field.when(gpu.facts) for gpu in gpus for field in evidence if field.when is not None]
    if result.status != FAIL and gpus and not any(applies):
        return not_applicable("gpu.recovery", "this driver does not name a recovery action")
    return result


def _asks_for(severity: str) -> Test:
    """Return a test for an action of this severity."""
    return lambda word: is_text(word) and word.lower() != "none" and _recovery_severity(word) == severity


def _recovery_severity(action: str) -> str:
    found = xid_catalog.recovery_severity(action)
    # "None" must be the whole text.
    return "monitor" if found == "none" else found


def _xid(facts: Facts) -> Result:
    """Return the verdict on the Xids by NVIDIA's catalog. An Xid of a failed application does not fail the node."""
    log = facts["kernel_log"]
    if log["problem"]:
        hint = "run as root"
        return undeterminable("gpu.xid", f"the kernel log could not be read: {log['problem']}", hint=hint)
    classes = _classified(log["xids"])
    fatal = [event for event in log["sxids"] if event["fatal"]]
    found = ", ".join(f"Xid {code} {count} times" for code, count in sorted(log["counts"].items(), key=_by_code))
    fields: dict[str, t.Any] = {"found": found or "no Xid", "source": xid_catalog.SOURCE}
    worst = max(classes, key=lambda event: SEVERITIES.index(event["severity"]), default=None)
    # A fatal error of a switch causes Xid 74 on its GPUs, and needs the same reset (Fabric Manager user guide).
    if fatal and (worst is None or SEVERITIES.index(worst["severity"]) < SEVERITIES.index("reset")):
        event = fatal[-1]
        message = f"NVSwitch {event['switch']} reported SXid {event['code']}: {event['text']}"
        return failed("gpu.xid", message, severity="reset", hint="reset all GPUs and NVSwitches", **fields)
    if worst is None or worst["severity"] == "none":
        return _no_xid(log, fields)
    message = f"Xid {worst['code']} on {worst['bus']} since the last boot: {worst['text'] or worst['bucket']}"
    scope = Scope(device=worst["bus"])
    return failed("gpu.xid", message, severity=worst["severity"], hint=worst["action"], scope=scope, **fields)


def _no_xid(log: Facts, fields: t.Mapping[str, t.Any]) -> Result:
    """Return the verdict without an Xid that fails the node: a pass only for a complete and readable log."""
    if log["partial"]:
        hint = "look with 'journalctl -k -b | grep Xid', and set the time from which on Xids count"
        return undeterminable(
            "gpu.xid",
            "the kernel log does not reach back to the boot, or is so long that only its end was read",
            hint=hint,
            **fields,
        )
    if log["unread"]:
        return undeterminable(
            "gpu.xid",
            "unread",
            message=f"{log['unread']} lines of Xids in the kernel log have no known format",
            hint="look with 'journalctl -k -b | grep Xid'",
            **fields,
        )
    return passed("gpu.xid", **fields)


def _classified(xids: t.Sequence[Facts]) -> list[dict[str, t.Any]]:
    """Return the Xids with their bucket, severity and action.

    The last Xid 154 of a GPU is its state: an earlier one does not count, nor does an Xid that refers to it.
    """
    last = {event["bus"]: number for number, event in enumerate(xids) if event["code"] == XID_RECOVERY}
    found = []
    for number, event in enumerate(xids):
        entry = {**event, **xid_catalog.classify(event["code"], event["text"])}
        recovery = last.get(event["bus"])
        if event["code"] == XID_RECOVERY and number != recovery:
            entry.update(severity="none")
        elif entry["bucket"] == xid_catalog.REFERS_TO_154 and recovery is not None and number < recovery:
            entry.update(severity="none", action="follow Xid 154 beside it")
        found.append(entry)
    return found


def _by_code(item: tuple[str, int]) -> int:
    return int(item[0])


def _reasons(gpus: t.Sequence[Subject]) -> t.Iterator[Field]:
    named = dict.fromkeys([*BAD_CLOCKS, *(name for gpu in gpus for name in gpu.facts["clock_reasons"])])
    for name in named:
        path = f"clock_reasons.{name}"
        label = f"clocks_event_reasons/{name}"
        if name in BAD_CLOCKS:
            yield Field(path, exactly(False), exactly(True), f"has its clocks lowered by {name}", label=label)
        else:
            # An unknown reason may exist, but must not be active.
            good = exactly(True, False) if name in HARMLESS_CLOCKS else exactly(False)
            yield Field(path, good, label=label)


# Clocks with a maximum, and clocks that an administrator can set for applications.
_RUNNING = ("sm", "memory", "graphics", "video")
_SETTABLE = ("application", "application_memory")


def _clocks(gpus: t.Sequence[Subject], driver: str | None) -> Result:
    """Return the verdict that neither heat, power nor a setting lowers the clocks of a GPU."""
    state = _is_performance_state
    evidence = [
        *_reasons(gpus),
        *(field for name in _RUNNING for field in _running(gpus, name)),
        *(field for name in _SETTABLE for field in _settable(gpus, name)),
        *_clock_fields(gpus),
        *_power_limits(gpus, driver),
        _field("performance_state", state),
        *(_field(name, state, when=_unless_gone(name, driver)) for name in ("power_state", "power_state_module")),
        _field("temperature_c", within(*_TEMPERATURES)),
        *(
            _counted(name, _unless_na(name, driver, _SINCE_RECOVERY))
            for name in FIELDS
            if name.startswith("clock_microseconds.")
        ),
    ]
    return decide("gpu.clocks", evidence, gpus, "not lowered by heat or power")


def _unless_gone(name: str, driver: str | None) -> t.Callable[[Facts], bool]:
    """Return a test of whether a field that drivers from 590 on no longer read is evidence."""
    is_printed = _printed(name, driver, _SINCE_RESET)
    return lambda facts: is_printed(facts) and "deprecated" not in facts["unreadable"].get(name, "")


def _is_performance_state(word: object) -> bool:
    return isinstance(word, str) and re.fullmatch(r"P\d{1,2}", word) is not None


def _highest(gpus: t.Sequence[Subject], name: str) -> t.Any:
    """Return the highest value of a fact among the GPUs, 0 if none reports it."""
    return max(_values(gpus, name), default=0)


def _running(gpus: t.Sequence[Subject], name: str) -> t.Iterator[Field]:
    """Yield the evidence on a clock: its maximum equals that of its neighbours, and it does not run above that."""
    max_field = f"clocks_mhz.{name}_max"
    maximum = _highest(gpus, max_field)
    slower = f"has a maximum of {{}} MHz, and its neighbours of {maximum} MHz"
    yield _field(max_field, exactly(maximum) if maximum else never, below(maximum), slower)
    # No lower bound: the clock falls when a GPU idles.
    yield _field(f"clocks_mhz.{name}", within(1, maximum))


def _clock_fields(gpus: t.Sequence[Subject]) -> t.Iterator[Field]:
    """Yield the evidence on the highest clock that a customer may set; some GPUs have none."""
    name = "clocks_mhz.boost_max"
    maximum = _highest(gpus, name)
    if maximum:
        slower = f"has a boost clock of {{}} MHz, and its neighbours of {maximum} MHz"
        yield _field(name, exactly(maximum), below(maximum), slower)


def _settable(gpus: t.Sequence[Subject], name: str) -> t.Iterator[Field]:
    """Yield the evidence on an application clock: not below its default. Newer GPUs have none."""
    setting, default = f"clocks_mhz.{name}", f"clocks_mhz.{name}_default"
    minimum = _highest(gpus, default)
    maximum = _highest(gpus, "clocks_mhz.memory_max" if name.endswith("memory") else "clocks_mhz.sm_max")
    absent = all(
        _is_na(gpu.facts, which) or "deprecated" in gpu.facts["unreadable"].get(which, "")
        for gpu in gpus
        for which in (setting, default)
    )
    if absent:
        return
    for which in (setting, default):
        text = f"has an application clock of {{}} MHz, and {minimum} MHz is the default"
        yield _field(which, within(max(minimum, 1), maximum), below(minimum), text)


def _power_limits(gpus: t.Sequence[Subject], driver: str | None) -> t.Iterator[Field]:
    """Yield the evidence on the power limits: none is below the default, and the GPUs have the same default."""
    minimum, maximum = _highest(gpus, "power_watts.limit_default"), _highest(gpus, "power_watts.limit_max")
    for name in ("limit", "limit_requested", "limit_default", "limit_max"):
        path = f"power_watts.{name}"
        good = {"limit_default": exactly(minimum), "limit_max": exactly(maximum)}.get(name, within(minimum, maximum))
        wanted, what = (maximum, "its neighbours' maximum") if name == "limit_max" else (minimum, "the default")
        text = f"has a power limit of {{:g}} W, and {wanted:g} W is {what}"
        yield _field(path, good if wanted else never, below(wanted), text, when=_printed(path, driver, _SINCE_RESET))


def _unless_na(name: str, driver: str | None, since: str) -> t.Callable[[Facts], bool]:
    is_printed = _printed(name, driver, since)
    return lambda facts: is_printed(facts) and not (_is_na(facts, name) and facts["architecture"] != "Hopper")


def _pcie(gpus: t.Sequence[Subject], driver: str | None) -> Result:
    """Return the verdict that each GPU has as many lanes as its neighbours.

    No source gives the number of lanes of a type: some have fewer than the GPU supports. The current generation is
    only compared with the GPU's own maximum, since it falls when a GPU idles.
    """
    widest = max(_values(gpus, "pcie.width"), default=0)
    width_max = max(_values(gpus, "pcie.width_max"), default=0)
    newest = max(_values(gpus, "pcie.generation_max"), default=0)
    newest_device = _highest(gpus, "pcie.generation_device_max")
    evidence = (
        _field(
            "pcie.width",
            lambda width: width == widest and width in _PCIE_WIDTHS and width <= width_max,
            lambda width: is_number(width) and 0 < width < widest and widest in _PCIE_WIDTHS,
            f"has {{}} of its neighbours' {widest} PCIe lanes",
            "isolate",
        ),
        _field("pcie.width_max", lambda width: width == width_max and width in _PCIE_WIDTHS),
        _field("pcie.generation", within(_PCIE_GENERATIONS[0], newest)),
        _field("pcie.generation_max", lambda value: value == newest and within(*_PCIE_GENERATIONS)(value)),
        _field(
            "pcie.generation_device",
            within(_PCIE_GENERATIONS[0], newest),
            when=_printed("pcie.generation_device", driver, _SINCE_RESET),
        ),
        _field(
            "pcie.generation_device_max",
            lambda value: value == newest_device and within(*_PCIE_GENERATIONS)(value),
            when=_printed("pcie.generation_device_max", driver, _SINCE_RESET),
        ),
        _counted("pcie.replays"),
        _counted("pcie.replay_rollovers", _printed("pcie.replay_rollovers", driver, _SINCE_RESET)),
    )
    return decide("gpu.pcie", evidence, gpus, f"{widest} lanes on each GPU")


def _persistence(gpus: t.Sequence[Subject]) -> Result:
    evidence = _field("persistence", exactly(True), exactly(False), "has persistence mode off")
    return decide("gpu.persistence", (evidence,), gpus, "on", hint="enable nvidia-persistenced")


def _compute_mode(gpus: t.Sequence[Subject]) -> Result:
    evidence = _field(
        "compute_mode",
        exactly("Default", "Exclusive_Process", "Exclusive_Thread"),
        exactly("Prohibited"),
        "takes no program: its compute mode is Prohibited",
    )
    found = ", ".join(sorted(set(_values(gpus, "compute_mode"))))
    return decide("gpu.compute_mode", (evidence,), gpus, found, hint="run 'nvidia-smi -c DEFAULT'")


def _mig(gpus: t.Sequence[Subject], wanted: bool) -> Result:
    if gpus and all(_is_na(gpu.facts, "mig.enabled") and _is_na(gpu.facts, "mig.pending") for gpu in gpus):
        if wanted:
            return failed("gpu.mig", "MIG is wanted, and these GPUs do not have it")
        return not_applicable("gpu.mig", "these GPUs do not have MIG")
    evidence = (
        _field("mig.enabled", exactly(wanted), exactly(not wanted), f"has MIG {'off' if wanted else 'on'}", "reset"),
        _field("mig.pending", exactly(wanted), exactly(not wanted), "changes its MIG mode at the next reset", "reset"),
    )
    return decide("gpu.mig", evidence, gpus, "on" if wanted else "off")


def _has_nvswitches(facts: Facts) -> bool | None:
    """Return whether NVSwitches join the GPUs; None if the instance type is unknown."""
    if facts["ultraserver"]:
        return True
    return joined_by_nvswitch(facts["expected"]) if facts["type_known"] else None


def _unless_switched(facts: Facts, check: str) -> Result | None:
    switched = _has_nvswitches(facts)
    if switched is None:
        return undeterminable(check, "whether the GPUs are joined by NVSwitches is not known")
    why = "the GPUs of this type are not joined by NVSwitches"
    return None if switched else none_expected(check, why, facts["expected_source"] or NAMING, "NVSwitches")


def _unless_mig(check: str, mig: bool) -> Result | None:
    return not_applicable(check, "MIG is wanted, and its instances do not use NVLink") if mig else None


def _nvlink(facts: Facts, gpus: t.Sequence[Subject], mig: bool) -> Result:
    """Return the verdict that all NVLinks of all GPUs are up, at one speed."""
    check, links = "gpu.nvlink", facts["nvlinks"]
    if not facts["type_known"]:
        return undeterminable(check, "whether the GPUs are joined by NVLinks is not known")
    expected = facts["expected"] or {"name": None, "count": 0}
    if expected["count"] < _PAIR or expected["name"] in WITHOUT:
        why = "the GPUs of this type have no NVLinks to each other"
        return none_expected(check, why, facts["expected_source"] or NAMING, "NVLinks")
    wanted = LINKS.get(expected["name"])
    if wanted is None:
        return undeterminable(check, f"how many NVLinks {expected['name']} has is not known")
    outside = _unless_mig(check, mig)
    if outside:
        return outside
    hint = "look with 'nvidia-smi nvlink --status' and at the fabric manager's log"
    if links["problem"]:
        return undeterminable(check, links["problem"], hint=hint)
    speeds = [speed for gpu in links["gpus"].values() for speed in gpu["gb_per_s"].values() if speed]
    fastest = max(speeds, default=0)
    # All links may be equally slow.
    standard = max(fastest, GB_PER_S[expected["name"]])
    linked = [_linked(gpu, links["gpus"], standard) for gpu in gpus]
    evidence = (
        Field("active", exactly(wanted), below(wanted), f"has {{}} of {wanted} NVLinks up", "reset", when=_links_read),
        Field("inactive", exactly(0), when=_links_read),
        Field("unread", exactly(""), label="nvlink"),
        Field(
            "slow", exactly(""), is_text, f"has a link slower than {standard:g} GB/s: {{}}", "reset", "speed of a link"
        ),
    )
    return decide(check, evidence, linked, f"{wanted} on each GPU, at {fastest:g} GB/s", hint=hint)


def _links_read(facts: Facts) -> bool:
    # An unreadable link is neither up nor down, and has its own field.
    return not facts["unread"]


def _linked(gpu: Subject, links: Facts, fastest: float) -> Subject:
    """Return a GPU with the counts of its links; the unreadable and the slow ones as strings."""
    found = links.get(gpu.facts["uuid"]) or {"active": None, "inactive": None, "gb_per_s": {}}
    unread = ", ".join(f"link {number}" for number, speed in found["gb_per_s"].items() if speed is None)
    slow = [f"link {number} {speed:g} GB/s" for number, speed in found["gb_per_s"].items() if speed and speed < fastest]
    return Subject({**found, "unread": unread, "slow": ", ".join(slow)}, gpu.name)


def _fabric(facts: Facts, gpus: t.Sequence[Subject], driver: str | None) -> Result:
    """Return the verdict that each GPU has joined the NVLink fabric; GPUs before Hopper do not report it."""
    check = "gpu.fabric"
    outside = _unless_switched(facts, check)
    if outside:
        return outside
    if facts["ultraserver"]:
        return _rack_fabric(check, gpus, driver)
    if facts["expected"]["name"] == "A100":
        return not_applicable(check, "A100 does not report its fabric state")
    hint = "start the fabric manager; look with 'journalctl -u nvidia-fabricmanager'"
    return decide(check, _fabric_evidence(gpus, driver), gpus, "Completed", hint=hint)


_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CLIQUE = re.compile(r"[0-9]{1,10}")


def _rack_fabric(check: str, gpus: t.Sequence[Subject], driver: str | None) -> Result:
    """Return the verdict that all GPUs of a node are in one NVLink domain: cluster and clique."""
    first = gpus[0].facts["fabric"] if gpus else {}
    cluster, clique = first.get("cluster_uuid"), first.get("clique")
    same = (
        _field(
            "fabric.cluster_uuid",
            lambda value: _is_shaped(_UUID, value) and value == cluster and value != NO_CLUSTER,
            lambda value: is_text(value) and (value != cluster or value == NO_CLUSTER),
            f"is of NVLink cluster {{}}, and gpu0 of {cluster}",
            "isolate",
        ),
        _field(
            "fabric.clique",
            lambda value: _is_shaped(_CLIQUE, value) and value == clique,
            lambda value: is_text(value) and value != clique,
            f"is of clique {{}}, and gpu0 of {clique}",
            "isolate",
        ),
    )
    found = {"state": "Completed", "cluster_uuid": cluster, "clique": clique}
    hint = "the switches of an UltraServer are AWS's: reboot, then replace the instance"
    return decide(check, [*_fabric_evidence(gpus, driver, _reports_health(driver)), *same], gpus, found, hint=hint)


def _is_shaped(shape: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and shape.fullmatch(value) is not None


def _reports_health(driver: str | None) -> bool:
    """Return whether a driver reports the health of a GPU in a rack: 580.173 does (NVIDIA/k8s-test-infra#677).

    Older ones print N/A beside a fabric that is complete (leptonai/gpud#1106).
    """
    have = version_key(driver)
    return not have or at_least(have, version_key(_SINCE_REPAIR))


# Fields of the fabric's health, their good value (besides N/A for a GPU that need not report it), and the first driver
# that must print them.
_FABRIC_HEALTH = (
    ("summary", "Healthy", _SINCE_REPAIR),
    ("bandwidth", "Full", _SINCE_RESET),
    ("route_recovery_in_progress", "False", _SINCE_RECOVERY),
    ("route_unhealthy", "False", _SINCE_RECOVERY),
    ("access_timeout_recovery", "False", _SINCE_RECOVERY),
    ("incorrect_configuration", "None", _SINCE_REPAIR),
    ("partition_assigned", "True", _SINCE_REPAIR),
)
# GB200 and GB300 with driver 580.173 read N/A in them (NVIDIA/k8s-test-infra, recorded documents).
_SUMMED_UP = ("incorrect_configuration", "partition_assigned")
_BAD_HEALTH = exactly("Unhealthy", "Limited Capacity", "Degraded", "True", "False")


def _other_than(good: str) -> Test:
    return lambda word: word != good and _BAD_HEALTH(word)


def _unless_healthy(name: str, driver: str | None, since: str) -> t.Callable[[Facts], bool]:
    """Return a test of whether a field of the fabric's health is evidence: two are N/A beside a healthy summary."""
    is_printed = _printed(f"fabric.health.{name}", driver, since)

    def evidence(facts: Facts) -> bool:
        health = facts["fabric"]["health"]
        left_out = name in _SUMMED_UP and health[name] == "N/A" and health["summary"] == "Healthy"
        return is_printed(facts) and not left_out

    return evidence


def _fabric_evidence(gpus: t.Sequence[Subject], driver: str | None, reports_health: bool = False) -> list[Field]:
    # A GPU that reads N/A where its neighbours have a value is not known to be healthy.
    healths = [gpu.facts["fabric"]["health"] for gpu in gpus]
    known = {name for name, _good, _since in _FABRIC_HEALTH if {one[name] for one in healths} - {None, "N/A"}}
    return [
        _field(
            "fabric.state",
            exactly("Completed"),
            lambda word: is_text(word) and word != "Completed",
            "has fabric state {}",
            "reset",
        ),
        _field(
            "fabric.status",
            exactly("Success"),
            lambda word: is_text(word) and word != "Success",
            "has fabric status {}",
            "reset",
        ),
        *(
            _field(
                f"fabric.health.{name}",
                exactly(good) if reports_health or name in known else exactly(good, "N/A"),
                _other_than(good),
                f"has fabric {name} {{}}",
                "reset",
                when=_printed(f"fabric.health.{name}", driver, since)
                if name in known
                else _unless_healthy(name, driver, since),
            )
            for name, good, since in _FABRIC_HEALTH
        ),
    ]


def _topology(facts: Facts, mig: bool) -> Result:
    """Return the verdict that all NVLinks of a GPU join every pair of GPUs."""
    check, topology = "gpu.topology", facts["topology"]
    outside = _unless_switched(facts, check) or _unless_mig(check, mig)
    if outside:
        return outside
    if not facts["expected"] or facts["expected"]["name"] not in LINKS:
        return undeterminable(check, "how many NVLinks these GPUs have is not known")
    if topology["problem"]:
        return undeterminable(check, topology["problem"])
    rows = {name: row for name, row in topology["matrix"].items() if name.startswith("GPU")}
    count, wanted = facts["expected"]["count"], LINKS[facts["expected"]["name"]]
    pairs = {
        f"{name}-{peer}": kind for name, row in rows.items() for peer, kind in row.items() if peer.startswith("GPU")
    }
    others = sorted(f"{pair} {kind}" for pair, kind in pairs.items() if kind in _WITHOUT_NVLINK)
    if others:
        return failed(check, f"GPUs reach each other without NVLink: {', '.join(others[:8])}", severity="reset")
    if len(rows) != count:
        return undeterminable(check, f"nvidia-smi topo shows {len(rows)} of {count} GPUs")
    if len(pairs) != count * (count - 1):
        return undeterminable(check, f"nvidia-smi topo shows {len(pairs)} of {count * (count - 1)} connections")
    joined = {pair: int(kind[2:]) if re.fullmatch(r"NV\d{1,3}", kind) else kind for pair, kind in pairs.items()}
    evidence = Field("links", exactly(wanted), below(wanted), f"is joined by {{}} of {wanted} NVLinks", "reset")
    pairs_read = [Subject({"links": links}, pair) for pair, links in joined.items()]
    return decide(check, (evidence,), pairs_read, f"every pair by NV{wanted}")


# The legend of nvidia-smi topo.
_WITHOUT_NVLINK = ("SYS", "NODE", "PHB", "PXB", "PIX")
