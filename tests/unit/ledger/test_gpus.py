# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded document of nvidia-smi, repeated for eight GPUs in a fabric, and the tables of NVLinks and topology."""

from __future__ import annotations

import functools
import re
from xml.etree import ElementTree

from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.look import Options, look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import verify

from tests.unit.fakes.fake_training_host import eight_gpus, good_node, nvlinks, topology
from tests.unit.ledger.walk import Excuse, Leaf, Room, room_tests

XML, LINKS, MATRIX = "nvidia-smi -q -x", "nvidia-smi nvlink --status", "nvidia-smi topo -m"


def judge(outputs):
    host = good_node()
    host.commands.update(outputs)
    return {result.id: result.status for result in verify(look(host, Options()))}


def with_leaf(position, text):
    """The document with another text in one element, or without the element."""
    root = ElementTree.fromstring(eight_gpus())
    parents = {child: parent for parent in root.iter() for child in parent}
    element = list(root.iter())[position]
    if text is None:
        parents[element].remove(element)
    else:
        element.text = text
    return {XML: '<?xml version="1.0" ?>\n' + ElementTree.tostring(root, encoding="unicode")}


def document_leaves():
    """The leaves of the document that are of no GPU, and those of the last GPU."""
    root = ElementTree.fromstring(eight_gpus())
    last = root.findall("gpu")[-1]
    paths = {root: "", last: "gpu"}
    found = []
    for position, element in enumerate(root.iter()):
        for child in element:
            if element in paths and (child.tag != "gpu" or child is last):
                paths.setdefault(child, f"{paths[element]}/{child.tag}".lstrip("/"))
        if element in paths and not len(element) and element is not root:
            text = " ".join((element.text or "").split())
            found.append(Leaf(paths[element], text, functools.partial(with_leaf, position)))
    return found


def table_leaves(command, text, cells):
    """The leaves of a table: (path, start, end) of each."""

    def replaced(start, end, new):
        return {command: text[:start] + (new or "") + text[end:]}

    return [Leaf(path, text[start:end], functools.partial(replaced, start, end)) for path, start, end in cells]


def link_cells(text):
    first = text.index("GPU 7:")
    for number, found in enumerate(re.finditer(r"Link \d+: (.*)", text[first:])):
        yield f"nvlink/link{number}", first + found.start(1), first + found.end(1)
    found = re.compile(r"UUID: (GPU-[\w-]+)").search(text, first)
    yield "nvlink/uuid", found.start(1), found.end(1)


def matrix_cells(text):
    for row in ("GPU0", "GPU7", "NIC0"):
        start = text.index(f"\n{row}\t") + 1
        line = text[start : text.index("\n", start)]
        columns = [*(f"GPU{number}" for number in range(8)), "NIC0", "affinity", "numa"]
        position = start
        for number, cell in enumerate(line.split("\t")):
            if number and cell.strip() not in ("", "X"):
                yield f"topology/{row}/{columns[number - 1]}", position, position + len(cell)
            position += len(cell) + 1


NAME, PLACE = "name or identity: no verdict compares it", "where the GPU sits: no verdict compares it"
SETTING = "a setting that no job of this collection needs"
USE = "use at this moment, of which any is good"
HARMLESS = "no fault by NVIDIA's documentation, active or not"
MEASURED = "a measurement of which both values are good"
LEDGER = (
    Excuse("timestamp", "time of the document"),
    Excuse("cuda_version", "judged by versions.cuda where an image brings CUDA"),
    *(Excuse(f"gpu/{name}", NAME) for name in ("product_brand", "serial", "pdi", "minor_number", "vbios_version")),
    *(Excuse(f"gpu/{name}", NAME) for name in ("board_*", "gpu_*part_number", "multigpu_board", "platformInfo/*")),
    Excuse("gpu/product_architecture", "an unknown one is judged as the newest"),
    Excuse("gpu/inforom_version/[oep]*", "version of a part; img_version is judged"),
    Excuse("gpu/inforom_bbx_flush/*", "history of the black box"),
    Excuse("gpu/gsp_firmware_version", "comes with the driver, which is judged"),
    *(Excuse(f"gpu/{name}", SETTING) for name in ("display_*", "addressing_mode", "accounting_*", "driver_model/*")),
    *(Excuse(f"gpu/{name}", SETTING) for name in ("gpu_operation_mode/*", "c2c_mode", "gpu_virtualization_mode/*")),
    *(Excuse(f"gpu/{name}", SETTING) for name in ("ibmnpu/*", "sparse_operation_mode", "dram_encryption_mode/*")),
    *(Excuse(f"gpu/{name}", SETTING) for name in ("power_smoothing", "power_profiles/*", "clock_policy/*")),
    Excuse("gpu/capabilities/egm", SETTING),
    *(Excuse(f"gpu/pci/{name}", PLACE) for name in ("pci_[bds]*", "atomic_caps_*")),
    *(Excuse(f"gpu/{name}", USE) for name in ("pci/?x_util", "utilization/*", "encoder_stats/*", "fbc_stats/*")),
    *(Excuse(f"gpu/fb_memory_usage/{name}", USE) for name in ("reserved", "used", "free")),
    *(Excuse(f"gpu/{name}", USE) for name in ("bar1_memory_usage/*", "cc_protected_memory_usage/*", "*processes")),
    *(Excuse(f"gpu/{name}", MEASURED) for name in ("fan_speed", "*_readings/*_draw", "temperature/*tlimit*")),
    *(Excuse(f"gpu/{name}", MEASURED) for name in ("temperature/memory_temp", "*target_temp*")),
    *(Excuse(f"gpu/{name}", SETTING) for name in ("gpu_power_readings/min_power_limit", "deferred_clocks/mem_clock")),
    Excuse("gpu/module_power_readings/*_limit", "of a module of several GPUs, which EC2 does not have"),
    Excuse("gpu/mig_devices", "judged by current_mig"),
    Excuse("gpu/retired_pages/*/retired_pagelist", "judged by the count beside it"),
    *(Excuse(f"gpu/fabric/{name}", NAME) for name in ("cliqueId", "clusterUuid")),
    Excuse("gpu/pci/pci_gpu_link_info/pcie_gen/max_host_link_gen", "of the host's port, which a guest does not see"),
    Excuse("topology/*/affinity", PLACE),
    Excuse("topology/*/numa", PLACE),
    Excuse("topology/GPU[07]/NIC0", PLACE),
    Excuse("topology/NIC0/GPU*", PLACE),
    # Values of which another is as good.
    Excuse("gpu/inforom_version/img_version", "any version that can be read", ("zero", "half", "ten times")),
    *(
        Excuse(f"gpu/clocks_event_reasons/clocks_event_reason_{name}", HARMLESS, ("opposite",))
        for name in ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clocks_setting")
    ),
    Excuse("gpu/pci/pci_gpu_link_info/pcie_gen/*current_link_gen", "falls when a GPU idles", ("half",)),
    Excuse("gpu/clocks/*_clock", "falls when a GPU idles", ("half",)),
    Excuse("gpu/temperature/gpu_temp", MEASURED, ("half",)),
    Excuse(
        "gpu/remapped_rows/row_remapper_histogram/row_remapper_histogram_max",
        "spare rows: the flag of a failed remapping judges",
        ("zero", "half", "ten times"),
    ),
)
ROOM = Room(
    "GPUs",
    {},
    [
        *document_leaves(),
        *table_leaves(LINKS, nvlinks(), link_cells(nvlinks())),
        *table_leaves(MATRIX, topology(), matrix_cells(topology())),
    ],
    judge,
    LEDGER,
)
test_sample, test_every_leaf, test_ledger = room_tests(ROOM)
