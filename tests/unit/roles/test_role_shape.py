# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every role has the one shape that the collection promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs_check import role_docs

ROLES = role_docs.role_folders(role_docs.CHECKOUT)
TASK_NAME = re.compile(r"[A-Z][a-z]+ \| [A-Z].*")
ENTRY_POINTS = {"main", "validate", "verify"}
TASKS_MAIN_LINES = 20

pytestmark = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks_of(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All tasks of a file, those inside blocks too."""
    for task in content:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part, []))


def test_role_has_its_files(role: Path) -> None:
    assert (role / "tasks" / "main.yml").is_file()
    assert (role / "README.md").is_file()


def test_defaults_are_those_of_the_argument_specs(role: Path) -> None:
    options = role_docs.read_options(role)
    promised = {name: spec["default"] for name, spec in options.items() if "default" in spec}
    hint = "give each the same default in defaults/main.yml (left) and meta/argument_specs.yml (right)"
    assert load(role / "defaults" / "main.yml") == promised, hint


def test_variables_without_a_default_are_shown_commented_out(role: Path) -> None:
    text = (role / "defaults" / "main.yml").read_text(encoding="utf-8")
    without = [name for name, spec in role_docs.read_options(role).items() if "default" not in spec]
    missing = [name for name in without if not re.search(rf"^# {name}:", text, re.MULTILINE)]
    assert missing == [], "write a line '# NAME: example' for each into defaults/main.yml"


def test_every_default_has_a_comment(role: Path) -> None:
    lines = (role / "defaults" / "main.yml").read_text(encoding="utf-8").splitlines()
    blocks = "\n".join(lines).split("\n\n")
    without = [block for block in blocks if not block.removeprefix("---\n").startswith("# ")]
    assert without == [], "write a comment above each in defaults/main.yml"


def test_public_names_carry_the_role(role: Path) -> None:
    names = role_docs.read_options(role)
    assert [name for name in names if not name.startswith(f"{role.name}_")] == []


def test_private_names_are_marked(role: Path) -> None:
    names = [name for path in role.glob("vars/*.yml") for name in load(path) or {}]
    assert [name for name in names if not name.startswith(f"__{role.name}_")] == []


def test_entry_points(role: Path) -> None:
    specs = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    assert specs.keys() >= ENTRY_POINTS
    assert [name for name in specs if not (role / "tasks" / f"{name}.yml").is_file()] == []


def test_tasks_main_is_a_contents_page(role: Path) -> None:
    lines = (role / "tasks" / "main.yml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= TASKS_MAIN_LINES
    modules = {key for task in load(role / "tasks" / "main.yml") for key in task} - {"name", "tags", "when"}
    assert modules <= {"ansible.builtin.import_tasks", "ansible.builtin.include_tasks"}


def test_task_names_say_their_part(role: Path) -> None:
    parts = [path for path in role.glob("tasks/*.yml") if path.name != "main.yml"]
    names = [task.get("name", "") for path in parts for task in tasks_of(load(path))]
    assert names
    assert [name for name in names if not TASK_NAME.fullmatch(name)] == []


def test_readme_table_is_fresh(role: Path) -> None:
    readme = (role / "README.md").read_text(encoding="utf-8")
    fresh = role_docs.with_table(readme, role_docs.table(role_docs.read_options(role)))
    assert readme == fresh, "run make docs"
