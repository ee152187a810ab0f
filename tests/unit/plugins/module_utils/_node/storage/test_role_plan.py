# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role nvme_raid0 on a simulated node, from the look of the role itself."""

from __future__ import annotations

import hashlib
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import files, role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import CONFIG_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.role_config import parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.role_plan import make_plan, own_fstab
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.mounts import parse_fstab
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Package

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_storage_host import SimulatedHost
from tests.unit.unknown_facts import acted_on

RUNTIME = "ab" * 32
ENABLED = f"/etc/systemd/system/multi-user.target.wants/{files.BOOT_UNIT}"
EVERYTHING = [
    "packages",
    "config",
    "boot unit",
    f"unit {files.BOOT_UNIT}",
    f"unit {files.FSTRIM_TIMER}",
    "runtime",
    "volume",
    "fstab",
]


class Node(SimulatedHost):
    """A simulated node whose files have checksums and states; the runtime is the requested one."""

    def sha256(self, path: str) -> str | None:
        text = self.machine.files.get(path)
        if text is None:
            return None
        return (
            RUNTIME if path in (files.RUNTIME_PATH, files.COMMAND_PATH) else hashlib.sha256(text.encode()).hexdigest()
        )

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in ("dpkg-query", "apt-get") else super().which(program)


def node(disks: int = 4, without: t.Iterable[str] = ()) -> Node:
    host = Node(scene.node(disks).machine)
    host.programs -= set(without)
    return host


def fresh(disks: int = 4) -> Node:
    """Return a node that was just started, with only the content of its image."""
    return node(disks, without=("mdadm", "mkfs.xfs", "pvs"))


def plan_of(host: Node, **options: t.Any) -> t.Any:
    config = parse_config({"runtime_sha256": RUNTIME, **options})
    return make_plan(role.look(host, config), config)


def carry_out(host: Node, **options: t.Any) -> Node:
    """Carry out the plan on the node, as the tasks of the role do."""
    plan = plan_of(host, **options)
    host.programs |= {"mdadm", "mkfs.xfs", "mkfs.ext4", "pvs", "lvs"} if plan.packages else set()
    for entry in plan.files:
        host.machine.files[entry.path] = entry.text
    for step in plan.steps:
        if step.name == "runtime":
            host.machine.files.update({files.RUNTIME_PATH: "", files.COMMAND_PATH: ""})
        elif step.name == "volume":
            storage.converge(host, parse_config(options).storage)
        elif step.name == "fstab":
            lines = [" ".join(line.values()) + "\n" for line in step.arguments["missing"]]
            host.machine.files["/etc/fstab"] = host.machine.files.get("/etc/fstab", "") + "".join(lines)
    links = {files.BOOT_UNIT: ENABLED, files.FSTRIM_TIMER: files.FSTRIM_LINK}
    host.machine.files.update({links[unit.name]: "" for unit in plan.units})
    return host


def test_fresh_node_lacks_everything():
    plan = plan_of(fresh())
    assert plan.differences() == EVERYTHING
    assert (plan.refresh, plan.daemon_reload) == (True, True)
    (step,) = (step for step in plan.steps if step.name == "fstab")
    (line,) = step.arguments["missing"]
    assert (line["path"], line["fstype"], line["passno"]) == ("/data", "ext4", "0")
    assert line["opts"] == "noatime,data=ordered,nofail,x-systemd.device-timeout=15s"


OPTIONS: list[dict[str, t.Any]] = [
    {},
    {"fstype": "xfs"},
    {"layout": "per_disk"},
    {"layout": "none"},
    {"mount_point": "/mnt/local-nvme"},
    {"fstrim_timer_enabled": False},
    {"image_build": True},
    {"runtime_sha256": ""},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("disks", [0, 1, 4])
def test_carried_out_plan_leaves_empty_one(disks, options):
    host = carry_out(fresh(disks), **options)
    assert plan_of(host, **options).differences() == []


# Facts for which nothing is an answer: no such program, file, or line of fstab.
BELOW = {("storage", "tools"), ("storage", "fstab"), ("files",), ("paths",)}
# Facts that always have a value.
KNOWN = {("mount_units",), ("storage_plan",), ("boot_unit_enabled",)}


@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_unknown_facts_are_no_reason_to_act(layout):
    host = carry_out(fresh(2), layout=layout)
    config = parse_config({"runtime_sha256": RUNTIME, "layout": layout})
    assert acted_on(make_plan, role.look(host, config), config, BELOW, KNOWN, 60) == []


@pytest.mark.parametrize(
    ("path", "difference"),
    [
        (files.RUNTIME_PATH, "runtime"),
        (files.COMMAND_PATH, "runtime"),
        (CONFIG_PATH, "config"),
        (files.UNIT_PATH, "boot unit"),
        (ENABLED, f"unit {files.BOOT_UNIT}"),
        (files.FSTRIM_LINK, f"unit {files.FSTRIM_TIMER}"),
        ("/etc/fstab", "fstab"),
    ],
)
def test_each_missing_file_is_one_difference(path, difference):
    host = carry_out(node(2))
    del host.machine.files[path]
    assert plan_of(host).differences() == [difference]


def test_runtime_of_another_version_is_difference():
    host = carry_out(node(2))
    assert plan_of(host, runtime_sha256="cd" * 32).differences() == ["runtime"]


def test_path_that_volume_has_left_goes_from_fstab():
    host = carry_out(node(2))
    (step,) = (step for step in plan_of(host, mount_point="/moved").steps if step.name == "fstab")
    assert [line["path"] for line in step.arguments["missing"]] == ["/moved"]
    assert [line["path"] for line in step.arguments["stale"]] == ["/data"]


@pytest.mark.parametrize("options", [{"mount_options": ["nofail", "noatime"]}, {"mount_point": "/moved"}])
@pytest.mark.parametrize("source", ["fs.example:/x", "LABEL=mlcluster"])
def test_line_of_user_at_path_is_not_replaced(source, options):
    """The volume is mounted, so that only its line in fstab differs."""
    host = carry_out(node(2))
    path = options.get("mount_point", "/data")
    host.machine.files["/etc/fstab"] += f"{source} {path} nfs4 noauto 0 0\n"
    assert plan_of(host).refusals == (), "the role's own line is there"
    (refusal,) = plan_of(host, **options).refusals
    assert refusal.startswith(f"/etc/fstab mounts {source} on {path}: take that line out")


@pytest.mark.parametrize("spelling", ["/data/", "//data", "/d\\141ta"])
def test_other_spelling_of_path_is_the_same_path(spelling):
    """systemd mounts the first of two lines for a path only."""
    host = carry_out(node(2))
    host.machine.files["/etc/fstab"] += f"LABEL=mine {spelling} xfs noauto 0 0\n"
    (refusal,) = plan_of(host, mount_options=["nofail", "noatime"]).refusals
    assert f"/etc/fstab mounts LABEL=mine on {spelling}" in refusal


@pytest.mark.parametrize(("options", "stale"), [("ro,nofail", []), ("", ["/more"])])
def test_line_of_user_for_volume_at_another_path_is_kept(options, stale):
    """One with the role's options is that of an interrupted run, whose record has the new path already."""
    host = carry_out(node(2))
    (line,) = parse_fstab(host.machine.files["/etc/fstab"])
    host.machine.files["/etc/fstab"] += f"{line['src']} /more ext4 {options or line['opts']} 0 0\n"
    steps = [step for step in plan_of(host).steps if step.name == "fstab"]
    assert [line["path"] for step in steps for line in step.arguments["stale"]] == stale


def test_earlier_line_of_role_is_replaced():
    host = carry_out(node(2))
    assert plan_of(host, mount_options=["nofail", "noatime"]).differences() == ["config", "fstab"]


@pytest.mark.parametrize(
    ("options", "without", "packages"),
    [
        ({}, ["mdadm"], ["mdadm"]),
        ({}, ["mkfs.ext4", "mdadm"], ["e2fsprogs", "mdadm"]),
        ({}, ["mkfs.xfs", "pvs"], []),
        ({"fstype": "xfs"}, ["mkfs.xfs", "mkfs.ext4"], ["xfsprogs"]),
        ({"layout": "per_disk"}, ["mdadm"], []),
    ],
)
def test_only_what_layout_needs_is_installed(options, without, packages):
    plan = plan_of(node(without=without), **options)
    assert plan.packages == tuple(map(Package, packages))
    assert plan.refresh is bool(packages)


def test_lvm_tools_are_installed_where_there_is_lvm():
    host = node(without=["pvs", "lvs"])
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host))
    # The owner is unknown without them, so nothing else is planned.
    assert plan_of(host).refusals
    host.programs |= {"lvs"}
    assert plan_of(host).refusals


def test_without_package_manager_nothing_is_planned():
    host = fresh()
    lacking = ("apt-get", "dnf", "dnf5", "mdadm")
    host.which = lambda program: None if program in lacking else f"/usr/bin/{program}"
    plan = plan_of(host)
    assert plan.refusals == ("neither apt nor dnf is on this node, so mdadm cannot be installed: install them",)


@pytest.mark.parametrize(
    ("options", "reason"), [({}, "this node has no instance-store disks"), ({"layout": "none"}, "")]
)
def test_node_without_disks_is_left_unchanged(options, reason):
    plan = plan_of(fresh(0), **options)
    assert not plan.concerned
    assert plan.reason == f"no volume, since {reason or 'the layout is none'}"


def test_image_gets_everything_but_volume():
    assert plan_of(fresh(0), image_build=True).differences() == EVERYTHING[:-2]
    assert not plan_of(fresh(0), image_build=True, layout="none").concerned


def test_trim_timer_can_be_skipped():
    assert plan_of(fresh(), fstrim_timer_enabled=False).units[1:] == ()


def test_refused_node_is_left_unchanged():
    host = fresh()
    scene.foreign_array(host)
    plan = plan_of(host)
    assert plan.refusals and plan.differences() == []


def test_removal_takes_only_lines_of_role():
    host = carry_out(node(2))
    (line,) = parse_fstab(host.machine.files["/etc/fstab"])
    host.machine.files["/etc/fstab"] += "UUID=0000 / ext4 defaults 0 1\nfs.example:/x /fsx lustre _netdev 0 0\n"
    host.machine.files["/etc/fstab"] += f"{line['src']} /more ext4 ro 0 0\nLABEL=x {line['path']} ext4 noauto 0 0\n"
    facts = storage.look(host, scene.config())
    assert [line["path"] for line in own_fstab(facts["record"], facts["fstab"])] == ["/data"]
    assert own_fstab(None, facts["fstab"]) == []
    assert own_fstab({**facts["record"], "layout": "adopted"}, facts["fstab"]) == []
