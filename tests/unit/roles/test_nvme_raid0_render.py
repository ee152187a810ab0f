# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role nvme_raid0 decides and writes on each distribution, rendered by Ansible's own templating.

The look comes from the module itself on a simulated node, so that role and module cannot drift apart.
"""

from __future__ import annotations

import hashlib
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import ARGUMENT_SPEC
from ansible_collections.mlcluster.aws.plugins.modules import instance_store_info

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_storage_host import SimulatedHost
from tests.unit.roles.distributions import DISTRIBUTIONS, every_distribution
from tests.unit.roles.rendered import COMMAND_PATH, RUNTIME, RUNTIME_PATH, RenderedRole

CONFIG_PATH = "/etc/mlcluster/storage.json"
UNIT_PATH = "/etc/systemd/system/mlcluster-storage.service"
FSTRIM_LINK = "/etc/systemd/system/timers.target.wants/fstrim.timer"
ENABLED = "/etc/systemd/system/multi-user.target.wants/mlcluster-storage.service"
EVERYTHING = ["packages", "runtime", "command", "config", "unit", "fstrim", "volume", "fstab"]

AMAZON_2 = ("Amazon", "2", "RedHat", "yum")


class Role(RenderedRole):
    """The role on one node."""

    name = "nvme_raid0"
    unit_template = "mlcluster-storage.service.j2"

    def __init__(self, facts: tuple[str, str, str, str], **settings: t.Any) -> None:
        super().__init__(facts, settings)

    def look(self, host: SimulatedHost, sums: dict[str, str], capsys: t.Any, monkeypatch: t.Any) -> dict[str, t.Any]:
        """Run the module of tasks/look.yml; sums are the checksums of the files that the node has."""
        monkeypatch.setattr(type(host), "sha256", lambda _host, path: sums.get(path))
        return self.run_look(instance_store_info, host, capsys, monkeypatch)

    def install_tasks(self) -> list[str]:
        """The modules of tasks/install.yml that would run, in order."""
        due = [task for task in self.load("tasks/install.yml") if self.holds(task["when"])]
        return [key for task in due for key in task if "." in key]


@pytest.fixture
def look(capsys, monkeypatch):
    """look(role, host, sums) lets the role see a node."""

    def on(role: Role, host: SimulatedHost, sums: dict[str, str] | None = None) -> dict[str, t.Any]:
        return role.look(host, sums or {}, capsys, monkeypatch)

    return on


def fresh(disks: int = 4, without: t.Iterable[str] = ("mdadm", "mkfs.xfs", "pvs")) -> SimulatedHost:
    """A node that has just been started, with only what its image has."""
    host = scene.node(disks)
    host.programs -= set(without)
    return host


def as_wanted(role: Role, host: SimulatedHost, look: t.Any) -> dict[str, str]:
    """Give the node all that the role would write besides the volume; returns the checksums of the files."""
    seen = look(role, host)
    volume = seen["plan"]["volumes"][0]["fstab"] if seen["plan"]["volumes"] else {}
    if volume:
        host.machine.files["/etc/fstab"] = " ".join(volume.values()) + "\n"
    host.machine.files[ENABLED] = ""
    return {
        RUNTIME_PATH: RUNTIME["sha256"],
        COMMAND_PATH: RUNTIME["sha256"],
        CONFIG_PATH: hashlib.sha256(seen["config_text"].encode()).hexdigest(),
        UNIT_PATH: hashlib.sha256(role.unit().encode()).hexdigest(),
        FSTRIM_LINK: "1" * 64,
    }


@every_distribution
def test_supported_distributions(facts):
    role = Role(facts)
    assert role.vars_files == []
    asserted = [task["ansible.builtin.assert"]["that"] for task in Role.load("tasks/validate.yml")[1:]]
    assert [role.holds(condition) for condition in asserted] == [True, True, True]


def test_amazon_linux_2_is_refused_by_its_vars_file():
    role = Role(AMAZON_2)
    assert role.vars_files == ["Amazon_2.yml"]
    task = Role.load("tasks/validate.yml")[1]["ansible.builtin.assert"]
    assert not role.holds(task["that"])
    assert role.render(task["fail_msg"]).startswith("Amazon Linux 2 is not supported: its Python 3.7 is too old")


def test_bad_settings_are_refused_before_a_node_is_asked():
    role = Role(DISTRIBUTIONS["debian-12"])
    role.variables["nvme_raid0_chunk_kib"] = 500
    task = Role.load("tasks/validate.yml")[3]["ansible.builtin.assert"]
    assert not role.holds(task["that"])
    assert role.render(task["fail_msg"]).startswith("chunk_kib is 500: md needs a power of two")


@pytest.mark.parametrize(("version", "accepted"), [((3, 8), False), ((3, 9), True), ((3, 13), True), ((4, 0), True)])
def test_python_version(version, accepted):
    role = Role(DISTRIBUTIONS["debian-12"])
    role.variables["ansible_facts"]["python"]["version"] = {"major": version[0], "minor": version[1]}
    task = Role.load("tasks/validate.yml")[2]["ansible.builtin.assert"]
    assert role.holds(task["that"]) is accepted
    said = role.render(task["fail_msg"])
    assert said.startswith(f"node1 has Python {version[0]}.{version[1]} and this role needs 3.9 or newer")


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("tasks/look.yml", "mlcluster.aws.instance_store_info"),
        ("tasks/configure.yml", "mlcluster.aws.instance_store"),
    ],
)
def test_every_option_of_the_modules_is_a_variable_of_the_role(path, module):
    given = next(task[module] for task in Role.load(path) if module in task)
    expressions = {key: given.get(key, "").strip("{} ").removesuffix(" | default(omit)") for key in ARGUMENT_SPEC}
    wanted = {key: f"nvme_raid0_{key}" for key in ARGUMENT_SPEC}
    assert expressions == wanted, f"pass each option of ARGUMENT_SPEC to {module} in {path}"


@every_distribution
def test_packages_come_from_the_package_manager_of_the_distribution(facts, look):
    role = Role(facts, nvme_raid0_fstype="xfs")
    look(role, fresh())
    assert role.value("missing_packages") == ["xfsprogs", "mdadm"]
    manager = "ansible.builtin.apt" if facts[3] == "apt" else "ansible.builtin.dnf"
    files = ["ansible.builtin.file", "ansible.builtin.copy", "ansible.builtin.file"]
    assert role.install_tasks() == [manager, *files]


def test_apt_installs_no_recommended_packages():
    task = next(task for task in Role.load("tasks/install.yml") if "ansible.builtin.apt" in task)
    assert task["ansible.builtin.apt"]["install_recommends"] is False


@pytest.mark.parametrize(
    ("settings", "without", "packages"),
    [
        ({}, ["mdadm"], ["mdadm"]),
        ({}, ["mkfs.ext4", "mdadm"], ["e2fsprogs", "mdadm"]),
        ({}, ["mkfs.xfs", "pvs"], []),
        ({"nvme_raid0_fstype": "xfs"}, ["mkfs.xfs", "mkfs.ext4"], ["xfsprogs"]),
        ({"nvme_raid0_layout": "per_disk"}, ["mdadm"], []),
    ],
)
def test_only_what_the_layout_needs_is_installed(settings, without, packages, look):
    role = Role(DISTRIBUTIONS["rhel-9"], **settings)
    look(role, fresh(without=without))
    assert role.value("missing_packages") == packages


def test_lvm_tools_are_installed_where_there_is_lvm(look):
    role = Role(DISTRIBUTIONS["ubuntu-22.04"])
    host = fresh(without=["pvs", "lvs"])
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host))
    look(role, host)
    assert role.value("missing_packages") == ["lvm2"]


@every_distribution
def test_a_fresh_node_lacks_everything(facts, look):
    role = Role(facts)
    look(role, fresh())
    assert role.drift == EVERYTHING
    (line,) = role.value("missing_fstab")
    assert (line["path"], line["fstype"], line["passno"]) == ("/data", "ext4", "0")
    assert line["opts"] == "noatime,data=ordered,nofail,x-systemd.device-timeout=15s"


@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
@pytest.mark.parametrize("disks", [1, 4])
def test_a_node_that_is_as_wanted_lacks_nothing(disks, fstype, look):
    role = Role(DISTRIBUTIONS["amazon-2023"], nvme_raid0_fstype=fstype)
    host = scene.node(disks)
    storage.converge(host, storage_config(role))
    sums = as_wanted(role, host, look)
    seen = look(role, host, sums)
    assert seen["problems"] == []
    assert role.drift == []


@pytest.mark.parametrize(
    ("path", "difference"),
    [
        (RUNTIME_PATH, "runtime"),
        (COMMAND_PATH, "command"),
        (CONFIG_PATH, "config"),
        (UNIT_PATH, "unit"),
        (FSTRIM_LINK, "fstrim"),
    ],
)
def test_each_missing_file_is_one_difference(path, difference, look):
    role = Role(DISTRIBUTIONS["debian-13"])
    host = scene.node(2)
    storage.converge(host, storage_config(role))
    sums = as_wanted(role, host, look)
    del sums[path]
    look(role, host, sums)
    assert role.drift == [difference]


@pytest.mark.parametrize(
    ("path", "difference"),
    [("/etc/fstab", "fstab"), (ENABLED, "unit"), ("/var/lib/mlcluster/local_storage.json", "volume")],
)
def test_each_lost_link_is_one_difference(path, difference, look):
    role = Role(DISTRIBUTIONS["debian-13"], nvme_raid0_existing="replace", nvme_raid0_safe_mode=False)
    host = scene.node(2)
    storage.converge(host, storage_config(role))
    sums = as_wanted(role, host, look)
    del host.machine.files[path]
    look(role, host, sums)
    assert difference in role.drift


@pytest.mark.parametrize("text", [False, "false", "no"])
def test_a_node_without_disks_is_left_alone(text, look):
    role = Role(DISTRIBUTIONS["rhel-9"], nvme_raid0_image_build=text)
    assert look(role, fresh(0))["plan"]["situation"] == "no_disks"
    assert role.drift == []


@pytest.mark.parametrize("text", [True, "true", "yes"])
def test_an_image_gets_everything_but_the_volume(text, look):
    role = Role(DISTRIBUTIONS["rhel-9"], nvme_raid0_image_build=text)
    look(role, fresh(0))
    assert role.drift == ["packages", "runtime", "command", "config", "unit", "fstrim"]


@pytest.mark.parametrize("text", [False, "false"])
def test_the_trim_timer_can_be_left_alone(text, look):
    role = Role(DISTRIBUTIONS["rhel-9"], nvme_raid0_fstrim_timer_enabled=text)
    look(role, fresh())
    assert "fstrim" not in role.drift


def test_a_refused_node_is_left_alone(look):
    role = Role(DISTRIBUTIONS["ubuntu-24.04"])
    host = fresh()
    scene.foreign_array(host)
    assert look(role, host)["plan"]["refusals"]
    assert role.drift == []


@pytest.mark.parametrize(
    ("settings", "after"),
    [
        ({}, "data.mount"),
        ({"nvme_raid0_mount_point": "/mnt/local-nvme"}, r"mnt-local\x2dnvme.mount"),
        ({"nvme_raid0_layout": "per_disk"}, "data-disk0.mount data-disk1.mount"),
    ],
)
def test_the_boot_unit_waits_for_its_own_mounts(settings, after, look):
    role = Role(DISTRIBUTIONS["amazon-2023"], **settings)
    look(role, fresh(2))
    lines = role.unit().splitlines()
    assert f"After=local-fs.target {after}" in lines
    assert "Before=slurmd.service docker.service containerd.service" in lines
    assert f"ExecStart={RUNTIME_PATH} storage-boot" in lines
    assert role.unit().endswith("WantedBy=multi-user.target\n")


def test_the_boot_unit_is_the_same_on_every_distribution(look):
    units = set()
    for facts in DISTRIBUTIONS.values():
        role = Role(facts)
        look(role, fresh())
        units.add(role.unit())
    assert len(units) == 1


def test_removal_takes_only_its_own_fstab_lines(look):
    role = Role(DISTRIBUTIONS["debian-12"])
    host = scene.node(2)
    storage.converge(host, storage_config(role))
    as_wanted(role, host, look)
    ours = host.machine.files["/etc/fstab"]
    host.machine.files["/etc/fstab"] = f"UUID=0000 / ext4 defaults 0 1\n{ours}fs.example:/x /fsx lustre _netdev 0 0\n"
    look(role, host)
    assert [line["path"] for line in role.value("own_fstab")] == ["/data"]


def test_removal_on_a_node_that_never_had_a_volume(look):
    role = Role(DISTRIBUTIONS["debian-12"])
    host = scene.node(2)
    host.machine.files["/etc/fstab"] = "UUID=0000 / ext4 defaults 0 1\n"
    look(role, host)
    assert role.value("own_fstab") == []


def storage_config(role: Role) -> t.Any:
    """The configuration that the role's settings come to."""
    return scene.config(
        **{key: value for key, value in role.options(instance_store_info).items() if key in ARGUMENT_SPEC}
    )
