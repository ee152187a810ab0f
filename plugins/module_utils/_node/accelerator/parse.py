# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers of nvidia-smi's XML, NVLink and topology tables, of Xid lines in the kernel log, and of neuron-ls.

A field that is missing, "N/A", "[N/A]", deprecated or no number is None: it is never taken for a zero.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import typing as t
import xml.etree.ElementTree as ET

# Of each code no more events than this are kept, the last ones: a flood of one must not hide another.
MAX_EVENTS = 20
# Its text names what has to be done, and so two of them may mean two things.
XID_RECOVERY = 154
_NOTHING = re.compile(
    r"\[?(?:n/?a|not supported|not available|unknown error|none|requested functionality.*)\]?", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,6})?")
# "<time> kernel: NVRM: Xid (PCI:0000:b3:00): 79, pid=..., GPU has fallen off the bus."; old drivers leave PCI: out, and
# with MIG the address is followed by the instance.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^()]{0,60}\): (\d{1,6})\b[,:]?\s*(.*)")
_SXID = re.compile(
    r"(nvidia-nvswitch\d{1,3}): SXid \((?:PCI:)?([0-9a-fA-F:.]{4,20})[^()]{0,60}\): (\d{1,6})\b[,:]?\s*(.*)"
)
# The times of journalctl -o short-iso and of dmesg --time-format iso, which has a fraction and a colon in its zone.
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,]\d+)?([+-]\d\d):?(\d\d)\s")
_TIME = re.compile(r"\[?\s*(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.,:+Z-]*|\d{1,12}\.\d{1,9})\]?\s")


def _text(node: ET.Element | None, path: str) -> str | None:
    found = node.find(path) if node is not None else None
    word = " ".join((found.text or "").split()) if found is not None else ""
    return None if not word or _NOTHING.fullmatch(word) else word[:200]


def _number(node: ET.Element | None, path: str) -> float | None:
    """The number that a field begins with, without its unit."""
    matched = _NUMBER.match(_text(node, path) or "")
    return float(matched.group()) if matched else None


def _whole(node: ET.Element | None, path: str) -> int | None:
    value = _number(node, path)
    return int(value) if value is not None else None


def _switch(node: ET.Element | None, path: str) -> bool | None:
    """Enabled, Active and Yes are true, their opposites false, anything else None."""
    word = (_text(node, path) or "").lower()
    if word in ("enabled", "active", "yes"):
        return True
    return False if word in ("disabled", "not active", "no") else None


def _sum(node: ET.Element | None, names: t.Sequence[str]) -> int | None:
    """The sum of those fields that are numbers, None where none of them is."""
    values = [value for value in (_whole(node, name) for name in names) if value is not None]
    return sum(values) if values else None


def _ecc(gpu: ET.Element) -> dict[str, t.Any]:
    """Counts of errors since the last driver load (volatile) and ever (aggregate), in the field names of Ampere and
    newer GPUs, and in those of older ones (single_bit, double_bit).
    """
    found: dict[str, t.Any] = {"enabled": _switch(gpu, "ecc_mode/current_ecc")}
    pending = _switch(gpu, "ecc_mode/pending_ecc")
    found["pending"] = pending
    uncorrectable = ("dram_uncorrectable", "sram_uncorrectable", "sram_uncorrectable_parity")
    for scope in ("volatile", "aggregate"):
        counts = gpu.find(f"ecc_errors/{scope}")
        found[scope] = {
            "correctable": _sum(counts, ("dram_correctable", "sram_correctable", "single_bit/total")),
            "uncorrectable": _sum(counts, (*uncorrectable, "sram_uncorrectable_secded", "double_bit/total")),
        }
    found["sram_threshold_exceeded"] = _switch(gpu, "ecc_errors/aggregate/sram_threshold_exceeded")
    for name in ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory"):
        found[name] = _switch(gpu, f"ecc_errors/{name}")
    return found


def _throttle(gpu: ET.Element) -> list[str] | None:
    """The reasons for reduced clocks that are active, without their prefix; nvidia-smi renamed them in release 535.

    None where it says neither "Active" nor "Not Active" of any.
    """
    reasons, told = set(), False
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for reason in gpu.findall(f"{group}/*"):
            word = (reason.text or "").strip().lower()
            told = told or word in ("active", "not active")
            if word == "active":
                reasons.add(re.sub(r"^clocks_(?:event|throttle)_reason_", "", str(reason.tag))[:60])
    return sorted(reasons) if told else None


def _recovery(gpu: ET.Element) -> str | None:
    """What the driver asks for. "None" is an answer here, and a good one."""
    word = (gpu.findtext("gpu_recovery_action") or "").strip()
    return word if word.lower() == "none" else _text(gpu, "gpu_recovery_action")


def _gpu(index: int, gpu: ET.Element) -> dict[str, t.Any]:
    return {
        "index": index,
        "bus_id": (gpu.get("id") or "")[:40] or None,
        "name": _text(gpu, "product_name"),
        "architecture": _text(gpu, "product_architecture"),
        "uuid": _text(gpu, "uuid"),
        "vbios": _text(gpu, "vbios_version"),
        "serial": _text(gpu, "serial"),
        "minor": _whole(gpu, "minor_number"),
        "memory_mib": _whole(gpu, "fb_memory_usage/total"),
        "memory_used_mib": _whole(gpu, "fb_memory_usage/used"),
        "persistence": _switch(gpu, "persistence_mode"),
        "compute_mode": _text(gpu, "compute_mode"),
        "mig": {"enabled": _switch(gpu, "mig_mode/current_mig"), "pending": _switch(gpu, "mig_mode/pending_mig")},
        "ecc": _ecc(gpu),
        "retired_pages": {
            "single_bit": _whole(gpu, "retired_pages/multiple_single_bit_retirement/retired_count"),
            "double_bit": _whole(gpu, "retired_pages/double_bit_retirement/retired_count"),
            "pending": _switch(gpu, "retired_pages/pending_retirement"),
        },
        "remapped_rows": {
            "correctable": _whole(gpu, "remapped_rows/remapped_row_corr"),
            "uncorrectable": _whole(gpu, "remapped_rows/remapped_row_unc"),
            "pending": _switch(gpu, "remapped_rows/remapped_row_pending"),
            "failure": _switch(gpu, "remapped_rows/remapped_row_failure"),
        },
        "throttle_reasons": _throttle(gpu),
        "clocks_mhz": {
            "sm": _whole(gpu, "clocks/sm_clock"),
            "sm_max": _whole(gpu, "max_clocks/sm_clock"),
            "memory": _whole(gpu, "clocks/mem_clock"),
            "memory_max": _whole(gpu, "max_clocks/mem_clock"),
        },
        "temperature_c": _whole(gpu, "temperature/gpu_temp"),
        "pcie": {
            "generation": _whole(gpu, "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
            "generation_max": _whole(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
            "width": _whole(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width"),
            "width_max": _whole(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width"),
            "replays": _whole(gpu, "pci/replay_counter"),
        },
        "fabric": {"state": _text(gpu, "fabric/state"), "status": _text(gpu, "fabric/status")},
        "recovery_action": _recovery(gpu),
    }


def parse_smi(text: str) -> dict[str, t.Any]:
    """``nvidia-smi -q -x``: driver, cuda, attached (how many GPUs it says there are) and gpus.

    Raises ValueError with one sentence where the text is no whole document of nvidia-smi, or declares entities.
    """
    start = text.find("<?xml")
    if start < 0:
        raise ValueError(f"no XML but: {' '.join(text.split())[:300] or 'nothing'}")
    if "<!ENTITY" in text:
        raise ValueError("an XML document that declares entities, which nvidia-smi never does")
    try:
        root = ET.fromstring(text[start:])  # noqa: S314 entities are refused above
    except (ET.ParseError, LookupError, ValueError) as exc:
        raise ValueError(f"XML that breaks off or is damaged ({exc})") from None
    if root.tag != "nvidia_smi_log":
        raise ValueError(f"an XML document of another kind, {str(root.tag)[:40]}")
    return {
        "driver": _text(root, "driver_version"),
        "cuda": _text(root, "cuda_version"),
        "attached": _whole(root, "attached_gpus"),
        "gpus": [_gpu(index, gpu) for index, gpu in enumerate(root.findall("gpu"))],
    }


def parse_nvlinks(text: str) -> dict[str, dict[str, int]]:
    """``nvidia-smi nvlink --status``: {GPU uuid: {active, inactive}}; a link at 0 GB/s is not active."""
    links: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in text.splitlines():
        header = re.match(r"\s*GPU \d+:.*\(UUID: ([\w-]{1,60})\)", line)
        if header:
            current = links.setdefault(header.group(1), {"active": 0, "inactive": 0})
        matched = re.match(r"\s*Link \d+:\s*(<inactive>|\d[\d.]*) ?", line)
        if matched and current is not None:
            word = matched.group(1)
            active = word != "<inactive>" and bool(re.search(r"[1-9]", word))
            current["active" if active else "inactive"] += 1
    return links


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """``nvidia-smi topo -m``: {device: {device: NV18, PIX, NODE, SYS ...}} of GPUs and NICs, without itself."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    columns: list[str] = []
    matrix: dict[str, dict[str, str]] = {}
    for line in plain.splitlines():
        cells = [cell.strip() for cell in line.split("\t")]
        if not columns:
            columns = [cell for cell in cells if re.fullmatch(r"(?:GPU|NIC)\d+", cell)]
        elif re.fullmatch(r"(?:GPU|NIC)\d+", cells[0]):
            pairs = zip(columns, cells[1:])
            matrix[cells[0]] = {name: cell for name, cell in pairs if cell and cell != "X"}
    return matrix


def first_time(text: str) -> float | None:
    """When the first line of a log that has a time was written, in seconds since 1970."""
    for line in text.splitlines():
        matched = _ISO.match(line)
        if matched:
            with contextlib.suppress(ValueError):
                return datetime.datetime.strptime("".join(matched.groups()), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    return None


def parse_xids(text: str) -> dict[str, t.Any]:
    """Xid and SXid lines of a kernel log, the last L{MAX_EVENTS} of each code, and how many there were.

    {"xids": [{time, bus, code, text}], "sxids": [{time, bus, switch, code, text, fatal}], "counts": {code: n}}. Of the
    Xids 154, whose text decides, and of fatal SXids those with another text are another code.
    """
    xids: list[dict[str, t.Any]] = []
    sxids: list[dict[str, t.Any]] = []
    counts: dict[str, int] = {}
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
    return {"xids": _last_of_each(xids), "sxids": _last_of_each(sxids), "counts": counts}


def _last_of_each(events: t.Sequence[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The last L{MAX_EVENTS} events of each kind, in their order."""
    seen: dict[t.Any, int] = {}
    kept = []
    for event in reversed(events):
        kind = (event["code"], event.get("fatal"), event["text"] if event["code"] == XID_RECOVERY else None)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= MAX_EVENTS:
            kept.append(event)
    return kept[::-1]


def is_model(wanted: str, name: str) -> bool:
    """Whether a device's name has the words of a GPU's in the table: A100 in NVIDIA A100-SXM4-40GB, and not in A10G."""
    words = {word.lower() for word in re.split(r"[\s-]+", name)}
    return {word.lower() for word in wanted.split()} <= words


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_neuron_ls(text: str) -> list[dict[str, t.Any]]:
    """``neuron-ls --json-output``: devices with index, bdf, cores, memory_mib, connected_to, numa_node, processes.

    Raises ValueError with one sentence where it is no list of devices.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"no JSON ({exc}) but: {' '.join(text.split())[:300] or 'nothing'}") from None
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise ValueError("JSON that is no list of devices")
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
    """The version in /proc/driver/nvidia/version, of the open and of the closed kernel module."""
    matched = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    return matched.group(1) if matched else None
