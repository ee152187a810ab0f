# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.rig.slurm VERB``: the clusters from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from . import record
from .cluster import Cluster
from .processes import RigError
from .spec import Spec


def _pair(text: str) -> tuple[str, str]:
    key, sep, value = text.partition("=")
    if not key or not sep:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _partition(text: str) -> tuple[str, dict[str, str]]:
    name, _sep, options = text.partition(":")
    return name, dict(_pair(option) for option in options.split())


def _up(args: argparse.Namespace) -> None:
    spec = Spec(
        nodes=args.nodes,
        gpus=args.gpus,
        cpus=args.cpus,
        memory_mib=args.memory_mib,
        accounting=args.accounting,
        partitions=dict(args.partition),
        settings=dict(args.set),
        node_settings=dict(args.set_node),
        topology=args.topology.read_text(encoding="utf-8") if args.topology else "",
        plugstack=args.plugstack.read_text(encoding="utf-8") if args.plugstack else "",
        private=tuple(args.private),
    )
    _show(Cluster(args.name).up(spec).status())


def _down(args: argparse.Namespace) -> None:
    if not Cluster(args.name).down():
        print(f"there was no cluster called {args.name}", file=sys.stderr)


def _clean(_args: argparse.Namespace) -> None:
    for name in record.names():
        Cluster(name).down()


def _run(args: argparse.Namespace) -> None:
    cluster = Cluster(args.name)
    os.execvpe(args.command[0], args.command, cluster.environment() if cluster.record else {})


def _show(data: object) -> None:
    print(json.dumps(data, indent=2))


def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    top = argparse.ArgumentParser(prog="python -m tests.rig.slurm", description="A real Slurm on this machine.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, does: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.add_argument("--name", default="demo", help="which cluster (default: demo)")
        sub.set_defaults(does=does)
        return sub

    up = verb("up", "start a cluster", _up)
    up.add_argument("--nodes", type=int, default=2)
    up.add_argument("--gpus", type=int, default=8, help="GPUs a node")
    up.add_argument("--cpus", type=int, default=8)
    up.add_argument("--memory-mib", type=int, default=1000)
    up.add_argument("--accounting", action="store_true", help="with slurmdbd and its database")
    up.add_argument("--partition", type=_partition, action="append", default=[], help="NAME:'Nodes=n[1-2] MaxTime=10'")
    up.add_argument("--set", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a line of slurm.conf")
    up.add_argument("--set-node", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="of every node")
    up.add_argument("--topology", type=Path, help="a topology.conf")
    up.add_argument("--plugstack", type=Path, help="a plugstack.conf")
    up.add_argument("--private", action="append", default=[], metavar="DIR", help="each node sees its own")
    verb("down", "end a cluster and remove its files", _down)
    verb("status", "daemons and nodes as JSON", lambda args: _show(Cluster(args.name).status()))
    verb("list", "the names of the clusters", lambda args: _show(record.names()))
    verb("clean", "end all clusters of this user", _clean)
    run = verb("run", "run a command against a cluster", _run)
    run.add_argument("command", nargs=argparse.REMAINDER)
    actions: dict[str, Callable[[Cluster, str], None]] = {
        "power-off": Cluster.power_off,
        "power-on": Cluster.power_on,
        "stop-slurmd": Cluster.stop_slurmd,
        "start-slurmd": Cluster.start_slurmd,
    }
    for action, method in actions.items():
        of_node = verb(action, f"{action.replace('-', ' ')} of one node", _on_node(method))
        of_node.add_argument("node")
    return top


def _on_node(method: Callable[[Cluster, str], None]) -> Callable[[argparse.Namespace], None]:
    return lambda args: method(Cluster(args.name), args.node)


def main(arguments: list[str]) -> int:
    """Run a verb; print a message and return 1 if it fails."""
    args = parser().parse_args(arguments)
    try:
        args.does(args)
    except RigError as exc:
        print(f"rig: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
