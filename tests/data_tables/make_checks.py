# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write plugins/module_utils/_data/checks.py: every check with its id, when it fails, its severities and its users.

    python -m tests.data_tables.make_checks [--severities FILE]

Ids and causes are those of docs/guides/failure-catalogue.md, which a test holds against the code. Severities are those
that the code returned while its unit tests ran; without a FILE of them, those in the table are kept. The users are read
from the files that name the id.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
CATALOGUE = CHECKOUT / "docs" / "guides" / "failure-catalogue.md"
TARGET = CHECKOUT / "plugins" / "module_utils" / "_data" / "checks.py"
SEVERITIES = ("monitor", "reset", "reboot", "isolate")
NODE = "plugins/module_utils/_node/"
# Callers, by the file that names an id; the longest prefix counts.
WHO = {
    f"{NODE}health/": "full",
    f"{NODE}health/light.py": "prolog",
    f"{NODE}health/marker.py": "prolog",
    f"{NODE}health/container": "container",
    f"{NODE}health/checklist.py": "checklist",
    f"{NODE}accelerator/": "full",
    f"{NODE}efa/": "full role",
    f"{NODE}efa/role.py": "role",
    f"{NODE}gds/": "full role",
    f"{NODE}gds/role.py": "role",
    f"{NODE}gds/gdsio.py": "role",
    f"{NODE}imex/": "prolog",
    f"{NODE}storage/": "full role",
    f"{NODE}containers/": "role",
    f"{NODE}lustre/": "role",
    f"{NODE}jobs/": "job",
    f"{NODE}nccl/": "job",
    f"{NODE}node/": "watch",
    f"{NODE}scratch/": "scratch",
    f"{NODE}scratch/made.py": "prolog",
    f"{NODE}cli/scratch.py": "scratch",
    "plugins/plugin_utils/_run/": "run",
    "plugins/plugin_utils/_run/preflight.py": "preflight",
    "plugins/action/preflight.py": "preflight",
    "plugins/plugin_utils/_report/": "report",
    "plugins/plugin_utils/_slurm/": "report",
    "plugins/modules/": "role",
}
# Ids that the code puts together, by their beginning.
COMPOSED = {
    "checklist.": ("checklist",),
    "container.": ("container",),
    "container.tasks": ("job",),
    "container.placement": ("job",),
    "container.hosts": ("job",),
    "container.report": ("job",),
    "dcgm.": ("full",),
    "expect.": ("prolog", "full"),
    "gds.report": ("job",),
    "inventory.": ("run",),
    "io.": ("job",),
    "nccl.": ("job",),
    "nccom.": ("job",),
    "node.report": ("job",),
    "node.versions": ("full",),
    "run.": ("run",),
    "smoke.": ("job",),
    "versions.": ("full", "role"),
    "efa.": ("full", "role"),
}
# Of these some ids stand in the code whole, for another reason than to ask.
ALWAYS = (
    "efa.nccl",
    "efa.nvshmem",
    "expect.devices",
    "expect.disks",
    "expect.gpus",
    "expect.mount",
    "expect.type",
    "versions.",
)
# Characters of a constant on one line, and of a part of a longer one.
LONGEST, PART = 111, 100
ORDER = ("prolog", "full", "container", "checklist", "role", "job", "watch", "scratch", "run", "preflight", "report")
HEADER = '''# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check: id, when it fails, severities of a failure, and users.

Made by tests/data_tables/make_checks.py from docs/guides/failure-catalogue.md and from the severities that the code
returned while its tests ran.
"""

from __future__ import annotations

# (id, fails when, severities, users)
CHECKS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
'''


class CatalogueError(Exception):
    """The catalogue, or the code, does not fit the table; the message states what."""


def plain(text: str) -> str:
    """Return a cell of Markdown as plain text."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.strip())
    return text.replace("\\|", "|").replace("`", "").replace("**", "")


def catalogued(text: str) -> dict[str, str]:
    """Return the cause of failure of each id, in the order of the tables whose first heading is ``verdict``."""
    found: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0] == "verdict":
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            for name in re.findall(r"`([^`…]+)`", cells[0]):
                # An id of both nodes and jobs has a line in both tables.
                found[name] = f"{found[name]}; {plain(cells[1])}" if name in found else plain(cells[1])
    return found


def asked_by(path: str) -> list[str]:
    """Return the callers of the checks in a file."""
    known = [start for start in WHO if path.startswith(start)]
    return WHO[max(known, key=len)].split() if known else []


def named_in(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yield (text, path) of every string constant in the code of checks."""
    for place in ("plugins/module_utils/_node", "plugins/plugin_utils", "plugins/action", "plugins/modules"):
        for path in sorted((checkout / place).rglob("*.py")):
            name = path.relative_to(checkout).as_posix()
            if name.endswith("health/profiles.py"):
                # It names checks by one of their ids, and judges nothing.
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value, name


def who_asks(names: Mapping[str, str], checkout: Path = CHECKOUT) -> dict[str, tuple[str, ...]]:
    """Return the callers of each id. Raises CatalogueError for an id without a caller."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for text, path in named_in(checkout):
        if text in found:
            found[text].update(asked_by(path))
    for name, who in found.items():
        starts = [start for start in COMPOSED if name.startswith(start)]
        if starts and (not who or name.startswith(ALWAYS)):
            who |= set(COMPOSED[max(starts, key=len)])
        if "prolog" in who:
            who.add("full")
        if not who:
            raise CatalogueError(f"no caller of {name} is known: add it to WHO or COMPOSED")
    return {name: tuple(word for word in ORDER if word in who) for name, who in found.items()}


def rows(severities: Mapping[str, list[str]]) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    """Return the table, in the order of the catalogue."""
    names = catalogued(CATALOGUE.read_text(encoding="utf-8"))
    who = who_asks(names)
    return [
        (name, text, tuple(word for word in SEVERITIES if word in severities.get(name, ())), who[name])
        for name, text in names.items()
    ]


def kept() -> dict[str, list[str]]:
    """Return the severities of the present table."""
    spec = importlib.util.spec_from_file_location("kept_checks", TARGET)
    if spec is None or spec.loader is None or not TARGET.exists():
        return {}
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: list(found) for name, _text, found, _who in module.CHECKS}


def written(severities: Mapping[str, list[str]]) -> str:
    """Return the file's content."""
    entries = []
    for name, text, found, who in rows(severities):
        head = json.dumps(name, ensure_ascii=False)
        entries.append(
            f"    (\n        {head},\n{_text(text)}        {_tuple(found)},\n        {_tuple(who)},\n    ),\n"
        )
    return HEADER + "".join(entries) + ")\n"


def _tuple(words: tuple[str, ...]) -> str:
    return "(" + ", ".join(f'"{word}"' for word in words) + ("," if len(words) == 1 else "") + ")"


def _text(text: str) -> str:
    """Return a text as one constant or several, as the formatter of the project would have it."""
    if len(_quoted(text)) <= LONGEST:
        return f"        {_quoted(text)},\n"
    parts, rest = [], text
    while len(rest) > PART:
        cut = rest.rindex(" ", 0, PART) + 1
        parts.append(rest[:cut])
        rest = rest[cut:]
    return "        (\n" + "".join(f"            {_quoted(part)}\n" for part in [*parts, rest]) + "        ),\n"


def _quoted(text: str) -> str:
    """Return a constant in the quotes that need fewer escapes."""
    if text.count('"') <= text.count("'"):
        return json.dumps(text, ensure_ascii=False)
    return "'" + text.replace("'", "\\'") + "'"


def main() -> int:
    """Write the table; returns the exit status."""
    parser = argparse.ArgumentParser(description="Write the table of all checks.")
    parser.add_argument("--severities", type=Path, help="what record_severities.py wrote")
    given = parser.parse_args().severities
    severities = json.loads(given.read_text(encoding="utf-8")) if given else kept()
    try:
        TARGET.write_text(written(severities), encoding="utf-8")
    except CatalogueError as exc:
        print(f"make_checks: {exc}", file=sys.stderr)
        return 1
    print(f"{TARGET.relative_to(CHECKOUT)}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
