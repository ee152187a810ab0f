# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the tables of the guides, of the README and of that of slurm_jobs from the collection's own data.

A table stands between the lines ``<!-- table: NAME -->`` and ``<!-- /table -->``; all else in a guide is by hand
and left alone. The imports of the kinds of jobs are written too, from the files of their folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from plugins.module_utils._node.cli.checks import ASKED_BY
from plugins.module_utils._node.jobs.options import Option
from plugins.plugin_utils._prove import evidence as proofs

CHECKOUT = Path(__file__).resolve().parents[2]
GUIDES = CHECKOUT / "docs" / "guides"
JOBS_README = CHECKOUT / "roles" / "slurm_jobs" / "README.md"
CHECKS_PAGE = CHECKOUT / "docs" / "checks.md"
README = CHECKOUT / "README.md"
EVIDENCE = CHECKOUT / "docs" / "evidence"
DATA = CHECKOUT / "plugins" / "module_utils" / "_data"
KINDS = CHECKOUT / "plugins" / "module_utils" / "_node" / "jobs" / "kinds"
BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- /table -->)", re.DOTALL)
IMPORTS = re.compile(r"^from \. import .*?^JOB_KINDS", re.DOTALL | re.MULTILINE)


def data(name: str) -> ModuleType:
    """Return a table of the collection, which needs nothing but Python."""
    spec = importlib.util.spec_from_file_location(f"guide_tables_{name}", DATA / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{DATA / name}.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table."""
    head = list(headings)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)


def training_types() -> str:
    """Return every accelerated type with EFA: what each node has to show, and what is published of its fabric."""
    types, thresholds = data("instance_types"), data("thresholds")
    published = {figure[0] for figure in thresholds._FIGURES}
    rows = []
    for name in types.names():
        facts = types.lookup(name)
        chips, store = facts["accelerators"], facts["instance_store"]
        if not chips or not types.has_efa(facts):
            continue
        disks = f"{store['count']} x {store['size_gb']}" if store["count"] else "none"
        network = f"{facts['network_gbps']:g}"
        rows.append(
            (
                name,
                f"{chips['count']} {chips['name']}, {chips['memory_mib']} MiB",
                disks,
                "not known" if facts["efa_interfaces"] is None else facts["efa_interfaces"],
                network,
                f"{facts['network_gbps'] / 8:g}",
                "below" if name in published else "no public figure",
            )
        )
    headings = ("type", "accelerators", "disks, GB", "EFA", "network, Gbit/s", "the same in GB/s", "bus bandwidth")
    return table(headings, rows)


def published_bandwidths() -> str:
    """Return the figures that nccl.bandwidth compares with, one line for each measurement."""
    thresholds = data("thresholds")
    rows = []
    for name, nodes, collective, figures, source in thresholds._FIGURES:
        least = 1 - thresholds.TOLERANCE_PERCENT / 100
        shown = ", ".join(f"{size} GiB {busbw:g}" for size, busbw in figures.items())
        floor = ", ".join(f"{size} GiB {busbw * least:.1f}" for size, busbw in figures.items())
        rows.append((name, nodes, collective, shown, floor, source))
    return table(("type", "nodes", "collective", "published, GB/s", "lowest that passes", "source"), rows)


def xids() -> str:
    """Return the buckets of NVIDIA's catalog: codes, what is done about them, and what they mean for the node."""
    catalog = data("xid_catalog")
    rows = [
        (", ".join(map(str, sorted(codes))), f"`{bucket}`", severity, action)
        for bucket, (severity, action, codes) in catalog.BUCKETS.items()
    ]
    return table(("Xid", "bucket", "severity", "what to do"), rows)


def kind_names(folder: Path = KINDS) -> list[str]:
    """Return the names of the kinds of jobs: the files of their folder. Raises FileNotFoundError when there is none."""
    names = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    if not names:
        raise FileNotFoundError(f"{folder} has no kind of job: correct KINDS")
    return names


def kind_imports(text: str, names: Iterable[str]) -> str:
    """The ``__init__.py`` of the kinds with their imports. Raises ValueError for one without a place for them."""
    lines = [f"    {name}," for name in names]
    new = "\n".join(["from . import (", *lines, ")", "", "_FILES = (", *lines, ")", "JOB_KINDS"])
    written, count = IMPORTS.subn(new, text)
    if count != 1:
        raise ValueError(f"{KINDS / '__init__.py'} has {count} blocks from `from . import` to `JOB_KINDS`, wanted 1")
    return written


def job_kinds() -> str:
    """Return every kind of job with a verdict: what it proves and its options."""
    # By the folder, not by the registry: that of this process has no kind whose import was only now written.
    files = {name: importlib.import_module(f"plugins.module_utils._node.jobs.kinds.{name}") for name in kind_names()}
    rows = [
        (f"`{name}`", file.KIND.proves, ", ".join(map(shown_option, file.KIND.options.items())) or "none")
        for name, file in files.items()
        if file.KIND.judge
    ]
    return table(("kind", "what it proves", "options (default)"), rows)


def shown_option(item: tuple[str, Option]) -> str:
    """Return an option with its default, or ``required``."""
    name, option = item
    value = option.default
    if isinstance(value, list):
        value = ", ".join(f"`{entry}`" for entry in value)
    default = "required" if option.required else str(value)
    return f"`{name}` ({default})" if default else f"`{name}`"


def checks() -> str:
    """Return every check, as ``mlcluster checks`` lists them."""
    rows = [
        (f"`{name}`", text.replace("|", "\\|"), ", ".join(severities) or "none", ", ".join(who))
        for name, text, severities, who in data("checks").CHECKS
    ]
    return table(("check", "fails if", "severity", "used by"), rows)


def askers() -> str:
    """Return the table of what uses checks."""
    return table(("word", "used by"), [(f"`{word}`", text) for word, text in ASKED_BY.items()])


def evidence(folder: Path = EVIDENCE) -> str:
    """Return the results of runs in real accounts. Raises ValueError for a file that is not of the schema."""
    documents = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        problems = proofs.problems(document)
        if problems:
            raise ValueError(f"{path.name} {'; '.join(problems)}: leave it out")
        documents.append(document)
    if not documents:
        return "No run in a real account has been sent yet, so the last column is not proved."
    return table(("instance type", "system", "passed", "did not"), proofs.rows(documents))


TABLES: dict[str, Callable[[], str]] = {
    "askers": askers,
    "checks": checks,
    "evidence": evidence,
    "job-kinds": job_kinds,
    "training-types": training_types,
    "published-bandwidths": published_bandwidths,
    "xids": xids,
}


def renewed(text: str) -> str:
    """Return a guide with its tables up to date. Raises KeyError for a table that this script does not know."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n{found[3]}", text)


def pages() -> list[Path]:
    """Return the pages with such tables. Raises FileNotFoundError when there is none."""
    found = [
        path
        for path in (*sorted(GUIDES.glob("*.md")), CHECKS_PAGE, JOBS_README, README)
        if BLOCK.search(path.read_text(encoding="utf-8"))
    ]
    if not found:
        raise FileNotFoundError(f"no page below {GUIDES} has a table: correct GUIDES")
    return found


def main() -> int:
    """Bring every guide, and the imports of the kinds of jobs, up to date; returns the exit status."""
    write(KINDS / "__init__.py", lambda text: kind_imports(text, kind_names()))
    for guide in pages():
        write(guide, renewed)
    return 0


def write(path: Path, change: Callable[[str], str]) -> None:
    """Change a file, and print whether that made a difference."""
    old = path.read_text(encoding="utf-8")
    new = change(old)
    if new != old:
        path.write_text(new, encoding="utf-8")
    print(f"{path.relative_to(CHECKOUT)}: {'written' if new != old else 'up to date'}")


if __name__ == "__main__":
    sys.exit(main())
