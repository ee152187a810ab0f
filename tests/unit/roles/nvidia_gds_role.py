# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the role nvidia_gds on one made-up node, for test_nvidia_gds_render.py."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from tests.rig import templating
from tests.unit.fakes.fake_gds_host import GdsHost

ROLE = Path(__file__).parents[3] / "roles" / "nvidia_gds"
KERNEL = "6.8.0-1021-aws"
UBUNTU = ("Ubuntu", "24", "Debian", "apt")


@functools.cache
def load(path: str) -> t.Any:
    """A file of the role, its expressions marked as templates as Ansible does for playbook content."""
    return templating.load(ROLE / path)


class Role:
    """The role's variables on one node: defaults, vars files, facts, settings, and the look."""

    def __init__(self, run_module: t.Any, facts: tuple[str, str, str, str] = UBUNTU, **settings: t.Any) -> None:
        distribution, major, family, manager = facts
        named = {"distribution": distribution, "distribution_major_version": major, "os_family": family}
        python = {"version": {"major": 3, "minor": 9}}
        self.run_module = run_module
        self.variables: dict[str, t.Any] = {
            **load("defaults/main.yml"),
            **load("vars/main.yml"),
            "role_path": str(ROLE),
            "inventory_hostname": "node1",
            "ansible_facts": {**named, "pkg_mgr": manager, "kernel": KERNEL, "python": python},
            "omit": "left out",
        }
        for name in (family, distribution, f"{distribution}_{major}"):
            if (ROLE / "vars" / f"{name}.yml").is_file():
                self.variables.update(load(f"vars/{name}.yml"))
        self.variables.update({f"nvidia_gds_{name}": value for name, value in settings.items()})

    def render(self, expression: t.Any) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(expression)

    def value(self, name: str) -> t.Any:
        return self.render(self.variables[f"__nvidia_gds_{name}"])

    def holds(self, conditions: str | list[str]) -> bool:
        """Whether the conditions of a when or a that are all true."""
        each = [conditions] if isinstance(conditions, str) else conditions
        return all(bool(self.render(templating.trusted(f"{{{{ {condition} }}}}"))) for condition in each)

    def options(self) -> dict[str, t.Any]:
        """The module options as tasks/look.yml passes them; what is not set is left out."""
        given = self.render(load("tasks/look.yml")[0]["mlcluster.aws.gds_info"])
        return {key: value for key, value in given.items() if value != "left out"}

    def look(
        self, host: GdsHost, sums: dict[str, str] | None = None, states: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Do what tasks/look.yml does; sums are the checksums of the files that the node has, states what differs in
        mode or owner from a file of root's.
        """
        host.sha256 = (sums or {}).get  # type: ignore[method-assign]
        look = self.run_module(host, self.options())
        plain = {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": False}
        look["paths"].update({path: {**plain, **(states or {}).get(path, {})} for path in sums or {}})
        self.variables["__nvidia_gds_look"] = look
        tasks = load("tasks/look.yml")
        self.variables["__nvidia_gds_file_drift"] = self.render(
            tasks[2]["ansible.builtin.set_fact"]["__nvidia_gds_file_drift"]
        )
        self.variables["__nvidia_gds_drift"] = self.render(tasks[3]["ansible.builtin.set_fact"]["__nvidia_gds_drift"])
        return self.variables["__nvidia_gds_look"]

    @property
    def drift(self) -> list[str]:
        return self.variables["__nvidia_gds_drift"]

    def texts(self) -> dict[str, str]:
        """The files that would be written."""
        return {entry["path"]: entry["text"] for entry in self.variables["__nvidia_gds_file_drift"] if "text" in entry}

    def due(self, path: str) -> list[str]:
        """The names of the tasks of a file that would run; blocks are looked into."""
        found = []
        for task in load(path):
            if self.holds(task.get("when", [])):
                inner = [one for one in task.get("block", []) if self.holds(one.get("when", []))]
                found += [one["name"] for one in inner] or [task["name"]]
        return found
