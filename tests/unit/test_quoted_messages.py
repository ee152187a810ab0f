# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that the guides quote exist in the code.

A table whose first heading is ``message`` has only such messages in its first column, each in backticks; a …
stands for values that differ.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
HEADING = "message"
# Stands in the corpus for a value that is filled in when the message is printed.
FILLED = "\0"
DISKS = "docs/guides/local-disk-recovery.md"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
# Shorter pieces are found anywhere.
MIN_LENGTH = 8


def python_texts(path: Path) -> list[str]:
    """Return every string of a Python file, with a mark for each value that is filled in."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(value) for node in joined for value in node.values}
    plain = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in parts)
    return [
        "".join(str(value.value) if isinstance(value, ast.Constant) else FILLED for value in node.values)
        for node in joined
    ] + [node.value for node in plain if isinstance(node.value, str)]


def other_text(path: Path) -> str:
    """Return a YAML file or a shell script as one line, with a mark for each value that is filled in."""
    text = re.sub(r"\{\{.*?\}\}", FILLED, path.read_text(encoding="utf-8"), flags=re.DOTALL)
    if path.suffix == ".sh":
        # A message may continue in the next argument, which the shell joins by a blank.
        text = re.sub(r"\$\{[^}]*\}|\$\w+", FILLED, re.sub(r'" \\\n\s*"', " ", text))
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
    """Return the quotes in the first columns of these tables."""
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
    """Return the fixed parts of a quote, in order."""
    return [part.strip() for part in quote.split("…") if part.strip()]


PAGES = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for path in CHECKOUT.glob("docs/**/*.md")
    if f"| {HEADING} |" in path.read_text(encoding="utf-8")
)


def test_pages_with_quotes_are_found():
    assert DISKS in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_quotes_of_page_exist_in_code(page, corpus):
    wrong = []
    for quote in quotes((CHECKOUT / page).read_text(encoding="utf-8")):
        parts = pieces(quote)
        known = all(part in corpus for part in parts) and any(len(part) >= MIN_LENGTH for part in parts)
        wrong += [] if known else [quote]
    assert not wrong, f"{page} quotes messages that do not exist: {wrong}"


# Parts of messages, and reasons of actions, that need no entry.
PARTS = (
    "# Written by mlcluster.aws",
    "; to use what",
    ": look with 'lvs' and 'systemctl status', repair it, then run again",
    "it would take the disks back",
    "not an instance-store disk (",
    "nvme_raid0_existing: replace together with",
    "so nothing was touched; to destroy it and build again",
    "the disks are mounted on",
    "the record of the last run on this node",
)


def sentences(path: Path) -> list[str]:
    """Return the strings of a Python file that are neither names nor documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)}
    return [text for text in python_texts(path) if len(text) >= 25 and " " in text and text not in documentation]


@pytest.mark.parametrize("module", ["plan", "obstacles", "owner", "volume"])
def test_every_refusal_of_local_disks_is_explained(module):
    explained = [pieces(quote) for quote in quotes((CHECKOUT / DISKS).read_text(encoding="utf-8"))]
    path = CHECKOUT / "plugins" / "module_utils" / "_node" / "storage" / f"{module}.py"
    missing = [
        text
        for text in sentences(path)
        if not any(all(part in text for part in parts) for parts in explained)
        and not any(part in text for part in PARTS)
    ]
    assert missing == [], f"add a line for each to {DISKS}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("| `a … b`, `c` | x |", ["a … b", "c"]),
        ("| nothing | x |", ["nothing is quoted in 'nothing'"]),
    ],
)
def test_quotations_are_those_of_first_column(line, expected):
    page = f"| {HEADING} | do |\n|---|---|\n{line}\n\n| other | do |\n|---|---|\n| `z` | y |\n"
    assert quotes(page) == expected
