# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Markdown of this project: headings with their anchors, links, fenced blocks, code within lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

MARK = re.compile(r"<!--\s*runs:\s*(.*?)\s*-->")
NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, first line (from 1) and the mark on the line before it ('' without one)."""

    language: str
    text: str
    line: int
    mark: str


@dataclass(frozen=True)
class Code:
    """Code within a line: its text and the line (from 1) of the paragraph or table row it stands in."""

    text: str
    line: int


@dataclass(frozen=True)
class Link:
    """A link or image: where to, and the line (from 1) of the paragraph or table row it stands in."""

    target: str
    line: int


@dataclass
class Page:
    """A Markdown file, read."""

    anchors: set[str] = field(default_factory=set)
    titles: list[tuple[int, str]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    codes: list[Code] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def anchor(title: str) -> str:
    """Return the anchor that a code host, and MyST, give a heading with this text."""
    return NOT_IN_ANCHOR.sub("", title.strip().lower()).replace(" ", "-")


def _plain(inline: Token) -> str:
    """Return the text of a line without markup."""
    return "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))


def _add_heading(page: Page, level: int, title: str) -> None:
    name = anchor(title)
    number = 0
    # A second heading of that name gets a number, as everywhere.
    unique = name
    while unique in page.anchors:
        number += 1
        unique = f"{name}-{number}"
    page.anchors.add(unique)
    page.titles.append((level, title))


def _add_inline(page: Page, inline: Token, line: int) -> None:
    for child in inline.children or []:
        target = child.attrGet("href" if child.type == "link_open" else "src")
        if child.type in ("link_open", "image") and isinstance(target, str):
            page.links.append(Link(target, line))
        elif child.type == "code_inline":
            page.codes.append(Code(child.content, line))


def read(text: str) -> Page:
    """Read the text of a Markdown file."""
    page = Page()
    mark, mark_ends = "", -1
    level, line = 0, 1
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map:
            line = token.map[0] + 1
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "inline":
            if level:
                _add_heading(page, level, _plain(token))
                level = 0
            _add_inline(page, token, line)
        elif token.type == "html_block" and token.map and (found := MARK.search(token.content)):
            mark, mark_ends = found.group(1), token.map[1]
        elif token.type in ("fence", "code_block") and token.map:
            near = mark if mark_ends in (token.map[0], token.map[0] + 1) else ""
            page.blocks.append(Block(token.info.strip(), token.content, line, near))
    return page


def read_file(path: Path) -> Page:
    """Read a Markdown file."""
    return read(path.read_text(encoding="utf-8"))
