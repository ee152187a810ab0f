# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No topology, record, intent or configuration makes the engine change foreign content."""

from __future__ import annotations

import copy
import json
import random
import re
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.plan import make_plan, select
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from hypothesis import HealthCheck, event, given, settings

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import INSTANCE_STORE, Machine
from tests.unit.fakes.fake_topologies import Topology, topologies

from .test_contents import disks_below


def thorough(examples: int) -> settings:
    """Use the same examples in every run: a failure is reproducible for all users."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=slow)


def plan_of(topology: Topology) -> t.Any:
    return scene.plan_of(topology.host, topology.at_boot, **topology.options)


def selected(topology: Topology) -> set[str]:
    """Return the instance-store disks that the configuration may mean, from the machine itself."""
    names = set(scene.store_names(topology.host))
    if topology.options.get("devices") is not None:
        names &= {path.rsplit("/", 1)[-1] for path in topology.options["devices"]}
    return names


def touched(machine: Machine, action: dict[str, t.Any]) -> set[str]:
    """Return the disks below everything that an action names."""
    names = [machine.find(path).kname for path in action.get("devices", ()) if path]
    if action["action"] == "unmount":
        names += [[mount["kname"] for mount in machine.mounts if mount["target"] == action["target"]][-1]]
    elif action["action"] == "remove_volume_group":
        names += machine.groups[action["vg"]]["members"]
    elif action.get("device"):
        names.append(machine.find(action["device"]).kname)
    return set().union(*(disks_below(machine, name) for name in names))


def carries_something(machine: Machine, kname: str) -> bool:
    """Return whether there is a finding against a disk, from the machine itself."""
    device = machine.devices[kname]
    looped = any(other.loop == device.path for other in machine.devices.values())
    flawed = device.read_only or device.held or looped or not device.readable or not device.openable
    # Ranges that no sample can miss: no read proves anything between the samples.
    return bool(device.content or device.signatures or machine.children(kname) or flawed or machine.busy(kname))


def may_destroy(topology: Topology) -> bool:
    return scene.CONSENT.items() <= topology.options.items() and not topology.at_boot


@thorough(1600)
@given(topologies())
def test_no_plan_touches_what_is_not_ours_to_touch(topology):
    facts = topology.facts()
    config = scene.config(**topology.options)
    context = storage.context_for(facts, topology.at_boot)
    before = copy.deepcopy(facts)
    plan = make_plan(facts, config, context)
    event(f"{plan.situation} {plan.owner}")
    only_selected_instance_store(topology, plan)
    if not may_destroy(topology):
        nothing_that_exists_is_destroyed(topology, plan, facts["intent"])
    usable_is_what_nothing_speaks_against(topology, plan)
    plain_and_empty_when_refused(plan.as_dict())
    assert make_plan(facts, config, context).as_dict() == plan.as_dict()
    assert facts == before
    disks, problems = select(facts, config)
    assert [disk["serial"] for disk in disks] == sorted(disk["serial"] for disk in disks)
    assert not problems or plan.situation in ("refused", "disabled")


def only_selected_instance_store(topology: Topology, plan: t.Any) -> None:
    machine = topology.host.machine
    (root,) = (mount["kname"] for mount in machine.mounts if mount["target"] == "/")
    for action in plan.actions:
        disks = touched(machine, action)
        assert all(machine.devices[kname].model == INSTANCE_STORE for kname in disks), action
        assert not disks & disks_below(machine, root), action
        if action["action"] in scene.DESTRUCTIVE:
            assert disks <= selected(topology), action


def nothing_that_exists_is_destroyed(topology: Topology, plan: t.Any, intent: t.Any) -> None:
    machine = topology.host.machine
    destructive = [action for action in plan.actions if action["action"] in scene.DESTRUCTIVE]
    if plan.situation == "half_finished":
        assert sorted(intent["serials"]) == [claim.disk["serial"] for claim in plan.claims]
        assert intent["stage"] in ("create", "mkfs") or _only_moves(destructive)
        assert not {action["action"] for action in destructive} & {"mask_unit", "remove_volume_group", "swap_off"}
    elif plan.situation == "fresh":
        assert not any(carries_something(machine, claim.disk["kname"]) for claim in plan.claims)
        assert {action["action"] for action in destructive} <= {"create_array", "make_filesystem"}
    else:
        assert _only_moves(destructive), destructive
        assert not destructive or plan.owner == "ours"


def _only_moves(actions: list[dict[str, t.Any]]) -> bool:
    """Return whether our own volume is only unmounted for another mount point."""
    return {action["action"] for action in actions} <= {"unmount"}


def usable_is_what_nothing_speaks_against(topology: Topology, plan: t.Any) -> None:
    for claim in plan.claims:
        assert claim.usable == (not claim.findings)
        assert claim.usable == (not carries_something(topology.host.machine, claim.disk["kname"])), claim


def plain_and_empty_when_refused(plan: dict[str, t.Any]) -> None:
    assert json.loads(json.dumps(plan)) == plan
    assert not (plan["refusals"] and plan["actions"])
    assert (plan["situation"] == "refused") == bool(plan["refusals"])
    assert all(text and text == text.strip() for text in plan["refusals"])


def protected(topology: Topology) -> list[t.Any]:
    """Return what no run may change: everything not made of selected instance-store disks only, and what of these
    carries something, unless consent was given."""
    machine, chosen = topology.host.machine, selected(topology)
    kept = [d for d in machine.devices.values() if not disks_below(machine, d.kname) <= chosen]
    mounts = [m for m in machine.mounts if not (m["kname"] and disks_below(machine, m["kname"]) <= chosen)]
    return [{d.kname: (list(d.signatures), list(d.parents)) for d in kept}, mounts]


def unchanged(topology: Topology, before: list[t.Any]) -> bool:
    machine = topology.host.machine
    devices = {
        k: (machine.devices[k].signatures, machine.devices[k].parents) for k in before[0] if k in machine.devices
    }
    return devices == before[0] and all(mount in machine.mounts for mount in before[1])


@thorough(700)
@given(topologies())
def test_run_ends_in_volume_or_error_and_keeps_the_rest(topology):
    host, before = topology.host, protected(topology)
    data = _data(topology)
    try:
        scene.run(host, topology.at_boot, **topology.options)
    except NodeError as exc:
        assert "\n" not in str(exc)
        outcome = "refused" if isinstance(exc, storage.RefusedError) else "failed"
    else:
        outcome = "done"
        assert scene.run(host, False, **topology.options) == []
    event(outcome)
    assert unchanged(topology, before)
    if not may_destroy(topology):
        assert data.items() <= _data(topology).items()


def _data(topology: Topology) -> dict[str, t.Any]:
    """Return every filesystem and swap by UUID, except leftovers of an interrupted run."""
    if topology.host.machine.files.get("/var/lib/mlcluster/intent.json"):
        return {}
    devices = topology.host.machine.devices.values()
    found = {s["uuid"]: (s["type"], s["label"]) for d in devices for s in d.signatures if s["uuid"]}
    return {uuid: what for uuid, what in found.items() if what[1] not in ("mlcluster", "any:mlcluster")}


def renamed(topology: Topology, names: dict[str, str]) -> None:
    """Give the disks other kernel names, consistently, and list everything in their order."""

    def new(text: str) -> str:
        return re.sub(r"nvme\d+n1", lambda match: names.get(match.group(), match.group()), text)

    machine = topology.host.machine
    for device in machine.devices.values():
        device.kname, device.name, device.loop = new(device.kname), new(device.name), new(device.loop)
        device.parents = [new(parent) for parent in device.parents]
    devices = sorted(machine.devices.values(), key=lambda device: (device.type != "disk", device.kname))
    machine.devices = {device.kname: device for device in devices}
    for mount in machine.mounts:
        mount.update(source=new(mount["source"]), kname=mount["kname"] and new(mount["kname"]))
    for group in machine.groups.values():
        group["members"] = sorted(map(new, group["members"]))
    machine.swaps = [new(path) for path in machine.swaps]
    machine.left_out = {new(path) for path in machine.left_out}
    machine.inside = {"+".join(sorted(new(key).split("+"))): value for key, value in machine.inside.items()}
    if topology.options.get("devices"):
        topology.options["devices"] = [new(path) for path in topology.options["devices"]]


@thorough(700)
@given(topologies())
def test_plan_does_not_depend_on_names_and_order(topology):
    machine = topology.host.machine
    serials = [machine.devices[name].serial for name in scene.store_names(topology.host)]
    if len(set(serials)) < len(serials):
        return
    before = plan_of(topology)
    disks = sorted(d.kname for d in machine.devices.values() if d.type == "disk" and d.kname.startswith("nvme"))
    others = random.Random(len(json.dumps(before.as_dict()))).sample(disks, len(disks))
    names = dict(zip(disks, others))
    if names.get("nvme0n1", "nvme0n1") != "nvme0n1":
        # The options may name nvme0n1 as a disk that must not be taken: it keeps its name.
        back = next(old for old, name in names.items() if name == "nvme0n1")
        names[back], names["nvme0n1"] = names["nvme0n1"], "nvme0n1"
    renamed(topology, names)
    after = plan_of(topology)
    assert (after.situation, after.state, after.owner) == (before.situation, before.state, before.owner)
    assert len(after.refusals) == len(before.refusals)
    assert _nameless(after.actions, {}) == _nameless(before.actions, names)
    assert _nameless(after.volumes, {}) == _nameless(before.volumes, names)


def _nameless(part: t.Any, names: dict[str, str]) -> t.Any:
    """Return a part of a plan under the new names, with unordered lists sorted."""
    text = re.sub(r"nvme\d+n1", lambda match: names.get(match.group(), match.group()), json.dumps(part))
    entries = json.loads(text)
    for entry in entries:
        if "members" in entry:
            entry["members"].sort()
    return entries
