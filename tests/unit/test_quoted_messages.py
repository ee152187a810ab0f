# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guides that explain what the collection says quote sentences that it really says.

A table whose first heading is ``what it says`` has only such sentences in its first column, each in backticks; a …
stands for what differs from case to case.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
HEADING = "what it says"
# Stands in the corpus for what is filled in when a sentence is said.
FILLED = "\0"
# Shorter pieces are found anywhere.
LEAST = 8


def python_texts(path: Path) -> list[str]:
    """Every text of a Python file, with a mark for each value that is filled in."""
    texts = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else FILLED for part in node.values)
            texts.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


def other_text(path: Path) -> str:
    """A YAML file or a shell script on one line, with a mark for each value that is filled in."""
    text = re.sub(r"\{\{.*?\}\}", FILLED, path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"\$\{[^}]*\}|\$\w+", FILLED, text) if path.suffix == ".sh" else text
    return " ".join(text.split())


@pytest.fixture(scope="module")
def corpus():
    texts = [
        text
        for folder in ("plugins", "hooks", "roles/slurm_jobs/files")
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
        for text in python_texts(path)
    ]
    others = [*CHECKOUT.glob("roles/**/*.yml"), *CHECKOUT.glob("playbooks/**/*.yml"), *CHECKOUT.glob("hooks/*.sh")]
    return "\n".join(texts + [other_text(path) for path in sorted(others)])


def quotes(page: str) -> list[str]:
    """What the first columns of the tables in question quote."""
    found, inside = [], False
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == HEADING:
            inside = True
        elif inside and set(cells[0]) - set("-: "):
            found += re.findall(r"`([^`]+)`", cells[0]) or [f"nothing is quoted in {cells[0]!r}"]
    return found


def pieces(quote: str) -> list[str]:
    """The parts of a quotation between what differs, in order."""
    return [part.strip() for part in quote.split("…") if part.strip()]


PAGES = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for path in CHECKOUT.glob("docs/**/*.md")
    if f"| {HEADING} |" in path.read_text(encoding="utf-8")
)


def test_there_are_such_pages():
    assert "docs/guides/local-disk-recovery.md" in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_quotes_is_really_said(page, corpus):
    wrong = []
    for quote in quotes((CHECKOUT / page).read_text(encoding="utf-8")):
        parts = pieces(quote)
        said = all(part in corpus for part in parts) and any(len(part) >= LEAST for part in parts)
        wrong += [] if said else [quote]
    assert not wrong, f"{page} quotes what nothing says: {wrong}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("| `a … b`, `c` | x |", ["a … b", "c"]),
        ("| nothing | x |", ["nothing is quoted in 'nothing'"]),
    ],
)
def test_quotations_are_those_of_the_first_column(line, expected):
    page = f"| {HEADING} | do |\n|---|---|\n{line}\n\n| other | do |\n|---|---|\n| `z` | y |\n"
    assert quotes(page) == expected
