# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every command of the documentation: where it runs, and its problems (CONTRIBUTING.md, Documentation).

``.venv/bin/python -m tests.docs_check.docs_commands`` lists all blocks of commands with their marks, then the problems.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.build import house_rules

from . import docs_markdown
from .docs_programs import JUDGES, Checkout, anything, is_own, spoken_of

CHECKOUT = Path(__file__).resolve().parents[2]
SHELLS = frozenset({"bash", "console"})
# Places that no test has: such commands are read, never run.
ELSEWHERE = frozenset({"aws", "net", "node", "slurm"})
AROUND_MAKE = frozenset({"make", "git", "cd", "export"})
ENDS = frozenset({"&&", "||", ";", "|", "&"})
PREFIXES = frozenset({"sudo", "time"})
SHOWN = re.compile(r"^# ([\w.-]+\.\w+)\b", re.MULTILINE)


@dataclass(frozen=True)
class Commands:
    """A block with commands: page, first line, language, mark, and its command lines with continuations joined."""

    page: str
    line: int
    language: str
    mark: str
    lines: tuple[str, ...]


def pages(root: Path) -> list[str]:
    """Return the names of the documentation's files."""
    return [name for name in house_rules.tracked_files(root) if name.endswith(".md")]


def command_lines(text: str) -> tuple[str, ...]:
    """Return the commands of a console block: lines that begin with ``$ ``, with those that they go on over."""
    lines: list[str] = []
    continues = False
    for line in text.splitlines():
        begins = line.startswith("$ ")
        if continues:
            lines[-1] += "\n" + line
        elif begins:
            lines.append(line[2:])
        continues = (continues or begins) and line.endswith("\\")
    return tuple(lines)


def script_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a script, without comments, with those that they go on over."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return tuple(line for line in map(str.strip, joined.splitlines()) if line and not line.startswith("#"))


def blocks(name: str, page: docs_markdown.Page) -> list[Commands]:
    """Return the blocks of a page that hold commands."""
    lines = {"bash": script_lines, "console": command_lines}
    return [
        Commands(name, block.line, block.language, block.mark, lines[block.language](block.text))
        for block in page.blocks
        if block.language in SHELLS
    ]


def _without_prefix(words: list[str]) -> list[str]:
    """Return a command without what stands before its program; what srun starts of ours is judged in its place."""
    while words and (words[0] in PREFIXES or re.match(r"[A-Za-z_]\w*=", words[0])):
        words = words[1:]
    if words[:1] == ["srun"]:
        for place, word in enumerate(words):
            if word == "mlcluster" or word.startswith("python3"):
                return words[place:]
    return words


def simple_commands(line: str) -> list[list[str]]:
    """Return the words of each simple command in a line, without comments, redirections, variables before it, and sudo.

    Raises ValueError for a line that is not a shell.
    """
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    redirected = False
    for word in lexer:
        if word in ENDS:
            commands.append([])
        elif word and set(word) <= set("<>&"):
            redirected = True
            if commands[-1] and commands[-1][-1] in ("1", "2"):
                commands[-1].pop()
        elif redirected:
            redirected = False
        else:
            commands[-1].append(word)
    return [stripped for words in commands if (stripped := _without_prefix(words))]


def program(word: str) -> str:
    """Return the name of a program: those of this build's environments, and the hook, without their path."""
    ours = re.match(r"\.venv[a-z-]*/bin/|(?:.*/)?on_node_configured\.sh$", word)
    return word.rpartition("/")[2] if ours else word


def judge(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """Yield the problems of one simple command; only paths are judged for a foreign program."""
    name = program(words[0])
    if is_own(words[0]):
        return
    if name in JUDGES:
        try:
            yield from JUDGES[name](words, checkout)
        except ValueError as error:
            yield str(error)
    else:
        yield from anything(words, checkout)


def judge_script(line: str, checkout: Checkout) -> Iterator[str]:
    """Yield the problems of a line of a script that is a command of ours or of Ansible."""
    try:
        commands = simple_commands(line)
    except ValueError:
        return
    for words in commands:
        if program(words[0]) in JUDGES:
            yield from (f"{' '.join(words)}: {problem}" for problem in judge(words, checkout))


def judge_line(line: str, checkout: Checkout) -> Iterator[str]:
    """Yield the problems of a command line."""
    try:
        commands = simple_commands(line)
    except ValueError as error:
        yield f"no shell understands {line!r}: {error}"
        return
    for words in commands:
        for problem in judge(words, checkout):
            yield f"{' '.join(words)}: {problem}"


def judge_code(text: str, checkout: Checkout) -> Iterator[str]:
    """Yield the problems of code within a sentence that is a command of ours or of Ansible."""
    name, space, _rest = text.removeprefix("sudo ").partition(" ")
    if not space or program(name) not in JUDGES:
        return
    if name != "mlcluster":
        yield from judge_line(text, checkout)
        return
    try:
        for words in simple_commands(text):
            yield from spoken_of(words)
    except ValueError as error:
        yield f"no shell understands {text!r}: {error}"


def _tested(block: Commands, checkout: Checkout) -> Iterator[str]:
    """Yield the problem of a mark whose test is missing."""
    path, _colons, name = block.mark.partition("::")
    if path not in checkout.files:
        yield f"there is no test {path}"
    elif name and f"def {name}(" not in (checkout.root / path).read_text(encoding="utf-8"):
        yield f"{path} has no {name}"


def judge_mark(block: Commands, checkout: Checkout) -> Iterator[str]:
    """Yield the problems of a block's mark."""
    if not block.mark:
        yield "mark where it runs with <!-- runs: here, make, aws, net, node, slurm, or a test --> on the line before"
    elif block.mark.startswith(("tests/", "molecule/")):
        yield from _tested(block, checkout)
    elif block.mark == "make":
        for line in block.lines:
            for words in simple_commands(line):
                if words[0] not in AROUND_MAKE:
                    yield f"{words[0]} is not make: give the block another mark"
    elif block.mark == "here":
        if any(is_own(word) for line in block.lines for words in simple_commands(line) for word in words):
            yield "what the reader has to fill in cannot run here: give the block another mark"
    elif block.mark not in ELSEWHERE:
        yield f"{block.mark} is not a mark"


def problems(name: str, page: docs_markdown.Page, checkout: Checkout) -> Iterator[str]:
    """Yield all problems of the commands of a page."""
    checkout.shown = {file for block in page.blocks for file in SHOWN.findall(block.text)}
    for block in blocks(name, page):
        place = f"{name}:{block.line}"
        if block.language == "console" and not block.lines:
            yield f"{place}: a console block without a line that begins with '$ ': call it text"
        yield from (f"{place}: {problem}" for problem in judge_mark(block, checkout))
        judge_one = judge_line if block.language == "console" else judge_script
        for line in block.lines:
            yield from (f"{place}: {problem}" for problem in judge_one(line, checkout))
    for code in page.codes:
        for problem in judge_code(code.text, checkout):
            yield f"{name}:{code.line}: {problem}"


def main() -> int:
    """List the blocks, then print the problems; return 1 if there is one."""
    checkout = Checkout(CHECKOUT)
    found: list[str] = []
    for name in pages(CHECKOUT):
        page = docs_markdown.read_file(CHECKOUT / name)
        for block in blocks(name, page):
            print(f"{block.mark or '-':<8} {name}:{block.line}: {' ; '.join(block.lines) or block.language}")
        found += problems(name, page, checkout)
    print("\n".join(found) if found else "no problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
