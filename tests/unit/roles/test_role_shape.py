# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every role has the one shape that the collection promises."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import config as containers
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import config as efa
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import config as gds
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import config as jobs
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import config as lustre
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import layouts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import config as storage

from tests.docs_check import role_docs

ROLES = role_docs.role_folders(role_docs.CHECKOUT)
TASK_NAME = re.compile(r"[A-Z][a-z]+ \| [A-Z].*")
ENTRY_POINTS = {"main", "validate", "verify"}
TASKS_MAIN_LINES = 20
# Of a whole role.
VARIABLE_LINES = 60
TASKS = 40

CONTROLLER = role_docs.CHECKOUT / "plugins" / "plugin_utils" / "_roles"
NODE = role_docs.CHECKOUT / "plugins" / "module_utils" / "_node"
PLANS = "node_plan"
# Of these the directories are made that the class has.
LUSTRE = {key: spec for key, spec in lustre.ROLE_SPEC.items() if key == "directories" or key not in layouts.KEYS}
# The configuration of a role on the node: its room, its options, its class, and the module of tasks/look.yml; node_plan
# of a role that decides on the node.
CONFIGS: dict[str, tuple[str, dict[str, Any], Any, str]] = {
    "nvme_raid0": ("storage", storage.ARGUMENT_SPEC, storage.StorageConfig, PLANS),
    "enroot_pyxis": ("containers", containers.ROLE_SPEC, containers.RoleConfig, PLANS),
    "fsx_lustre": ("lustre", LUSTRE, lustre.RoleConfig, PLANS),
    "efa_nccl": ("efa", efa.ARGUMENT_SPEC, efa.EfaConfig, PLANS),
    "nvidia_gds": ("gds", gds.ARGUMENT_SPEC, gds.GdsConfig, PLANS),
    "slurm_jobs": ("jobs", jobs.ARGUMENT_SPEC, jobs.JobsConfig, PLANS),
}
# Rooms whose configuration the programs of jobs ask for, and no role.
OF_JOBS = {"imex"}

pytestmark = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks_of(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield all tasks of a file, also those inside blocks."""
    for task in content:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part, []))


def without_comments(text: str) -> str:
    return re.sub(r"(?m)^\s*#.*$|\{#.*?#\}", "", text)


def read_by_the_role(role: Path) -> str:
    """Return the role as text: tasks, handlers, templates, the variables of vars/ that they use, and the controller's
    part of its options.

    The tasks of validate.yml that only reject a value do nothing with it.
    """
    tasks = [task for path in role.glob("tasks/*.yml") if path.name != "validate.yml" for task in load(path) or []]
    validate = load(role / "tasks" / "validate.yml") or []
    tasks += [task for task in validate if not task.keys() & {"ansible.builtin.assert", "ansible.builtin.fail"}]
    tasks += [task for path in role.glob("handlers/*.yml") for task in load(path) or []]
    templates = [path.read_text(encoding="utf-8") for path in role.glob("templates/**/*") if path.is_file()]
    text = yaml.safe_dump(tasks, width=1000) + without_comments("\n".join(templates))
    controller = role_docs.CHECKOUT / "plugins" / "plugin_utils" / "_roles" / f"{role.name}.py"
    text += controller.read_text(encoding="utf-8") if controller.is_file() else ""
    waiting = [(name, yaml.safe_dump(value)) for path in role.glob("vars/*.yml") for name, value in load(path).items()]
    while reached := [entry for entry in waiting if re.search(rf"\b{entry[0]}\b", text)]:
        waiting = [entry for entry in waiting if entry not in reached]
        text += "\n".join(value for _name, value in reached)
    return text


def test_role_has_its_files(role: Path) -> None:
    assert (role / "tasks" / "main.yml").is_file()
    assert (role / "README.md").is_file()


def test_defaults_are_those_of_argument_specs(role: Path) -> None:
    options = role_docs.read_options(role)
    promised = {name: spec["default"] for name, spec in options.items() if "default" in spec}
    hint = "give each the same default in defaults/main.yml (left) and meta/argument_specs.yml (right)"
    assert load(role / "defaults" / "main.yml") == promised, hint


def test_variables_without_default_are_shown_commented_out(role: Path) -> None:
    text = (role / "defaults" / "main.yml").read_text(encoding="utf-8")
    without = [name for name, spec in role_docs.read_options(role).items() if "default" not in spec]
    missing = [name for name in without if not re.search(rf"^# {name}:", text, re.MULTILINE)]
    assert missing == [], "write a line '# NAME: example' for each into defaults/main.yml"


def test_every_default_has_comment(role: Path) -> None:
    lines = (role / "defaults" / "main.yml").read_text(encoding="utf-8").splitlines()
    blocks = "\n".join(lines).split("\n\n")
    without = [block for block in blocks if not block.removeprefix("---\n").startswith("# ")]
    assert without == [], "write a comment above each in defaults/main.yml"


def test_public_names_carry_role(role: Path) -> None:
    names = role_docs.read_options(role)
    assert [name for name in names if not name.startswith(f"{role.name}_")] == []


def test_every_option_is_read(role: Path) -> None:
    text = read_by_the_role(role)
    if role.name in DOMAINS:
        # The controller's additions, and the option by which the action node_plan fails.
        part = CONTROLLER / f"{role.name}.py"
        text += f" {role.name}_required " + (part.read_text(encoding="utf-8") if part.is_file() else "")
    for shared in role_docs.SHARED:
        if f"mlcluster.aws.{shared}" in text:
            files = [path for path in (role.parent / shared).rglob("*") if path.is_file()]
            text += without_comments("\n".join(path.read_text(encoding="utf-8") for path in files))
        if "removal" in (role / "tasks" / "remove.yml").read_text(encoding="utf-8"):
            text += f" {role.name}_remove_confirmed"
    # The switch works by rejecting, wherever the role does that.
    switch = f"{role.name}_safe_mode"
    # Whether something reads the fields of a role that decides on the node is asked below.
    domains = [domain for domain in DOMAINS.values() if domain.role == role.name]
    fields = {f"{role.name}_{option}" for domain in domains for option in domain.spec}
    names = [name for name in role_docs.read_options(role) if name != switch and name not in fields]
    unread = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert unread == [], "an option that no task, template or variable in use reads does nothing: use it or remove it"


def test_roles_with_node_configuration_are_covered(role: Path) -> None:
    rooms = {path.parent.name for path in NODE.glob("*/config.py")}
    assert rooms - OF_JOBS == {room for room, _spec, _config, _module in CONFIGS.values()} != set()
    name = "look" if has_look(role) else "main"
    modules = {key for task in load(role / "tasks" / f"{name}.yml") or [] for key in task}
    expected = {f"mlcluster.aws.{CONFIGS[role.name][3]}"} if role.name in CONFIGS else set()
    assert (f"mlcluster.aws.{PLANS}" in expected) == (role.name in DOMAINS)
    assert modules & {f"mlcluster.aws.{module}" for *_others, module in CONFIGS.values()} == expected


def has_look(role: Path) -> bool:
    return (role / "tasks" / "look.yml").is_file()


def test_configuration_uses_each_option(role: Path) -> None:
    """An option has its key in the argument spec, its field, its place in the look, and a reader in its room."""
    if role.name not in CONFIGS:
        return
    room, spec, config, module = CONFIGS[role.name]
    fields = list(fields_of(config))
    assert fields == list(spec), "give each option a key of ARGUMENT_SPEC and a field of the class, in one order"
    if module != PLANS:
        (look,) = (task for task in load(role / "tasks" / "look.yml") if f"mlcluster.aws.{module}" in task)
        passed = look[f"mlcluster.aws.{module}"]
        assert [name for name in fields if name not in passed] == [], "pass each in tasks/look.yml"
    # In config.py only attributes of self count: it reads others for their limits only.
    sources = [*NODE.glob(f"{room}/*.py"), NODE / "cli" / f"{room}.py", *NODE.glob("node/*.py")]
    attributes = [
        node
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and (path.name != "config.py" or ast.unparse(node.value) == "self")
    ]
    read = {node.attr for node in attributes}
    assert [name for name in fields if name not in read] == [], f"nothing of _node/{room} reads these fields"


def fields_of(config: Any) -> Iterator[str]:
    """The fields of a configuration, in the place of one that is a configuration itself those of that."""
    for field in dataclasses.fields(config):
        if dataclasses.is_dataclass(field.default_factory):
            yield from fields_of(field.default_factory)
        else:
            yield field.name


def test_private_names_are_marked(role: Path) -> None:
    names = [name for path in role.glob("vars/*.yml") for name in load(path) or {}]
    assert [name for name in names if not name.startswith(f"__{role.name}_")] == []


def test_entry_points(role: Path) -> None:
    specs = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    assert specs.keys() >= ENTRY_POINTS
    assert [name for name in specs if not (role / "tasks" / f"{name}.yml").is_file()] == []


def test_tasks_main_only_includes_parts(role: Path) -> None:
    lines = (role / "tasks" / "main.yml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= TASKS_MAIN_LINES
    modules = {key for task in load(role / "tasks" / "main.yml") for key in task} - {"name", "tags", "when"}
    plans = {"mlcluster.aws.node_plan", "register"}
    assert modules <= {"ansible.builtin.import_tasks", "ansible.builtin.include_tasks", *plans}


def test_task_names_start_with_part(role: Path) -> None:
    parts = [path for path in role.glob("tasks/*.yml") if path.name != "main.yml"]
    names = [task.get("name", "") for path in parts for task in tasks_of(load(path))]
    assert names
    assert [name for name in names if not TASK_NAME.fullmatch(name)] == []


def test_readme_table_is_fresh(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    fresh = role_docs.with_table(readme, role_docs.table(role_docs.read_options(role)))
    assert readme == fresh, "run make docs"


def test_role_decides_nothing_in_yaml(role: Path) -> None:
    if role.name not in CONFIGS:
        pytest.skip("it acts on the controller")
    variables = [line for path in role.glob("vars/*.yml") for line in path.read_text(encoding="utf-8").splitlines()]
    tasks = [task for path in role.glob("tasks/*.yml") for task in tasks_of(load(path) or []) if "block" not in task]
    assert len(variables) <= VARIABLE_LINES, "vars hold names and paths; decide in plan.py of its folder"
    assert len(tasks) <= TASKS, "act on the plan with the task files of roles/plan"
