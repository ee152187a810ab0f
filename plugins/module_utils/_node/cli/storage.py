# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs storage-boot and storage-info of the mlcluster command."""

from __future__ import annotations

import argparse
import contextlib
import logging
import typing as t

from ..storage.config import CONFIG_PATH, StorageConfig, load_config
from ..storage.converge import RefusedError, context_for, converge, note_stores, survey
from ..storage.devices import serials_of
from ..storage.plan import expected_disks
from ..storage.record import RECORD_PATH, read_document, write_failure
from ..storage.verify import verify
from ..system.host import Host, NodeError
from ..system.instance import instance_type, table_disks
from ..verdict import result
from .report import print_report

# Seconds that a boot waits for the disks of the record or of the instance type. NVMe controllers appear within seconds,
# and a boot must never hang on a failed one.
DISK_WAIT_SECONDS = 30

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    boot = subparsers.add_parser(
        "storage-boot", help="bring the local volume up after a boot: keep it, or create it again on blank disks"
    )
    boot.add_argument("--config", default=CONFIG_PATH, help="the storage configuration (%(default)s)")
    boot.add_argument("--wait", type=float, default=DISK_WAIT_SECONDS, help="seconds to wait for disks (%(default)s)")
    boot.set_defaults(handler=storage_boot)
    info = subparsers.add_parser("storage-info", help="check the local volume; changes nothing")
    info.add_argument("--config", default=CONFIG_PATH, help="the storage configuration (%(default)s)")
    info.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    info.set_defaults(handler=storage_info)


def wait_for_disks(host: Host, config: StorageConfig, limit: float) -> None:
    """Poll sysfs until the expected number of instance-store disks is present, for at most ``limit`` seconds."""
    known = instance_type(host)
    facts = {"instance_type": known, "record": read_document(host, RECORD_PATH)}
    wanted = expected_disks(facts, config, table_disks(known))[0] or 0
    deadline = host.monotonic() + limit
    while count_instance_store(host) < wanted and host.monotonic() < deadline:
        host.sleep(0.5)
    if host.which("udevadm"):
        host.run(["udevadm", "settle", "--timeout=30"], timeout=40, check=False)


def count_instance_store(host: Host) -> int:
    """Return how many instance-store disks the kernel shows now."""
    return len(serials_of(host, "instance_store"))


def storage_boot(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: none, intact or recreated; 1: lost or foreign, nothing changed; 2: failed."""
    host = host or Host()
    # First, before anything can fail: an unrecorded boot proves nothing later.
    note_stores(host, at_boot=True)
    try:
        config = load_config(host, args.config)
    except NodeError as exc:
        LOGGER.error("storage-boot: failed: %s", exc)
        with contextlib.suppress(NodeError):
            write_failure(host, str(exc))
        return result.EXIT_UNDETERMINABLE
    try:
        wait_for_disks(host, config, args.wait)
        applied = converge(host, config, at_boot=True)
    except RefusedError as exc:
        LOGGER.error("storage-boot: %s: %s", exc.plan.state, exc)
        return result.EXIT_FAIL
    except NodeError as exc:
        LOGGER.error("storage-boot: failed: %s", exc)
        return result.EXIT_UNDETERMINABLE
    plan = applied.plan
    where = ", ".join(f"{volume['path']} ({volume['fstype']})" for volume in plan.volumes) or "no volume"
    LOGGER.info("storage-boot: %s: %s, %d actions: %s", plan.state, where, len(applied.done), plan.reason)
    return result.EXIT_OK


def storage_info(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts on the local volume and return their exit code."""
    host = host or Host()
    try:
        config = load_config(host, args.config)
        facts, plan = survey(host, config)
    except NodeError as exc:
        LOGGER.error("storage-info: %s", exc)
        return result.EXIT_UNDETERMINABLE
    results = verify(host, facts, plan, config, context_for(facts))
    return print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)
