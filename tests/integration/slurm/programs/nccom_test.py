# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poses as nccom-test where there is no Neuron device; the options and the table are those of its user guide.

With --slurm-mode it starts a step on all nodes of the job, as the real one does, and ends with 1 unless each answers.
Its ranks meet on the port of NEURON_RT_ROOT_COMM_ID, and the figures of several nodes come to --data-collector-port:
where one of them is taken it fails, in words like those of the real one.
STAND_IN_BROKEN_HOST in the environment names a host on which it fails.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("operation", choices=("all_reduce", "all_gather", "reduce_scatter", "alltoall"))
    for option in ("nworkers", "nnodes", "minbytes", "maxbytes", "stepfactor", "iters", "warmup_iters"):
        parser.add_argument(f"--{option}", type=int, required=True)
    parser.add_argument("--datatype", required=True)
    parser.add_argument("--slurm-job-id")
    parser.add_argument("--hosts", nargs="+", default=[])
    parser.add_argument("--data-collector-port", type=int, default=60006)
    for option in ("check", "non-interactive", "slurm-mode"):
        parser.add_argument(f"--{option}", action="store_true")
    return parser.parse_args()


def hosts(args: argparse.Namespace) -> list[str]:
    if args.slurm_mode:
        step = ["srun", f"--jobid={args.slurm_job_id}", f"--nodes={args.nnodes}", "--ntasks-per-node=1", "hostname"]
        return subprocess.run(step, capture_output=True, text=True, check=True).stdout.split()
    if args.hosts:
        return list(args.hosts)
    return [os.uname().nodename]


def ports(args: argparse.Namespace) -> list[tuple[str, int]]:
    """Where it listens, of several nodes."""
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
    assert args.check and args.nworkers % args.nnodes == 0 and os.environ["FI_PROVIDER"] == "efa"
    print("       size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)")
    if len(set(found)) != args.nnodes or os.environ.get("STAND_IN_BROKEN_HOST") in found:
        print(f"{args.minbytes:14} Failure running neuron-bench - log file /tmp/x.log")
        print("1 errors found - test failed")
        return 1
    size, count = args.minbytes, 0
    while size <= args.maxbytes:
        print(f"{size:14}{size // 4:16}{args.datatype:>8}{150.0:16}{1.0:15.2f}{0.5:15.2f}")
        size, count = size * args.stepfactor, count + 1
    print("Avg bus bandwidth:\t0.5000GB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
