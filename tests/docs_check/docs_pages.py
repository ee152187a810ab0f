# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of the project's Markdown besides its commands: links, anchors, titles, blocks that do not parse."""

from __future__ import annotations

import ast
import json
import posixpath
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomllib
import yaml

from . import docs_markdown, role_docs

# Hosts of linked pages. There is no network in the tests: these are judged by their form alone.
HOSTS = re.compile(
    r"(?:[\w-]+\.)*(?:amazon\.com|ansible\.com|cisecurity\.org|debian\.org|github\.com|github\.io|jmespath\.org"
    r"|kernel\.org|lustre\.org|nvidia\.com|python\.org|pytorch\.org|redhat\.com|schedmd\.com|semver\.org|systemd\.io"
    r"|ubuntu\.com)"
)
# Languages whose blocks are looked at no closer.
PLAIN = frozenset({"console", "hcl", "ini", "mermaid", "text"})
# Directives of the site, and the page that may have them.
DIRECTIVES = {"{toctree}": "docs/index.md"}


class Pages:
    """The Markdown files of a checkout, each read once."""

    def __init__(self, root: Path, files: set[str]) -> None:
        self.root = root
        self.files = files
        self.read = {name: docs_markdown.read_file(root / name) for name in sorted(files) if name.endswith(".md")}


def link_problem(pages: Pages, name: str, target: str) -> str | None:
    """Return the problem of a link from page ``name``, or None."""
    parts = urlsplit(unquote(target))
    if parts.scheme:
        if parts.scheme != "https" or not parts.hostname:
            return f"{target} is not an https address"
        if not HOSTS.fullmatch(parts.hostname):
            return f"{parts.hostname} is not a host that is linked to so far: look at it, then add it to HOSTS"
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), parts.path)) if parts.path else name
    if path not in pages.files:
        return f"{target} leads to {path}, which is not there"
    if parts.fragment and path in pages.read and parts.fragment not in pages.read[path].anchors:
        return f"{target}: {path} has no heading with that anchor"
    return None


def link_problems(pages: Pages) -> Iterator[str]:
    """Yield all problems of links."""
    for name, page in pages.read.items():
        for link in page.links:
            if problem := link_problem(pages, name, link.target):
                yield f"{name}:{link.line}: {problem}"


def title_problems(pages: Pages) -> Iterator[str]:
    """Yield pages that do not begin with their only heading of the first level, or that leave out a level."""
    for name, page in pages.read.items():
        levels = [level for level, _title in page.titles]
        if levels[:1] != [1] or levels.count(1) != 1:
            yield f"{name}: it needs one heading of the first level, as the first"
        for before, after in zip(levels, levels[1:]):
            if after > before + 1:
                yield f"{name}: a heading of level {after} below one of level {before}"


class _AnyTag(yaml.SafeLoader):
    """YAML loader that accepts tags (!vault and CloudFormation's)."""


_AnyTag.add_multi_constructor("!", lambda loader, suffix, node: None)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _keys(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _keys(item)


class Variables:
    """The variables of the roles, to judge those that a page sets."""

    def __init__(self, root: Path, others: set[str]) -> None:
        self.known = {role.name: set(role_docs.read_options(role)) for role in role_docs.role_folders(root)}
        # Names that may begin like a role's option: another plugin's option, a play's variable.
        self.others = others

    def unknown(self, key: str) -> str | None:
        """Return the role whose variable a key pretends to be, or None."""
        for role, options in self.known.items():
            if key.startswith(f"{role}_") and key not in options and key not in self.others:
                return role
        return None


def _yaml(text: str, variables: Variables) -> str | None:
    for document in yaml.load_all(text, _AnyTag):
        for key in _keys(document):
            if role := variables.unknown(key):
                return f"{key} is not a variable of {role}"
    return None


def _bash(text: str, variables: Variables) -> str | None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return done.stderr.strip() or None


def _raising(parse: Callable[[str], Any]) -> Callable[[str, Variables], str | None]:
    def judge(text: str, variables: Variables) -> str | None:
        parse(text)
        return None

    return judge


PARSERS: dict[str, Callable[[str, Variables], str | None]] = {
    "bash": _bash,
    "json": _raising(json.loads),
    "python": _raising(ast.parse),
    "toml": _raising(tomllib.loads),
    "yaml": _yaml,
}


def block_problem(name: str, block: docs_markdown.Block, variables: Variables) -> str | None:
    """Return the problem of a fenced block, or None."""
    language = block.language
    if DIRECTIVES.get(language) == name or language in PLAIN:
        return None
    if language not in PARSERS:
        return f"the block's language is {language or 'not named'}: use one of {', '.join(sorted({*PLAIN, *PARSERS}))}"
    try:
        return PARSERS[language](block.text, variables)
    except (ValueError, SyntaxError, yaml.YAMLError) as error:
        return f"this is not {language}: {error}"


def block_problems(pages: Pages, variables: Variables) -> Iterator[str]:
    """Yield all problems of fenced blocks."""
    for name, page in pages.read.items():
        for block in page.blocks:
            if problem := block_problem(name, block, variables):
                yield f"{name}:{block.line}: {problem}"
