# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs lustre-info, lustre-tune and lustre-data of the mlcluster command."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import typing as t

from ..lustre import hsm as lustre_hsm
from ..lustre import look as lustre
from ..lustre import tuning as lustre_tuning
from ..lustre.config import CONFIG_PATH, load_config
from ..lustre.verify import verify
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result
from .report import print_report

LOGGER = logging.getLogger("mlcluster")
MAX_PARALLEL = 64
MAX_SECONDS = 86400
# Why an action skips a file.
PASSED_OVER = {
    "hydrate": "their copy in S3 is lost",
    "release": "S3 does not have them as they are: archive them first",
    "archive": "they are marked noarchive, or were released and their copy in S3 is lost",
}


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    info = subparsers.add_parser("lustre-info", help="check Lustre on this node, with a write to each mount")
    info.add_argument("--config", default=CONFIG_PATH, help="the configuration of this node (%(default)s)")
    info.add_argument("--only", metavar="ID", help="print only the verdicts with this id")
    info.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    info.set_defaults(handler=show)
    tune = subparsers.add_parser("lustre-tune", help="set the client's parameters, which every mount resets")
    tune.add_argument("--config", default=CONFIG_PATH, help="the configuration of this node (%(default)s)")
    tune.set_defaults(handler=tune_verb)
    data = subparsers.add_parser("lustre-data", help="bring files of Lustre from S3, to S3, or free their space here")
    data.add_argument(
        "action", choices=[*lustre_hsm.ACTIONS, "state"],
        help="hydrate: bring released files from S3; release: free the space of files that S3 has; archive: send files "
        "to S3; state: count where the data is",
    )  # fmt: skip
    data.add_argument("paths", nargs="+", metavar="PATH", help="a file or a directory")
    data.add_argument(
        "--parallel", type=whole_number(1, MAX_PARALLEL), default=8, help="programs at once (%(default)s)"
    )
    data.add_argument(
        "--timeout", type=whole_number(1, MAX_SECONDS), default=3600, help="seconds for each path (%(default)s)"
    )
    data.add_argument("--json", action="store_true", help="print the counts of each path as one JSON object")
    data.set_defaults(handler=data_verb)


def show(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts and return their exit code. The role checks directories, which are unknown here."""
    host = host or Host()
    try:
        config = load_config(host, args.config)
        results = verify(lustre.look(host, config, lustre.Request(probe=True)))
    except NodeError as exc:
        LOGGER.error("lustre-info: %s", exc)
        return result.EXIT_UNDETERMINABLE
    if args.only:
        known = ", ".join(dict.fromkeys(entry.id for entry in results))
        results = [entry for entry in results if entry.id == args.only]
        if not results:
            LOGGER.error(
                "lustre-info: looked for verdicts with the id %s and found only %s: name one", args.only, known
            )
            return result.EXIT_UNDETERMINABLE
    return print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)


def tune_verb(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: all is set, or nothing is configured; 1: a value was rejected; 2: it failed."""
    host = host or Host()
    try:
        config = lustre.with_adopted(host, load_config(host, args.config))
    except NodeError as exc:
        LOGGER.error("lustre-tune: %s", exc)
        return result.EXIT_UNDETERMINABLE
    if not config.tune:
        LOGGER.info("lustre-tune: nothing is set, since fsx_lustre_tune is off")
        return result.EXIT_OK
    size = lustre_tuning.machine(host)
    wanted = lustre_tuning.parameters(size, config.tuning)
    if not wanted and None in size.values():
        unknown_sizes = " and ".join(name for name, value in size.items() if value is None)
        LOGGER.error("lustre-tune: %s of this machine are unknown, and the values follow them", unknown_sizes)
        return result.EXIT_UNDETERMINABLE
    if not wanted:
        LOGGER.info("lustre-tune: a machine of this size needs no other values than Lustre's own")
        return result.EXIT_OK
    # The look mounts an automount; parameters exist only for a mounted file system.
    mounts = [lustre.mount_facts(host, system.path, config.timeout) for system in config.file_systems]
    if not any(mount["state"] == "lustre" for mount in mounts):
        where = ", ".join(f"{mount['path']} is {mount['state']}" for mount in mounts) or "none is known"
        LOGGER.error("lustre-tune: no file system of Lustre is mounted (%s), so nothing could be set", where)
        return result.EXIT_UNDETERMINABLE
    rows = lustre_tuning.compare(host, wanted, config.timeout)
    failures = lustre_tuning.apply(host, rows, config.timeout)
    unknown = [str(row["problem"]) for row in rows if row["problem"]]
    for sentence in failures + unknown:
        LOGGER.error("lustre-tune: %s", sentence)
    LOGGER.info("lustre-tune: %d of %d values differed", len(lustre_tuning.differing(rows)), len(rows))
    if failures:
        return result.EXIT_FAIL
    return result.EXIT_UNDETERMINABLE if unknown else result.EXIT_OK


def data_verb(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: done; 1: files were rejected or skipped; 2: undeterminable, or time ran out.

    With --json it prints ``changed``, ``paths`` (counts by path, with ``problem``, empty if all is done) and
    ``problem``, all problems with their paths in one sentence.
    """
    host = host or Host()
    status, counts = result.EXIT_OK, {}
    for path in args.paths:
        counts[path], found = _data_of(host, args, path)
        status = max(status, found)
        if not args.json and "files" in counts[path]:
            _print_counts({"path": path, **counts[path]})
    if args.json:
        problems = [f"{path}: {entry['problem']}" for path, entry in counts.items() if entry["problem"]]
        changed = any(entry.get("done") for entry in counts.values())
        report = {"changed": changed, "paths": counts, "problem": "; ".join(problems)}
        sys.stdout.write(f"{json.dumps(report, sort_keys=True)}\n")
    return status


def _data_of(host: Host, args: argparse.Namespace, path: str) -> tuple[dict[str, t.Any], int]:
    """Return the counts of one path with its problem, and the exit status."""
    try:
        if args.action == "state":
            return {**lustre_hsm.count(host, path, args.parallel), "problem": ""}, result.EXIT_OK
        tally = lustre_hsm.run(host, args.action, path, args.parallel, args.timeout, _progress(args.action))
    except NodeError as exc:
        LOGGER.error("lustre-data %s: %s", args.action, exc)
        return {"problem": str(exc)}, result.EXIT_UNDETERMINABLE
    problem = tally_problem(args.action, tally, args.timeout)
    if problem:
        LOGGER.error("lustre-data %s: %s", args.action, problem)
    status = result.EXIT_FAIL if problem else result.EXIT_OK
    return {**tally.as_dict(), "problem": problem}, result.EXIT_UNDETERMINABLE if tally.waiting else status


def tally_problem(action: str, tally: lustre_hsm.Tally, timeout: float) -> str:
    """Return what was not done, and why, in one sentence; empty if nothing is left."""
    parts = []
    if tally.waiting:
        parts.append(f"{tally.waiting} files were not done within {timeout:g} seconds: run it again to continue")
    if tally.passed_over:
        parts.append(f"{tally.passed_over} of {tally.files} files were passed over, since {PASSED_OVER[action]}")
    if tally.failures:
        parts.append(f"{len(tally.failures)} files were refused, the first: {tally.failures[0]}")
    return "; ".join(parts)


def _progress(action: str) -> t.Callable[[lustre_hsm.Tally], None]:
    """Return a function that logs a line at each percent of the work, and at its beginning and end."""
    last = [-1]

    def log(tally: lustre_hsm.Tally) -> None:
        due = tally.done + tally.waiting
        percent = 100 * tally.done // due if due else 100
        if percent != last[0]:
            last[0] = percent
            LOGGER.info("lustre-data %s: %d of %d files, %d%%, %d bytes", action, tally.done, due, percent,
                        tally.bytes_done)  # fmt: skip

    return log


def _print_counts(counts: t.Mapping[str, t.Any]) -> None:
    counters = (f"{name} {value}" for name, value in counts.items() if not isinstance(value, list))
    sys.stdout.write(f"{', '.join(counters)}\n")
