# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role fsx_lustre decides and writes on each distribution, rendered by Ansible's own templating.

The look comes from the module itself on the node of lustre_host, so that role and module cannot drift apart.
"""

from __future__ import annotations

import hashlib
import typing as t
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import parallel as health_bounded
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.modules import lustre_info

from tests.unit.fakes.fake_lustre_host import ME, MY_GROUP, LustreHost
from tests.unit.roles.distributions import DISTRIBUTIONS, every_distribution
from tests.unit.roles.rendered import COMMAND_PATH, RUNTIME, RUNTIME_PATH, RenderedRole

CONFIG_PATH = "/etc/mlcluster/lustre.json"
UNIT_PATH = "/etc/systemd/system/mlcluster-lustre.service"
ENABLED = "/etc/systemd/system/multi-user.target.wants/mlcluster-lustre.service"
MODPROBE_PATH = "/etc/modprobe.d/mlcluster-lustre.conf"
UBUNTU = DISTRIBUTIONS["ubuntu-24.04"]
TUNED = {"osc.*OST*.max_rpcs_in_flight": 32}


class Role(RenderedRole):
    """The role on one node; settings are named without their prefix."""

    name = "fsx_lustre"
    unit_template = "mlcluster-lustre.service.j2"

    def __init__(self, facts: tuple[str, str, str, str], **settings: t.Any) -> None:
        super().__init__(facts, {f"fsx_lustre_{name}": value for name, value in settings.items()})


class Node(LustreHost):
    """sums: sha256 by path, as if the role had written the files; each belongs to root."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sums: dict[str, str] = {}
        self.parameters["osc.*OST*.max_rpcs_in_flight"] = {"osc.a": "8"}

    def sha256(self, path):
        return self.sums.get(path)

    def stat(self, path):
        if path not in self.sums:
            return None
        return {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": False}

    def settle(self, role: Role) -> None:
        """Have what the role would have written and set."""
        for entry in role.value("file_drift"):
            self.sums[entry["path"]] = hashlib.sha256(entry["text"].encode()).hexdigest()
        self.sums.update({RUNTIME_PATH: RUNTIME["sha256"], COMMAND_PATH: RUNTIME["sha256"]})
        self.files[ENABLED] = ""
        self.parameters["osc.*OST*.max_rpcs_in_flight"] = {"osc.a": "32"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(health_bounded, "STATE_DIRECTORY", str(tmp_path / "state"))
    return Node(tmp_path)


@pytest.fixture
def look(host, capsys, monkeypatch):
    """look(role) lets the role see the node; returns what differs."""

    def on(role: Role) -> list[str]:
        role.run_look(lustre_info, host, capsys, monkeypatch)
        return role.drift

    return on


@every_distribution
def test_a_fresh_node_gets_everything_and_then_nothing(host, look, facts):
    path = host.mount("fsx")
    own = [{"path": f"{path}/a", "owner": ME, "group": MY_GROUP}]
    role = Role(
        facts, file_systems=[{"path": path}], tuning=TUNED, directories=own, head_node=True, hold_packages=["lustre-*"]
    )
    assert role.value("setting_problems") == []
    assert look(role) == ["runtime", "command", "config", "boot unit", "held packages", "directories", "tuning"]
    assert role.value("unheld") == ["lustre-client-modules-x"]
    host.settle(role)
    (host.root / "fsx" / "a").mkdir()
    (host.root / "fsx" / "a").chmod(0o2775)
    host._dpkg_query = lambda argv: CommandResult(0, "lustre-client-modules-x\t1\thi \n", "")
    assert look(role) == []
    assert role.value("problems") == []
    assert role.value("told") == []


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("ubuntu-22.04", ["lustre-client-modules-6.8.0-1030-aws"]),
        ("amazon-2023", ["lustre-client"]),
        ("rocky-9", ["kmod-lustre-client", "lustre-client"]),
        ("debian-12", []),
    ],
)
def test_the_client_is_named_for_the_kernel_that_lacks_it(host, look, name, packages):
    host.files["/lib/modules/6.8.0-1030-aws/modules.dep"] = ""
    role = Role(DISTRIBUTIONS[name], file_systems=[{"path": host.mount("fsx")}])
    assert "packages" in look(role)
    assert role.value("missing_packages") == packages


def test_own_packages_go_before(host, look):
    host.broken["lfs"] = ""
    role = Role(UBUNTU, file_systems=[{"path": host.mount("fsx")}], packages=["mine"])
    look(role)
    assert role.value("missing_packages") == ["mine"]


def test_a_node_without_lustre_is_left_alone(look):
    assert look(Role(UBUNTU)) == []


def test_a_file_system_of_this_role_is_mounted_and_its_directories_made(host, look, tmp_path):
    path = str(tmp_path / "fsx")
    system = {"path": path, "dns_name": "fs-1.example.com", "mount_name": "abcdefgh"}
    role = Role(UBUNTU, file_systems=[system], directories=[{"path": f"{path}/a"}], head_node=True, tuning=TUNED)
    drift = look(role)
    assert drift[-3:] == ["mounts", "directories", "tuning"]
    (line,) = role.value("unmounted")
    assert (line["dns_name"], line["mount_name"], line["line"]) == ("fs-1.example.com", "abcdefgh", "none")


def test_a_line_of_this_role_is_kept_up_to_date_and_no_other_is_touched(host, look):
    path = host.mount("fsx")
    system = {"path": path, "dns_name": "fs-1.example.com", "mount_name": "abcdefgh"}
    form = "{} " + path + " lustre {} 0 0\n"
    role = Role(UBUNTU, file_systems=[system])
    host.files["/etc/fstab"] = form.format("fs-1.example.com@tcp:/abcdefgh", "noatime,flock,_netdev,nofail,x-mlcluster")
    assert "mounts" not in look(role)
    assert [line["path"] for line in role.value("own_lines")] == [path]
    host.files["/etc/fstab"] = form.format("fs-1.example.com@tcp:/abcdefgh", "defaults,x-mlcluster")
    assert "mounts" in look(role)
    # ParallelCluster's own line for the same file system.
    host.files["/etc/fstab"] = form.format("fs-1.example.com@tcp:/abcdefgh", "_netdev,noauto,x-systemd.automount")
    assert "mounts" not in look(role)
    assert role.value("own_lines") == []
    host.files["/etc/fstab"] = form.format("fs-1.example.com@tcp:/other", "_netdev,noauto,x-systemd.automount")
    assert "mounts" not in look(role)
    assert role.value("own_lines") == []


def test_only_the_head_node_makes_directories(host, look):
    path = host.mount("fsx")
    role = Role(UBUNTU, file_systems=[{"path": path}], directories=[{"path": f"{path}/a"}])
    assert "directories" not in look(role)
    assert any("lustre.directories" in problem for problem in role.value("problems"))
    for variables in ({"group_names": ["head"]}, {"configure_node_kind": "head"}, {"fsx_lustre_head_node": True}):
        other = Role(UBUNTU, file_systems=[{"path": path}], directories=[{"path": f"{path}/a"}])
        other.variables.update(variables)
        assert "directories" in look(other)


def test_a_large_machine_gets_the_options_of_its_modules(host, look):
    host.files["/proc/cpuinfo"] = "processor\t: 0\n" * 96
    role = Role(UBUNTU, file_systems=[{"path": host.mount("fsx")}])
    assert "module options" in look(role)
    texts = {entry["path"]: entry["text"] for entry in role.value("file_drift")}
    assert "options ptlrpc ptlrpcd_per_cpt_max=32\n" in texts[MODPROBE_PATH]
    host.settle(role)
    role.variables["fsx_lustre_tune"] = False
    look(role)
    assert sorted(entry["path"] for entry in role.value("file_drift") if entry.get("state") == "absent") == sorted(
        [MODPROBE_PATH, UNIT_PATH]
    )


def test_the_unit_comes_after_the_mounts(host, look):
    role = Role(UBUNTU, file_systems=[{"path": "/fsx1"}, {"path": "/fsx/a-b"}], tuning=TUNED)
    look(role)
    unit = role.variables["__fsx_lustre_unit_text"]
    (after,) = [line for line in unit.splitlines() if line.startswith("After=")]
    assert after.split()[-3:] == ["remote-fs.target", "fsx1.mount", "fsx-a\\x2db.mount"]
    assert f"ExecStart={RUNTIME_PATH} lustre-tune" in unit


def test_an_image_is_judged_without_mounts(host, look):
    role = Role(UBUNTU, image_build=True, file_systems=[{"path": "/fsx", "dns_name": "fs-1", "mount_name": "abcdefgh"}])
    drift = look(role)
    assert drift == ["runtime", "command", "config", "boot unit", "held packages", "mounts"]
    assert [line.split()[1].rstrip(":") for line in role.value("judged")] == ["lustre.client", "lustre.held"]


def test_settings_are_named_as_the_user_knows_them():
    role = Role(UBUNTU, file_systems=[{"path": "/data"}], timeout=0, mount_options=["no atime"])
    problems = role.value("setting_problems")
    assert [problem.split()[0] for problem in problems] == [
        "fsx_lustre_file_systems",
        "fsx_lustre_timeout",
        "fsx_lustre_mount_options",
        "fsx_lustre_mount_options",
    ]
