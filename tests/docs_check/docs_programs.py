# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of a command in the documentation without running it, program by program.

Each judge takes the words of one command and a Checkout and yields its problems. A word that is the reader's
own (``NODE``, ``s3://BUCKET/x``, ``…``) is skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from plugins.module_utils._node.cli import main as cli
from tests.build import house_rules

from . import role_docs

OWN = re.compile(r"(?:^|[/=:.,@-])[A-Z][A-Z0-9_]*(?:$|[/=:.,@-])|…|\.\.\.$|^[<$~]")
# A variable that a play or an inventory asks for: with a default, as mandatory, or as all there is between the braces.
ASKED = re.compile(r"\b([a-z][a-z0-9_]*)\s*\|\s*(?:default|mandatory)\(|\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")
MAKE_VARIABLES = frozenset({"PYTHON", "V"})


def is_own(word: str) -> bool:
    """Return whether a word is a placeholder for the reader."""
    return bool(OWN.search(word))


class Checkout:
    """The parts of a checkout that commands use: files, playbooks, variables, tags, targets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Files that the page which is read shows, so that the reader has them.
        self.shown: set[str] = set()

    @cached_property
    def files(self) -> set[str]:
        """Return every file that git has, and every folder above one."""
        names = house_rules.tracked_files(self.root)
        return {*names, *(str(folder) for name in names for folder in Path(name).parents)}

    def has(self, path: str) -> bool:
        """Return whether a reader of the page that is read has this file or folder."""
        return path in self.files or path in self.shown

    @cached_property
    def variables(self) -> set[str]:
        """Names that ``-e`` may set: options of roles and of build_bundle, and what plays and inventories ask for."""
        names = {name for role in role_docs.role_folders(self.root) for name in role_docs.read_options(role)}
        for path in self.root.glob("playbooks/vars/*.yml"):
            names |= set(yaml.safe_load(path.read_text(encoding="utf-8")))
        for place in ("playbooks/**/*.yml", "inventories/**/*.yml"):
            for path in self.root.glob(place):
                asked = ASKED.findall(path.read_text(encoding="utf-8"))
                names |= {name for pair in asked for name in pair if name}
        return names

    @cached_property
    def tags(self) -> set[str]:
        """Return every tag of a task, play or role."""
        found: set[str] = {"all", "always", "never", "tagged", "untagged"}

        def look(value: Any) -> None:
            if isinstance(value, list):
                for item in value:
                    look(item)
            elif isinstance(value, dict):
                tags = value.get("tags", [])
                found.update(tags if isinstance(tags, list) else str(tags).split(","))
                for item in value.values():
                    look(item)

        for place in ("playbooks/*.yml", "roles/*/tasks/*.yml"):
            for path in self.root.glob(place):
                look(yaml.safe_load(path.read_text(encoding="utf-8")))
        return {tag.strip() for tag in found if isinstance(tag, str)}

    @cached_property
    def makefile(self) -> str:
        """Return the Makefile."""
        return (self.root / "Makefile").read_text(encoding="utf-8")

    @cached_property
    def targets(self) -> set[str]:
        """Targets of make."""
        return set(re.findall(r"^([a-z][a-z-]*):", self.makefile, re.MULTILINE))

    def playbook(self, word: str) -> str | None:
        """The path of a playbook that is named as the installed collection or the checkout names it; None without."""
        name = word.removeprefix("mlcluster.aws.")
        path = f"playbooks/{name}.yml" if name != word else word
        return path if path in self.files else None


ANSIBLE = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
for _names in (("-i", "--inventory"), ("-e", "--extra-vars"), ("-t", "--tags"), ("--skip-tags",)):
    ANSIBLE.add_argument(*_names, action="append", default=[])


def extra_names(word: str) -> list[str]:
    """Return the variables that one ``-e`` sets; of a file none. Raises ValueError for what is not a mapping."""
    if word.startswith("@"):
        return []
    if word.startswith(("{", "[")):
        value = yaml.safe_load(word)
        if not isinstance(value, dict):
            raise ValueError(f"-e {word} is not a dictionary")
        return list(value)
    return [part.partition("=")[0] for part in shlex.split(word)]


def _common(options: argparse.Namespace, checkout: Checkout) -> Iterator[str]:
    """Yield the problems of inventories, variables and tags."""
    for source in options.inventory:
        if not is_own(source) and "," not in source and not checkout.has(source.rstrip("/")):
            yield f"there is no inventory {source}"
    for word in options.extra_vars:
        for name in extra_names(word):
            if not is_own(name) and name not in checkout.variables and not name.startswith("ansible_"):
                yield f"{name} is in no argument spec, and no play or inventory asks for it"
    for word in (*options.tags, *options.skip_tags):
        for tag in word.split(","):
            if not is_own(tag) and tag not in checkout.tags:
                yield f"nothing has the tag {tag}"


def ansible(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """``ansible-playbook``, ``ansible-inventory``, ``ansible-navigator``: what of ours they name has to be there."""
    yield from _common(ANSIBLE.parse_known_args(list(words[1:]))[0], checkout)
    for word in words[1:]:
        if word.startswith(("mlcluster.aws.", "playbooks/")) and not is_own(word) and checkout.playbook(word) is None:
            yield f"there is no playbook {word}"


def make(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """``make TARGET… NAME=value…``."""
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            if not is_own(word) and word not in checkout.targets:
                yield f"the Makefile has no target {word}"
        elif name not in MAKE_VARIABLES and f"$({name}" not in checkout.makefile:
            yield f"the Makefile has no variable {name}"
        elif name == "BUNDLE":
            yield from ansible(["ansible-playbook", *shlex.split(value)], checkout)


def _filled(word: str) -> str:
    """Return a word that is the reader's own as a number, which every option takes."""
    return "1" if is_own(word) else word


def mlcluster(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """Yield the problems of the node runtime's command, by its own parser."""
    output = io.StringIO()
    for attempt in (list(words[1:]), [_filled(word) for word in words[1:] if word not in ("…", "...")]):
        try:
            with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
                cli.build_parser("docs").parse_args(attempt)
            return
        except SystemExit as end:
            if not end.code:
                return
    yield output.getvalue().strip().splitlines()[-1]


def spoken_of(words: Sequence[str]) -> Iterator[str]:
    """``mlcluster VERB --option`` within a sentence: the verb and the options have to be there, nothing is demanded."""
    (verbs,) = (
        action for action in cli.build_parser("docs")._actions if isinstance(action, argparse._SubParsersAction)
    )
    # With a colon it is output of the command, not its arguments.
    if len(words) < 2 or words[1].startswith("-") or words[1].endswith(":") or is_own(words[1]):
        return
    if words[1] not in verbs.choices:
        yield f"mlcluster has no verb {words[1]}"
        return
    known = verbs.choices[words[1]]._option_string_actions
    for word in words[2:]:
        option = word.partition("=")[0]
        if option.startswith("--") and option not in known:
            yield f"mlcluster {words[1]} has no option {option}"


def _options_in(source: str, words: Sequence[str]) -> Iterator[str]:
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--") and option != "--help" and f'"{option}"' not in source:
            yield f"there is no option {option}"


def data_program(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """``python3 -m mlcluster_data COMMAND …``, by the text of the command: its parser needs torch."""
    folder = checkout.root / "roles/slurm_jobs/files/mlcluster_data"
    command = words[0] if words else "--help"
    if command == "--help" or is_own(command):
        return
    found = re.search(rf'"{command}": \("([\w.]+)"', (folder / "__main__.py").read_text(encoding="utf-8"))
    if not found:
        yield f"mlcluster_data has no command {command}"
        return
    source = folder / f"{found.group(1).replace('.', '/')}.py"
    yield from _options_in(source.read_text(encoding="utf-8"), words[1:])


def python(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """``python3 -m MODULE …`` and ``python3 FILE …``."""
    if words[1:2] == ["-m"] and len(words) > 2:
        module = words[2]
        if module == "mlcluster_data":
            yield from data_program(words[3:], checkout)
        elif module == "pytest":
            yield from _paths(words[3:], checkout)
        elif (
            module.startswith("tests")
            and not {f"{module.replace('.', '/')}{end}" for end in (".py", "")} & checkout.files
        ):
            yield f"there is no module {module}"
    elif len(words) > 1 and words[1].endswith("mlcluster.pyz"):
        yield from mlcluster(words[1:], checkout)
    else:
        yield from _paths(words[1:2], checkout)


def _paths(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """Yield words that look like paths of the checkout and are not."""
    for word in words:
        path = word.partition("::")[0].rstrip("/")
        if "/" in path and not path.startswith(("-", "/", "s3:")) and not is_own(path) and not checkout.has(path):
            yield f"there is no {path}"


def hook(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """Yield the problems of the boot hook's options."""
    source = (checkout.root / "hooks/mlcluster_boot/options.py").read_text(encoding="utf-8")
    yield from _options_in(source, words[1:])


def molecule(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """``molecule test --scenario-name NAME``."""
    for before, word in zip(words, words[1:]):
        if before in ("-s", "--scenario-name") and not is_own(word) and f"molecule/{word}" not in checkout.files:
            yield f"there is no scenario {word}"


def anything(words: Sequence[str], checkout: Checkout) -> Iterator[str]:
    """Yield the problems of a foreign program: only paths of the checkout among its words can be judged."""
    yield from _paths([word for word in words[1:] if word.startswith(("tests/", "hooks/", "docs/"))], checkout)


JUDGES: dict[str, Callable[[Sequence[str], Checkout], Iterator[str]]] = {
    "ansible-inventory": ansible,
    "ansible-navigator": ansible,
    "ansible-playbook": ansible,
    "make": make,
    "mlcluster": mlcluster,
    "molecule": molecule,
    "on_node_configured.sh": hook,
    "python": python,
    "python3": python,
}
