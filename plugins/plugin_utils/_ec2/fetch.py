# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask every region for its instances in parallel, and report exactly what failed."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import enrich as _ec2_enrich
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import errors as _ec2_errors
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import hardware as _ec2_hardware
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import parse as _ec2_parse
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import record as _ec2_record
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import session as _ec2_session
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import trim as _ec2_trim

THREADS = 8
PAGE_SIZE = 1000
# Seconds without a finished region after which the pending regions are reported.
REPORT_SECONDS = 10.0

# Number of tries for a truncated page.
TRIES = 3

Report = Callable[[str], None]
# ``session.Aws.errors``: the exceptions of a failed request. The last one means that the response is unreadable.
Errors = tuple[type[Exception], ...]


class FetchError(Exception):
    """No region answered, or a required region did not; the message is one sentence."""


@dataclass(frozen=True)
class Question:
    """The request. ``requests`` has the filters of each DescribeInstances call; the results are merged."""

    regions: list[str]
    requests: list[list[dict[str, Any]]]
    tag_keys: dict[str, str]
    default_node_type: str | None = None
    enrich: tuple[str, ...] = ()
    hardware: str = "api"
    full_record: bool = False
    strict_regions: bool = False
    slurm_table_prefix: str = _ec2_enrich.SLURM_TABLE_PREFIX
    # Optional fields to read, of ``record.EXTRAS``.
    extras: tuple[str, ...] = ()
    # Fields not to read, of ``trim.LONELY``.
    unread: tuple[str, ...] = ()
    # Keys of the tags to read; None reads all.
    tags: tuple[str, ...] | None = None


@dataclass
class Answer:
    """The result. ``account`` is set only if there are no hosts, for the warning about that."""

    records: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)
    account: str | None = None
    complete: bool = True


@dataclass
class _Unit:
    """One region with one set of credentials."""

    region: str
    credentials: _ec2_session.Credentials
    clients: dict[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failure: str | None = None
    # Whether a retry of the failed calls would fail as well; True without failures.
    is_permanent: bool = True
    crash: BaseException | None = None

    def place(self) -> str:
        return f"{self.region} ({self.credentials.label})" if self.credentials.label else self.region


def _pages(client: Any, filters: list[dict[str, Any]], unreadable: type[Exception]) -> Iterator[dict[str, Any]]:
    """Yield the pages of DescribeInstances; retry a truncated page, which botocore does not."""
    request: dict[str, Any] = {"Filters": filters, "MaxResults": PAGE_SIZE}
    token, tries = None, 0
    while True:
        tries += 1
        try:
            page = client.describe_instances(**request, **({"NextToken": token} if token else {}))
        except unreadable:
            if tries == TRIES:
                raise
            continue
        tries = 0
        yield page
        before, token = token, page.get("NextToken")
        if not token:
            return
        if token == before:
            # The same page would repeat forever; botocore's paginator raises the same error.
            from botocore.exceptions import PaginationError

            raise PaginationError(message=f"The same next token was received twice: {token[:40]}")


def _instances(unit: _Unit, question: Question, unreadable: type[Exception]) -> list[dict[str, Any]]:
    by_id: dict[str, dict[str, Any]] = {}
    for filters in question.requests:
        for page in _pages(unit.clients["ec2"], filters, unreadable):
            for reservation in page.get("Reservations", ()):
                owner = reservation.get("OwnerId")
                for instance in reservation.get("Instances", ()):
                    record = _ec2_record.make(
                        instance, owner, unit.region, question.tag_keys, question.default_node_type
                    )
                    if question.extras:
                        record.update(_ec2_record.extras(instance))
                    if question.full_record:
                        record["instance"] = _ec2_record.plain(instance)
                    by_id[record["instance_id"]] = record
    return list(by_id.values())


def _ask(unit: _Unit, question: Question, errors: Errors) -> None:
    try:
        unit.records = _instances(unit, question, errors[-1])
    except errors as exc:
        unit.failure = f"DescribeInstances failed in {unit.place()}: {_ec2_session.reason(exc)}"
        unit.is_permanent = _ec2_session.is_permanent(exc)
        return
    if not unit.records:
        return
    for name in question.enrich:
        enrichment = _ec2_enrich.ENRICHMENTS[name]
        extra = {"prefix": question.slurm_table_prefix} if name == "slurm_names" else {}
        try:
            enrichment.add(unit.clients[enrichment.service], unit.records, **extra)
        except errors as exc:
            count = sum(_ec2_enrich.add_missing_keys(record, name) for record in unit.records)
            unit.is_permanent = unit.is_permanent and _ec2_session.is_permanent(exc)
            unit.warnings.append(
                f"{name} is missing for {count} hosts of {unit.place()}: "
                f"{enrichment.call} failed: {_ec2_session.reason(exc)}"
            )


def _units(aws: _ec2_session.Aws, question: Question, credentials: Iterable[_ec2_session.Credentials]) -> list[_Unit]:
    services = {"ec2"} | {_ec2_enrich.ENRICHMENTS[name].service for name in question.enrich}
    return [
        _Unit(region, credential, {service: aws.client(service, region, credential) for service in sorted(services)})
        for credential in credentials
        for region in aws.regions(question.regions, credential)
    ]


def _ask_all(units: list[_Unit], question: Question, errors: Errors, report: Report) -> None:
    """Query all units, and report the pending regions every ``REPORT_SECONDS`` seconds.

    Uses daemon threads, so that Ctrl-C does not wait for a region that hangs.
    """
    waiting: queue.SimpleQueue[_Unit] = queue.SimpleQueue()
    finished: queue.SimpleQueue[_Unit] = queue.SimpleQueue()
    for unit in units:
        waiting.put(unit)

    def work() -> None:
        while True:
            try:
                unit = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                _ask(unit, question, errors)
            # Any exception has to be raised by the waiting thread.
            except BaseException as exc:
                unit.crash = exc
            finished.put(unit)

    for _thread in range(min(THREADS, len(units))):
        threading.Thread(target=work, daemon=True).start()
    pending, started = {id(unit): unit for unit in units}, time.monotonic()
    while pending:
        try:
            unit = finished.get(timeout=REPORT_SECONDS)
        except queue.Empty:
            places = sorted(each.place() for each in pending.values())
            more = f" and {len(places) - 5} more" if len(places) > 5 else ""
            report(f"waiting for {', '.join(places[:5])}{more}, {time.monotonic() - started:.0f} s so far")
            continue
        del pending[id(unit)]
        if unit.crash is not None:
            raise unit.crash


def _region_warnings(units: list[_Unit], strict: bool) -> list[str]:
    """Return warnings about regions that failed. Raises FetchError when none answered, or for one when ``strict``."""
    failures = [unit.failure for unit in units if unit.failure]
    if failures and (strict or len(failures) == len(units)):
        more = f" (and {len(failures) - 1} more regions failed)" if len(failures) > 1 else ""
        cause = "strict_regions is set" if len(failures) < len(units) else "no region answered"
        raise FetchError(f"{failures[0]}{more}; {cause}, so there is no inventory")
    return [f"{failure}; its hosts are missing from the inventory" for failure in failures]


def _hardware(
    units: list[_Unit], question: Question, cache: _ec2_hardware.LongCache, errors: Errors
) -> tuple[dict[str, _ec2_hardware.Facts], list[str]]:
    """Return the facts of every instance type found, each queried once, in the first region that has it."""
    units_by_type: dict[str, _Unit] = {}
    for unit in units:
        for record in unit.records:
            units_by_type.setdefault(record["instance_type"], unit)
    facts = cache.get(units_by_type) if question.hardware == "api" else {}
    fresh: dict[str, _ec2_hardware.Facts] = {}
    warnings = []
    for unit in units if question.hardware == "api" else ():
        missing = [name for name, place in units_by_type.items() if place is unit and name not in facts]
        if missing:
            try:
                fresh.update(_ec2_hardware.describe(unit.clients["ec2"], missing))
            except errors as exc:
                warnings.append(
                    f"DescribeInstanceTypes failed in {unit.place()}: {_ec2_session.reason(exc)}; "
                    "the built-in table is used instead"
                )
    cache.put(fresh)
    facts.update(fresh)
    unknown = []
    for name in units_by_type:
        if name not in facts:
            facts[name] = _ec2_hardware.from_table(name) or _ec2_hardware.unknown()
            if facts[name]["source"] == "unknown":
                unknown.append(name)
    if unknown:
        warnings.append(f"nothing is known about {', '.join(sorted(unknown))}; such hosts are in no hardware group")
    return facts, warnings


def ask(
    access: _ec2_session.Access, question: Question, cache: _ec2_hardware.LongCache, report: Report = print
) -> Answer:
    """Return the instances of all regions. Raises AccessError without access to AWS, FetchError if regions are missing.

    The records come sorted by region and instance id, so that the same fleet gives the same inventory. ``report`` is
    called with a line of progress if no region has been finished for a while.
    """
    aws = _ec2_session.Aws(access)
    for event in _ec2_errors.EVENTS:
        aws.on(event, _ec2_errors.before_parse)
    if not question.full_record:
        aws.on(_ec2_trim.EVENT, _ec2_trim.Trim(question.extras, question.unread, question.tags).before_parse)
        aws.on(_ec2_trim.EVENT, _ec2_parse.Instances().before_parse)
    credentials, rejected = aws.credentials()
    if rejected and question.strict_regions:
        raise rejected[0]
    units = _units(aws, question, credentials)
    _ask_all(units, question, aws.errors, report)
    warnings = _region_warnings(units, question.strict_regions)
    facts, hardware_warnings = _hardware(units, question, cache, aws.errors)
    answer = Answer(warnings=warnings, regions=sorted({unit.region for unit in units}))
    answer.warnings += [f"{error}; its hosts are missing from the inventory" for error in rejected]
    answer.complete = all(unit.is_permanent for unit in units) and all(error.is_permanent for error in rejected)
    # Two roles of one account see the same instances.
    by_id: dict[str, dict[str, Any]] = {}
    for unit in units:
        answer.warnings += unit.warnings
        for record in unit.records:
            by_id.setdefault(record["instance_id"], record)
    answer.records = list(by_id.values())
    answer.warnings += hardware_warnings
    for record in answer.records:
        attached = record.pop("efa_attached")
        record["accelerators"] = {**facts[record["instance_type"]], "efa_attached": attached}
    answer.records.sort(key=lambda record: (record["region"], record["instance_id"]))
    if not answer.records and units:
        answer.account = aws.account(units[0].credentials)
    return answer
