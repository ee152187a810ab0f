# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pure parts: settings, layouts, stripes, access control lists, what Lustre's programs print."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre.settings import fsx_lustre_plan

FSX = [{"path": "/fsx"}]
SETTINGS = {
    "file_systems": FSX,
    "names": {},
    "nfs_mounts": [],
    "layout": "one",
    "models": ["a", "b"],
    "places": {},
    "classes": {"weights": {}, "logs": {"stripe": [{"count": 1}]}, "dataset": {}, "checkpoint": {}},
    "directories": [],
    "owner": "root",
    "group": "ml",
    "mode": "2775",
    "acl": [],
    "tune": True,
    "tuning": {},
    "module_options": {},
    "efa_interfaces": 0,
    "timeout": 30,
}


def test_one_file_system_has_all_places():
    plan = fsx_lustre_plan(SETTINGS)
    assert plan["problems"] == []
    assert [entry["path"] for entry in plan["options"]["directories"]] == [
        "/fsx/images",
        "/fsx/scripts",
        "/fsx/data",
        "/fsx/checkpoints/a",
        "/fsx/checkpoints/b",
        "/fsx/outputs/a",
        "/fsx/outputs/b",
        "/fsx/logs/a",
        "/fsx/logs/b",
        "/fsx/tensorboard/a",
        "/fsx/tensorboard/b",
    ]
    logs = plan["options"]["directories"][7]
    assert (logs["group"], logs["mode"], logs["stripe"]) == ("ml", "2775", [{"count": 1}])


def test_three_file_systems_go_by_their_order_and_places_go_before():
    settings = {
        **SETTINGS,
        "layout": "three",
        "models": ["a"],
        "file_systems": [{"path": "/fsx1"}, {"path": "/fsx2"}, {"path": "/fsx3"}],
        "places": {"logs": "/fsx1"},
    }
    paths = [entry["path"] for entry in fsx_lustre_plan(settings)["options"]["directories"]]
    assert paths[:1] + paths[3:] == [
        "/fsx1/datasets",
        "/fsx2/a/checkpoints",
        "/fsx2/a/outputs",
        "/fsx1/a/training_logs",
        "/fsx1/a/tensorboard",
    ]


def test_own_directories_go_before_those_of_the_layout():
    own = [{"path": "/fsx/data", "mode": "0750", "class": "logs"}]
    directories = fsx_lustre_plan({**SETTINGS, "directories": own})["options"]["directories"]
    (data,) = [entry for entry in directories if entry["path"] == "/fsx/data"]
    assert (data["mode"], data["stripe"]) == ("0750", [{"count": 1}])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layout": "two"}, "the layout is 'two': it must be one of three, one, none"),
        ({"layout": "three"}, "the layout three needs a mount for checkpoints, logs"),
        ({"models": ["a/b"]}, "models has 'a/b'"),
        ({"classes": {}}, "there is no storage class weights"),
        ({"classes": {**SETTINGS["classes"], "x": {"stripes": []}}}, "the storage class x is"),
        ({"directories": [{"path": "/fsx/a", "class": "fast"}]}, "there is no storage class fast"),
        ({"directories": [{}]}, "directories has {}: give a mapping with a path"),
    ],
)
def test_bad_layouts_are_refused(change, says):
    assert any(says in problem for problem in fsx_lustre_plan({**SETTINGS, **change})["problems"])


KNOWN = {"fs-0123456789abcdef0": {"dns_name": "fs-0.example.com", "mount_name": "abcdefgh", "efa": False}}
BY_ID = {"path": "/fsx", "id": "fs-0123456789abcdef0"}


def test_an_id_becomes_the_names_that_fsx_gave():
    before = fsx_lustre_plan({**SETTINGS, "file_systems": [BY_ID, {"path": "/fsx2"}]})
    assert (before["ids"], before["problems"]) == ([BY_ID["id"]], [])
    after = fsx_lustre_plan({**SETTINGS, "file_systems": [BY_ID, {"path": "/fsx2"}], "names": KNOWN})
    assert (after["ids"], after["problems"]) == ([], [])
    assert after["options"]["file_systems"] == [
        {"path": "/fsx", "dns_name": "fs-0.example.com", "mount_name": "abcdefgh", "efa": False},
        {"path": "/fsx2"},
    ]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({**BY_ID, "id": "fsx-1"}, "file_systems has /fsx with the id 'fsx-1': give one as fs-0123456789abcdef0"),
        ({**BY_ID, "mount_name": "abcdefgh"}, "with an id and a name: give the id alone, or both names"),
        ({**BY_ID, "efa": True}, "with efa, and fs-0123456789abcdef0 was made without it, which cannot be changed"),
    ],
)
def test_an_id_that_cannot_be_is_refused(entry, says):
    (problem,) = fsx_lustre_plan({**SETTINGS, "file_systems": [entry], "names": KNOWN})["problems"]
    assert says in problem


@pytest.mark.parametrize("key", sorted(set(SETTINGS) - {"layout", "tune", "owner", "group", "mode", "timeout"}))
def test_a_variable_with_nothing_after_its_colon_is_as_one_that_is_empty(key):
    """Ansible lets null pass for a list and a mapping."""
    empty = {"efa_interfaces": 0}.get(key, type(SETTINGS[key])())
    assert fsx_lustre_plan({**SETTINGS, key: None})["problems"] == fsx_lustre_plan({**SETTINGS, key: empty})["problems"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"classes": {**SETTINGS["classes"], "logs": {"stripe": 5}}}, "class logs has the stripe 5: give a list"),
        ({"classes": {**SETTINGS["classes"], "logs": {"stripe": ["x"]}}}, "class logs has the stripe ['x']"),
        ({"classes": {1: {}}}, "there is no storage class weights: add it to classes, there are 1"),
        ({"directories": [{"path": ["/fsx/a"]}]}, "give a mapping with a path"),
        ({"directories": [{"path": "/fsx/a", "stripe": {"count": 1}}]}, "give stripe as a list of mappings"),
        ({"directories": [{"path": "/fsx/a", "acl": 5}]}, "acl as a list of texts"),
        ({"directories": [{"path": "/fsx/a", "class": ["logs"]}]}, "there is no storage class ['logs']"),
    ],
)
def test_what_is_of_a_wrong_kind_is_a_sentence(change, says):
    assert any(says in problem for problem in fsx_lustre_plan({**SETTINGS, **change})["problems"])


@pytest.mark.parametrize("name", ["places", "classes"])
def test_a_text_for_a_mapping_is_told_by_its_name(name):
    plan = fsx_lustre_plan({**SETTINGS, name: "a=b"})
    assert plan["problems"] == [f"{name} is 'a=b', a text; give a mapping"]
