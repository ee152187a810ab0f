# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Local storage that an earlier commit set up: its volume is ours, stays as it is, and comes back after a boot."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import (
    CONFIG_PATH,
    config_text,
    parse_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import INTENT_PATH, RECORD_PATH

from tests.unit.compat import written
from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import Device

VOLUMES = [name for name in written.names("storage") if name not in ("none", "lost")]
# The plan for the rest of a killed run differs from that of the recorded commit, which wiped finished filesystems.
CONTINUED = {
    "per_disk_mkfs": [
        "write_intent",
        *["make_filesystem"] * 2,
        "write_intent",
        *["mount", "directory", "write_marker"] * 4,
        "write_record",
        "clear_intent",
    ],
}


def record_of(host):
    return json.loads(host.machine.files[RECORD_PATH])


@pytest.mark.parametrize("name", [*VOLUMES, "none"])
def test_configured_node_needs_no_change(name):
    host, options, found = written.machine(f"storage/{name}.json")
    before = dict(host.machine.files)
    plan = scene.plan_of(host, **options)
    wanted = found["planned"]
    assert (plan.situation, plan.state, plan.owner) == (wanted["situation"], wanted["state"], wanted["owner"])
    assert (plan.actions, plan.refusals) == ([], [])
    assert (scene.run(host, **options), host.machine.files) == ([], before)


@pytest.mark.parametrize("name", VOLUMES)
def test_record_names_same_volume_after_boot(name):
    host, options, _found = written.machine(f"storage/{name}.json")
    before = record_of(host)
    host.machine.files["/proc/sys/kernel/random/boot_id"] = "boot-2\n"
    assert scene.run(host, at_boot=True, **options) == []
    # Proofs were not recorded then, so there are none.
    assert "blank_proofs" not in before
    assert record_of(host) == {**before, "blank_proofs": None, "boot_id": "boot-2", "updated_at": host.now()}


@pytest.mark.parametrize("name", [name for name in VOLUMES if name != "adopted"])
def test_volume_is_mounted_again_after_reboot(name):
    host, options, _found = written.machine(f"storage/{name}.json")
    before = record_of(host)
    host.machine.reboot()
    assert not set(scene.run(host, at_boot=True, **options)) & scene.DESTRUCTIVE
    after = record_of(host)
    for key in ("state", "owner", "layout", "path", "array_uuid", "filesystem_uuids", "serials", "created_at"):
        assert (key, after[key]) == (key, before[key])
    assert scene.run(host, **options) == []


@pytest.mark.parametrize("name", [*VOLUMES, "none"])
def test_boot_configuration_is_read_and_stays(name):
    host, options, _found = written.machine(f"storage/{name}.json")
    text = host.machine.files[CONFIG_PATH]
    assert parse_config({key: value for key, value in json.loads(text).items() if key != "schema"}) == scene.config(
        **options
    )
    assert config_text(scene.config(**options)) == text


@pytest.mark.parametrize("name", VOLUMES)
def test_fstab_holds_wanted_lines(name):
    host, options, _found = written.machine(f"storage/{name}.json")
    facts, plan = converge.survey(host, scene.config(**options))
    wanted = [volume["fstab"] for volume in plan.volumes if volume["fstab"]]
    assert facts["fstab"] == wanted
    assert bool(wanted) == (name != "adopted")


def test_lost_volume_is_recognised_when_its_disk_returns():
    host, options, found = written.machine("storage/lost.json")
    assert (record_of(host)["state"], scene.plan_of(host, **options).state) == ("lost", "lost")
    host.machine.devices[found["gone"]["kname"]] = Device(**found["gone"])
    assert not set(scene.run(host, at_boot=True, **options)) & scene.DESTRUCTIVE
    assert record_of(host)["state"] == "intact"


@pytest.mark.parametrize("name", written.names("intent"))
@pytest.mark.parametrize("after", ["at once", "reboot"])
def test_interrupted_run_is_continued(name, after):
    host, options, found = written.machine(f"intent/{name}.json")
    stage = json.loads(host.machine.files[INTENT_PATH])["stage"]
    plan = scene.plan_of(host, **options)
    wanted = CONTINUED.get(name) or [one["action"] for one in found["planned"]["actions"]]
    assert (plan.situation, scene.kinds(plan)) == (found["planned"]["situation"], wanted)
    if after == "reboot":
        host.machine.reboot()
    done = scene.run(host, at_boot=after == "reboot", **options)
    assert not (stage == "mount" and set(done) & scene.DESTRUCTIVE)
    # A boot that makes the filesystem reports a volume without its former files.
    state = "recreated" if after == "reboot" and stage != "mount" else "intact"
    assert (INTENT_PATH in host.machine.files, record_of(host)["state"]) == (False, state)
    assert scene.run(host, **options) == []
