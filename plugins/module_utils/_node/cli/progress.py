# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options, progress lines and the outcome file of the verbs that submit jobs."""

from __future__ import annotations

import argparse
import json
import sys
import typing as t

from ..system.host import Host
from ..verdict.result import printable

DIRECTORY = "/fsx/mlcluster/jobs"


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that each of these verbs has."""
    parser.add_argument("--dir", default=DIRECTORY, help="slurm_jobs_dir, the directory of the scripts (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="check everything, and submit nothing")
    parser.add_argument("--outcome", metavar="FILE", help="write the outcome to this file, as JSON")
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.add_argument("--slurm-conf", help="the slurm.conf to use (default: that of Slurm)")


def print_line(line: str) -> None:
    """Print a line and flush it, so that a reader sees it at once."""
    sys.stdout.write(f"{printable(line)}\n")
    sys.stdout.flush()


def write_outcome(host: Host, path: t.Optional[str], outcome: t.Mapping[str, t.Any]) -> None:
    """Write the outcome of a verb, if a file is given."""
    if path:
        host.write_text(path, json.dumps(outcome) + "\n")
