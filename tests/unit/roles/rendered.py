# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role that looks, decides and writes a boot unit, rendered by Ansible's own templating on one node.

The look comes from the module itself, so that role and module cannot drift apart.
"""

from __future__ import annotations

import json
import types
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from tests.rig import templating

ROLES = Path(__file__).parents[3] / "roles"
RUNTIME = {"path": "/cache/mlcluster.pyz", "sha256": "5" * 64, "version": "0.1.0"}
COMMAND_PATH = "/usr/local/bin/mlcluster"
RUNTIME_PATH = "/usr/local/lib/mlcluster/mlcluster.pyz"


class RenderedRole:
    """The role's variables on one node: defaults, vars files, facts (of distributions.py), settings, and the look."""

    name: str
    unit_template: str

    def __init__(self, facts: tuple[str, str, str, str], settings: t.Mapping[str, t.Any]) -> None:
        distribution, major, family, manager = facts
        named = {"distribution": distribution, "distribution_major_version": major, "os_family": family}
        self.variables: dict[str, t.Any] = {
            **self.load("defaults/main.yml"),
            **self.load("vars/main.yml"),
            "role_path": str(ROLES / self.name),
            "inventory_hostname": "node1",
            "group_names": [],
            "omit": "left out",
            "ansible_facts": {**named, "pkg_mgr": manager, "python": {"version": {"major": 3, "minor": 9}}},
            **settings,
            f"__{self.name}_runtime": RUNTIME,
        }
        self.vars_files = self._include_vars()

    @classmethod
    def load(cls, path: str) -> t.Any:
        """A file of the role, its expressions marked as templates as Ansible does for playbook content."""
        return templating.load(ROLES / cls.name / path)

    def _include_vars(self) -> list[str]:
        """Do what tasks/set_vars.yml does; returns the names of the files that were read."""
        task = next(task for task in self.load("tasks/set_vars.yml") if "ansible.builtin.include_vars" in task)
        found = []
        for name in self.render(task["loop"]):
            self.variables[task["loop_control"]["loop_var"]] = name
            path = Path(self.render(task["vars"][f"__{self.name}_vars_file"]))
            assert path.parent == ROLES / self.name / "vars"
            if path.is_file():
                self.variables.update(self.load(f"vars/{path.name}"))
                found.append(path.name)
        return found

    def render(self, expression: t.Any) -> t.Any:
        return Templar(loader=DataLoader(), variables=self.variables).template(expression)

    def value(self, name: str) -> t.Any:
        """A private variable, named without its prefix."""
        return self.render(self.variables[f"__{self.name}_{name}"])

    def holds(self, conditions: str | list[str]) -> bool:
        """Whether the conditions of a when or a that are all true."""
        each = [conditions] if isinstance(conditions, str) else conditions
        return all(self.render(templating.trusted(f"{{{{ {condition} }}}}")) is True for condition in each)

    def options(self, module: types.ModuleType) -> dict[str, t.Any]:
        """The module's options as tasks/look.yml passes them; what is not set is left out."""
        given = self.load("tasks/look.yml")[0][f"mlcluster.aws.{module.__name__.rsplit('.', 1)[-1]}"]
        return {key: value for key, value in self.render(given).items() if value != "left out"}

    def run_look(self, module: types.ModuleType, host: object, capsys: t.Any, monkeypatch: t.Any) -> dict[str, t.Any]:
        """Run the module of tasks/look.yml on a node, and decide as the role does; returns the look."""
        monkeypatch.setattr(module, "Host", lambda: host)
        with patch_module_args(self.options(module)), pytest.raises(SystemExit):
            module.main()
        look: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        assert "msg" not in look
        self.variables[f"__{self.name}_look"] = look
        self.variables[f"__{self.name}_unit_text"] = self.unit()
        drift = self.value("differences") if self.value("wanted") is True else []
        self.variables[f"__{self.name}_drift"] = drift
        return look

    def unit(self) -> str:
        """The boot unit as it would be written."""
        text = (ROLES / self.name / "templates" / self.unit_template).read_text(encoding="utf-8")
        templar = Templar(loader=DataLoader(), variables=self.variables)
        return str(templar.template(templating.trusted(text), preserve_trailing_newlines=True))

    @property
    def drift(self) -> list[str]:
        """What differs, as the role names it."""
        return self.variables[f"__{self.name}_drift"]
