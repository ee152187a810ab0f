# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.plan import choose
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.situation import Situation

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid


def killed(point, **options):
    host = scene.node(4)
    host.killed_before = point
    with contextlib.suppress(KeyboardInterrupt):
        scene.run(host, **options)
    host.killed_before = ""
    return host


def array_stopped():
    host = killed("mkfs.ext4")
    del host.machine.devices["md127"]
    return host


def with_unit(mount):
    host = scene.node(4)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, mount)
    return host


def blank_with_unit():
    host = scene.node(4)
    host.machine.unit(scene.PCLUSTER_UNIT)
    return host


def inactive_volume():
    host = scene.node(4)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host), active=False)
    return host


def foreign():
    host = scene.node(4)
    host.machine.sign("nvme2n1", "ext4", fs_uuid("theirs"))
    return host


# Each situation, a node in it, and the options. Plans and records show the published name.
NODES = {
    Situation.DISABLED: (lambda: scene.node(4), {"layout": "none"}, "disabled"),
    Situation.NO_DISKS: (lambda: scene.node(0), {}, "no_disks"),
    Situation.REFUSED: (foreign, {}, "refused"),
    Situation.FRESH: (lambda: scene.node(4), {}, "fresh"),
    Situation.SERVICE_SETS_UP: (blank_with_unit, {"existing": "adopt"}, "owner_pending"),
    Situation.SERVICE_MOUNTS: (lambda: with_unit(None), {"existing": "adopt"}, "owner_pending"),
    Situation.VOLUME_INACTIVE: (inactive_volume, {"existing": "adopt"}, "owner_pending"),
    Situation.ADOPTED: (lambda: with_unit("/scratch"), {"existing": "adopt"}, "adopted"),
    Situation.INTACT: (lambda: scene.converged(4), {}, "intact"),
    Situation.ARRAY_STOPPED: (array_stopped, {}, "half_finished"),
    Situation.ALL_MADE: (lambda: killed("mount"), {}, "half_finished"),
    Situation.SOME_MADE: (
        lambda: killed("mkfs.ext4 .* /dev/nvme3n1", layout="per_disk"),
        {"layout": "per_disk"},
        "half_finished",
    ),
    Situation.NOTHING_MADE: (lambda: killed("mkfs.ext4"), {}, "half_finished"),
    Situation.REBUILD: (foreign, scene.CONSENT, "rebuild"),
}


def choice(host, options):
    config = scene.config(**options)
    facts = converge.look(host, config)
    return choose(facts, config, converge.context_for(facts))[1]


@pytest.mark.parametrize("situation", Situation)
def test_each_situation_is_chosen_for_its_node(situation):
    build, options, published = NODES[situation]
    host = build()
    decision = choice(host, options)
    assert decision.situation is situation
    assert scene.plan_of(host, **options).situation == published
    assert (decision.refusals != ()) is (situation is Situation.REFUSED)
    states = {
        Situation.DISABLED: "none",
        Situation.NO_DISKS: "none",
        Situation.REFUSED: "foreign",
        Situation.SERVICE_SETS_UP: "foreign",
    }
    assert decision.state == states.get(situation, "intact")
    assert situation.reason


@pytest.mark.parametrize("situation", Situation)
def test_content_is_erased_in_three_situations_only(situation):
    build, options, _published = NODES[situation]
    decision = choice(build(), options)
    erasing = {Situation.REBUILD: 4, Situation.NOTHING_MADE: 4, Situation.SOME_MADE: 2}
    assert len(decision.erase) == erasing.get(situation, 0)
    assert decision.makes_filesystems is (situation in {*erasing, Situation.FRESH})
