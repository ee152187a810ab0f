# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of EFA on a good node."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.look import Options, look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.verify import verify

from tests.unit.fakes.fake_training_host import good_node
from tests.unit.ledger.walk import Excuse, Room, bounded, fact_leaves, room_tests

NAME, ALL = "name or place that no verdict compares", "judged by the entry 'plugin', which is one of these"
UNUSED = "told, and judged by nobody"
NEWER = "a newer one is as good"
GPU = "for the choice of the checks; a GPU's own verdicts are gpu.*"
FACTS = look(good_node(), Options())
ROOM = Room(
    "EFA",
    FACTS,
    fact_leaves(FACTS),
    bounded(verify),
    (
        *(Excuse(f"family/accelerators/{name}", GPU) for name in ("kind", "count", "memory_mib")),
        *(Excuse(name, NAME) for name in ("*/source", "*_source", "*/pci", "*/device_id", "pci_devices/*", "uverbs/*")),
        Excuse("devices/*/p2p", UNUSED),
        Excuse("waited_seconds", "how long it waited", ("nothing",)),
        Excuse("devices/31/name", "half the number in a name is another name of the list", ("half",)),
        Excuse("modules/efa/file", NAME),
        *(Excuse(f"modules/{name}/*", "not of EFA; see gpu.driver") for name in ("nvidia", "neuron", "gdrdrv")),
        Excuse("libfabric/program", NAME),
        Excuse("libfabric/fabrics/*", UNUSED),
        *(Excuse(f"{name}/version", NEWER, ("ten times",)) for name in ("libfabric", "installer", "plugin", "nccl")),
        Excuse("plugins/0/*", ALL),
        *(Excuse(f"plugin/{name}", NAME) for name in ("place", "tuner", "names/0")),
        Excuse("plugin/interfaces/*", "any generation of the interface", ("zero", "half", "ten times")),
        *(Excuse(f"nccl_net/{name}", NAME) for name in ("value", "names/*", "path")),
        Excuse("nccl/path", NAME),
        Excuse("gdrcopy/device_node", "there is no library for it"),
        Excuse("mpi/0/*", UNUSED),
        Excuse("fabric_manager/unit", NAME),
        Excuse("fabric_manager/enabled", "for the role; it is active now"),
        *(Excuse(f"limits/login/{name}_file", NAME) for name in ("soft", "hard")),
        *(Excuse(f"units/slurmd.service/{name}", "the limit of its process is judged") for name in
          ("exists", "active", "enabled", "pid", "configured_memlock", "running_memlock/hard")),
        *(Excuse(f"units/{name}.service/*", "it does not run") for name in ("containerd", "docker")),
        Excuse("huge_pages/*", UNUSED),
        *(Excuse(name, UNUSED) for name in ("yama", "package*", "held_packages/*", "reboot_required")),
    ),
)  # fmt: skip
test_sample, test_every_leaf, test_ledger = room_tests(ROOM)
