# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find arguments that the help of a command does not explain."""

from __future__ import annotations

import argparse
from collections.abc import Iterator


def without_help(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield each argument and command of a parser, also of its commands' parsers, that its help does not explain.

    A positional argument with choices, such as an action, has to explain each of them as "NAME: ...".
    """
    for action in parser._actions:
        name = f"{parser.prog} {'/'.join(action.option_strings) or action.dest}"
        if isinstance(action, argparse._SubParsersAction):
            listed = {entry.dest: entry.help for entry in action._get_subactions()}
            for command, below in action.choices.items():
                if not listed.get(command):
                    yield f"{parser.prog} {command}"
                yield from without_help(below)
        elif not action.help or action.help == argparse.SUPPRESS:
            yield name
        elif not action.option_strings and action.choices:
            yield from (f"{name} {choice}" for choice in action.choices if f"{choice}: " not in action.help)
