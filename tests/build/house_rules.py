# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of this project that no general checker knows.

Each rule is a function from (path inside the checkout, text) to the problems that it finds.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.build.layers import layers
from tests.build.mirror import mirror
from tests.build.pointers import pointers
from tests.build.words import GROUPS, hits, old_words

CHECKOUT = Path(__file__).resolve().parents[2]
TARGET_PYTHON = (3, 9)

# What only one machine or one registry mirror has may not be named: a build that works anywhere
# lets the package tools find their own way.
FOREIGN = {
    "a package registry": re.compile(
        r"\b(?:pypi|test\.pypi)\.org|pythonhosted\.org|npmjs\.(?:org|com)|(?:deb|security|ftp)\.debian\.org"
        r"|(?:archive|security|ports)\.ubuntu\.com|proxy\.golang\.org"
    ),
    "a path of one machine": re.compile(r"(?<![\w.$}{-])/work/(?!dir)|/root/\.pyenv\b|\.\./shared\b"),
}
UNFINISHED = re.compile(r"\b(?:TODO|FIXME)\b|^(?:<<<<<<<|>>>>>>>) ", re.MULTILINE)
# Parentheses inside the filter's argument may nest once; what follows decides whether the order can be seen.
TREE_REMOVERS = ("plugins/module_utils/", "plugins/modules/", "hooks/", "roles/")
SET_FILTER = re.compile(
    r"\|\s*(difference|intersect|union|symmetric_difference)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    r"(?!\s*\|\s*(?:sort|length|count)\b)"
)
# A condition, or a filter that takes one by its name, and its pattern.
CONDITION = re.compile(
    r"\b(?P<test>match|regex|search)(?:['\"]\s*,|\()\s*(?P<quote>['\"])(?P<pattern>(?:\\.|(?!(?P=quote)).)*)(?P=quote)"
    r"(?P<rest>[^)]*)",
    re.DOTALL,
)
# What in a pattern is not itself: an escaped character, and a class.
NOT_ITSELF = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
PATTERN_CALLS = frozenset({"compile", "match", "search", "fullmatch", "findall", "finditer", "split", "sub", "subn"})
LINE_FEED = "$ lets a line feed stand at the end: use {}"
LICENCE_LINE = "# SPDX-License-Identifier: GPL-3.0-or-later"

Rule = Callable[[str, str], Iterator[str]]


def foreign_names(path: str, text: str) -> Iterator[str]:
    """Yield registry hosts and paths that exist on one machine only."""
    for number, line in enumerate(text.splitlines(), 1):
        for what, pattern in FOREIGN.items():
            if found := pattern.search(line):
                yield f"{path}:{number}: names {what}: {found.group()}"


def unfinished(path: str, text: str) -> Iterator[str]:
    """Yield marks of unfinished work."""
    for found in UNFINISHED.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: unfinished work: {found.group().strip()}"


def licence(path: str, text: str) -> Iterator[str]:
    """Yield Python files and scripts without a licence header."""
    if path.endswith(".py") and text and LICENCE_LINE not in text[:500]:
        yield f"{path}:1: the line '{LICENCE_LINE}' is missing at the top"


def target_syntax(path: str, text: str) -> Iterator[str]:
    """Yield errors in code for nodes that the oldest supported Python cannot parse."""
    if path.endswith(".py") and path.startswith(("plugins/modules/", "plugins/module_utils/")):
        try:
            ast.parse(text, feature_version=TARGET_PYTHON)
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: not Python {TARGET_PYTHON[0]}.{TARGET_PYTHON[1]}: {error.msg}"


def unordered(path: str, text: str) -> Iterator[str]:
    """Yield uses of Ansible's set filters, whose order changes from run to run."""
    if path.endswith((".yml", ".j2")):
        for found in SET_FILTER.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield (
                f"{path}:{line}: {found.group(1)} loses the order: "
                "use select('in', ...) or reject('in', ...), or end with | sort or | length"
            )


def tree_removers(path: str, text: str) -> Iterator[str]:
    """Yield uses of shutil.rmtree in code for nodes: it enters a file system that is mounted inside, and empties it."""
    # The source of this child is run without the collection; its directory is its own, in that for temporary files.
    if path.endswith(".py") and path.startswith(TREE_REMOVERS) and not path.endswith("/gds/probe_child.py"):
        for found in re.finditer(r"\brmtree\((?!\))|\bimport .*\brmtree\b", text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path}:{line}: rmtree enters mounted file systems: use system/files.py or files/durable.py"


def accepts_line_feed(pattern: str) -> bool:
    """Return whether a pattern accepts a line feed by a $ for the end of the whole string."""
    return "(?m)" not in pattern and "$" in NOT_ITSELF.sub("", pattern)


def pattern_of(call: ast.Call) -> str:
    """Return the pattern in a call of the module re, with X for each expression in it.

    Empty for any other call, and for a pattern in which $ is the end of a line.
    """
    module, _dot, name = ast.unparse(call.func).rpartition(".")
    flags = [ast.unparse(node) for node in [*call.args[1:], *(word.value for word in call.keywords)]]
    if module != "re" or name not in PATTERN_CALLS or not call.args:
        return ""
    if any(re.search(r"\bre\.(MULTILINE|M)\b", flag) for flag in flags):
        return ""
    parts = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


def line_feed_patterns(path: str, text: str) -> Iterator[str]:
    """Yield patterns that also match a line feed at the end of a string: in Python, and in tests of strings in YAML."""
    if path.endswith(".py") and path.startswith(("plugins/", "hooks/", "roles/")):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and accepts_line_feed(pattern_of(node)):
                yield f"{path}:{node.lineno}: {LINE_FEED.format('re.fullmatch, or ' + chr(92) + 'Z')}"
    if path.endswith((".yml", ".j2")) and path.startswith(("playbooks/", "roles/")):
        for found in CONDITION.finditer(text):
            whole = found["test"] == "match" or found["pattern"].startswith("^")
            if whole and accepts_line_feed(found["pattern"]) and "multiline" not in found["rest"]:
                line = text.count("\n", 0, found.start()) + 1
                yield f"{path}:{line}: {LINE_FEED.format(chr(92) + 'Z')}"


# Files that open others for writing by themselves, and why the one writer does not do for them.
WRITERS = {
    "plugins/action/node_plan.py": "a mark in Ansible's own directory of the run",
    "plugins/module_utils/_bundle/build.py": "a directory of its own inside the cache",
    "plugins/module_utils/_bundle/compiled.py": "a directory of its own",
    "plugins/module_utils/_bundle/pointer.py": "a directory of its own",
    "plugins/module_utils/_bundle/wheels.py": "a directory of its own inside the cache",
    "plugins/module_utils/_cluster/s3_tree.py": "an object of any size, proved before it takes its name",
    "plugins/module_utils/_node/cli/log.py": "a log is appended to",
    "plugins/module_utils/_node/containers/host.py": "a copy of an image into a private directory",
    "plugins/module_utils/_node/efa/apply.py": "cp to a program's own directory, which removes a file or link first",
    "plugins/module_utils/_node/gds/probe_child.py": "a program of its own that imports nothing of ours",
    "plugins/module_utils/_node/jobs/live.py": "what steps print, in a directory that the job made for itself",
    "plugins/module_utils/_node/jobs/plan.py": "cp to the directory of a tool, which is made for it",
    "plugins/module_utils/_node/system/files.py": "the one writer",
    "plugins/module_utils/_node/system/host.py": "a lock, and a probe that is removed at once",
    "plugins/module_utils/_node/system/package_locks.py": "a question for a lock, which writes nothing",
    "plugins/modules/node_plan.py": "it writes before any module of ours is there",
    "plugins/modules/pcluster.py": "a directory of its own",
    "plugins/plugin_utils/_run/journal.py": "lines are appended to a file in Ansible's own directory of the run",
    "plugins/plugin_utils/_runtime_main.py": "it writes before any module of ours is there",
    "roles/nvidia_gds/files/torch_gds_example.py": "an example that imports nothing of ours",
    "roles/slurm_jobs/files/mlcluster_data/files/durable.py": "the one writer of the data programs",
}
# Flags of os.open() with which a file is made or changed.
WRITE_FLAGS = frozenset({"O_CREAT", "O_RDWR", "O_TMPFILE", "O_TRUNC", "O_WRONLY"})
# Classes of logging that open a file, themselves or as the base of another.
FILE_HANDLERS = frozenset({"FileHandler", "RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler"})
# Calls that write to a path, by the module or object that they belong to; "" is any.
WRITING = {
    "": {
        *("mkstemp", "NamedTemporaryFile", "mktemp", "write_text", "write_bytes", "touch", "tofile", "extract"),
        *("extractall", "make_archive", "unpack_archive", "copyfile", "copytree", "copy2", "FileIO"),
        *FILE_HANDLERS,
    },
    "os": {"mknod", "mkfifo", "truncate", "posix_fallocate"},
    "shutil": {"copy", "move", "copymode", "copystat"},
    "np": {"save", "savez", "savez_compressed", "savetxt", "memmap"},
    "numpy": {"save", "savez", "savez_compressed", "savetxt", "memmap"},
    "torch": {"save"},
}
OPENERS = frozenset({"", "builtins", "bz2", "codecs", "gzip", "io", "lzma"})
MODULES = frozenset({"builtins", "io", "os", "shutil", "tempfile"})
WRITE_MODE = re.compile(r"[rbt]*[wax+][rwbt+]*(?:[|:]\w*)?")
# Programs that write to a file which an argument names.
COPIERS = frozenset({"cp", "dd", "install", "ln", "mv", "rsync", "tee", "touch", "truncate"})


def writes(node: ast.AST, memory: frozenset[str] = frozenset()) -> bool:
    """Return whether code opens, makes or writes a file by its path: a call, a flag, an import or a command.

    ``memory``: names of buffers in memory, which are no paths.
    """
    if isinstance(node, ast.Attribute):
        return node.attr in WRITE_FLAGS
    if isinstance(node, ast.ClassDef):
        return any(ast.unparse(base).rpartition(".")[2] in FILE_HANDLERS for base in node.bases)
    if isinstance(node, ast.Import):
        return any(alias.asname and alias.name in MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        named = {*WRITE_FLAGS, "open", *WRITING[""], *WRITING.get(node.module or "", ())}
        return node.module in MODULES and any(alias.name in named or alias.name == "*" for alias in node.names)
    if isinstance(node, (ast.List, ast.Tuple)):
        return _command_writes([getattr(item, "value", None) for item in node.elts])
    return isinstance(node, ast.Call) and _call_writes(node, memory)


_NAMES = frozenset(
    {"getattr", "open", "ZipFile", "TarFile", "GzipFile", "BZ2File", "LZMAFile"}.union(*WRITING.values())
)


def _call_writes(call: ast.Call, memory: frozenset[str]) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name not in _NAMES:
        return False
    module = ast.unparse(call.func).rpartition(".")[0]
    keywords = {word.arg: word.value for word in call.keywords}
    values = [*call.args, *keywords.values()]
    if "fileobj" in keywords or memory.intersection(map(ast.unparse, values)):
        return False
    if name == "getattr":
        return any(getattr(value, "value", None) in WRITE_FLAGS for value in values)
    if name == "open" and module in OPENERS:
        mode = keywords.get("mode", call.args[1] if len(call.args) > 1 else None)
        # A mode that is no constant can be any.
        return mode is not None and (not isinstance(mode, ast.Constant) or _is_write_mode(mode))
    if name in ("open", "ZipFile", "TarFile", "GzipFile", "BZ2File", "LZMAFile") and module != "os":
        mode = keywords.get("mode")
        return (mode is not None and not isinstance(mode, ast.Constant)) or any(map(_is_write_mode, values))
    if name in ("write_text", "write_bytes", "touch"):
        # A Host writes with the one writer; a function of this name without an object is one of ours.
        return bool(module) and not re.search(r"(?:\b|\.|_)[Hh]ost(\(\))?\Z", module)
    return name in WRITING[""] or name in WRITING.get(module, ())


def _is_write_mode(value: ast.AST) -> bool:
    text = getattr(value, "value", None)
    return isinstance(text, str) and WRITE_MODE.fullmatch(text) is not None


def _command_writes(words: list[object]) -> bool:
    """Return whether an argument list runs a program that copies to a path, or a shell that redirects to one."""
    texts = [word if isinstance(word, str) else "" for word in words]
    shell = "-c" in texts and any(">" in text for text in texts)
    # A list of constants, such as names of steps, has no path of the node.
    return shell or (None in words and texts[0].rpartition("/")[2] in COPIERS)


def _buffers(tree: ast.AST) -> frozenset[str]:
    """Return the names that a module gives to buffers in memory."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    made = [node for node in found if ast.unparse(node.value.func).rpartition(".")[2] in ("BytesIO", "StringIO")]
    return frozenset(ast.unparse(target) for node in made for target in node.targets)


def _to_nowhere(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes of calls that open the null device."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return {part for call in calls if getattr(call.args[0], "attr", "") == "devnull" for part in ast.walk(call)}


def writer_of(path: str) -> str:
    """Return the function with which code at this path has to write files."""
    data = path.startswith("roles/slurm_jobs/files/mlcluster_data/")
    return "Directory.making of files/durable.py" if data else "replace_file of system/files.py"


def writers(path: str, text: str) -> Iterator[str]:
    """Yield code that opens files for writing by itself.

    ``system/files.py`` writes them, which follows no link and loses nothing in a power cut; in the data programs, which
    do not import it, ``files/durable.py``.
    """
    if path.endswith(".py") and path.startswith(("plugins/", "hooks/", "roles/")) and path not in WRITERS:
        tree = ast.parse(text)
        memory, nowhere = _buffers(tree), _to_nowhere(tree)
        lines = {node.lineno for node in ast.walk(tree) if node not in nowhere and writes(node, memory)}
        for line in sorted(lines):
            yield f"{path}:{line}: opens a file for writing: use {writer_of(path)}"


# Markup of Epydoc and of Ansible: the latter belongs in DOCUMENTATION, EXAMPLES and RETURN, which are no docstrings.
MARKUP = re.compile(r"\b[LCVOIBMUEP]\{[^{}\n]+\}|\b[CVOIBMEP]\([^()\n]+\)|(?<!`)`(?!`)[^`\n]+(?<!`)`(?!`)")


def markup(path: str, text: str) -> Iterator[str]:
    """Yield docstrings that mark names with anything but double backquotes."""
    if path.endswith(".py") and MARKUP.search(text):
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if found := MARKUP.search(ast.get_docstring(node, clean=False) or ""):
                yield f"{path}:{node.body[0].lineno}: {found.group()} in a docstring: use double backquotes"


RULES: tuple[Rule, ...] = (
    foreign_names,
    unfinished,
    licence,
    target_syntax,
    unordered,
    tree_removers,
    line_feed_patterns,
    layers,
    writers,
    markup,
    mirror,
    pointers,
    old_words,
)
# This file has to name what it looks for, its tests too.
EXEMPT = {
    "LICENSE",
    "tests/build/house_rules.py",
    "tests/build/words.py",
    "tests/unit/build/test_house_rules.py",
    "tests/unit/build/test_words.py",
}


def tracked_files(checkout: Path) -> list[str]:
    """Return the files of the checkout that git tracks or would add, without deleted ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(name for name in listed.split("\0") if name and (checkout / name).is_file())


def problems(checkout: Path, names: list[str], rules: Sequence[Rule] = RULES) -> Iterator[str]:
    """Yield all violations of the rules in these files; files that are not text are skipped."""
    for name in names:
        if name in EXEMPT:
            continue
        try:
            text = (checkout / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for rule in rules:
            yield from rule(name, text)


def main(arguments: list[str]) -> int:
    """Print every problem of the named files, or of all; return 1 if there is one.

    ``--words GROUP`` first: only the hits of the word list in that group, enforced or not.
    """
    options = argparse.ArgumentParser(prog="python -m tests.build.house_rules")
    options.add_argument("--words", choices=sorted(GROUPS), metavar="GROUP", help=", ".join(sorted(GROUPS)))
    options.add_argument("names", nargs="*", metavar="FILE")
    chosen = options.parse_args(arguments)
    rules = RULES if chosen.words is None else (partial(hits, chosen.words),)
    found = list(problems(CHECKOUT, chosen.names or tracked_files(CHECKOUT), rules))
    print("\n".join(found) if found else "no problems")
    if chosen.words and found:
        print(f"{len(found)} hits in the group {chosen.words}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
