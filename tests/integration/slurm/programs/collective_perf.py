# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for a program of nccl-tests 2.19.6 without a GPU: a real MPI program that prints its real ranks and hosts.

Grammar: NVIDIA/nccl-tests, src/common.cu and README. The output has the shape that the unit tests make and follows from
the options; only the bandwidth is invented. Refused: more GPUs than the process sees, as by nccl-tests, and -n 0, with
which it divides by zero. Two variables spoil a run: STAND_IN_SOCKET_HOST, whose runs with other hosts go over sockets,
and STAND_IN_WRONG_HOST, which computes wrongly.
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


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1")
    return int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for option, default in (("b", 32 << 20), ("e", 32 << 20)):
        parser.add_argument(f"-{option}", type=size, default=default)
    for option, default in (("f", 1), ("n", 20), ("g", 1)):
        parser.add_argument(f"-{option}", type=count, default=default)
    parser.add_argument("-w", type=int, default=5)
    parser.add_argument("-c", type=int, choices=(0, 1), default=1)
    args = parser.parse_args()
    if args.b > args.e:
        parser.error("invalid size specified for 'maxbytes'")
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    wanted = (int(os.environ.get("SLURM_LOCALID", "0")) + 1) * args.g
    if visible and wanted > len(visible):
        parser.error(f"Invalid number of GPUs: {wanted} requested but only {len(visible)} were found.")
    return args


def unchecked(line: str) -> str:
    """A row of the table as it is with -c 0."""
    words = line.split()
    if len(words) != 13 or not words[0].isdecimal():
        return line
    words[8] = words[12] = "N/A"
    return "  ".join(words)


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
            places = [(host, local * args.g + device) for host, local in where for device in range(args.g)]
            return [(rank, *place) for rank, place in enumerate(places)]

    hosts = tuple(dict.fromkeys(host for host, _device in where))
    wrong = os.environ.get("STAND_IN_WRONG_HOST") in hosts or total != sum(range(world.size))
    plan = Launched(
        hosts=hosts,
        gpus=len(where) * args.g // len(hosts),
        collective=Path(sys.argv[0]).name.removesuffix("_perf"),
        smallest=args.b,
        largest=args.e,
        factor=args.f,
        busbw=lambda _size: 0.0 if world.size * args.g == 1 else 40.0,
        network="Socket" if len(hosts) > 1 and os.environ.get("STAND_IN_SOCKET_HOST") in hosts else "Libfabric",
        in_place_wrong="3" if wrong else "0",
    )
    lines = nccl_outputs.output(plan)
    if os.environ.get("NCCL_DEBUG") != "INFO":
        lines = nccl_outputs.header(plan) + nccl_outputs.table(plan)
    lines[2] = (
        lines[2]
        .replace("nGpus 1", f"nGpus {args.g}")
        .replace("warmup iters: 1 iters: 20", f"warmup iters: {args.w} iters: {args.n}")
        .replace("validation: 1", f"validation: {args.c}")
    )
    print("\n".join(lines if args.c else map(unchecked, lines)))
    return int(wrong and args.c)


if __name__ == "__main__":
    sys.exit(main())
