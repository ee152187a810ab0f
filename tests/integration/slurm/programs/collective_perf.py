# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses as a program of nccl-tests where there is no GPU: a real MPI program that prints its real ranks and hosts.

What it prints has the shape that the unit tests make; only the bandwidth is invented. Two variables spoil a run:
STAND_IN_SOCKET_HOST, whose runs with other hosts go over sockets, and STAND_IN_WRONG_HOST, which computes wrongly.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mpi4py import MPI

CHECKOUT = Path(__file__).resolve().parents[4]
UNITS = {"K": 10, "M": 20, "G": 30}


def size(text: str) -> int:
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for option in "be":
        parser.add_argument(f"-{option}", type=size, required=True)
    for option in "fnwcg":
        parser.add_argument(f"-{option}", type=int, required=True)
    return parser.parse_args()


def main() -> int:
    args = arguments()
    world = MPI.COMM_WORLD
    where = world.gather((os.uname().nodename, int(os.environ.get("SLURM_LOCALID", "0"))))
    total = world.allreduce(world.rank)
    if world.rank:
        return 0
    sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".collections")]
    from tests.unit.fakes import fake_nccl_output as nccl_outputs

    class Launched(nccl_outputs.Plan):
        """A plan whose ranks are those of this launch."""

        @property
        def ranks(self) -> list[tuple[int, str, int]]:
            return [(rank, *place) for rank, place in enumerate(where)]

    hosts = tuple(dict.fromkeys(host for host, _device in where))
    wrong = os.environ.get("STAND_IN_WRONG_HOST") in hosts or total != sum(range(world.size))
    plan = Launched(
        hosts=hosts,
        gpus=len(where) // len(hosts),
        collective=Path(sys.argv[0]).name.removesuffix("_perf"),
        smallest=args.b,
        largest=args.e,
        factor=args.f,
        busbw=lambda _size: 0.0 if world.size == 1 else 40.0,
        network="Socket" if len(hosts) > 1 and os.environ.get("STAND_IN_SOCKET_HOST") in hosts else "Libfabric",
        in_place_wrong="3" if wrong else "0",
    )
    lines = nccl_outputs.output(plan)
    if os.environ.get("NCCL_DEBUG") != "INFO":
        lines = nccl_outputs.header(plan) + nccl_outputs.table(plan)
    print("\n".join(lines))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
