# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for a program of nccl-tests 2.19.6 without a GPU: a real MPI program that prints its real ranks and hosts.

Grammar: NVIDIA/nccl-tests, src/common.cu and README. The output depends on the options, in the format that the unit
tests have; only the bandwidth is invented. It rejects more GPUs than the process sees, as nccl-tests does, and -n 0,
with which nccl-tests divides by zero. Two variables make a run fail: the host STAND_IN_SOCKET_HOST uses sockets with
other hosts, and the host STAND_IN_WRONG_HOST computes wrong results.

STAND_IN_DOMAINS ("n1,n2 n3,n4"): the hosts of an entry are an UltraServer, joined by NVLink, except the host
STAND_IN_OUTSIDE, which has no IMEX domain. Ranks then come from the Slurm step: the rig has no MPI for Debian 13.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[4]
UNITS = {"K": 10, "M": 20, "G": 30}


def size(text: str) -> int:
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: use a number from 1")
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
    """Return a row of the table as nccl-tests prints it with -c 0."""
    words = line.split()
    if len(words) != 13 or not words[0].isdecimal():
        return line
    words[8] = words[12] = "N/A"
    return "  ".join(words)


def by_mpi() -> tuple[list[tuple[str, int]], bool]:
    """Return host and local number of each rank, for rank 0, and whether the ranks' sum is right."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    where = world.gather((os.uname().nodename, int(os.environ.get("SLURM_LOCALID", "0"))))
    return where or [], world.allreduce(world.rank) == sum(range(world.size))


def by_step() -> tuple[list[tuple[str, int]], bool]:
    """Return the same from the variables of the Slurm step."""
    if int(os.environ["SLURM_PROCID"]):
        return [], True
    shown = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
    hosts = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.split()
    each = int(os.environ["SLURM_STEP_NUM_TASKS"]) // len(hosts)
    return [(host, local) for host in sorted(hosts, key=domain_of) for local in range(each)], True


def domain_of(host: str) -> int:
    """Return the number of a host's NVLink domain; hosts without a domain have the last number."""
    entries = os.environ["STAND_IN_DOMAINS"].split()
    if host == os.environ.get("STAND_IN_OUTSIDE"):
        return len(entries)
    return next(number for number, entry in enumerate(entries) if host in entry.split(","))


def domains(hosts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the number of hosts of each NVLink domain; empty without joined hosts: NCCL then prints MNNVL 0."""
    if "STAND_IN_DOMAINS" not in os.environ:
        return ()
    numbers = [domain_of(host) for host in hosts]
    counts = tuple(numbers.count(number) for number in dict.fromkeys(numbers))
    return counts if max(counts) > 1 else ()


def main() -> int:
    args = arguments()
    where, adds_up = by_step() if "STAND_IN_DOMAINS" in os.environ else by_mpi()
    if not where:
        return 0
    sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / ".collections")]
    from tests.unit.fakes import fake_nccl_output as nccl_outputs

    class Launched(nccl_outputs.Plan):
        """A plan with the ranks of this launch."""

        @property
        def ranks(self) -> list[tuple[int, str, int]]:
            places = [(host, local * args.g + device) for host, local in where for device in range(args.g)]
            return [(rank, *place) for rank, place in enumerate(places)]

    hosts = tuple(dict.fromkeys(host for host, _device in where))
    wrong = os.environ.get("STAND_IN_WRONG_HOST") in hosts or not adds_up
    plan = Launched(
        hosts=hosts,
        gpus=len(where) * args.g // len(hosts),
        collective=Path(sys.argv[0]).name.removesuffix("_perf"),
        smallest=args.b,
        largest=args.e,
        factor=args.f,
        busbw=lambda _size: 0.0 if len(where) * args.g == 1 else 40.0,
        network="Socket" if len(hosts) > 1 and os.environ.get("STAND_IN_SOCKET_HOST") in hosts else "Libfabric",
        in_place_wrong="3" if wrong else "0",
        domains=domains(hosts),
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
