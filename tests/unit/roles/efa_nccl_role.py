# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role efa_nccl on a made-up training node, rendered by Ansible's own templating.

The look comes from the module itself, so that role and module cannot drift apart.
"""

from __future__ import annotations

import functools
import hashlib
import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.mlcluster.aws.plugins.modules import efa_info

from tests.rig import templating
from tests.unit.fakes import fake_training_host as scene
from tests.unit.fakes.fake_training_host import TrainingHost
from tests.unit.roles.distributions import DISTRIBUTIONS

ROLE = Path(__file__).parents[3] / "roles" / "efa_nccl"
UBUNTU, AMAZON = DISTRIBUTIONS["ubuntu-24.04"], DISTRIBUTIONS["amazon-2023"]
NCCL = {"name": "libnccl2", "version": "2.28.9-1+cuda13.0"}


@functools.cache
def load(path: str) -> t.Any:
    """A file of the role, its expressions marked as templates as Ansible does for playbook content."""
    return templating.load(ROLE / path)


class Role:
    """The role's variables on one node: defaults, vars files, facts, settings, and the look."""

    def __init__(self, facts: tuple[str, str, str, str] = UBUNTU, **settings: t.Any) -> None:
        distribution, major, family, manager = facts
        named = {"distribution": distribution, "distribution_major_version": major, "os_family": family}
        self.variables: dict[str, t.Any] = {
            **load("defaults/main.yml"),
            **load("vars/main.yml"),
            "role_path": str(ROLE),
            "inventory_hostname": "node1",
            "ansible_facts": {**named, "pkg_mgr": manager, "python": {"version": {"major": 3, "minor": 9}}},
            "efa_nccl_installer_version": "1.43.0",
        }
        for name in (family, distribution, f"{distribution}_{major}"):
            if (ROLE / "vars" / f"{name}.yml").is_file():
                self.variables.update(load(f"vars/{name}.yml"))
        self.variables.update({f"efa_nccl_{name}": value for name, value in settings.items()})
        self.run_module: t.Any = None

    def render(self, expression: t.Any) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(expression)

    def value(self, name: str) -> t.Any:
        return self.render(self.variables[f"__efa_nccl_{name}"])

    def look(
        self, host: TrainingHost, sums: dict[str, str] | None = None, states: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Run the module as tasks/look.yml does; sums are the checksums of the files that the node has, states what
        differs in mode or owner from a file of root's.
        """
        self.variables["omit"] = "left out"
        given = self.render(load("tasks/look.yml")[0]["mlcluster.aws.efa_info"])
        options = {key: value for key, value in given.items() if value != "left out"}
        host.sha256 = (sums or {}).get  # type: ignore[method-assign]
        look = self.run_module(host, options)
        plain = {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": False}
        look["paths"].update({path: {**plain, **(states or {}).get(path, {})} for path in sums or {}})
        self.variables["__efa_nccl_look"] = look
        self.variables["__efa_nccl_file_drift"] = self.render(
            load("tasks/look.yml")[3]["ansible.builtin.set_fact"]["__efa_nccl_file_drift"]
        )
        self.variables["__efa_nccl_drift"] = self.value("differences") if self.value("wanted") else []
        return self.variables["__efa_nccl_look"]

    @property
    def drift(self) -> list[str]:
        return self.variables["__efa_nccl_drift"]

    def texts(self) -> dict[str, str]:
        """The files that would be written."""
        return {entry["path"]: entry["text"] for entry in self.variables["__efa_nccl_file_drift"] if "text" in entry}

    def sums(self) -> dict[str, str]:
        """The checksums of these files once they are written."""
        return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts().items()}


def bare(instance_type: str = "p5.48xlarge") -> TrainingHost:
    """A node as an image without any EFA software boots it."""
    host = scene.good_node(instance_type=instance_type)
    host.files = {path: text for path, text in host.files.items() if not path.startswith(("/opt/amazon", "/etc/sec"))}
    host.commands["dpkg-query -W"] = "bash\t5.2\tii \n"
    host.commands["ldconfig -p"] = scene.ldconfig()
    host.files["/proc/sys/kernel/yama/ptrace_scope"] = "1\n"
    return host


def settled(role: Role, host: TrainingHost) -> dict[str, str]:
    """Give the node what the role would hold; returns the checksums of what it would write."""
    role.look(host)
    held = [(name, version, "hi ") for name, version, _status in scene.DPKG]
    host.commands["dpkg-query -W"] = scene.dpkg(held)
    return role.sums()


def look_with(monkeypatch: t.Any, capsys: t.Any) -> t.Callable[..., dict[str, t.Any]]:
    """look_with(monkeypatch, capsys)(host, options) gives what efa_info printed."""

    def run(host: TrainingHost, options: dict[str, t.Any]) -> dict[str, t.Any]:
        monkeypatch.setattr(efa_info, "Host", lambda: host)
        with patch_module_args(options), pytest.raises(SystemExit):
            efa_info.main()
        result = json.loads(capsys.readouterr().out)
        assert "msg" not in result
        return result

    return run
