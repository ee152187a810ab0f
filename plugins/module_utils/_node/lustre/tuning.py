# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Client tuning of Lustre: what a machine of this size should have, what it has, and the way from one to the other.

Values of lctl are lost with the mount; those of kernel modules count from the next time that the module is loaded.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..system.ask import ask, line, number
from ..system.host import Host

GUIDE = "FSx for Lustre User Guide, Performance tips, client instance tuning"
# More memory than this, in KiB, and more vCPUs than this, call for other values (same guide).
LARGE_MEMORY_KIB = 64 << 20
MANY_CPUS = 64
LRU_PER_CPU = 100
MODPROBE_PATH = "/etc/modprobe.d/mlcluster-lustre.conf"


@dataclasses.dataclass(frozen=True)
class Value:
    """One value wanted: the parameter, what it has to be, and where that comes from."""

    name: str
    value: str
    source: str


def machine(host: Host) -> dict[str, int | None]:
    """{memory_kib, cpus} of the node; None where the kernel does not tell."""
    memory = None
    for row in (host.read_text("/proc/meminfo") or "").splitlines():
        if row.startswith("MemTotal:"):
            memory = number(row.split()[1])
    cpus = sum(1 for row in (host.read_text("/proc/cpuinfo") or "").splitlines() if row.startswith("processor"))
    return {"memory_kib": memory, "cpus": cpus or None}


def parameters(size: t.Mapping[str, int | None], changes: t.Mapping[str, t.Any]) -> list[Value]:
    """The parameters of lctl for a machine; changes add to them, replace them, and with None take them away."""
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
    """The options of kernel modules for a machine, named module.option; changes as for ``parameters``."""
    sourced: dict[str, t.Any] = {}
    if (size["cpus"] or 0) > MANY_CPUS:
        sourced["ptlrpc.ptlrpcd_per_cpt_max"] = 32
        sourced["ksocklnd.credits"] = 2560
    return _changed(sourced, changes, "fsx_lustre_module_options")


def modprobe_text(options: t.Sequence[Value]) -> str:
    """What the file for modprobe has to hold; empty for no options."""
    lines = [f"options {value.name.split('.')[0]} {value.name.split('.')[1]}={value.value}" for value in options]
    return "\n".join(["# Written by mlcluster.aws (role fsx_lustre).", *lines, ""]) if lines else ""


def parse_parameters(text: str) -> dict[str, str]:
    """The output of 'lctl get_param': name=value a line."""
    found = {}
    for row in text.splitlines():
        name, separator, value = row.partition("=")
        if separator and name.strip():
            found[name.strip()] = value.strip()
    return found


def compare(host: Host, wanted: t.Sequence[Value], timeout: float) -> list[dict[str, t.Any]]:
    """For each value: name, wanted, source, found (its different values), differs, problem where lctl does not tell."""
    rows = []
    for value in wanted:
        told, problem = ask(host, ["lctl", "get_param", value.name], timeout=timeout)
        found = sorted(set(parse_parameters(told).values())) if not problem else []
        if not problem and not found:
            problem = f"lctl names no parameter {value.name}, so nothing of Lustre is mounted that has it"
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
    """For each option of a module: name, wanted, source, loaded (whether the module is), found (None: not shown)."""
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
    """Those rows of ``compare`` whose value is known and another."""
    return [row for row in rows if row["differs"]]


def apply(host: Host, rows: t.Sequence[t.Mapping[str, t.Any]], timeout: float) -> list[str]:
    """Set what differs, in one look after another; returns a sentence for each value that could not be set."""
    failures = []
    for row in differing(rows):
        _told, problem = ask(host, ["lctl", "set_param", f"{row['name']}={row['wanted']}"], timeout=timeout)
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
