# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts on Neuron devices. Pure: facts of L{accelerator.look} in, mlcluster.result/1 out."""

from __future__ import annotations

import typing as t

from .result import Result, failed, passed, undeterminable

# A device shows less memory than its data sheet: 81559 of 81920 MiB on an H100.
MEMORY_TOLERANCE_PERCENT = 5


def verify_neuron(facts: t.Mapping[str, t.Any]) -> list[Result]:
    """Verdicts with the ids neuron.driver, neuron.count and neuron.memory."""
    neuron, expected = facts["neuron"], facts["expected"]
    checks = ("neuron.driver", "neuron.count", "neuron.memory")
    if neuron is None:
        return [undeterminable(check, "the Neuron devices were not looked at") for check in checks]
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
    found = len(neuron["devices"])
    if not expected or expected["kind"] != "neuron":
        unknown = "which Neuron devices there should be is not known"
        return [driver] + [undeterminable(check, unknown, found=found) for check in checks[1:]]
    fields: dict[str, t.Any] = {"expected": expected["count"], "found": found, "unit": "devices"}
    fields["source"] = facts["expected_source"]
    if found < expected["count"]:
        count = failed("neuron.count", "Neuron devices are missing", severity="isolate", **fields)
    elif found > expected["count"]:
        count = undeterminable("neuron.count", "more devices than the table says: it is out of date", **fields)
    else:
        count = passed("neuron.count", **fields)
    return [driver, count, _memory(facts, neuron["devices"])]


def _memory(facts: t.Mapping[str, t.Any], devices: t.Sequence[t.Mapping[str, t.Any]]) -> Result:
    wanted = facts["expected"]["memory_mib"]
    floor = wanted * (100 - MEMORY_TOLERANCE_PERCENT) // 100
    sizes = [device["memory_mib"] for device in devices]
    fields: dict[str, t.Any] = {"expected": f"{floor} MiB or more", "source": facts["expected_source"]}
    if not sizes or None in sizes:
        return undeterminable("neuron.memory", "neuron-ls does not name the memory of every device", **fields)
    if min(sizes) < floor:
        return failed("neuron.memory", f"a device shows {min(sizes)} MiB", severity="isolate", **fields)
    return passed("neuron.memory", f"{min(sizes)} MiB", **fields)
