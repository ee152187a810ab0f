# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look of the role nvme_raid0, its verdicts and its report, on a simulated node."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.role_config import parse_config

from tests.unit.fakes import fake_storage_scene as scene

from .test_role_plan import carry_out, fresh, node


def seen(host, **options):
    config = parse_config(options)
    facts = role.look(host, config)
    return role.verify(facts, config), role.report(facts, config)


def test_intact_node_has_no_problem():
    results, report = seen(carry_out(node(4)))
    assert {result.status for result in results if result.id not in ("storage.disks", "storage.blank")} == {"pass"}
    assert "storage.write_read" in [result.id for result in results]
    assert report.info == ("intact: the disks carry the volume of the record",)
    assert report.facts["mlcluster_local_storage"]["path"] == "/data"


def test_read_only_look_writes_nothing_to_volume():
    results, _report = seen(carry_out(node(4)), **role.READ_ONLY)
    assert "storage.write_read" not in [result.id for result in results]


def test_fresh_node_has_no_volume_yet():
    results, report = seen(fresh())
    assert "storage.mounted" in [result.id for result in results if result.status == "fail"]
    assert report.info == ("fresh: every disk is proved blank",)
    assert report.facts == {"mlcluster_local_storage": {"state": "none", "path": None, "owner": "none"}}


def test_lines_of_rebuild_name_what_is_destroyed():
    host = fresh()
    host.machine.stopped_array(scene.store_names(host), scene.FOREIGN_ARRAY, name="host:old")
    _results, report = seen(host, **scene.CONSENT)
    assert report.info[0] == "rebuild: both switches allow to destroy what is on the disks"
    assert report.info[1].startswith("destroys: /dev/nvme1n1 (AWS0001) carries a linux_raid_member signature")
    assert report.info[-1] == "destroys: the array host:old does not run, so its content could not be inspected"


def test_refusal_is_reported_once():
    host = fresh()
    scene.foreign_array(host)
    results, report = seen(host)
    assert (results, report.info) == ([], ())


@pytest.mark.parametrize(
    ("options", "reason"), [({}, "no instance-store disks"), ({"layout": "none"}, "layout is none")]
)
def test_node_without_volume_has_nothing_to_prove(options, reason):
    results, _report = seen(fresh(0), **options)
    assert [(result.id, result.status) for result in results] == [("storage.plan", "not_applicable")]
    assert reason in results[0].line()
