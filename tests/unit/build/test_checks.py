# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.build import lint, molecule, sanity
from tests.docs_check import role_docs


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.sh", "", True),
        ("run", "#!/usr/bin/env bash\n", True),
        ("hook", "#!/bin/sh\n", True),
        ("tool", "#!/usr/bin/env python3\n", False),
        ("unit.sh.j2", "#!/bin/bash\n{{ x }}\n", False),
        ("notes", "plain\n", False),
        ("empty", "", False),
    ],
)
def test_shell_scripts_are_told_from_others(monkeypatch, tmp_path, name, content, expected):
    monkeypatch.setattr(lint, "CHECKOUT", tmp_path)
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert lint.is_shell(name) is expected


def test_a_check_tells_its_status_and_words():
    name, status, _seconds, output = lint.run_check(("demo", ["{python}", "-c", "print('words'); raise SystemExit(4)"]))
    assert (name, status, output) == ("demo", 4, "words\n")


def test_a_check_without_its_program_asks_for_set_up():
    _name, status, _seconds, output = lint.run_check(("demo", ["no-such-program"]))
    assert (status, output) == (127, "no-such-program is not there: run make setup first.")


def test_one_failed_check_fails_all(monkeypatch, capsys):
    checks = {"good": ["{python}", "-c", ""], "bad": ["{python}", "-c", "raise SystemExit(1)"]}
    monkeypatch.setattr(lint, "CHECKS", checks)
    assert lint.main() == 1
    assert capsys.readouterr().out.splitlines()[-1] == "failed: bad"


def test_stand_ins_are_written_for_every_pip_that_is_asked_for(tmp_path):
    internal = tmp_path / "_internal"
    internal.mkdir()
    (internal / "python_requirements.py").write_text(
        "dict(\n  pip='24.2',\n)\nx = dict(pip='21.3.1')\n", encoding="utf-8"
    )
    sanity.write_stand_ins(tmp_path, tmp_path)
    cache = tmp_path / ".ansible" / "test" / "cache"
    assert sorted(path.name for path in cache.iterdir()) == ["get_pip_21_3_1.py", "get_pip_24_2.py"]


def test_an_ansible_test_that_asks_for_none_is_reported(tmp_path):
    (tmp_path / "_internal").mkdir()
    (tmp_path / "_internal" / "python_requirements.py").write_text("nothing\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="does not say which pip it wants"):
        sanity.write_stand_ins(tmp_path, tmp_path)


def test_sanity_leaves_the_user_s_home_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert sanity.environment(sanity.cache_home())["HOME"] == str(tmp_path / "mlcluster" / "ansible-test")


def test_container_scenarios_are_those_without_a_virtual_node(tmp_path):
    for name in ("default", "nvme_raid0", "nvme_raid0_vm", "shared"):
        (tmp_path / name).mkdir()
    for name in ("default", "nvme_raid0", "nvme_raid0_vm"):
        (tmp_path / name / "molecule.yml").touch()
    assert molecule.scenarios(tmp_path) == ["default", "nvme_raid0", "nvme_raid0_vm"]
    assert molecule.in_containers(molecule.scenarios(tmp_path)) == ["default", "nvme_raid0"]


def test_an_unknown_scenario_is_refused(capsys):
    assert molecule.main(["no_such"]) == 2
    assert "no scenario no_such: there are default" in capsys.readouterr().err


OPTIONS = {
    "x_mode": {"type": "str", "default": "0755", "description": "A|B."},
    "x_on": {"type": "bool", "default": True, "description": ["One.", "Two."]},
    "x_free": {"description": "Not set.", "choices": ["a", "b"]},
    "x_list": {
        "type": "list",
        "elements": "dict",
        "default": [{"path": "a"}] * 10,
        "description": "Things.",
        "options": {"path": {"type": "str", "required": True, "description": "Path."}},
    },
}


def test_table_of_variables():
    assert role_docs.table(OPTIONS).splitlines()[2:] == [
        "| `x_mode` | str | `0755` | A\\|B. |",
        "| `x_on` | bool | `true` | One. Two. |",
        "| `x_free` | str | not set | Not set. Choices: `a`, `b`. |",
        "| `x_list` | list of dict | see `defaults/main.yml` | Things. |",
        "| `x_list[].path` | str | required | Path. |",
    ]


def test_only_the_table_of_a_readme_is_written():
    readme = "# x\n<!-- variables -->\nold\n<!-- /variables -->\ntail\n"
    assert role_docs.with_table(readme, "new") == "# x\n<!-- variables -->\nnew\n<!-- /variables -->\ntail\n"


@pytest.mark.parametrize("readme", ["# x\n", "<!-- variables -->\n"])
def test_a_readme_without_the_marks_is_refused(readme):
    with pytest.raises(ValueError, match="are missing"):
        role_docs.with_table(readme, "new")
