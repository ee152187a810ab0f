# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command mlcluster lustre-data as a killed process; lfs is the stand-in of the scenario fsx_lustre."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[6]
STANDIN = ROOT / "molecule" / "fsx_lustre" / "files" / "lustre_standin.py"
# In S3 only, changed here, and here only: the bits of HSM_BITS.
RELEASED, DIRTY, NEW = 13, 11, 0
PROGRAM = """
import sys
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import hsm as lustre_hsm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import host
host.SYSTEM_PATH = sys.argv[1] + ":" + host.SYSTEM_PATH
lustre_hsm.POLL_SECONDS = 0.05
{more}
sys.exit(cli.main(sys.argv[3:], log_dir=sys.argv[2]))
"""
# It requests one file and hangs.
STANDS_STILL = """
request = lustre_hsm._request

def ask_for_one(host, command, paths, *given):
    request(host, command, paths[:1], *given)
    print("asked for one", file=sys.stderr, flush=True)
    host.sleep(3600)

lustre_hsm._request = ask_for_one
"""


@pytest.fixture
def node(tmp_path):
    """A folder with lfs in bin, and tree with files in the given states."""
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "lfs"
    text = STANDIN.read_text(encoding="utf-8").replace('Path("/run/lustre")', f"Path({str(state)!r})")
    program.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    program.chmod(0o755)
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, flags in {"a": RELEASED, "b": RELEASED, "c": RELEASED, "dirty": DIRTY, "new": NEW}.items():
        (tree / name).write_text(name, encoding="utf-8")
        set_state(tmp_path, name, flags)
    return tmp_path


def entries(node: Path) -> dict[str, dict[str, int]]:
    return json.loads((node / "state" / "hsm.json").read_text(encoding="utf-8"))


def states(node: Path) -> dict[str, int]:
    """Return the flags by file name."""
    return {Path(path).name: entry["flags"] for path, entry in entries(node).items()}


def set_state(node: Path, name: str, flags: int) -> None:
    file = node / "state" / "hsm.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found[str(node / "tree" / name)] = {"flags": flags, "coming": 0}
    file.write_text(json.dumps(found), encoding="utf-8")


def start(node: Path, action: str, more: str = "") -> subprocess.Popen[str]:
    words = [node / "bin", node / "log", "lustre-data", "--json", action, node / "tree"]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(more=more), *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(node: Path, action: str) -> tuple[int, dict[str, object], str]:
    """Return exit status, counts and progress of a run."""
    process = start(node, action)
    out, err = process.communicate()
    (counts,) = json.loads(out)["paths"].values()
    return process.returncode, counts, err


@pytest.mark.parametrize(
    ("action", "wanted", "counts"),
    [
        ("hydrate", {"a": 9, "b": 9, "c": 9, "dirty": DIRTY, "new": NEW}, {"waiting": 0, "passed_over": 0}),
        ("archive", {"a": RELEASED, "b": RELEASED, "c": RELEASED, "dirty": 9, "new": 9}, {"waiting": 0}),
    ],
)
def test_killed_run_is_completed_by_next_run(node, action, wanted, counts):
    before, lines = entries(node), []
    process = start(node, action, STANDS_STILL)
    for line in process.stderr:
        lines.append(line)
        if "asked for one" in line:
            break
    # It reports the number of files before the first request.
    due = "0 of 3 files, 0%" if action == "hydrate" else "0 of 2 files, 0%"
    assert any(f"lustre-data {action}: {due}" in line for line in lines)
    assert len([path for path, entry in entries(node).items() if entry != before[path]]) == 1
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL

    status, report, progress = finish(node, action)
    assert (status, report["problem"], report["files"]) == (0, "", 5)
    assert counts.items() <= report.items()
    assert states(node) == wanted
    assert "100%" in progress
    assert {path.name: path.read_text(encoding="utf-8") for path in (node / "tree").iterdir()} == {
        name: name for name in wanted
    }


def test_repeated_run_finds_nothing_to_do(node):
    assert finish(node, "archive")[0] == 0
    assert finish(node, "release")[1]["done"] == 2
    status, report, progress = finish(node, "release")
    assert (status, report["done"], report["already"]) == (0, 0, 5)
    assert "0 of 0 files, 100%" in progress
