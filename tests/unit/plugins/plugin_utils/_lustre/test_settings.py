# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pure parts: settings, layouts, stripes, access control lists, what Lustre's programs print."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import acl as lustre_acl
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import config as lustre_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import parse as lustre_parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import stripe as lustre_stripe
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import tuning as lustre_tuning
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre import layouts as lustre_layouts
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre.settings import fsx_lustre_plan

from tests.unit.fakes.fake_lustre_host import ME, MY_GROUP

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
# 'lnetctl net show -v', shortened; the counters are made up.
NETS = """net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
          statistics:
              send_count: 0
    - net type: tcp
      local NI(s):
        - nid: 10.0.1.5@tcp
          status: up
          interfaces:
              0: ens5
          statistics:
              send_count: 100
              recv_count: 90
    - net type: efa
      local NI(s):
        - nid: 10.0.1.5@efa
          status: up
          statistics:
              send_count: 7
              recv_count: 6
        - nid: 10.0.1.6@efa
          status: down
          statistics:
              send_count: 1
              recv_count: 0
"""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"file_systems": [{"path": "fsx"}]}, "file_systems has 'fsx': give an absolute path"),
        ({"file_systems": [{"path": "/data/fsx"}]}, "/data means the local NVMe volume"),
        ({"file_systems": [{"path": "/home"}]}, "the operating system lives there"),
        ({"file_systems": [*FSX, *FSX]}, "file_systems has /fsx twice"),
        ({"file_systems": [{"path": "/fsx", "dns_name": "fs-1.example.com"}]}, "has a dns_name and no mount_name"),
        (
            {"file_systems": [{"path": "/fsx", "dns_name": "a b", "mount_name": "abcdefgh"}]},
            "give them as FSx shows them",
        ),
        ({"file_systems": [{"path": "/fsx", "size": 1}]}, "file_systems has /fsx with size: known are path"),
        ({"file_systems": ["/fsx"]}, "file_systems has '/fsx': give a mapping with a path"),
        ({"nfs_mounts": ["home"]}, "nfs_mounts has 'home': give the absolute path"),
        ({"directories": [{"path": "/fsx/a"}]}, "below none of file_systems (none)"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx"}]}, "/fsx, which is below none of file_systems (/fsx)"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx/a", "mode": "rwx"}]}, "give an octal mode in quotes"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx/a", "group": "a b"}]}, "the group of /fsx/a is 'a b'"),
        ({"file_systems": FSX, "directories": [{"path": "/fsx/a"}] * 2}, "directories has /fsx/a twice"),
        ({"tuning": {"rm": 1}}, "tuning has 'rm': give a name such as osc."),
        ({"tuning": {"osc.*.a": "1;2"}}, "tuning has osc.*.a with '1;2': give one plain value"),
        ({"tuning": [1]}, "give a mapping such as"),
        ({"module_options": {"credits": 1}}, "module_options has 'credits'"),
        ({"timeout": 0}, "timeout is 0: give 1 to 300"),
        ({"speed": 1}, "there are unknown options speed"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, says):
    with pytest.raises(NodeError) as refused:
        lustre_config.parse_config(options)
    assert says in str(refused.value)


def test_all_problems_are_told_at_once():
    found = lustre_config.problems({"file_systems": [{"path": "/etc"}], "timeout": 999, "nfs_mounts": ["x"]})
    assert len(found) == 3


def test_the_boot_unit_reads_what_the_role_writes():
    config = lustre_config.parse_config({"file_systems": FSX, "tuning": {"osc.*.a": 1}, "timeout": 5})
    text = lustre_config.config_text(config)
    assert '"schema": "mlcluster.lustre_config/1"' in text
    assert "directories" not in text


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


@pytest.mark.parametrize("name", [name for name in lustre_layouts.LAYOUTS if name != "none"])
def test_shipped_layouts_are_sound(name):
    settings = {**SETTINGS, "layout": name, "file_systems": [{"path": f"/fsx{number}"} for number in (1, 2, 3)]}
    assert fsx_lustre_plan(settings)["problems"] == []


@pytest.mark.parametrize(
    ("components", "says"),
    [
        ([{"count": 0}], "a count of 0"),
        ([{"count": "8"}], "a count of '8'"),
        ([{"count": True}], "a count of True"),
        ([{"count": 1, "size": "big"}], "size 'big'"),
        ([{"count": 1, "size": "1K"}], "multiples of 64K"),
        ([{"count": 1, "end": "1G"}], "an end in every component but the last"),
        ([{"count": 1, "end": "1G"}, {"count": 1, "end": "1M"}, {"count": 2}], "no smaller"),
        ([{"stripes": 1}], "give end, count and size"),
    ],
)
def test_bad_stripes_are_refused(components, says):
    assert says in lustre_stripe.stripe_problem(components)


def test_a_layout_that_grows_becomes_one_command():
    growing = [{"end": "100M", "count": 1}, {"end": "10G", "count": 8}, {"count": 32, "size": "4M"}]
    assert lustre_stripe.stripe_problem(growing) == ""
    assert " ".join(lustre_stripe.setstripe(growing)) == ("lfs setstripe -E 100M -c 1 -E 10G -c 8 -E -1 -c 32 -S 4M .")


def test_layouts_are_read_in_either_form():
    plain = "stripe_count:  -1 stripe_size:   16777216 pattern:       raid0 stripe_offset: -1\n"
    assert lustre_stripe.parse_getstripe(plain) == [{"end": None, "count": -1, "size": 16777216}]
    files = "lmm_stripe_count:  4294967295\nlmm_stripe_size:   1048576\n"
    assert lustre_stripe.parse_getstripe(files) == [{"end": None, "count": -1, "size": 1048576}]
    assert lustre_stripe.parse_getstripe("no idea\n") == []


def test_a_size_that_is_not_wanted_may_be_any():
    wanted = lustre_stripe.wanted_layout([{"count": 8}])
    assert lustre_stripe.same_layout(wanted, [{"end": None, "count": 8, "size": 4 << 20}])
    assert not lustre_stripe.same_layout(wanted, [{"end": None, "count": 4, "size": 4 << 20}])


def test_a_list_has_what_the_kernel_wants():
    entries = [f"group:{MY_GROUP}:rwx", f"default:user:{ME}:r-x"]
    found = lustre_acl.attributes(Host(), entries, 0o2750)
    access = lustre_acl.decode(found[lustre_acl.ACCESS])
    assert access == sorted(access)
    assert (lustre_acl.GROUP, 7, int(MY_GROUP)) in access
    assert [rights for tag, rights, _id in access if tag == lustre_acl.MASK] == [7]
    default = lustre_acl.decode(found[lustre_acl.DEFAULT])
    assert (lustre_acl.USER, 5, int(ME)) in default
    assert [rights for tag, rights, _id in default if tag in (lustre_acl.USER_OBJ, lustre_acl.OTHER)] == [7, 0]


def test_a_list_that_names_nobody_is_refused():
    with pytest.raises(NodeError, match="names a group that this node does not have"):
        lustre_acl.attributes(Host(), ["group:nobody-has-this:rwx"], 0o755)
    assert "give entries such as group:ml:rwx" in lustre_acl.acl_problem(["ml:rwx"])
    with pytest.raises(NodeError, match="look with getfacl"):
        lustre_acl.decode(b"\x01\0\0\0")


def test_nets_are_added_up():
    nets = lustre_parse.parse_net_show(NETS)
    assert nets["efa"] == {"nids": 2, "up": 1, "sent": 8, "received": 6}
    assert nets["tcp"] == {"nids": 1, "up": 1, "sent": 100, "received": 90}
    assert lustre_parse.sent_since({"tcp": {"sent": 90}}, nets) == {"lo": 0, "tcp": 10, "efa": 8}


def test_states_are_read_from_their_flags():
    # The documentation of FSx has such a line for a file that was exported.
    state = lustre_parse.parse_hsm_state("a b: (0x0000000d) released exists archived, archive_id:1")
    assert state == {"path": "a b", "flags": 13, "states": ["exists", "released", "archived"], "archive_id": 1}
    assert lustre_parse.parse_hsm_state("/fsx/a: (0x00000000)") == {
        "path": "/fsx/a",
        "flags": 0,
        "states": [],
        "archive_id": None,
    }
    assert lustre_parse.parse_hsm_state("cannot get it") is None


@pytest.mark.parametrize(
    ("memory_gib", "cpus", "names"),
    [
        (2000, 192, 5),
        (2000, 32, 2),
        (32, 96, 3),
        (32, 8, 0),
        (64, 64, 0),
    ],
)
def test_tuning_goes_by_memory_and_cpus(memory_gib, cpus, names):
    assert len(lustre_tuning.parameters({"memory_kib": memory_gib << 20, "cpus": cpus}, {})) == names


def test_each_value_is_that_of_the_guide_and_says_so():
    # The guide's own figures, for a machine of 192 vCPUs; it gives the lock cache 100 a vCPU.
    size = {"memory_kib": 1 << 31, "cpus": 192}
    assert {(value.name, value.value) for value in lustre_tuning.parameters(size, {})} == {
        ("ldlm.namespaces.*.lru_max_age", "600000"),
        ("ldlm.namespaces.*.lru_size", "19200"),
        ("osc.*OST*.max_rpcs_in_flight", "32"),
        ("mdc.*.max_rpcs_in_flight", "64"),
        ("mdc.*.max_mod_rpcs_in_flight", "50"),
    }
    assert {(value.name, value.value) for value in lustre_tuning.module_options(size, {})} == {
        ("ptlrpc.ptlrpcd_per_cpt_max", "32"),
        ("ksocklnd.credits", "2560"),
    }
    every = lustre_tuning.parameters(size, {}) + lustre_tuning.module_options(size, {})
    assert {value.source for value in every} == {lustre_tuning.GUIDE}


def test_single_values_can_be_changed_added_and_taken_away():
    size = {"memory_kib": 1 << 20, "cpus": 96}
    changed = lustre_tuning.parameters(
        size, {"osc.*OST*.max_rpcs_in_flight": 64, "mdc.*.max_rpcs_in_flight": None, "llite.*.max_cached_mb": 1}
    )
    assert [(value.name, value.value, value.source) for value in changed] == [
        ("osc.*OST*.max_rpcs_in_flight", "64", "fsx_lustre_tuning"),
        ("mdc.*.max_mod_rpcs_in_flight", "50", lustre_tuning.GUIDE),
        ("llite.*.max_cached_mb", "1", "fsx_lustre_tuning"),
    ]


def test_module_options_become_a_file_or_none():
    options = lustre_tuning.module_options({"memory_kib": 1, "cpus": 96}, {})
    assert lustre_tuning.modprobe_text(options).splitlines()[1:] == [
        "options ptlrpc ptlrpcd_per_cpt_max=32",
        "options ksocklnd credits=2560",
    ]
    assert lustre_tuning.modprobe_text(lustre_tuning.module_options({"memory_kib": 1, "cpus": 8}, {})) == ""


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
