# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for nccom-test of aws-neuronx-tools 2.26 without a Neuron device.

Grammar and table: its user guide (awsdocs-neuron, nccom-test). With --slurm-mode it starts a step on all nodes of the
job, as nccom-test does, and exits with 1 unless each answers. Its ranks meet on the port of NEURON_RT_ROOT_COMM_ID, and
results of several nodes go to --data-collector-port: if one of these ports is in use it fails, with a message like
nccom-test's. The bus bandwidth depends on the number of workers. It rejects workers that do not spread evenly over the
nodes, zero iterations, types that it does not list, and a run without --check. It fails on the host that
STAND_IN_BROKEN_HOST names.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys

TYPES = ("uint8", "int8", "uint16", "int16", "fp16", "bf16", "int32", "uint32", "fp32")
WIDTHS = {"8": 1, "16": 2, "32": 4}


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: use a number from 1")
    return int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nccom-test", allow_abbrev=False)
    parser.add_argument("operation", choices=("all_reduce", "all_gather", "reduce_scatter", "alltoall"))
    parser.add_argument("--nworkers", type=count, required=True)
    for option, default in (("nnodes", 1), ("minbytes", 32 << 20), ("maxbytes", 32 << 20), ("stepfactor", 2),
                            ("iters", 20), ("data-collector-port", 60006)):  # fmt: skip
        parser.add_argument(f"--{option}", type=count, default=default)
    parser.add_argument("--warmup_iters", type=int, default=5)
    parser.add_argument("--datatype", choices=TYPES, default="uint8")
    parser.add_argument("--slurm-job-id")
    parser.add_argument("--hosts", nargs="+", default=[])
    for option in ("check", "non-interactive", "slurm-mode"):
        parser.add_argument(f"--{option}", action="store_true")
    args = parser.parse_args()
    if args.nworkers % args.nnodes or args.nworkers < 2:
        parser.error(f"{args.nworkers} workers cannot be spread over {args.nnodes} nodes")
    if args.minbytes > args.maxbytes:
        parser.error("minbytes is greater than maxbytes")
    if args.hosts and args.nnodes != len(args.hosts):
        parser.error(f"{args.nnodes} nodes and {len(args.hosts)} hosts")
    if args.slurm_mode and not args.slurm_job_id:
        parser.error("--slurm-mode needs --slurm-job-id")
    if args.nnodes > 1 and not args.hosts and not args.slurm_mode:
        parser.error("several nodes need --hosts or --slurm-mode")
    return args


def hosts(args: argparse.Namespace) -> list[str]:
    if args.slurm_mode:
        step = ["srun", f"--jobid={args.slurm_job_id}", f"--nodes={args.nnodes}", "--ntasks-per-node=1", "hostname"]
        return subprocess.run(step, capture_output=True, text=True, check=True).stdout.split()
    if args.hosts:
        return list(args.hosts)
    return [os.uname().nodename]


def ports(args: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the addresses on which it listens in a run on several nodes."""
    if args.nnodes == 1:
        return []
    places = [("0.0.0.0", args.data_collector_port)]
    if args.hosts:
        address, _colon, port = os.environ["NEURON_RT_ROOT_COMM_ID"].partition(":")
        assert address == "127.0.0.1"
        places.append((address, int(port)))
    return places


def main() -> int:
    args = arguments()
    if not args.check:
        # nccom-test's output does not show this option, and the verdict depends on it.
        print("stand-in: --check is missing", file=sys.stderr)
        return 1
    found = hosts(args)
    listening = [socket.socket() for _place in ports(args)]
    try:
        for one, place in zip(listening, ports(args)):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(place)
            one.listen()
    except OSError:
        print(f"{args.minbytes:14} Failure running neuron-bench - log file /tmp/x.log")
        print("1 errors found - test failed")
        return 1
    if args.nnodes > 1 and os.environ.get("FI_PROVIDER") != "efa":
        print("1 errors found - test failed")
        return 1
    print("       size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)")
    if len(set(found)) != args.nnodes or os.environ.get("STAND_IN_BROKEN_HOST") in found:
        print(f"{args.minbytes:14} Failure running neuron-bench - log file /tmp/x.log")
        print("1 errors found - test failed")
        return 1
    width = WIDTHS[args.datatype.lstrip("uintfpb")]
    # Bus bandwidth by algorithm bandwidth (its user guide; NVIDIA/nccl-tests, doc/PERFORMANCE.md).
    share = (args.nworkers - 1) / args.nworkers * (2 if args.operation == "all_reduce" else 1)
    size = args.minbytes
    while size <= args.maxbytes:
        time = size / (1 << 30) * 1e6
        print(f"{size:14}{size // width:16}{args.datatype:>8}{time:16.2f}{1.0:15.2f}{share:15.2f}")
        size *= args.stepfactor
    print(f"Avg bus bandwidth:\t{share:.4f}GB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
