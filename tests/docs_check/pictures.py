# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw the pictures of the README into docs/pictures: the page of a report, and the end of a run.

    python -m tests.docs_check.pictures

Both are drawn by the collection's own code, over a cluster that no one has: 16 nodes of which some are broken.
"""

from __future__ import annotations

import datetime
import html
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
# The collection as Ansible finds it in a checkout.
sys.path.insert(0, str(CHECKOUT / ".collections"))

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import html as report_html
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import verdict
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.journal import Entry

from tests.unit.fakes import fake_cluster as scene

PICTURES = CHECKOUT / "docs" / "pictures"
PAGE, RUN = PICTURES / "report.png", PICTURES / "run.svg"
BROWSER = ("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
SIZE = (1100, 1000)
NODES = [f"gpu-dy-p5-{number}" for number in range(1, 15)]
LOGIN = ["login-1", "login-2"]
# Size of a letter of the terminal, and of a line of it.
LETTER, LINE, EDGE = 7.3, 17, 14
COLOURS = {"failed": "#f85149", "not proved": "#d29922", "all proved": "#3fb950", "FAIL": "#f85149"}
INVENTORY = "a p5.48xlarge with 32 EFA interfaces attached, and 31 were found"


def page() -> str:
    """Return the page of a report on the cluster."""
    lost = scene.verdict(
        "efa.devices",
        "fail",
        severity="reboot",
        expected=32,
        found=31,
        unit="devices",
        message="32 EFA functions are on the PCI bus and the driver offers 31 of them",
        hint="look with 'dmesg | grep efa' and 'modinfo efa'",
    )
    nodes = [scene.node(name, queue="gpu", place=[f"nn-{at // 7}"]) for at, name in enumerate(NODES)]
    nodes[6] = scene.node(NODES[6], lost, queue="gpu", place=["nn-0"])
    nodes[10] = {**scene.broken(NODES[10]), "queue": "gpu", "place": ["nn-1"]}
    nodes[12] = {**scene.silent(NODES[12]), "queue": "gpu", "place": ["nn-1"]}
    nodes += [scene.node(name, kind="login", place=["nn-1"]) for name in LOGIN]
    # The page shows its age.
    now = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return report_html.page(document.build(nodes, now, cluster="train", version="0.1.0"))


def terminal() -> list[str]:
    """Return the last output of verify_nodes."""
    passed = [result.passed("efa.devices", 32).to_dict()]
    entries = [
        Entry(name, role, final=True, results=passed)
        for name in NODES
        for role in ("nvme_raid0", "efa_nccl", "nvidia_gds", "enroot_pyxis", "fsx_lustre")
        if (name, role) != (NODES[6], "efa_nccl") and name != NODES[12]
    ]
    lost = f"FAIL inventory.efa: the inventory lists the node as {INVENTORY}"
    entries.append(Entry(NODES[6], "efa_nccl", final=True, problems=[lost], required=True))
    reason = "a login node has no job to run"
    entries += [
        Entry(name, role, final=True, results=passed, concerned=role == "fsx_lustre", reason=reason)
        for name in LOGIN
        for role in ("enroot_pyxis", "fsx_lustre")
    ]
    table = verdict.table(entries, NODES, {NODES[12]})
    command = "$ ansible-playbook -i inventories/parallelcluster -e cluster=train playbooks/verify_nodes.yml"
    return [command, "…", *verdict.lines(table), verdict.sentence(table)]


def drawn(lines: list[str]) -> str:
    """Return the lines as a terminal in SVG, longer ones folded at 128 characters."""
    folded = [part for line in lines for part in _folded(line)]
    width, height = round(128 * LETTER + 2 * EDGE), len(folded) * LINE + 2 * EDGE
    rows = "".join(
        f'<text x="{EDGE}" y="{EDGE + 12 + at * LINE}" fill="{_colour(line)}">{_letters(line)}</text>\n'
        for at, line in enumerate(folded)
    )
    title = "The end of a run of verify_nodes: a table of nodes by roles, and below it why"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}" '
        'font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="12">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{rows}</svg>\n'
    )


def _letters(line: str) -> str:
    """Return the text with blanks that no program folds into one."""
    return html.escape(line).replace(" ", "\u00a0")


def _folded(line: str) -> list[str]:
    parts = []
    while len(line) > 128:
        cut = line.rindex(" ", 0, 128)
        parts.append(line[:cut])
        line = "    " + line[cut + 1 :]
    return [*parts, line]


def _colour(line: str) -> str:
    return next((colour for word, colour in COLOURS.items() if word in line), "#e6edf3")


def photograph(text: str, target: Path) -> None:
    """Draw a page in a browser, and keep what fits on the screen."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(text, encoding="utf-8")
        size = f"--window-size={SIZE[0]},{SIZE[1]}"
        profile = f"--user-data-dir={folder}/profile"
        subprocess.run(
            [*BROWSER, profile, size, f"--screenshot={target}", path.as_uri()], check=True, capture_output=True
        )


def main() -> int:
    """Draw both; returns the exit status."""
    PICTURES.mkdir(exist_ok=True)
    photograph(page(), PAGE)
    RUN.write_text(drawn(terminal()), encoding="utf-8")
    for path in (PAGE, RUN):
        print(f"{path.relative_to(CHECKOUT)}: {path.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
