# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words and sentence forms that this project does not use, and what to write instead.

``python -m tests.build.house_rules --words GROUP`` prints all hits of a group, also of one that is not enforced yet.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Groups that the house rules check. A new group is added here once `--words GROUP` prints nothing.
ENFORCED: tuple[str, ...] = ("pages", "docstrings_and_comments", "strings", "names", "yaml", "tests_names")

# A word as a pattern, and what to write instead. Checked in every group.
WORDS = {
    r"tell|tells|told|telling": "report, return, show or pass",
    r"say|says|said|saying": "report, state, show or mean",
    r"unsaid": "not reported",
    r"undone": "skipped, or not done",
    r"wish\w*": "option, request or want",
    r"nobody": "no one, no user or no program",
    r"whoever": "anyone who, or the reader, the caller, the owner",
    r"vouch\w*": "confirm or prove",
    r"side\s+by\s+side": "in parallel, or beside each other",
    r"likewise": "also, or in the same way",
    r"of its own\s+accord": "automatically",
    r"goes\s+on": "continues",
    r"anew": "again",
    r"unfit": "what it must not do, or what is wrong",
    r"fate": "what happens to it",
}
# Clauses in the place of a noun. Checked in prose, not in names.
_START = r"(?:\A|(?<=[.!?:;] )|(?<=[.!?:;]\n)|(?<=\n\n)|(?<=\| )|(?<=\*\* )|^\s*(?:[-*#]|\d+\.|\"\"\")\s*)"
CLAUSES = {
    # A heading or a question may begin like that.
    _START + r"(?:What|Who|Whose)\b(?![^.|\n]*(?:\n[^.|\n]+)*\?)": "a noun as the subject: 'An unreadable value …'",
    _START + r"One (?:that|who|which|whose)\b": "a noun as the subject: 'A file that …'",
    r"\b(?:what|that|which|who|one|it|whose) (?:is|are|was) none\b": "name the thing: 'is not a list'",
}
# Folders of recorded files, and why their words stay as they are.
RECORDED = {"tests/unit/compat/fixtures/": "files that an earlier version of the project wrote"}
# Only the output of another program may be quoted with such words in prose or in a test.
QUOTE = re.compile(r"words: quote of \w+")

_ANYWHERE = {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): use for word, use in WORDS.items()}
_PROSE = {**_ANYWHERE, **{re.compile(clause, re.MULTILINE): use for clause, use in CLAUSES.items()}}
_NOT_PROSE = (
    # Tables that a generator writes from sources of other groups.
    re.compile(r"<!-- variables -->.*?<!-- /variables -->", re.DOTALL),
    re.compile(r"^( *)(```+).*?^\1\2 *$", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^#+ .*$", re.MULTILINE),
    re.compile(r"(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)", re.DOTALL),
    re.compile(r"(?<=\])\([^()\s]*\)"),
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_ANSIBLE_DOCS = frozenset({"DOCUMENTATION", "EXAMPLES", "RETURN"})


@dataclass(frozen=True)
class Hit:
    """A word that is not used here, with its line and what to write instead."""

    line: int
    word: str
    use: str


def page_hits(text: str) -> Iterator[Hit]:
    """Yield hits in the prose of a Markdown page or a changelog: code, quoted messages and headings are left out."""
    words = _found(_blanked(text, _NOT_PROSE[:3] + _NOT_PROSE[4:]), _ANYWHERE)
    clauses = _found(_blanked(text, _NOT_PROSE), _PROSE)
    yield from _unquoted(text, sorted({*words, *clauses}, key=lambda hit: (hit.line, hit.word)))


def comment_hits(text: str) -> Iterator[Hit]:
    """Yield hits in the docstrings, the comments and the Ansible documentation of a Python file."""
    parts = [*_strings(text, documentation=True), *_comments(text)]
    yield from _unquoted(text, [hit for start, part in parts for hit in _found(part, _PROSE, start)])


def string_hits(text: str) -> Iterator[Hit]:
    """Yield hits in the strings of a Python file that are not documentation."""
    parts = _strings(text, documentation=False)
    yield from _unquoted(text, [hit for start, part in parts for hit in _found(part, _PROSE, start)])


def name_hits(text: str) -> Iterator[Hit]:
    """Yield hits in the names that a Python file defines."""
    for line, name in _defined(ast.parse(text)):
        if not name.startswith("test_"):
            yield from _found(_split(name), _ANYWHERE, line)


def test_name_hits(text: str) -> Iterator[Hit]:
    """Yield hits in the names of the tests of a Python file."""
    for line, name in _defined(ast.parse(text)):
        if name.startswith("test_"):
            yield from _found(_split(name), _ANYWHERE, line)


def yaml_hits(text: str) -> Iterator[Hit]:
    """Yield hits in a YAML file or a template: names, descriptions, messages and comments."""
    yield from _unquoted(text, _found(text, _PROSE))


def _blanked(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    for pattern in patterns:
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    return text


def _found(text: str, patterns: dict[re.Pattern[str], str], first: int = 1) -> list[Hit]:
    """Return the hits in a text whose first line has this number."""
    return [
        Hit(first + text.count("\n", 0, found.start()), " ".join(found.group().split()), use)
        for pattern, use in patterns.items()
        for found in pattern.finditer(text)
    ]


def _unquoted(text: str, hits: list[Hit]) -> Iterator[Hit]:
    """Yield the hits whose line has no mark of a quote."""
    lines = text.splitlines()
    yield from (hit for hit in hits if not QUOTE.search(lines[hit.line - 1]))


def _segment(text: list[str], node: ast.expr) -> str:
    """Return the source of an expression. Columns count bytes, as in the tree."""
    lines = text[node.lineno - 1 : node.end_lineno]
    lines[-1] = lines[-1].encode()[: node.end_col_offset].decode()
    return "".join([lines[0].encode()[node.col_offset :].decode(), *lines[1:]])


def _documentation(tree: ast.AST) -> set[int]:
    """Return the ids of nodes that are docstrings or Ansible documentation."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            found.add(id(node.body[0].value))  # type: ignore[attr-defined]
        if isinstance(node, ast.Assign) and {ast.unparse(name) for name in node.targets} & _ANSIBLE_DOCS:
            found.add(id(node.value))
    return found


def _strings(text: str, documentation: bool) -> list[tuple[int, str]]:
    """Return the first line and the source of each string that is documentation, or of each other one."""
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    documented = _documentation(tree)
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inner = {id(part) for node in joined for part in ast.walk(node) if part is not node}
    found = []
    for node in ast.walk(tree):
        if id(node) in inner or (id(node) in documented) is not documentation:
            continue
        if isinstance(node, ast.JoinedStr):
            found.append((node.lineno, re.sub(r"\{[^{}\n]*\}", "{}", _segment(lines, node))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, _segment(lines, node)))
    return found


def _comments(text: str) -> list[tuple[int, str]]:
    """Return the line and the text of each comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def _defined(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each function, class, argument and variable that is defined."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _split(name: str) -> str:
    """Return the words of a name in snake case or camel case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name)


@dataclass(frozen=True)
class Group:
    """Files by a pattern of their path, and the function that searches them."""

    files: re.Pattern[str]
    hits: Callable[[str], Iterator[Hit]]


_PYTHON = re.compile(r".*\.py")
_SHIPPED = r"(?:plugins|hooks|roles)/.*"
GROUPS = {
    "pages": Group(re.compile(r"[^/]*\.md|(?:docs|roles|tests)/.*\.md|changelogs/.*\.ya?ml"), page_hits),
    "docstrings_and_comments": Group(_PYTHON, comment_hits),
    "strings": Group(re.compile(_SHIPPED + r"\.py"), string_hits),
    "names": Group(_PYTHON, name_hits),
    "yaml": Group(
        re.compile(r"(?:roles|playbooks|molecule|inventories|docs/examples|tests)/.*\.(?:yml|yaml|j2|sh)|[^/]*\.ya?ml"),
        yaml_hits,
    ),
    "tests_names": Group(re.compile(r"tests/.*\.py"), test_name_hits),
}


def hits(group: str, path: str, text: str) -> Iterator[str]:
    """Yield a line for each hit in a file; none for a recorded file or a file that is not of the group."""
    if GROUPS[group].files.fullmatch(path) and not path.startswith(tuple(RECORDED)):
        for hit in sorted(GROUPS[group].hits(text), key=lambda hit: hit.line):
            yield f"{path}:{hit.line}: '{hit.word}': use {hit.use}"


def old_words(path: str, text: str) -> Iterator[str]:
    """Yield words that this project does not use, in the groups that are enforced."""
    for group in ENFORCED:
        yield from hits(group, path, text)
