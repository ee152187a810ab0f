# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Neuron devices: facts from the driver and neuron-ls, and verdicts on them."""

from __future__ import annotations

import re
import typing as t

from ..system.ask import ask, line
from ..system.host import Host
from ..verdict.result import Result, failed, passed, undeterminable
from .parse import parse_neuron_ls

# A device reports less memory than its data sheet: 81559 of 81920 MiB on an H100. With ECC, GDDR memory loses another
# 6.25 percent (CUDA C++ Best Practices Guide, ECC), which the table does not subtract: 15079 of 16384 MiB on a T4.
MEMORY_TOLERANCE_PERCENT = 8
# Tolerance above the memory in the table, for the same device.
MEMORY_EXCESS_PERCENT = 10


_NEURON_LS = "/opt/aws/neuron/bin/neuron-ls"


def neuron_wanted(host: Host, table: t.Mapping[str, t.Any] | None, has_gpus: bool) -> bool:
    """Return whether the node should have Neuron devices, by the instance type or the loaded driver.

    has_gpus: NVIDIA GPUs are on the PCI bus. An image for several types may load the driver on a node of GPUs too.
    """
    chips = table["accelerators"] if table else None
    if chips:
        return bool(chips["kind"] == "neuron")
    return not has_gpus and host.exists("/sys/module/neuron")


def look_at_neuron(host: Host, timeout: float = 60) -> dict[str, t.Any]:
    """Return the Neuron driver and the devices of neuron-ls; problem is None only for a complete list.

    {loaded, driver (version or None), device_nodes (how many /dev/neuron*), devices (as ``parse_neuron_ls``), problem}.
    """
    program = _NEURON_LS if host.exists(_NEURON_LS) else host.which("neuron-ls")
    devices: list[dict[str, t.Any]] = []
    problem: str | None = "neuron-ls is not installed"
    if program:
        output, problem = ask(host, [program, "--json-output"], timeout)
        try:
            devices = parse_neuron_ls(output) if not problem else []
        except ValueError as exc:
            problem = f"{program} --json-output printed {exc}"
    return {
        "loaded": host.exists("/sys/module/neuron"),
        "driver": line(host, "/sys/module/neuron/version"),
        "device_nodes": sum(1 for name in host.listdir("/dev") if re.fullmatch(r"neuron\d+", name)),
        "devices": devices,
        "problem": problem,
    }


def verify_neuron(
    neuron: t.Mapping[str, t.Any], expected: t.Mapping[str, t.Any] | None, source: str | None
) -> list[Result]:
    """Return neuron.driver, neuron.count and neuron.memory; expected are the devices of the type, by source."""
    checks = ("neuron.driver", "neuron.count", "neuron.memory")
    driver = (
        passed("neuron.driver", neuron["driver"] or "loaded, without a version")
        if neuron["loaded"]
        else failed(
            "neuron.driver",
            "the module neuron is not loaded",
            severity="reset",
            hint="install aws-neuronx-dkms, then run 'modprobe neuron'",
        )
    )
    if neuron["problem"]:
        return [driver] + [undeterminable(check, neuron["problem"]) for check in checks[1:]]
    found = len({device["index"] for device in neuron["devices"]} - {None})
    if found != len(neuron["devices"]):
        unclear = f"neuron-ls lists {len(neuron['devices'])} devices under {found} numbers"
        return [driver] + [undeterminable(check, unclear, found=found) for check in checks[1:]]
    if not expected or expected["kind"] != "neuron":
        unknown = "which Neuron devices there should be is not known"
        return [driver] + [undeterminable(check, unknown, found=found) for check in checks[1:]]
    fields: dict[str, t.Any] = {"expected": expected["count"], "found": found, "unit": "devices"}
    fields["source"] = source
    if found < expected["count"]:
        count = failed("neuron.count", "Neuron devices are missing", severity="isolate", **fields)
    elif found > expected["count"]:
        count = undeterminable("neuron.count", "more devices than the table has: it is out of date", **fields)
    else:
        count = passed("neuron.count", **fields)
    return [driver, count, _memory(neuron["devices"], expected, source)]


def _memory(devices: t.Sequence[t.Mapping[str, t.Any]], expected: t.Mapping[str, t.Any], source: str | None) -> Result:
    wanted = expected["memory_mib"]
    floor = wanted * (100 - MEMORY_TOLERANCE_PERCENT) // 100
    maximum = wanted * (100 + MEMORY_EXCESS_PERCENT) // 100
    sizes = [device["memory_mib"] for device in devices]
    fields: dict[str, t.Any] = {"expected": f"{floor} MiB or more", "source": source}
    if not sizes or None in sizes:
        return undeterminable("neuron.memory", "neuron-ls does not name the memory of every device", **fields)
    if min(sizes) < floor:
        return failed("neuron.memory", f"a device shows {min(sizes)} MiB", severity="isolate", **fields)
    if max(sizes) > maximum:
        unknown = f"a device shows {max(sizes)} MiB, more than the table has: it is out of date"
        return undeterminable("neuron.memory", unknown, **fields)
    return passed("neuron.memory", f"{min(sizes)} MiB", **fields)
