# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts of a node's GPUs or Neuron devices, and their events in the kernel log."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from ..._data import instance_types, ultraservers
from ..system import pci
from ..system.ask import ask
from ..system.host import CommandError, Host
from ..system.instance import instance_type
from ..verdict.result import moment
from . import parse
from .neuron import look_at_neuron, neuron_wanted
from .parse import parse_driver_version

LONGEST_TIMEOUT = 600
# Limit of kernel log lines, so that a full log does not delay the look; a boot seldom has more. In a longer log
# journalctl searches for the lines itself.
LOG_LINES = 20000
LOG_PATTERN = "NVRM.*Xid|SXid|fallen off the bus|Linux version"
# A log is complete if its first line is at most this long after the boot: a large machine with many messages may lose
# the first lines, and no driver reports an Xid in that time.
BOOT_SECONDS = 600
SINCE_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a look, named as those of the module accelerator_info."""

    instance_type: str | None = None
    timeout: int = 60
    xid_since: str | None = None


def look(host: Host, options: Options) -> dict[str, t.Any]:
    """Return all facts in one mapping, described in the RETURN section of the module accelerator_info."""
    type_name = options.instance_type or instance_type(host)
    table = instance_types.lookup(type_name)
    expected = table["accelerators"] if table else None
    on_bus = pci_gpus(host)
    expected_kind = (expected or {}).get("kind")
    has_smi = host.which("nvidia-smi") is not None
    gpus_expected = bool(on_bus) or expected_kind == "gpu" or (has_smi and not _lacks_gpus(type_name, table, on_bus))
    proc = host.read_text("/proc/driver/nvidia/version") or ""
    neuron = look_at_neuron(host, options.timeout) if neuron_wanted(host, table, bool(on_bus)) else None
    smi = _smi(host, options) if gpus_expected else None
    # With a lost GPU nvidia-smi hangs at each call: do not call it again.
    problem = smi["problem"] if smi else None
    may_query = bool(smi) and has_smi and not problem
    return {
        "instance_type": type_name,
        "expected": expected,
        "type_known": table is not None,
        "expected_source": table["source"] if table else None,
        "ultraserver": ultraservers.is_ultraserver(type_name),
        "pci_gpus": on_bus,
        "lost_gpus": pci.lost(host, on_bus or ()),
        "smi": smi,
        "nvlinks": _nvlinks(host, options) if may_query else {"problem": problem, "gpus": {}},
        "topology": _topology(host, options) if may_query else {"problem": problem, "matrix": {}},
        "kernel_module": {
            "version": parse_driver_version(proc),
            "open": "Open Kernel Module" in proc if proc else None,
        },
        "kernel_log": _kernel_log(host, options) if gpus_expected else None,
        "neuron": neuron,
    }


def _lacks_gpus(kind: str | None, table: t.Mapping[str, t.Any] | None, on_bus: t.Sequence[str] | None) -> bool:
    """Return whether a type has no GPUs, by the table, or by its name if none is on the PCI bus.

    An image for GPU nodes has nvidia-smi also on other nodes, where it finds no driver.
    """
    named = bool(parse.EC2_TYPE.fullmatch(kind or "")) and not parse.ACCELERATED.match(kind or "")
    return table is not None or (named and on_bus == [])


def pci_gpus(host: Host) -> list[str] | None:
    """Return the PCI addresses of NVIDIA GPUs; None if the PCI bus cannot be read."""
    bus = pci.look(host)
    return bus.gpus if bus.readable else None


def _smi(host: Host, options: Options) -> dict[str, t.Any]:
    """Return nvidia-smi's document; problem is None only if the document is complete and the exit status 0."""
    argv = ["nvidia-smi", "-q", "-x"]
    started = host.monotonic()
    output, problem = ask(host, argv, options.timeout)
    seconds = round(host.monotonic() - started, 1)
    found: dict[str, t.Any] = {"driver": None, "cuda": None, "attached": None, "gpus": []}
    if not problem:
        try:
            found = parse.parse_smi(output)
        except ValueError as exc:
            problem = f"{' '.join(argv)} printed {exc}"
    return {**found, "problem": problem, "seconds": seconds}


def _nvlinks(host: Host, options: Options) -> dict[str, t.Any]:
    output, problem = ask(host, ["nvidia-smi", "nvlink", "--status"], options.timeout)
    return {"problem": problem, "gpus": parse.parse_nvlinks(output)}


def _topology(host: Host, options: Options) -> dict[str, t.Any]:
    output, problem = ask(host, ["nvidia-smi", "topo", "-m"], options.timeout)
    return {"problem": problem, "matrix": parse.parse_topology(output)}


def _kernel_log(host: Host, options: Options) -> dict[str, t.Any]:
    """Return the Xids of this boot from the journal, or from dmesg if the journal is unreadable.

    problem is the reason why neither could be read; an empty log of a running kernel counts as unreadable. partial:
    only the end of a long log was read, or its beginning is gone, or it is not a kernel log at all.
    """
    since = ["--since", options.xid_since] if options.xid_since else []
    if options.xid_since and not _is_past(host, options.xid_since):
        # For example after the clock was set back: then events after the start time look older than it.
        reason = f"Xids count from {options.xid_since} on, and it is {host.now()} by the node's clock"
        return {"source": None, "problem": reason, "partial": False, **parse.parse_xids("")}
    journal = ["journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-q", "-n", str(LOG_LINES), *since]
    problems = []
    for source, argv in (("journal", journal), ("dmesg", ["dmesg", "--time-format", "iso", *since])):
        output, problem = ask(host, argv, min(options.timeout, 30))
        # With a start time an empty log is possible, but the journal is also empty for users without access.
        if problem is None and (output.strip() or (since and source == "dmesg")):
            selected: str | None = output
            if source == "journal" and output.count("\n") >= LOG_LINES:
                selected = _matching_lines(host, argv, min(options.timeout, 30))
            text = output if selected is None else selected
            partial = selected is None or not _is_complete(host, text, bool(since))
            return {"source": source, "problem": None, "partial": partial, **parse.parse_xids(text)}
        problems.append(problem or f"{argv[0]} showed no kernel messages")
    return {"source": None, "problem": "; ".join(problems), "partial": False, **parse.parse_xids("")}


def _is_past(host: Host, since: str) -> bool:
    """Return whether a local time, as for journalctl, is not in the future; False if the node's clock is unknown."""
    now = moment(host.now())
    try:
        return now is not None and datetime.datetime.strptime(since, SINCE_FORMAT).timestamp() <= now.timestamp()
    except ValueError:
        return False


def _is_complete(host: Host, text: str, has_start: bool) -> bool:
    """Return whether a log reaches back to the boot: a log that grows too long loses its beginning.

    has_start: a start time after the boot was requested. Lines are then selected by their times, so that a log without
    times is not whole.
    """
    first = parse.first_time(text)
    if has_start:
        return first is not None or not text.strip()
    booted = re.search(r"^btime (\d+)$", host.read_text("/proc/stat") or "", re.MULTILINE)
    if first is not None and booted and first <= int(booted.group(1)) + BOOT_SECONDS:
        return True
    return re.search(r"\bLinux version \d", text) is not None


def _matching_lines(host: Host, journal: t.Sequence[str], timeout: float) -> str | None:
    """Return the relevant lines of a whole journal; None if this journalctl cannot search for a pattern."""
    try:
        completed = host.run([*journal, "--grep", LOG_PATTERN], timeout=timeout, check=False)
    except CommandError:
        return None
    # journalctl ends with 1 and prints nothing if no line matches.
    no_match = completed.rc == 1 and not (completed.stdout + completed.stderr).strip()
    return completed.stdout if completed.rc == 0 or no_match else None
