# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``mlcluster`` command of the node runtime.

A part of the runtime offers ``add_verbs(subparsers)``, which adds its parsers and gives each
``set_defaults(handler=function)``; the function takes the parsed arguments and returns the exit code.
``args.runtime_version`` is the version of the installed runtime. Exit codes: 0 pass or not applicable,
1 fail, 2 undeterminable or an unexpected error, 3 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import platform
import sys
from collections.abc import Sequence

from ..jobs import checkpoints
from ..slurm import notice as slurm_notice
from ..verdict import result
from . import accelerator as accelerator_cli
from . import checks as checks_cli
from . import containers as enroot_cli
from . import detached as detached_cli
from . import efa as efa_cli
from . import gds as gds_cli
from . import heal as heal_cli
from . import health as health_cli
from . import imex as imex_cli
from . import job_exec as job_exec_cli
from . import jobs as slurm_verdict_cli
from . import log, streams
from . import lustre as lustre_cli
from . import nccl as nccl_cli
from . import plan as plan_cli
from . import scratch as scratch_cli
from . import storage as storage_cli
from . import submit_training as submit_training_cli
from . import validate as validate_cli
from . import watch as watch_cli
from .parser import Parser

PROVIDERS = (
    storage_cli,
    efa_cli,
    accelerator_cli,
    enroot_cli,
    gds_cli,
    nccl_cli,
    lustre_cli,
    slurm_verdict_cli,
    job_exec_cli,
    checkpoints,
    health_cli,
    scratch_cli,
    slurm_notice,
    watch_cli,
    plan_cli,
    heal_cli,
    imex_cli,
    checks_cli,
    validate_cli,
    submit_training_cli,
    detached_cli,
)


def _version(args: argparse.Namespace) -> int:
    sys.stdout.write(f"mlcluster {args.runtime_version} (Python {platform.python_version()})\n")
    return result.EXIT_OK


def build_parser(version: str) -> argparse.ArgumentParser:
    """The parser with every verb there is; ``version`` is what ``mlcluster version`` prints."""
    parser = Parser(prog="mlcluster", description="Checks and boot-time work of an mlcluster.aws node.")
    parser.set_defaults(runtime_version=version)
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for provider in PROVIDERS:
        provider.add_verbs(subparsers)
    subparsers.add_parser("version", help="print the version of this runtime").set_defaults(handler=_version)
    return parser


def main(argv: Sequence[str] | None = None, version: str = "unknown", log_dir: str = log.LOG_DIR) -> int:
    """Run one verb and return its exit code; a usage error raises SystemExit(3) and ``--help`` SystemExit(0).

    What could not be printed turns success into 2, for whoever reads it has not got it, and no other code into another.
    """
    streams.open_missing()
    args = build_parser(version).parse_args(argv)
    logger, path = log.setup(args.verb, log_dir)
    output = streams.Output(sys.stdout)
    with contextlib.redirect_stdout(output):
        where = f"the details are in {path}" if path else f"run it as root to have the details in {log_dir}"
        code = _run(args, logger, where)
    lost = output.lost()
    if lost is not None:
        logger.error(
            "mlcluster %s: its output could not be written (%s): let it go to a place with room", args.verb, lost
        )
        code = code or result.EXIT_UNDETERMINABLE
    return code


def _run(args: argparse.Namespace, logger: logging.Logger, where: str) -> int:
    try:
        return int(args.handler(args))
    except KeyboardInterrupt:
        logger.error("mlcluster %s: interrupted before it had a verdict", args.verb)
    except Exception as exc:
        what = f"{type(exc).__name__}: {' '.join(str(exc).split()) or 'no message'}"
        logger.exception("mlcluster %s: stopped by an unexpected %s; %s", args.verb, what, where)
    return result.EXIT_UNDETERMINABLE
