# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml pushed from one controller to 1, 10 and 40 nodes over real ssh, with Ansible's strategy and with mitogen's.

The nodes are containers, so there are no disks and no accelerators, but for the recorded driver of a GPU on the last
one; the first has a real Slurm, for the scripts of jobs. Every role looks, installs what an image of such a node would
have and writes its files; the second run changes nothing. Every node is this machine, so the seconds of many nodes are
those of two cores doing the work of all: what carries over to a cluster is the module executions a node, the
controller's CPU seconds and the ratio of the strategies.

A module execution is one program that Ansible starts on a node; tasks of the controller and facts are not counted.
Tasks a node are all that the controller has begun for it, skipped ones too: what they cost is the controller's.

``python -m tests.bench.bench_push [COMMIT]`` compares this checkout with an earlier one, by default the last to look
role by role: both run on the same 1 and 10 nodes, and their runs after the first, which change nothing, count. Between
them, a playbook with one ping shows the least that Ansible itself costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.push_nodes import SLURM, nodes
from tests.build import environments
from tests.vm.helpers import BIN, FACTS, ON_CONTROLLER, ROOT, items_of

COUNTS = (1, 10, 40)
# Of the comparison with an earlier checkout.
COMPARED = (1, 10)
BEFORE = "74aacc5"
# Runs of each that change nothing.
REPEATED = 3
PING = [{"hosts": "all", "become": True, "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}]}]
STRATEGIES = ("linear", "mitogen_linear")
LOCK = ROOT / "requirements" / "mitogen.txt"
# An image of a node of a cluster is made this way: everything that needs no hardware is installed.
SETTINGS = {
    "nvme_raid0_image_build": True,
    "efa_nccl_image_build": True,
    "efa_nccl_installer_enabled": False,
    # Nothing publishes NVIDIA's packages here.
    "nvidia_gds_install_enabled": False,
    "nvidia_gds_cuda_version": "13.0",
    # The head node has a Slurm of its own, and each compute node takes fio from a package.
    "slurm_jobs_dir": "/srv/jobs",
    "slurm_jobs_require_mount": False,
    "slurm_jobs_slurm_prefix": SLURM,
    "enroot_pyxis_slurm_prefix": "/nonexistent",
    "slurm_jobs_mpi": "none",
    "slurm_jobs_jobs": [
        {"name": "smoke", "kind": "node_smoke", "nodes": 1},
        {"name": "disks", "kind": "local_io", "nodes": 1},
    ],
}
SECONDS = 1800


def executions(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (role, node) of every module execution of a run, from the output of ansible.posix.json."""
    for play in document["plays"]:
        for task in play["tasks"]:
            path = Path(task["task"].get("path") or "")
            role = path.parts[path.parts.index("roles") + 1] if "roles" in path.parts else "site.yml"
            for node, result in task["hosts"].items():
                # Earlier checkouts name the field ``asked``.
                is_queried = result.get("queried", result.get("asked", True))
                if result["action"].rsplit(".", 1)[-1] not in ON_CONTROLLER | FACTS and is_queried:
                    yield from ((role, node) for item in items_of(result) if not item.get("skipped"))


def most_a_node(document: Mapping[str, Any]) -> dict[str, int]:
    """Role: module executions on the node that had most of them."""
    most: dict[str, int] = {}
    for (role, _node), number in Counter(executions(document)).items():
        most[role] = max(most.get(role, 0), number)
    return most


def _nodes(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the nodes of a run; localhost is the controller."""
    return [name for name in document["stats"] if name != "localhost"]


def tasks_a_node(document: Mapping[str, Any]) -> dict[str, float]:
    """Tasks begun for a node, and how many of them were skipped, on average; each is a process of the controller."""
    outcomes = [result for play in document["plays"] for task in play["tasks"] for result in task["hosts"].values()]
    nodes_seen = len(_nodes(document))
    skipped = sum(1 for result in outcomes if result.get("skipped"))
    return {"begun": round(len(outcomes) / nodes_seen, 1), "skipped": round(skipped / nodes_seen, 1)}


def _environment(strategy: str, packages: Path, folder: Path, tree: Path) -> dict[str, str]:
    environment = {
        # Variables of the machine that measures, such as PYTHONDONTWRITEBYTECODE, change the cost of a start.
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "ANSIBLE_CONFIG": str(tree / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.json",
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
        "ANSIBLE_FORKS": "40",
        # Forty nodes on two cores: a connection may wait for its turn.
        "ANSIBLE_TIMEOUT": "120",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    if strategy != "linear":
        environment["ANSIBLE_STRATEGY_PLUGINS"] = str(packages / "ansible_mitogen" / "plugins" / "strategy")
        environment["PYTHONPATH"] = str(packages)
    return {**environment, "ANSIBLE_STRATEGY": strategy}


def push(
    inventory: Path, strategy: str, packages: Path, tree: Path = ROOT, playbook: str | Path = "site.yml"
) -> dict[str, Any]:
    """One run of a playbook of a checkout. Raises AssertionError when a node failed or could not be reached."""
    with tempfile.TemporaryDirectory() as scratch:
        cost = Path(scratch) / "cost.json"
        command = [sys.executable, str(Path(__file__).with_name("cost.py")), str(cost)]
        command += [str(BIN / "ansible-playbook"), "-i", str(inventory), str(playbook), "-e", json.dumps(SETTINGS)]
        environment = _environment(strategy, packages, Path(scratch), tree)
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        seconds = time.monotonic() - started
        start = done.stdout.find("{\n")
        assert done.returncode == 0 and start >= 0, (
            f"{playbook} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr}"
        )
        document, _end = json.JSONDecoder().raw_decode(done.stdout[start:])
        cpu = json.loads(cost.read_text(encoding="utf-8"))["cpu_seconds"]
    return {
        "seconds": round(seconds, 1),
        "controller_cpu_seconds": round(cpu, 2),
        "changed": sum(stats["changed"] for stats in document["stats"].values()),
        "nodes": len(_nodes(document)),
        "tasks_a_node": tasks_a_node(document),
        "module_executions": most_a_node(document),
    }


def measure(counts: Sequence[int] = COUNTS) -> dict[str, Any]:
    """First and second run for each number of nodes and each strategy. Raises AssertionError, ContainerError."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        packages = Path(scratch)
        environments.install_beside(BIN / "python", LOCK, packages)
        for count in counts:
            for strategy in STRATEGIES:
                with nodes(count) as inventory:
                    for run in ("first", "second"):
                        row = {"strategy": strategy, "run": run, **push(inventory, strategy, packages)}
                        print(f"  {count} nodes, {strategy}, {run}: {row['seconds']} s", flush=True)
                        rows.append(row)
    return {"bench": "push", "cores": os.cpu_count(), "load": round(os.getloadavg()[1], 1), "runs": rows}


@contextmanager
def earlier(commit: str) -> Iterator[Path]:
    """A checkout of an earlier commit, with the other collections of this one. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="mlcluster-bench-") as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
        collections = tree / ".collections" / "ansible_collections"
        (collections / "mlcluster").mkdir(parents=True)
        (collections / "mlcluster" / "aws").symlink_to(tree)
        for path in (ROOT / ".collections" / "ansible_collections").iterdir():
            if path.name != "mlcluster":
                (collections / path.name).symlink_to(path.resolve())
        yield tree


def compare(commit: str = BEFORE, counts: Sequence[int] = COMPARED) -> dict[str, Any]:
    """Measure the run without changes of an earlier checkout and of this one. Raises AssertionError, ContainerError."""
    rows = []

    def measured(title: str, run: str, *given: Any) -> None:
        row = push(*given)
        print(f"  {row['nodes']} nodes, {title}, {run}: {row['seconds']} s, load {os.getloadavg()[0]:.0f}", flush=True)
        rows.append({"strategy": title, "run": run, **row})
        assert run == "first" or row["changed"] == 0, f"the {run} run of {title} changed something"

    with earlier(commit) as tree, tempfile.TemporaryDirectory() as scratch:
        ping = Path(scratch) / "ping.yml"
        ping.write_text(json.dumps(PING), encoding="utf-8")
        for count in counts:
            with nodes(count) as inventory:
                # Not in turn: each would write the files of the other one again.
                for title, checkout in ((commit, tree), ("here", ROOT)):
                    measured(title, "first", inventory, "linear", ROOT, checkout)
                    for number in range(2, REPEATED + 2):
                        measured("ping", str(number), inventory, "linear", ROOT, ROOT, ping)
                        measured(title, str(number), inventory, "linear", ROOT, checkout)
    return {"bench": "push", "cores": os.cpu_count(), "load": round(os.getloadavg()[1], 1), "runs": rows}


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    titles = f"  {'nodes':>5} {'strategy':<16}{'run':<8}{'changed':>8}{'seconds':>9}{'controller CPU s':>18}"
    titles += f"{'tasks a node':>14}{'skipped':>9}{'CPU s a node':>14}"
    lines = [
        f"site.yml pushed to containers on {figures['cores']} cores that stand for all nodes, load {figures['load']}",
        titles + "  modules a node",
    ]
    for row in figures["runs"]:
        modules = ", ".join(f"{role} {number}" for role, number in sorted(row["module_executions"].items()))
        lines.append(
            f"  {row['nodes']:>5} {row['strategy']:<16}{row['run']:<8}{row['changed']:>8}{row['seconds']:>9}"
            f"{row['controller_cpu_seconds']:>18}{row['tasks_a_node']['begun']:>14}{row['tasks_a_node']['skipped']:>9}"
            f"{row['controller_cpu_seconds'] / row['nodes']:>14.2f}"
            f"  {modules}"
        )
    return lines


if __name__ == "__main__":
    print("\n".join(table(compare(*sys.argv[1:2]))))
