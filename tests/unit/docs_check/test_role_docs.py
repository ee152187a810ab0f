# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.docs_check import role_docs

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


def test_only_table_of_readme_is_written():
    readme = "# x\n<!-- variables -->\nold\n<!-- /variables -->\ntail\n"
    assert role_docs.with_table(readme, "new") == "# x\n<!-- variables -->\nnew\n<!-- /variables -->\ntail\n"


@pytest.mark.parametrize("readme", ["# x\n", "<!-- variables -->\n"])
def test_readme_without_marks_is_rejected(readme):
    with pytest.raises(ValueError, match="are missing"):
        role_docs.with_table(readme, "new")
