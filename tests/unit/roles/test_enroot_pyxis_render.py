# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role enroot_pyxis decides on each distribution, rendered by Ansible's own templating.

The look comes from the module itself on a node of plain files, so that role and module cannot drift apart.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.modules import enroot_pyxis_info

from tests.rig import templating
from tests.unit.fakes import fake_rooted_host as rooted

ROLE = Path(__file__).parents[3] / "roles" / "enroot_pyxis"
RUNTIME = {"path": "/cache/mlcluster.pyz", "sha256": "5" * 64, "version": "0.1.0"}

# What setup says of these: distribution, major version, family, package manager, architecture.
DISTRIBUTIONS = {
    "debian-12": ("Debian", "12", "Debian", "apt", "x86_64"),
    "ubuntu-22.04": ("Ubuntu", "22", "Debian", "apt", "x86_64"),
    "ubuntu-24.04-arm": ("Ubuntu", "24", "Debian", "apt", "aarch64"),
    "amazon-2023": ("Amazon", "2023", "RedHat", "dnf", "x86_64"),
    "rhel-9": ("RedHat", "9", "RedHat", "dnf", "x86_64"),
    "rocky-9-arm": ("Rocky", "9", "RedHat", "dnf", "aarch64"),
}
every_distribution = pytest.mark.parametrize("facts", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)


def load(path: str) -> t.Any:
    """A file of the role, its expressions marked as templates as Ansible does for playbook content."""
    return templating.load(ROLE / path)


class Role:
    """The role's variables on one node: defaults, vars, facts, groups, settings, and the look."""

    def __init__(self, facts: tuple[str, ...], groups: tuple[str, ...] = ("compute",), **settings: t.Any) -> None:
        keys = ("distribution", "distribution_major_version", "os_family", "pkg_mgr", "architecture")
        self.variables: dict[str, t.Any] = {
            **load("defaults/main.yml"),
            **load("vars/main.yml"),
            "role_path": str(ROLE),
            "inventory_hostname": "node1",
            "group_names": list(groups),
            "ansible_facts": dict(zip(keys, facts, strict=True)),
            **settings,
            "__enroot_pyxis_runtime": RUNTIME,
        }

    def value(self, name: str) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(self.variables[name])


@pytest.fixture
def look(capsys, monkeypatch):
    """look(role, host) lets the role see a node and decide."""

    def on(role: Role, host: rooted.RootedHost) -> list[str]:
        monkeypatch.setattr(enroot_pyxis_info, "Host", lambda: host)
        given = load("tasks/look.yml")[0]["mlcluster.aws.enroot_pyxis_info"]
        options = Templar(loader=DataLoader(), variables=role.variables).template(given)
        with patch_module_args(options), pytest.raises(SystemExit):
            enroot_pyxis_info.main()
        result = json.loads(capsys.readouterr().out)
        assert "msg" not in result
        role.variables["__enroot_pyxis_look"] = result
        assert role.value("__enroot_pyxis_concerned") == (result["slurm"] is not None)
        drift = role.value("__enroot_pyxis_differences") if result["slurm"] else []
        role.variables["__enroot_pyxis_drift"] = drift
        return drift

    return on


FILES = {
    "debian-12": ["enroot_4.1.2-1_amd64.deb", "enroot+caps_4.1.2-1_amd64.deb"],
    "ubuntu-22.04": ["enroot_4.1.2-1_amd64.deb", "enroot+caps_4.1.2-1_amd64.deb"],
    "ubuntu-24.04-arm": ["enroot_4.1.2-1_arm64.deb", "enroot+caps_4.1.2-1_arm64.deb"],
    "amazon-2023": ["enroot-4.1.2-1.el8.x86_64.rpm", "enroot+caps-4.1.2-1.el8.x86_64.rpm"],
    "rhel-9": ["enroot-4.1.2-1.el8.x86_64.rpm", "enroot+caps-4.1.2-1.el8.x86_64.rpm"],
    "rocky-9-arm": ["enroot-4.1.2-1.el8.aarch64.rpm", "enroot+caps-4.1.2-1.el8.aarch64.rpm"],
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_files_that_a_fresh_node_needs(tmp_path, look, name):
    role = Role(DISTRIBUTIONS[name])
    assert {"enroot", "plugin", "docker"} <= set(look(role, rooted.node(tmp_path)))
    downloads = role.value("__enroot_pyxis_downloads")
    assert [file["file"] for file in downloads["files"]] == [*FILES[name], "v0.24.0.tar.gz"]
    # None of these has a checksum that was read in a public source, so nothing is installed without a lock.
    if not (ROLE.parents[1] / "artifacts.lock.yml").exists():
        assert len(downloads["problems"]) == 3
        assert "make lock-artifacts" in downloads["problems"][0]


PREBUILT = [
    {"slurm_version": version, "architecture": "x86_64", "file": f"pyxis-{version}.so", "sha256": "a" * 64}
    for version in ("22.05", "2.05", "22.05.99", "23.11.10")
]


@pytest.mark.parametrize(
    ("name", "offered", "file"),
    [
        ("debian-12", PREBUILT, "pyxis-22.05.so"),
        ("debian-12", PREBUILT[2:], "pyxis-22.05.99.so"),
        ("debian-12", [PREBUILT[1], PREBUILT[3]], "v0.24.0.tar.gz"),
        ("rocky-9-arm", PREBUILT, "v0.24.0.tar.gz"),
    ],
)
def test_a_plugin_that_was_built_beforehand_is_for_one_release_and_architecture(tmp_path, look, name, offered, file):
    role = Role(
        DISTRIBUTIONS[name],
        enroot_pyxis_prebuilt=offered,
        enroot_pyxis_mirror_url="s3://bucket/x",
        enroot_pyxis_caps=False,
        __enroot_pyxis_work={"path": "/tmp/w"},
    )
    look(role, rooted.with_enroot(rooted.node(tmp_path)))
    (fetched,) = role.value("__enroot_pyxis_downloads")["files"]
    assert (fetched["file"], fetched["s3"]) == (file, f"s3://bucket/x/{file}")
    source = file if file.endswith(".so") else "pyxis-0.24.0/spank_pyxis.so"
    assert role.value("__enroot_pyxis_new_plugin") == f"/tmp/w/{source}"


@every_distribution
def test_what_is_good_needs_no_file(tmp_path, look, facts):
    role = Role(facts)
    drift = look(role, rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path), "3.4.1")))
    assert {"enroot", "plugin"}.isdisjoint(drift)
    assert role.value("__enroot_pyxis_downloads")["files"] == []


def test_another_version_is_replaced_only_on_request(tmp_path, look):
    role = Role(DISTRIBUTIONS["debian-12"], enroot_pyxis_upgrade=True)
    host = rooted.with_pyxis(rooted.with_enroot(rooted.node(tmp_path), "3.4.1"))
    assert "enroot" in look(role, host)
    host.answers["/usr/bin/enroot version"] = "4.1.2"
    assert "enroot" not in look(role, host)


def test_missing_capabilities_come_with_the_package_of_the_enroot_that_is_there(tmp_path, look):
    host = rooted.with_pyxis(rooted.node(tmp_path))
    host.put("/usr/bin/enroot")
    host.answers["/usr/bin/enroot version"] = "4.1.1"
    role = Role(DISTRIBUTIONS["debian-12"])
    look(role, host)
    assert [file["file"] for file in role.value("__enroot_pyxis_downloads")["files"]] == [
        "enroot+caps_4.1.1-1_amd64.deb"
    ]


@pytest.mark.parametrize(
    ("name", "docker", "toolkit"),
    [
        ("ubuntu-22.04", ["docker.io"], ["nvidia-container-toolkit=1.17.8-1"]),
        ("amazon-2023", ["docker"], ["nvidia-container-toolkit-1.17.8-1"]),
        ("rhel-9", ["docker-ce"], ["nvidia-container-toolkit-1.17.8-1"]),
    ],
)
def test_docker_and_the_toolkit(tmp_path, look, name, docker, toolkit):
    host = rooted.node(tmp_path)
    host.put("/proc/driver/nvidia/version")
    role = Role(DISTRIBUTIONS[name], enroot_pyxis_toolkit_version="1.17.8-1")
    assert {"docker", "toolkit"} <= set(look(role, host))
    assert role.value("__enroot_pyxis_extras") == docker + toolkit
    assert role.value("__enroot_pyxis_held") == [*docker, "nvidia-container-toolkit"]


def test_what_is_installed_and_not_held_is_held_again(tmp_path, look):
    host = rooted.node(tmp_path)
    host.put("/usr/bin/dpkg-query")
    rows = ["docker.io\t27.0\tii ", "nvidia-container-toolkit\t1.17.8-1\thi "]
    host.answers["dpkg-query -W"] = "\n".join(rows) + "\n"
    role = Role(DISTRIBUTIONS["debian-12"])
    assert "holds" in look(role, host)
    assert "docker.io" in role.value("__enroot_pyxis_held")
    host.answers["dpkg-query -W"] = "\n".join(rows).replace("ii ", "hi ") + "\n"
    assert "holds" not in look(role, host)
    host.answers["dpkg-query -W"] = "\n".join(rows) + "\n"
    assert "holds" not in look(Role(DISTRIBUTIONS["debian-12"], enroot_pyxis_hold=False), host)


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [(("compute",), True), (("login",), False), (("login", "head"), True), (("ungrouped",), True)],
)
def test_nobody_builds_on_a_login_node(tmp_path, look, groups, wanted):
    role = Role(DISTRIBUTIONS["debian-12"], groups)
    assert ("docker" in look(role, rooted.node(tmp_path))) == wanted


def test_a_node_without_slurm_is_left_alone(tmp_path, look):
    assert look(Role(DISTRIBUTIONS["debian-12"]), rooted.RootedHost(tmp_path)) == []


def test_settings_are_judged_before_a_node_is_asked():
    role = Role(
        DISTRIBUTIONS["debian-12"],
        enroot_pyxis_conf_owner="role",
        enroot_pyxis_duplicates="remove",
        enroot_pyxis_checksums={"x.deb": "abc"},
        enroot_pyxis_hooks=["evil.sh"],
    )
    told = role.value("__enroot_pyxis_problem")
    assert told.count("; ") == 3
    assert "x.deb in enroot_pyxis_checksums is no sha256" in told
    assert Role(DISTRIBUTIONS["debian-12"]).value("__enroot_pyxis_problem") == ""
