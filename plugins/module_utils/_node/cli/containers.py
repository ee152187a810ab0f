# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs containers-boot and containers-info of the mlcluster command."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import typing as t

from ..containers import credentials as enroot_credentials
from ..containers import local_directories as enroot_local
from ..containers import look as enroot
from ..containers.config import CONFIG_PATH, load_config
from ..containers.host import EnrootHost
from ..containers.plan import refusals
from ..containers.verify import verify
from ..system.host import NodeError
from ..verdict import result
from .report import print_report

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    boot = subparsers.add_parser(
        "containers-boot", help="create the directory for container images on the local disks of this boot"
    )
    boot.add_argument("--config", default=CONFIG_PATH, help="the configuration of this node (%(default)s)")
    boot.set_defaults(handler=containers_boot)
    info = subparsers.add_parser("containers-info", help="check Enroot and Pyxis; changes nothing")
    info.add_argument("--config", default=CONFIG_PATH, help="the configuration of this node (%(default)s)")
    info.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    info.set_defaults(handler=containers_info)
    credential = subparsers.add_parser(
        "registry-credential",
        help="return the password of a registry to Docker, from the command that is configured for it",
    )
    credential.add_argument(
        "action", choices=("get", "list", "store", "erase"),
        help="what Docker requests: get: the password of the registry on standard input; list: no registry; "
        "store: rejected, since no password is kept; erase: the same",
    )  # fmt: skip
    credential.add_argument("--config", default=CONFIG_PATH, help="the file that lists the commands (%(default)s)")
    credential.set_defaults(handler=registry_credential)


def containers_boot(args: argparse.Namespace, host: EnrootHost | None = None) -> int:
    """Exit 0: the directory is ready, on the volume or on the fallback with a warning; 2: it could not be created."""
    host = host or EnrootHost()
    try:
        place = enroot_local.prepare(host, load_config(host, args.config).local)
    except NodeError as exc:
        LOGGER.error("containers-boot: failed: %s", exc)
        return result.EXIT_UNDETERMINABLE
    if place.warning:
        LOGGER.warning("containers-boot: %s", place.warning)
    LOGGER.info("containers-boot: %s: %s (%s)", place.kind, place.path, place.fstype)
    return result.EXIT_OK


def containers_info(args: argparse.Namespace, host: EnrootHost | None = None) -> int:
    """Print the verdicts on Enroot and Pyxis and return their exit code."""
    host = host or EnrootHost()
    try:
        config = load_config(host, args.config)
        facts = enroot.survey(host, config)
        results = verify(host, facts, refusals(facts, config), config)
    except NodeError as exc:
        LOGGER.error("containers-info: %s", exc)
        return result.EXIT_UNDETERMINABLE
    return print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)


def registry_credential(args: argparse.Namespace, host: EnrootHost | None = None) -> int:
    """Run a credential helper in the protocol of docker/docker-credential-helpers; it stores nothing.

    get reads a registry from standard input and prints {"ServerURL", "Username", "Secret"}. Exit 1 with the message for
    a missing password that Docker expects if no command is configured for the registry, 2 if the command fails.
    """
    host = host or EnrootHost()
    if args.action == "list":
        sys.stdout.write("{}\n")
        return result.EXIT_OK
    if args.action != "get":
        sys.stdout.write("a command provides passwords each time, and they are never stored\n")
        return result.EXIT_FAIL
    server = sys.stdin.readline().strip()
    try:
        entries = load_config(host, args.config).credentials if host.exists(args.config) else ()
        found = enroot_credentials.password_of(host, entries, server)
    except NodeError as exc:
        sys.stdout.write(f"{exc}\n")
        return result.EXIT_UNDETERMINABLE
    if found is None:
        sys.stdout.write("credentials not found in native keychain\n")
        return result.EXIT_FAIL
    sys.stdout.write(json.dumps({"ServerURL": server, "Username": found[0], "Secret": found[1]}) + "\n")
    return result.EXIT_OK
