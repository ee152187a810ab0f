# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the table of variables in each role's README from its meta/argument_specs.yml.

The table stands between the lines ``<!-- variables -->`` and ``<!-- /variables -->``; all else in
the README is written by hand and left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- variables -->"
END = "<!-- /variables -->"
LONGEST_DEFAULT = 60
# Task files that other roles include: no play applies them, and they have no options.
SHARED = ("plan", "training_image")


def role_folders(checkout: Path) -> list[Path]:
    """Return the roles of the collection that plays apply, in order of their names."""
    found = sorted(path for path in checkout.glob("roles/*") if path.is_dir() and path.name not in SHARED)
    if not found:
        raise FileNotFoundError(f"there is no role below {checkout}/roles")
    return found


def read_options(role: Path) -> dict[str, dict[str, Any]]:
    """Options of every entry point of ``role``, each once, in the order of the file."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options: dict[str, dict[str, Any]] = {}
    for entry in specs["argument_specs"].values():
        options.update({name: spec for name, spec in entry.get("options", {}).items() if name not in options})
    return options


def one_line(description: str | list[str]) -> str:
    """Return a description as one table cell."""
    text = description if isinstance(description, str) else " ".join(description)
    return " ".join(text.split()).replace("|", "\\|")


def kind(spec: dict[str, Any]) -> str:
    """Return the type of an option, with the type of its elements."""
    name = spec.get("type", "str")
    return f"{name} of {spec['elements']}" if "elements" in spec else name


def shown_default(spec: dict[str, Any]) -> str:
    """Return the default of an option as a table cell."""
    if spec.get("required"):
        return "required"
    if "default" not in spec:
        return "not set"
    value = spec["default"]
    if value == "":
        return "empty"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if len(text) <= LONGEST_DEFAULT and "\n" not in text else "see `defaults/main.yml`"


def rows(options: dict[str, dict[str, Any]], prefix: str = "") -> Iterator[str]:
    """Table rows of these options, each followed by the rows of what it contains."""
    for name, spec in options.items():
        text = one_line(spec["description"])
        if "choices" in spec:
            text += " Choices: " + ", ".join(f"`{choice}`" for choice in spec["choices"]) + "."
        yield f"| `{prefix}{name}` | {kind(spec)} | {shown_default(spec)} | {text} |"
        if "options" in spec:
            inside = f"{prefix}{name}[]." if spec.get("type") == "list" else f"{prefix}{name}."
            yield from rows(spec["options"], inside)


def table(options: dict[str, dict[str, Any]]) -> str:
    """Return the whole table."""
    return "\n".join(["| variable | type | default | meaning |", "|---|---|---|---|", *rows(options)])


def with_table(readme: str, new: str) -> str:
    """``readme`` with ``new`` between the marks. Raises ValueError when they are not there."""
    head, begin, rest = readme.partition(BEGIN)
    _old, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the lines {BEGIN} and {END} are missing: add them where the table of variables belongs")
    return f"{head}{BEGIN}\n{new}\n{END}{tail}"


def main() -> int:
    """Bring every README up to date; returns the exit status."""
    for role in role_folders(CHECKOUT):
        readme = role / "README.md"
        old = readme.read_text(encoding="utf-8")
        try:
            new = with_table(old, table(read_options(role)))
        except ValueError as error:
            print(f"ERROR: {readme.relative_to(CHECKOUT)}: {error}", file=sys.stderr)
            return 1
        if new != old:
            readme.write_text(new, encoding="utf-8")
        print(f"{readme.relative_to(CHECKOUT)}: {'written' if new != old else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
