# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Client tuning of Lustre: the values for a machine of this size, the current values, and setting them.

Values of lctl are lost with the mount; those of kernel modules apply when the module is next loaded.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..system.ask import ask, line, number
from ..system.host import Host
from .parse import parse_parameters

GUIDE = "FSx for Lustre User Guide, Performance tips, client instance tuning"
# Machines with more memory (KiB) or more vCPUs than these need other values (same guide).
LARGE_MEMORY_KIB = 64 << 20
MANY_CPUS = 64
LRU_PER_CPU = 100


@dataclasses.dataclass(frozen=True)
class Value:
    """A wanted value: the parameter, its value, and the source of the value."""

    name: str
    value: str
    source: str


def machine(host: Host) -> dict[str, int | None]:
    """Return {memory_kib, cpus} of the node; None if the kernel does not report it."""
    memory = None
    for row in (host.read_text("/proc/meminfo") or "").splitlines():
        if row.startswith("MemTotal:"):
            memory = number(row.split()[1])
    cpus = sum(1 for row in (host.read_text("/proc/cpuinfo") or "").splitlines() if row.startswith("processor"))
    return {"memory_kib": memory, "cpus": cpus or None}


def parameters(size: t.Mapping[str, int | None], changes: t.Mapping[str, t.Any]) -> list[Value]:
    """Return the parameters of lctl for a machine; changes add and replace values, None removes one."""
    memory, cpus = size["memory_kib"] or 0, size["cpus"] or 0
    sourced: dict[str, t.Any] = {}
    if memory > LARGE_MEMORY_KIB:
        sourced["ldlm.namespaces.*.lru_max_age"] = 600000
        sourced["ldlm.namespaces.*.lru_size"] = LRU_PER_CPU * cpus
    if cpus > MANY_CPUS:
        sourced["osc.*OST*.max_rpcs_in_flight"] = 32
        sourced["mdc.*.max_rpcs_in_flight"] = 64
        sourced["mdc.*.max_mod_rpcs_in_flight"] = 50
    return _changed(sourced, changes, "fsx_lustre_tuning")


def module_options(size: t.Mapping[str, int | None], changes: t.Mapping[str, t.Any]) -> list[Value]:
    """Return the options of kernel modules for a machine, named module.option; changes as for ``parameters``."""
    sourced: dict[str, t.Any] = {}
    if (size["cpus"] or 0) > MANY_CPUS:
        sourced["ptlrpc.ptlrpcd_per_cpt_max"] = 32
        sourced["ksocklnd.credits"] = 2560
    return _changed(sourced, changes, "fsx_lustre_module_options")


def modprobe_text(options: t.Sequence[Value]) -> str:
    """Return the content of the file for modprobe; empty without options."""
    lines = [f"options {value.name.split('.')[0]} {value.name.split('.')[1]}={value.value}" for value in options]
    return "\n".join(["# Written by mlcluster.aws (role fsx_lustre).", *lines, ""]) if lines else ""


def compare(host: Host, wanted: t.Sequence[Value], timeout: float) -> list[dict[str, t.Any]]:
    """Return for each value: name, wanted, source, found (its distinct values), differs, problem if it is unknown."""
    rows = []
    for value in wanted:
        output, problem = ask(host, ["lctl", "get_param", value.name], timeout=timeout)
        found = sorted(set(parse_parameters(output).values())) if not problem else []
        if not problem and not found:
            problem = f"lctl has no parameter {value.name}, so no mounted Lustre has it"
        rows.append(
            {
                "name": value.name,
                "wanted": value.value,
                "source": value.source,
                "found": found,
                "problem": problem,
                "differs": not problem and found != [value.value],
            }
        )
    return rows


def loaded_options(host: Host, wanted: t.Sequence[Value]) -> list[dict[str, t.Any]]:
    """Return for each module option: name, wanted, source, loaded (whether the module is), found (None: unknown)."""
    rows = []
    for value in wanted:
        module, _dot, option = value.name.partition(".")
        rows.append(
            {
                "name": value.name,
                "wanted": value.value,
                "source": value.source,
                "loaded": host.exists(f"/sys/module/{module}"),
                "found": line(host, f"/sys/module/{module}/parameters/{option}"),
            }
        )
    return rows


def differing(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Return the rows of ``compare`` with a known and different value."""
    return [row for row in rows if row["differs"]]


def apply(host: Host, rows: t.Sequence[t.Mapping[str, t.Any]], timeout: float) -> list[str]:
    """Set the values that differ; return one sentence for each value that could not be set."""
    failures = []
    for row in differing(rows):
        _output, problem = ask(host, ["lctl", "set_param", f"{row['name']}={row['wanted']}"], timeout=timeout)
        if problem:
            failures.append(f"{row['name']} was not set to {row['wanted']}: {problem}")
    return failures


def _changed(sourced: t.Mapping[str, t.Any], changes: t.Mapping[str, t.Any], variable: str) -> list[Value]:
    whole = {**sourced, **changes}
    return [
        Value(name, str(value), variable if name in changes else GUIDE)
        for name, value in whole.items()
        if value is not None
    ]
