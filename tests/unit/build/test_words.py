# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.build import house_rules, words


def lines(group, path, text):
    return [int(hit.split(":")[1]) for hit in words.hits(group, path, text)]


def page(text):
    return lines("pages", "docs/x.md", text)


@pytest.mark.parametrize(
    "text",
    [
        "It tells the reader.",
        "Nobody reads it.",
        "For whoever reads it.",
        "The wishes of a job.",
        "It is left undone.",
        "The record vouches for it.",
        "All checks run side by\nside.",
        "It continues of its own accord.",
        "The file is written anew.",
        "A node that is unfit.",
        "What cannot be read is skipped.",
        "It ends. What is left stays.",
        "- Who asks is not checked.",
        "| name | What it does is described. |",
        "One that fails is skipped.",
        "It fails for what is none.",
        "# A heading\n\n[What](x.md) tells.",
    ],
)
def test_old_words_and_clauses_in_page_are_found(text):
    assert page(text)


@pytest.mark.parametrize(
    "text",
    [
        "It returns the mounts. `it says so` is a quote, and [a link](https://example.org/tells).",
        "```text\nthe node says no\n```",
        "    ```text\n    it says\n    ```",
        "# What it does",
        "What is a bundle? An archive.",
        "**What do I need?** Root.",
        "<!-- variables -->\n| a | what is told |\n<!-- /variables -->",
        "nvidia-smi prints: told <!-- words: quote of nvidia-smi -->",
        "Somewhat, and an essay.",
    ],
)
def test_plain_text_quotes_and_questions_pass(text):
    assert page(text) == []


def test_quote_spans_lines_but_no_paragraph():
    assert page("`it says\nso` and it tells\n\nso` says") == [2, 4]


def test_mark_without_program_does_not_count():
    assert page("It says <!-- words: quote of -->") == [1]


PYTHON = '''"""What it says."""
DOCUMENTATION = """
description: one that is told
"""
told = 1  # says


def wish(undone, plain):
    """Return it."""
    return f"it {told} says", "nobody"


def test_it_says_so():
    wishes = "ü says"
'''


@pytest.mark.parametrize(
    ("group", "found"),
    [
        ("docstrings_and_comments", [1, 1, 3, 5]),
        ("strings", [10, 10, 14]),
        ("names", [5, 8, 8, 14]),
        ("tests_names", [13]),
    ],
)
def test_python_hits_are_split_by_group(group, found):
    path = "tests/x.py" if group == "tests_names" else "plugins/x.py"
    assert lines(group, path, PYTHON) == found


def test_yaml_hits_have_their_lines():
    assert lines("yaml", "roles/a/tasks/main.yml", "# Plain\n- name: What it says\n") == [2, 2]


@pytest.mark.parametrize("group", words.GROUPS)
def test_file_outside_group_is_skipped(group):
    assert lines(group, "LICENSE", "says") == []


def test_recorded_file_is_skipped():
    (folder,) = words.RECORDED
    assert lines("yaml", f"{folder}deef7eb/bundle/on_node_configured.sh", "says") == []
    assert lines("yaml", "tests/unit/compat/on_node_configured.sh", "says") == [1]


def test_folders_of_recorded_files_exist():
    assert all(any((house_rules.CHECKOUT / folder).iterdir()) for folder in words.RECORDED)


def test_rule_checks_enforced_groups_only(monkeypatch):
    monkeypatch.setattr(words, "ENFORCED", ("pages",))
    assert list(words.old_words("docs/x.md", "it\nsays")) == [
        "docs/x.md:2: 'says': use report, state, show or mean",
    ]
    assert list(words.old_words("plugins/x.py", PYTHON)) == []


HITS = {
    "pages": ("docs/x.md", "It says.\n"),
    "docstrings_and_comments": ("plugins/x.py", "# It says\n"),
    "strings": ("plugins/x.py", "x = 'it says'\n"),
    "names": ("plugins/x.py", "says = 1\n"),
    "yaml": ("roles/a/tasks/main.yml", "# It says\n"),
    "tests_names": ("tests/x.py", "def test_it_says(): pass\n"),
}


def test_every_group_is_enforced():
    assert set(words.ENFORCED) == set(words.GROUPS)


@pytest.mark.parametrize("group", words.GROUPS)
def test_hit_of_group_is_problem(group):
    path, text = HITS[group]
    assert list(words.old_words(path, text)) == [f"{path}:1: 'says': use report, state, show or mean"]


def test_option_prints_hits_of_group(monkeypatch, tmp_path, capsys):
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles/a.yml").write_text("# it says $\n", encoding="utf-8")
    monkeypatch.setattr(house_rules, "CHECKOUT", tmp_path)
    assert house_rules.main(["--words", "yaml", "roles/a.yml"]) == 1
    assert capsys.readouterr().out == (
        "roles/a.yml:1: 'says': use report, state, show or mean\n1 hits in the group yaml\n"
    )
    assert house_rules.main(["--words", "names", "roles/a.yml"]) == 0
