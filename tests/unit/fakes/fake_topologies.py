# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes in every imaginable condition: roots, EBS volumes, disks with a history, and faults."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import INTENT_PATH, RECORD_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from hypothesis import strategies as st

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import INSTANCE_STORE, SHAPES, Machine, fs_uuid
from tests.unit.fakes.fake_storage_host import SimulatedHost

ROOTS = ("nvme", "xen", "virtio", "instance store")
HISTORIES = ("none", "none", "converged", "converged", "killed", "killed", "parallelcluster", "dlami", "eks")
KILLS = ("mdadm --create", "wipefs --all", "mkfs", "mount", "findmnt", f"write {RECORD_PATH}", f"remove {INTENT_PATH}")
EVENTS = ("none", "none", "none", "reboot", "stop_start", "lose")
# Half of the runs may destroy: what then still has to stand is what the engine protects by itself.
CONSENTS = [scene.CONSENT] * 4 + [
    {"existing": "adopt"},
    {"existing": "adopt", "safe_mode": False},
    {"existing": "replace"},
    {"existing": "fail", "safe_mode": False},
]
HOSTILE = (None, 7, "", [], {}, [None], ["AWS0001"], "f" * 32, [{"path": "/"}], "raid0")
DISK_TROUBLES = (
    "ext4",
    "gpt",
    "dos",
    "swap",
    "swap signature",
    "mounted",
    "crypt",
    "read-only",
    "unreadable",
    "unopenable",
    "held",
    "loop",
    "no serial",
    "same serial",
    "system",
)
GROUP_TROUBLES = ("array", "stopped array", "volume group", "btrfs", "mounted btrfs", "unlisted LVM")


@dataclasses.dataclass
class Topology:
    """A node and its options."""

    host: SimulatedHost
    options: dict[str, t.Any]
    at_boot: bool

    def facts(self) -> dict[str, t.Any]:
        return storage.look(self.host, scene.config(**self.options))


@functools.lru_cache(maxsize=None, typed=True)
def one_of(*values: t.Any) -> st.SearchStrategy[t.Any]:
    """Return the strategy that picks one of the values, made once: making one takes longer than drawing from it."""
    return st.sampled_from(values)


@functools.cache
def options(count: int) -> st.SearchStrategy[dict[str, t.Any]]:
    """Return the strategy for the options of a node with so many disks; devices has their positions."""
    some = st.lists(st.sampled_from(range(count) if count else ["/dev/gone"]), min_size=1, max_size=4)
    devices = st.one_of(
        *[some] * 6, st.just([*range(count), "/dev/nvme0n1"]), st.just([*range(count)[:1], "/dev/gone"])
    )
    return st.fixed_dictionaries(
        {
            "layout": st.sampled_from(["raid0"] * 8 + ["per_disk"] * 4 + ["none"]),
            "fstype": st.sampled_from(["ext4"] * 4 + ["xfs"]),
            "mount_point": st.sampled_from(["/data"] * 6 + ["/local", "/mnt/ebs0", "/mnt/trouble"]),
        },
        optional={
            "devices": st.one_of(st.none(), st.none(), devices),
            "expected_disks": st.one_of(st.none(), st.none(), st.integers(0, 4)),
            "chunk_kib": st.sampled_from([512, 512, 64]),
        },
    )


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    host = SimulatedHost(Machine(draw(one_of(*sorted(SHAPES)))))
    _disks(draw, host)
    stores = scene.store_names(host)
    _history(draw, host, [name for name in stores if not host.machine.devices[name].signatures])
    _event(draw, host)
    for number in range(draw(one_of(0, 0, 0, 1, 1, 2, 3))):
        _trouble(draw, host, f"trouble{number}")
    _state_files(draw, host)
    host.calls.clear()
    names = [f"/dev/{name}" for name in scene.store_names(host)]
    consent = CONSENTS[draw(one_of(*range(len(CONSENTS))))]
    chosen = draw(options(len(names)))
    if chosen.get("devices"):
        chosen["devices"] = [names[one] if isinstance(one, int) else one for one in chosen["devices"]]
    return Topology(host, {**chosen, **consent}, draw(one_of(False, False, True)))


def _disks(draw: st.DrawFn, host: SimulatedHost) -> None:
    machine = host.machine
    root = draw(one_of(*ROOTS))
    if root == "instance store":
        machine.root("nvme0n1", INSTANCE_STORE, "AWS0000")
    elif root == "nvme":
        machine.root()
    else:
        machine.root({"xen": "xvda", "virtio": "vda"}[root], model="", serial="")
    ebs, count = draw(st.integers(0, 2)), draw(one_of(0, 1, 2, 2, 3, 4, 4, 8, 16))
    numbers = draw(st.permutations(range(1, 1 + ebs + min(count, 6))))
    numbers = [*numbers, *range(len(numbers) + 1, ebs + count + 1)]
    for index in range(ebs):
        name = f"nvme{numbers[index]}n1"
        machine.ebs(name, f"vol{index}")
        if draw(st.booleans()):
            machine.sign(name, "ext4", fs_uuid(name))
            machine.mount(name, f"/mnt/ebs{index}")
    for index in range(count):
        machine.add(f"nvme{numbers[ebs + index]}n1", "disk", model=INSTANCE_STORE, serial=f"AWS{index:04d}")


def _history(draw: st.DrawFn, host: SimulatedHost, blank: list[str]) -> None:
    history = draw(one_of(*HISTORIES))
    wanted = {"layout": draw(one_of("raid0", "raid0", "per_disk")), "devices": [f"/dev/{n}" for n in blank]}
    if not blank:
        return
    if history == "converged":
        with contextlib.suppress(NodeError):
            storage.converge(host, scene.config(**wanted))
    elif history == "killed":
        host.killed_before = draw(one_of(*KILLS))
        with contextlib.suppress(NodeError, KeyboardInterrupt):
            storage.converge(host, scene.config(**wanted))
        host.killed_before = ""
    elif history in ("parallelcluster", "dlami"):
        unit = {"dlami": scene.DLAMI_UNIT}.get(history, scene.PCLUSTER_UNIT)
        host.machine.unit(unit, enabled=draw(st.booleans()))
        if draw(st.booleans()):
            mount = draw(one_of(None, "/scratch", "/opt/dlami/nvme", "/data"))
            host.machine.volume("vg.01", draw(one_of("lv_ephemeral", "lv_ephemeral", "")), blank)
            if "dm-0" in host.machine.devices:
                host.machine.sign("dm-0", "ext4", fs_uuid("ephemeral"))
                _mount(host, "dm-0", mount)
    elif history == "eks":
        host.machine.array("md0", blank, "e" * 32, "node:kubernetes")
        _mount(host, "md0", "/mnt/k8s-disks/0")


def _mount(host: SimulatedHost, kname: str, target: str | None) -> None:
    if target and target not in [mount["target"] for mount in host.machine.mounts]:
        host.machine.mount(kname, target)


def _event(draw: st.DrawFn, host: SimulatedHost) -> None:
    machine, event = host.machine, draw(one_of(*EVENTS))
    if event == "reboot":
        machine.reboot()
    elif event == "stop_start" and machine.mounts[0]["kname"] != "nvme0n1p1":
        machine.stop_start()
        machine.groups.clear()
    elif event == "lose":
        free = [name for name in scene.store_names(host) if not machine.children(name) and not machine.busy(name)]
        for name in free[: draw(st.integers(0, 2))]:
            del machine.devices[name]


def _trouble(draw: st.DrawFn, host: SimulatedHost, label: str) -> None:
    stores = scene.store_names(host)
    if not stores:
        return
    free = [d.kname for d in host.machine.devices.values() if d.type == "disk" and not d.signatures and d.model]
    free = [name for name in free if not host.machine.busy(name)]
    if free and draw(st.booleans()):
        members = draw(st.lists(st.sampled_from(free), unique=True, min_size=1, max_size=4))
        _group_trouble(draw(one_of(*GROUP_TROUBLES)), host, members, label)
    else:
        kname = draw(one_of(*stores))
        DISKS[draw(one_of(*DISK_TROUBLES))](host, host.machine.devices[kname], label)


def _group_trouble(kind: str, host: SimulatedHost, members: list[str], label: str) -> None:
    machine, identity = host.machine, fs_uuid(label).replace("-", "")
    if kind == "array":
        machine.array(f"md{label[-1]}", members, identity, f"there:{label}")
        machine.sign(f"md{label[-1]}", "ext4", fs_uuid(f"{label} content"))
    elif kind == "stopped array":
        machine.stopped_array(members, identity, name=f"there:{label}")
    elif kind == "volume group":
        machine.volume(label, "all", members, f"dm-1{label[-1]}")
    elif kind == "unlisted LVM":
        for number, member in enumerate(members):
            # No name of a disk: a test gives the disks other names and compares the plans.
            machine.sign(member, "LVM2_member", f"pv-{label}-{number}")
            machine.left_out.add(f"/dev/{member}")
    else:
        for member in members:
            machine.sign(member, "btrfs", fs_uuid(label))
            # The kernel has every disk of a mounted btrfs open, and shows one of them as its source.
            machine.devices[member].held = kind == "mounted btrfs"
        if kind == "mounted btrfs":
            machine.mount(members[0], f"/mnt/{label}", "btrfs", root="/@")


def _table(kind: str) -> t.Callable[..., None]:
    def do(host: SimulatedHost, device: t.Any, label: str) -> None:
        host.machine.sign(device.kname, kind)
        if f"{device.kname}p7" not in host.machine.devices:
            host.machine.part(device.kname, 7)

    return do


def _flag(**fields: t.Any) -> t.Callable[..., None]:
    def do(host: SimulatedHost, device: t.Any, label: str) -> None:
        for key, value in fields.items():
            setattr(device, key, value)

    return do


def _same_serial(host: SimulatedHost, device: t.Any, label: str) -> None:
    """Only now and then, since it ends every plan early."""
    if label == "trouble2":
        device.serial = host.machine.devices[scene.store_names(host)[0]].serial


DISKS: dict[str, t.Callable[..., None]] = {
    "ext4": lambda host, device, label: host.machine.sign(device.kname, "ext4", fs_uuid(label)),
    "gpt": _table("gpt"),
    "dos": _table("dos"),
    "swap": lambda host, device, label: host.machine.swap_on(device.path),
    "swap signature": lambda host, device, label: host.machine.sign(device.kname, "swap", fs_uuid(label)),
    "mounted": lambda host, device, label: host.machine.mount(device.kname, "/mnt/trouble"),
    "crypt": lambda host, device, label: host.machine.add(
        f"dm-2{label[-1]}", "crypt", parents=[device.kname], name=label, number=f"253:2{label[-1]}"
    ),
    "read-only": _flag(read_only=True),
    "unreadable": _flag(readable=False),
    "unopenable": _flag(openable=False),
    "held": _flag(held=True),
    "loop": lambda host, device, label: host.machine.add(f"loop{label[-1]}", "loop", loop=device.path),
    "no serial": lambda host, device, label: setattr(device, "serial", "" if label == "trouble2" else device.serial),
    "same serial": _same_serial,
    "system": lambda host, device, label: host.machine.mount(device.kname, "/var/lib"),
}


def _state_files(draw: st.DrawFn, host: SimulatedHost) -> None:
    """Sometimes lose, truncate or change a record or an intent."""
    for path in (RECORD_PATH, INTENT_PATH):
        change = draw(one_of(*["kept"] * 9, "lost", "cut", "changed"))
        text = host.machine.files.get(path)
        if text is None or change == "kept":
            continue
        if change == "lost":
            del host.machine.files[path]
        elif change == "cut":
            host.machine.files[path] = text[: draw(st.integers(0, len(text)))]
        else:
            document = json.loads(text)
            document[draw(one_of(*sorted(document)))] = HOSTILE[draw(one_of(*range(len(HOSTILE))))]
            host.machine.files[path] = json.dumps(document)
