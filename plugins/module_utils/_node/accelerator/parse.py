# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers of nvidia-smi's XML, NVLink and topology tables, of Xid lines in the kernel log, and of neuron-ls.

A field that is missing, "N/A", "[N/A]", deprecated or not a number is None, never zero.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import typing as t
import xml.etree.ElementTree as ET

from ..verdict import unique_json

# Only the last events of each code are kept, so that a flood of one does not hide another.
MAX_EVENTS = 20
# The text of this Xid names the required action, so two events with this code can require different actions.
XID_RECOVERY = 154
_NOTHING = re.compile(
    r"\[?(?:n/?a|not supported|not available|unknown error|err!?|nan|none|requested functionality.*"
    r"|.*\brequires reset|.*\bis lost|insufficient permissions?)\]?",
    re.IGNORECASE,
)
# NVML's error texts in place of a value (nvml.h, nvmlReturn_t). "N/A" is not an error: the GPU does not have
# the field.
_ERROR = re.compile(
    r"\[?(?:.*\berror\b.*|err!?|.*\brequires reset|.*\bis lost|insufficient permissions?|.*\bcorrupted\b.*)\]?",
    re.IGNORECASE,
)
_RESET = re.compile(r"\brequires reset\b", re.IGNORECASE)
# A setting that only an administrator may read: the error is not about the GPU.
_RESTRICTED = {"power_smoothing": "insufficient permissions"}
# Names of processes are not values of the GPU.
_FOREIGN = ("processes", "accounted_processes", "supported_clocks")
# The list of clocks is not used, and it is most of the document.
_SUPPORTED_CLOCKS = re.compile(
    r"<supported_clocks>.*?(?:</supported_clocks>|(?=<(?:processes|accounted_processes|capabilities)\b|</gpu>))",
    re.DOTALL,
)
_END = "</nvidia_smi_log>"
# Names of EC2's accelerated types (EC2 User Guide, instance type naming conventions).
ACCELERATED = re.compile(r"(?:p|g|gr|trn|inf|dl|vt)\d")
EC2_TYPE = re.compile(r"[a-z][a-z0-9-]*\d[a-z0-9-]*\.[a-z0-9-]+")
# Units by the paths of fields; all others have none.
_UNITS = (
    ("fb_memory_usage/", " MiB"),
    ("_clock", " MHz"),
    ("_power_limit", " W"),
    ("gpu_temp", " C"),
    ("_link_width", "x"),
    ("clocks_event_reasons_counters_", " us"),
    ("row_remapper_histogram_", " bank(s)"),
)
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,6})?")
# "<time> kernel: NVRM: Xid (PCI:0000:b3:00): 79, pid=..., GPU has fallen off the bus."; old drivers leave PCI: out, and
# with MIG the address is followed by the instance.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^()]{0,60}\): (\d{1,6})\b[,:]?\s*(.*)")
# Any other line about an event: not in the driver's format, so it is not known which.
_ANY_XID = re.compile(r"NVRM\b.*?\bXid\b|\bSXid\b|NVRM\b.*?fallen off the bus", re.IGNORECASE)
_SXID = re.compile(
    r"(nvidia-nvswitch\d{1,3}): SXid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^()]{0,60}\): (\d{1,6})\b[,:]?\s*(.*)"
)
# The times of journalctl -o short-iso and of dmesg --time-format iso, which has a fraction and a colon in its zone.
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d+)?([+-]\d\d):?(\d\d)\s")
_TIME = re.compile(r"\[?\s*(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.,:+Z-]*|\d{1,12}\.\d{1,9})\]?\s")


def _text(node: ET.Element | None, path: str) -> str | None:
    word = _raw(node, path) or ""
    return None if not word or _NOTHING.fullmatch(word) else word[:200]


def _number(node: ET.Element | None, path: str) -> float | None:
    """Return the number of a field without its unit; None if the field has any other text, or another unit."""
    word, unit = _text(node, path) or "", next((unit for part, unit in _UNITS if part in path), "")
    word = word[: len(word) - len(unit)] if word.endswith(unit) else ""
    return float(word) if _NUMBER.fullmatch(word) else None


def _whole(node: ET.Element | None, path: str) -> int | None:
    value = _number(node, path)
    return int(value) if value is not None and value.is_integer() else None


def _switch(node: ET.Element | None, path: str) -> bool | None:
    """Return True for Enabled, Active and Yes, False for their opposites, None for anything else."""
    word = (_text(node, path) or "").lower()
    if word in ("enabled", "active", "yes"):
        return True
    return False if word in ("disabled", "not active", "no") else None


def _action(node: ET.Element | None, path: str) -> str | None:
    """Return the text of a field in which "None" is a valid value."""
    word = _raw(node, path) or ""
    return word if word.lower() == "none" else _text(node, path)


def _raw(node: ET.Element | None, path: str) -> str | None:
    """Return the text of a field, None if the document does not have it; of a repeated field all its texts."""
    found = node.findall(path) if node is not None else []
    words = list(dict.fromkeys(" ".join((one.text or "").split())[:200] for one in found))
    return " / ".join(words) if words else None


def _plain(node: ET.Element | None, path: str) -> str | None:
    """Return the text of a field as it is, "N/A" included."""
    return _raw(node, path) or None


_Reader = t.Callable[[t.Optional[ET.Element], str], t.Any]
_LINK = "pci/pci_gpu_link_info"
_HEALTH = (
    "summary",
    "bandwidth",
    "route_recovery_in_progress",
    "route_unhealthy",
    "access_timeout_recovery",
    "incorrect_configuration",
    "partition_assigned",
)
# Facts of a GPU: reader and path in the document.
FIELDS: dict[str, tuple[_Reader, str]] = {
    "name": (_text, "product_name"),
    "architecture": (_text, "product_architecture"),
    "uuid": (_text, "uuid"),
    "vbios": (_text, "vbios_version"),
    "serial": (_text, "serial"),
    "inforom": (_text, "inforom_version/img_version"),
    "minor": (_whole, "minor_number"),
    "memory_mib": (_whole, "fb_memory_usage/total"),
    "memory_used_mib": (_whole, "fb_memory_usage/used"),
    "persistence": (_switch, "persistence_mode"),
    "compute_mode": (_text, "compute_mode"),
    "mig.enabled": (_switch, "mig_mode/current_mig"),
    "mig.pending": (_switch, "mig_mode/pending_mig"),
    "ecc.enabled": (_switch, "ecc_mode/current_ecc"),
    "ecc.pending": (_switch, "ecc_mode/pending_ecc"),
    "ecc.sram_threshold_exceeded": (_switch, "ecc_errors/aggregate/sram_threshold_exceeded"),
    "ecc.channel_repair_pending": (_switch, "ecc_errors/channel_repair_pending"),
    "ecc.tpc_repair_pending": (_switch, "ecc_errors/tpc_repair_pending"),
    "ecc.unrepairable_memory": (_switch, "ecc_errors/unrepairable_memory"),
    **{
        f"ecc.sram_sources.{name}": (_whole, f"ecc_errors/aggregate_uncorrectable_sram_sources/sram_{name}")
        for name in ("l2", "sm", "microcontroller", "pcie", "other")
    },
    "retired_pages.single_bit": (_whole, "retired_pages/multiple_single_bit_retirement/retired_count"),
    "retired_pages.double_bit": (_whole, "retired_pages/double_bit_retirement/retired_count"),
    "retired_pages.pending": (_switch, "retired_pages/pending_retirement"),
    "retired_pages.pending_blacklist": (_switch, "retired_pages/pending_blacklist"),
    "remapped_rows.correctable": (_whole, "remapped_rows/remapped_row_corr"),
    "remapped_rows.uncorrectable": (_whole, "remapped_rows/remapped_row_unc"),
    "remapped_rows.correctable_inactive": (_whole, "remapped_rows/remapped_row_corr_inactive"),
    "remapped_rows.uncorrectable_inactive": (_whole, "remapped_rows/remapped_row_unc_inactive"),
    **{
        f"remapped_rows.banks.{name}": (_whole, f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{name}")
        for name in ("max", "high", "partial", "low", "none")
    },
    "remapped_rows.pending": (_switch, "remapped_rows/remapped_row_pending"),
    "remapped_rows.failure": (_switch, "remapped_rows/remapped_row_failure"),
    **{
        f"clocks_mhz.{name}{suffix}": (_whole, f"{block}/{tag}_clock")
        for name, tag in (("sm", "sm"), ("memory", "mem"), ("graphics", "graphics"), ("video", "video"))
        for suffix, block in (("", "clocks"), ("_max", "max_clocks"))
    },
    **{
        f"clocks_mhz.{name}{suffix}": (_whole, f"{block}/{tag}_clock")
        for name, tag in (("application", "graphics"), ("application_memory", "mem"))
        for suffix, block in (("", "applications_clocks"), ("_default", "default_applications_clocks"))
    },
    "clocks_mhz.boost_max": (_whole, "max_customer_boost_clocks/graphics_clock"),
    **{
        f"clock_microseconds.{name}": (_whole, f"clocks_event_reasons_counters/clocks_event_reasons_counters_{name}")
        for name in ("sw_power_cap", "sync_boost", "sw_therm_slowdown", "hw_therm_slowdown", "hw_power_brake")
    },
    "performance_state": (_text, "performance_state"),
    "power_state": (_text, "gpu_power_readings/power_state"),
    "power_state_module": (_text, "module_power_readings/power_state"),
    "power_watts.limit": (_number, "gpu_power_readings/current_power_limit"),
    "power_watts.limit_requested": (_number, "gpu_power_readings/requested_power_limit"),
    "power_watts.limit_default": (_number, "gpu_power_readings/default_power_limit"),
    "power_watts.limit_max": (_number, "gpu_power_readings/max_power_limit"),
    "temperature_c": (_whole, "temperature/gpu_temp"),
    "pcie.generation": (_whole, f"{_LINK}/pcie_gen/current_link_gen"),
    "pcie.generation_max": (_whole, f"{_LINK}/pcie_gen/max_link_gen"),
    "pcie.width": (_whole, f"{_LINK}/link_widths/current_link_width"),
    "pcie.width_max": (_whole, f"{_LINK}/link_widths/max_link_width"),
    "pcie.generation_device": (_whole, f"{_LINK}/pcie_gen/device_current_link_gen"),
    "pcie.generation_device_max": (_whole, f"{_LINK}/pcie_gen/max_device_link_gen"),
    "pcie.replays": (_whole, "pci/replay_counter"),
    "pcie.replay_rollovers": (_whole, "pci/replay_rollover_counter"),
    "fabric.state": (_text, "fabric/state"),
    "fabric.status": (_text, "fabric/status"),
    "fabric.clique": (_text, "fabric/cliqueId"),
    "fabric.cluster_uuid": (_text, "fabric/clusterUuid"),
    **{f"fabric.health.{name}": (_plain, f"fabric/health/{name}") for name in _HEALTH},
    "recovery_action": (_action, "gpu_recovery_action"),
    "reset_status.required": (_switch, "gpu_reset_status/reset_required"),
    "reset_status.recommended": (_switch, "gpu_reset_status/drain_and_reset_recommended"),
}

# Counters of errors, by the generation of GPUs that has them.
_MODERN = (
    "sram_correctable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "dram_correctable",
    "dram_uncorrectable",
)
_TURING = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")
_VOLTA = ("single_bit/total", "double_bit/total")
COUNTERS = tuple(dict.fromkeys(_MODERN + _TURING + _VOLTA))
_UNCORRECTABLE = ("uncorrectable", "double_bit")


def _put(facts: dict[str, t.Any], name: str, value: object) -> None:
    *parents, last = name.split(".")
    for parent in parents:
        facts = facts.setdefault(parent, {})
    facts[last] = value


def _counter_names(counts: ET.Element | None) -> tuple[str, ...]:
    """Return the required counters; those of Ampere and newer by default."""
    tags = {child.tag for child in counts} if counts is not None else set()
    if tags & {"single_bit", "double_bit"}:
        return _VOLTA
    return _TURING if "sram_uncorrectable" in tags and not tags & set(_MODERN[1:3]) else _MODERN


def _counts(gpu: ET.Element, scope: str, unreadable: dict[str, str]) -> dict[str, t.Any]:
    """Return the counters of one scope, and their sums; a sum is None if one of its counters was not read."""
    counts = gpu.find(f"ecc_errors/{scope}")
    found = {name: _whole(counts, name) for name in _counter_names(counts)}
    for name, value in found.items():
        raw = _raw(counts, name)
        if value is None and raw is not None:
            unreadable[f"ecc.{scope}.counters.{name}"] = raw[:80]
    sums: dict[str, t.Any] = {"counters": found}
    for kind in ("correctable", "uncorrectable"):
        values = [
            value
            for name, value in found.items()
            if any(word in name for word in _UNCORRECTABLE) == (kind == "uncorrectable")
        ]
        sums[kind] = None if None in values else sum(t.cast("list[int]", values))
    return sums


def _clock_reasons(gpu: ET.Element, unreadable: dict[str, str]) -> dict[str, bool | None]:
    """Return {reason for reduced clocks: whether it is active}; nvidia-smi renamed the group in release 535."""
    found: dict[str, bool | None] = {}
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for reason in gpu.findall(f"{group}/*"):
            name = re.sub(r"^clocks_(?:event|throttle)_reason_", "", str(reason.tag))[:60]
            active = _switch(reason, ".")
            found[name] = active if found.get(name, active) is active else None
            if found[name] is None:
                unreadable[f"clock_reasons.{name}"] = (_raw(reason, ".") or "")[:80]
    return found


def _leaves(node: ET.Element, path: str = "") -> t.Iterator[tuple[str, str]]:
    for child in node:
        where = f"{path}/{child.tag}" if path else str(child.tag)
        if not path and child.tag in _FOREIGN:
            continue
        if len(child):
            yield from _leaves(child, where)
        else:
            yield where[:120], " ".join((child.text or "").split())


def _gpu(index: int, gpu: ET.Element) -> dict[str, t.Any]:
    """Return the facts of a GPU, those it does not report as None.

    ``unreadable`` has the texts of such fields; ``errors`` the fields of the document that contain an error;
    ``requires_reset`` whether one of them requires a reset of the GPU.
    """
    facts: dict[str, t.Any] = {"index": index, "bus_id": (gpu.get("id") or "")[:40] or None}
    unreadable: dict[str, str] = {}
    for name, (read, path) in FIELDS.items():
        value = read(gpu, path)
        _put(facts, name, value)
        raw = _raw(gpu, path) if value is None else None
        if value is None and raw is not None:
            unreadable[name] = raw[:80]
    for block in ("remapped_rows", "remapped_rows/row_remapper_histogram"):
        if raw := _raw(gpu, block):
            unreadable[block] = raw[:80]
    for scope in ("volatile", "aggregate"):
        facts["ecc"][scope] = _counts(gpu, scope, unreadable)
    facts["clock_reasons"] = _clock_reasons(gpu, unreadable)
    active = sorted(name for name, on in facts["clock_reasons"].items() if on)
    facts["throttle_reasons"] = (
        active if None not in facts["clock_reasons"].values() and facts["clock_reasons"] else None
    )
    errors = {
        path: text[:80]
        for path, text in _leaves(gpu)
        if _ERROR.fullmatch(text) and text.lower() != _RESTRICTED.get(path, "")
    }
    facts["errors"] = dict(list(errors.items())[:MAX_EVENTS])
    facts["requires_reset"] = any(_RESET.search(text) for text in errors.values())
    facts["unreadable"] = unreadable
    return facts


def parse_smi(text: str) -> dict[str, t.Any]:
    """Parse the output of ``nvidia-smi -q -x``: driver, cuda, attached, gpus, warnings.

    ``attached`` is the reported number of GPUs; ``warnings`` are the lines outside the document. Raises ValueError
    with one sentence if the text is not a complete document of nvidia-smi, or declares entities. The list of supported
    clocks is left out.
    """
    start = text.find("<?xml")
    if start < 0:
        raise ValueError(f"no XML but: {' '.join(text.split())[:300] or 'nothing'}")
    if "<!ENTITY" in text:
        raise ValueError("an XML document that declares entities, which nvidia-smi never does")
    end = text.find(_END, start)
    end = end + len(_END) if end >= 0 else len(text)
    if "<nvidia_smi_log" in text[end:]:
        raise ValueError("several XML documents: they may contradict each other")
    try:
        root = ET.fromstring(_SUPPORTED_CLOCKS.sub("", text[start:end]))  # noqa: S314 entities are refused above
    except (ET.ParseError, LookupError, ValueError) as exc:
        raise ValueError(f"XML that breaks off or is damaged ({exc})") from None
    if root.tag != "nvidia_smi_log":
        raise ValueError(f"an XML document of another kind, {str(root.tag)[:40]}")
    outside = [" ".join(line.split())[:200] for line in (text[:start] + "\n" + text[end:]).splitlines()]
    return {
        "driver": _text(root, "driver_version"),
        "cuda": _text(root, "cuda_version"),
        "attached": _whole(root, "attached_gpus"),
        "gpus": [_gpu(index, gpu) for index, gpu in enumerate(root.findall("gpu"))],
        "warnings": [line for line in outside if line][:MAX_EVENTS],
    }


def parse_nvlinks(text: str) -> dict[str, dict[str, t.Any]]:
    """Parse ``nvidia-smi nvlink --status``: {GPU uuid: {active, inactive, gb_per_s}}.

    ``gb_per_s`` maps the number of a link to its speed: 0 if it is inactive, None if the line reads anything
    else. A link at 0 GB/s is not active; an unreadable link counts as neither.
    """
    links: dict[str, dict[str, t.Any]] = {}
    current: dict[str, t.Any] | None = None
    for line in text.splitlines():
        header = re.match(r"\s*GPU \d+:.*\(UUID: ([\w-]{1,60})\)", line)
        if header:
            current = links.setdefault(header.group(1), {"active": 0, "inactive": 0, "gb_per_s": {}})
        elif re.match(r"\s*GPU\b", line):
            # An unnamed GPU: its links belong to no other GPU.
            current = None
        matched = re.match(r"\s*Link\s+(\d{1,4})\s*:(.*)", line)
        if matched and current is not None:
            speed = _link_speed(matched.group(2).strip())
            current["gb_per_s"][matched.group(1)] = speed
            if speed is not None:
                current["active" if speed else "inactive"] += 1
    return links


def parse_nvlink_counters(text: str) -> dict[str, dict[str, int]]:
    """Parse ``nvidia-smi nvlink -e`` or ``-gt d``: {index of the GPU: {counter: sum over its links}}.

    Units are dropped: ``-gt d`` counts KiB. Other lines are skipped, also those of inactive links.
    """
    counters: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in text.splitlines():
        header = re.match(r"\s*GPU (\d{1,4}):", line)
        if header:
            current = counters.setdefault(header.group(1), {})
        matched = re.fullmatch(
            r"\s*Link\s+\d{1,4}\s*:\s*([A-Za-z][\w ()/-]{0,60}?)\s*:\s*(\d{1,18})( [KMG]iB)?\s*", line
        )
        if matched and current is not None:
            name = re.sub(r"[^a-z0-9]+", "_", matched.group(1).lower()).strip("_")
            current[name] = current.get(name, 0) + int(matched.group(2))
    return {index: found for index, found in counters.items() if found}


def _link_speed(word: str) -> float | None:
    if word.lower() == "<inactive>":
        return 0.0
    matched = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s", word)
    return float(matched.group(1)) if matched else None


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """Parse ``nvidia-smi topo -m``: {device: {device: NV18, PIX, NODE, SYS ...}} of GPUs and NICs, without itself.

    Two different rows of one device are both ignored.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    columns: list[str] = []
    matrix: dict[str, dict[str, str]] = {}
    for line in plain.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if not columns:
            columns = [cell for cell in cells if re.fullmatch(r"(?:GPU|NIC)\d+", cell)]
        elif re.fullmatch(r"(?:GPU|NIC)\d+", cells[0]):
            pairs = zip(columns, cells[1:])
            row = {name: cell for name, cell in pairs if cell and cell != "X"}
            matrix[cells[0]] = row if matrix.get(cells[0], row) == row else {}
    return matrix


def first_time(text: str) -> float | None:
    """Return the time of the first line of a log that has one, in seconds since 1970."""
    for line in text.splitlines():
        matched = _ISO.match(line)
        if matched:
            with contextlib.suppress(ValueError):
                return datetime.datetime.strptime("".join(matched.groups()), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    return None


def parse_xids(text: str) -> dict[str, t.Any]:
    """Parse the Xid and SXid lines of a kernel log: the last ``MAX_EVENTS`` of each code, and their counts.

    {"xids": [{time, bus, code, text}], "sxids": [{time, bus, switch, code, text, fatal}], "counts": {code: n},
    "unread": lines of Xids in no known format}. Xids 154 (whose text decides) and fatal SXids with another text, or of
    another GPU, count as another code.
    """
    xids: list[dict[str, t.Any]] = []
    sxids: list[dict[str, t.Any]] = []
    counts: dict[str, int] = {}
    unread = 0
    for line in text.splitlines():
        stamp = _TIME.match(line)
        time = stamp.group(1) if stamp else None
        gpu, switch = _XID.search(line), _SXID.search(line)
        if gpu:
            detail = (gpu.group(3) or "")[:300]
            xids.append({"time": time, "bus": gpu.group(1), "code": int(gpu.group(2)), "text": detail})
            counts[str(int(gpu.group(2)))] = counts.get(str(int(gpu.group(2))), 0) + 1
        elif switch:
            detail = (switch.group(4) or "")[:300]
            entry = {"time": time, "bus": switch.group(2), "switch": switch.group(1), "code": int(switch.group(3))}
            sxids.append({**entry, "text": detail, "fatal": detail.lower().startswith("fatal")})
        elif _ANY_XID.search(line):
            unread += 1
    return {"xids": _last_of_each(xids), "sxids": _last_of_each(sxids), "counts": counts, "unread": unread}


def _last_of_each(events: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the last ``MAX_EVENTS`` events of each kind, in order."""
    seen: dict[t.Any, int] = {}
    kept = []
    for event in reversed(events):
        recovery = (event["bus"], event["text"]) if event["code"] == XID_RECOVERY else None
        kind = (event["code"], event.get("fatal"), recovery)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= MAX_EVENTS:
            kept.append(event)
    return kept[::-1]


def is_model(wanted: str, name: str) -> bool:
    """Return whether a device's name has all words of a model: A100 is in NVIDIA A100-SXM4-40GB, not in A10G."""
    words = {word.lower() for word in re.split(r"[\s-]+", name)}
    return {word.lower() for word in wanted.split()} <= words


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_neuron_ls(text: str) -> list[dict[str, t.Any]]:
    """Parse ``neuron-ls --json-output``: index, bdf, cores, memory_mib, connected_to, numa_node, processes per device.

    Raises ValueError with one sentence if it is not a list of devices.
    """
    try:
        data = unique_json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"no JSON ({exc}) but: {' '.join(text.split())[:300] or 'nothing'}") from None
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise ValueError("JSON that is not a list of devices")
    devices = []
    for entry in data:
        memory = _integer(entry.get("memory_size"))
        peers = entry.get("connected_to")
        processes = entry.get("neuron_processes")
        devices.append(
            {
                "index": _integer(entry.get("neuron_device")),
                "bdf": str(entry.get("bdf") or "")[:40] or None,
                "cores": _integer(entry.get("nc_count")),
                "memory_mib": memory >> 20 if memory is not None else None,
                "connected_to": [peer for peer in peers if isinstance(peer, int)] if isinstance(peers, list) else [],
                "numa_node": str(entry.get("numa_node", ""))[:10] or None,
                "processes": len(processes) if isinstance(processes, list) else 0,
            }
        )
    return devices


def parse_driver_version(text: str) -> str | None:
    """Return the version in /proc/driver/nvidia/version, of the open or the closed kernel module."""
    matched = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    return matched.group(1) if matched else None
