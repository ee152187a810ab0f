# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No run changes foreign content. The simulated node knows the owners: the engine is not asked."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import random
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_contents import CONTENTS
from tests.unit.fakes.fake_machine import Machine
from tests.unit.fakes.fake_storage_host import SimulatedHost

INTENT = "/var/lib/mlcluster/intent.json"
KILLS = ("mdadm --create", "mkfs", "mount", "findmnt", "write /var/lib/mlcluster/local", "remove /var/lib")
OPTIONS = (
    {},
    {"existing": "fail"},
    {"existing": "replace"},
    {"safe_mode": False},
    {"existing": "replace", "safe_mode": False},
)


@dataclasses.dataclass
class Node:
    """A node, its options, and the disks with foreign content (by name)."""

    host: SimulatedHost
    options: dict[str, t.Any]
    at_boot: bool
    theirs: dict[str, str]
    # Its disks were never used.
    fresh: bool = False
    # Content that appears after the look, and the earlier content of its disk.
    late: dict[str, str] = dataclasses.field(default_factory=dict)
    after_look: dict[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def consented(self) -> bool:
        both = self.options.get("existing") == "replace" and self.options.get("safe_mode") is False
        return both and not self.at_boot


def make_node(rng: random.Random) -> Node:
    machine = Machine()
    machine.root()
    host = SimulatedHost(machine)
    stores = [device.kname for device in machine.stores(rng.choice((1, 2, 2, 3, 4, 8)))]
    machine.ebs("nvme40n1", "vol40")
    machine.sign("nvme40n1", "ext4", "e" * 32, "ebs")
    options: dict[str, t.Any] = {
        "layout": rng.choice(("raid0", "raid0", "per_disk")),
        "fstype": rng.choice(("ext4", "xfs")),
    }
    fresh = history(rng, host, options) == "nothing"
    options.update(rng.choice(OPTIONS))
    if rng.random() < 0.1:
        options["devices"] = [f"/dev/{name}" for name in rng.sample(stores, rng.randint(1, len(stores)))]
    node = Node(host, options, rng.random() < 0.35, {}, fresh)
    free = [name for name in stores if not machine.devices[name].signatures and not machine.busy(name)]
    for kname in rng.sample(free, min(len(free), rng.choice((0, 1, 1, 1, 2, 3)))):
        put(rng, node, node.theirs, kname)
    if rng.random() < 0.2:
        appear_later(rng, node, stores)
    return node


def history(rng: random.Random, host: SimulatedHost, options: dict[str, t.Any]) -> str:
    """Apply no history, a volume with files, or a killed run; then perhaps a reboot or a stop and start."""
    what = rng.choice(("nothing", "nothing", "volume", "killed"))
    if what == "nothing":
        return what
    host.killed_before = rng.choice(KILLS) if what == "killed" else ""
    with contextlib.suppress(NodeError, KeyboardInterrupt):
        scene.run(host, **options)
    host.killed_before = ""
    event = rng.choice(("", "reboot", "stop"))
    if event == "reboot":
        host.machine.reboot()
    elif event == "stop":
        host.machine.stop_start()
        host.machine.groups.clear()
    if rng.random() < 0.2:
        options["fstype"] = "xfs"
    return what


def put(rng: random.Random, node: Node, where: dict[str, str], kname: str) -> None:
    name = rng.choice(sorted(CONTENTS))
    CONTENTS[name].put(node.host.machine, kname, rng)
    where[kname] = name


def appear_later(rng: random.Random, node: Node, stores: list[str]) -> None:
    """Put content on a free disk after the look, before a step."""
    host, seed = node.host, rng.random()
    write = host.write_text

    def write_text(path: str, text: str, mode: int = 0o644) -> None:
        if path == INTENT and not node.late:
            machine, dice = host.machine, random.Random(seed)
            free = [name for name in stores if not machine.busy(name) and not machine.devices[name].signatures]
            free = [name for name in free if not machine.devices[name].content and name not in node.theirs]
            if free:
                kname = dice.choice(free)
                put(dice, node, node.late, kname)
                node.after_look = everything(node)
        write(path, text, mode)

    host.write_text = write_text  # type: ignore[method-assign]


def disks_below(machine: Machine, kname: str) -> set[str]:
    parents = machine.devices[kname].parents
    return set().union(*(disks_below(machine, parent) for parent in parents)) if parents else {kname}


def everything(node: Node) -> dict[str, t.Any]:
    """Return the content of each disk and its stack, with mounts, mappings and swap."""
    machine = node.host.machine
    found: dict[str, t.Any] = collections.defaultdict(list)
    for device in machine.devices.values():
        state = (device.kname, device.signatures, device.content, device.blocks, device.md, device.parents)
        for disk in disks_below(machine, device.kname):
            found[disk].append(copy.deepcopy(state))
            found[disk] += [(m["target"], m["source"]) for m in machine.mounts if m["kname"] == device.kname]
            found[disk] += [path for path in machine.swaps if path == device.path]
    for name, group in machine.groups.items():
        for member in group["members"]:
            found[member].append((name, sorted(group["volumes"])))
    return dict(found)


def mounted_volumes(machine: Machine) -> dict[str, str]:
    """Return our mounted filesystems by UUID: each may hold a file."""
    mounted = {mount["kname"] for mount in machine.mounts}
    return {
        signature["uuid"]: signature["type"]
        for device in machine.devices.values()
        for signature in device.signatures
        if device.kname in mounted and str(signature["label"]).startswith("mlcluster")
    }


def protected(node: Node) -> set[str]:
    """Return the disks that may not change. One irreplaceable disk protects all: a run does all or nothing."""
    machine = node.host.machine
    outside = {k for k, d in machine.devices.items() if not d.parents and "Instance Storage" not in d.model}
    chosen = node.options.get("devices")
    left = {k for k in node.theirs if chosen is not None and f"/dev/{k}" not in chosen}
    inside = set(node.theirs) - left
    whole = node.consented and all(CONTENTS[node.theirs[k]].replaceable for k in inside)
    return outside | left | (set() if whole else inside)


def check(seed: int) -> str:
    """Make a node, run, and compare; return the outcome of the run."""
    node = make_node(random.Random(seed))
    machine, before, files, outcome = node.host.machine, everything(node), {}, "done"
    files.update(mounted_volumes(machine))
    try:
        scene.run(node.host, node.at_boot, **node.options)
    except NodeError:
        outcome = "refused"
    after = everything(node)
    # Content that appears after the look can bring an EBS volume.
    before = {**node.after_look, **before}
    changed = {kname for kname in protected(node) if before.get(kname) != after.get(kname)}
    # The consent does not cover content that appears after the look.
    changed |= {kname for kname in node.late if node.after_look[kname] != after.get(kname)}
    case = (seed, node.options, node.at_boot, node.theirs, node.late)
    assert not changed, f"{sorted(changed)} were changed by a run that {outcome}: {case}"
    kept = {signature["uuid"]: signature["type"] for d in machine.devices.values() for signature in d.signatures}
    assert node.consented or files.items() <= kept.items(), f"a volume of ours is gone: {case}"
    assert outcome == "done" or node.theirs or node.late or not node.fresh, f"blank disks were refused: {case}"
    return outcome


def test_there_are_at_least_sixty_kinds_of_content():
    assert len(CONTENTS) >= 60


@pytest.mark.parametrize("name", sorted(CONTENTS))
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_each_kind_of_content_is_kept(name, layout):
    host = scene.node(2)
    CONTENTS[name].put(host.machine, "nvme2n1", random.Random(name))
    node = Node(host, {}, False, {"nvme2n1": name})
    before = everything(node)
    for at_boot in (False, True):
        with pytest.raises(NodeError):
            scene.run(host, at_boot, layout=layout)
    assert everything(node) == before
    if not CONTENTS[name].replaceable:
        with pytest.raises(NodeError):
            scene.run(host, layout=layout, **scene.CONSENT)
        assert everything(node) == before
    with pytest.raises(NodeError):
        scene.run(host, True, layout=layout, **scene.CONSENT)
    assert everything(node) == before


@pytest.mark.parametrize("part", range(4))
def test_no_run_changes_foreign_content(part):
    outcomes = collections.Counter(check(seed) for seed in range(part * 400, (part + 1) * 400))
    # A run that refuses everything would also change nothing.
    assert outcomes["done"] >= 100, outcomes
    assert outcomes["refused"] >= 100, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_hundred_thousand_runs_change_no_foreign_content(part):
    for seed in range(10_000 + part * 1000, 10_000 + (part + 1) * 1000):
        check(seed)
