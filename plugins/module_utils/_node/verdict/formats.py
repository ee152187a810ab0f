# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts in the formats of other tools: pcluster-diag's report, Prometheus, JUnit, nhc.conf. Pure.

Each function takes reports (mlcluster.report/1), one for each host, and returns text. In no format does an unproved
verdict look like a pass.
"""

from __future__ import annotations

import json
import re
import typing as t
from xml.etree import ElementTree

from .result import FAIL, NOT_APPLICABLE, PASS, STATUSES, UNDETERMINABLE, Report, Result, printable

# Status words of pcluster-diag 1.0, which comes with ParallelCluster 3.16. Source: aws/aws-parallelcluster-cookbook,
# cookbooks/aws-parallelcluster-platform/files/pcluster-diag/pcluster_diag/models/result.py.
DIAG_STATUS = {
    PASS: "PASSED",
    FAIL: "FAILURE",
    UNDETERMINABLE: "CHECK_ERROR",
    NOT_APPLICABLE: "SKIPPED_NOT_APPLICABLE",
}
# In its codes E0 means that a check could not finish, and E1 is the first of a check's own errors.
DIAG_CODE = {FAIL: ("errors", "E1"), UNDETERMINABLE: ("errors", "E0"), NOT_APPLICABLE: ("infos", "I1")}
# Time limit in seconds for NHC; the profile ends after 4, and a Slurm command may follow.
NHC_SECONDS = 15
# Prometheus uses 64-bit floats; larger integers are left out, as are NaN and infinity.
LARGEST = 1e308
LONGEST_LABEL = 200
# Characters that XML 1.0 does not allow.
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def words(result: Result) -> str:
    """Return the text of a verdict without its status and id."""
    return result.line().split(": ", 1)[-1]


def diag(reports: t.Sequence[Report]) -> str:
    """Return JSON with the fields of pcluster-diag's report, context and results; a list for several hosts."""
    found = [_diag(report) for report in reports]
    return json.dumps(found[0] if len(found) == 1 else found, indent=2, allow_nan=False) + "\n"


def _diag(report: Report) -> dict[str, t.Any]:
    ids = {result.scope.instance_id for result in report.results if result.scope.instance_id}
    return {
        "context": {
            "timestamp": report.time,
            "tool": "mlcluster",
            "host": report.host,
            "instance_id": ids.pop() if len(ids) == 1 else None,
            "versions": dict(report.versions),
        },
        "results": [_diag_result(result) for result in report.results],
    }


def _diag_result(result: Result) -> dict[str, t.Any]:
    entry: dict[str, t.Any] = {
        "check_id": result.id,
        "check_description": f"{result.id} ({result.scope.device})" if result.scope.device else result.id,
        "status": DIAG_STATUS[result.status],
        "errors": None,
        "warnings": None,
        "infos": None,
    }
    if result.status in DIAG_CODE:
        kind, code = DIAG_CODE[result.status]
        entry[kind] = [{"code": code, "message": words(result)}]
    return entry


def prometheus(reports: t.Sequence[Report]) -> str:
    """Return the text format of Prometheus, for node_exporter's textfile collector.

    Metrics: mlcluster_verdict (always 1: status and severity are labels, so that a verdict is one series),
    mlcluster_check_value (numbers, with the label unit; each number of a mapping, with the label key) and
    mlcluster_check_seconds. The label number distinguishes several verdicts of one check and device.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in _METRICS}
    for report in reports:
        seen: dict[tuple[str, str], int] = {}
        for result in report.results:
            key = (result.id, result.scope.device or "")
            seen[key] = seen.get(key, 0) + 1
            labels = {"node": report.host, "check": result.id, "device": key[1], "number": str(seen[key])}
            state = {**labels, "status": result.status, "severity": result.severity}
            samples["mlcluster_verdict"].append((state, 1))
            if result.seconds is not None:
                samples["mlcluster_check_seconds"].append((labels, result.seconds))
            samples["mlcluster_check_value"] += [
                ({**labels, "unit": result.unit or "", "key": key_label}, value)
                for key_label, value in _figures(result.found)
            ]
    return "".join(family(name, _METRICS[name], found) for name, found in samples.items())


def _figures(found: object) -> list[tuple[str, float]]:
    """Return the numbers of a value that Prometheus supports, as (key, number); the key of a single number is empty."""
    pairs = found.items() if isinstance(found, dict) else [("", found)]
    return [
        (str(key), value)
        for key, value in pairs
        if isinstance(value, (int, float)) and abs(value) <= LARGEST and str(key).isprintable()
    ]


_METRICS = {
    "mlcluster_verdict": "1 for each verdict; severity is what to do about the node where status is fail.",
    "mlcluster_check_seconds": "How long the check took.",
    "mlcluster_check_value": "The figure that the check found.",
}
Sample = tuple[t.Mapping[str, str], float]


def family(name: str, text: str, samples: t.Sequence[Sample], kind: str = "gauge") -> str:
    """Return one metric with all its samples, or empty text without samples; empty labels are left out."""
    if not samples:
        return ""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_label(words)}"' for key, words in labels.items() if words)
        # Counters of bytes need all digits of a float.
        lines.append(f"{name}{{{inside}}} {repr(float(value)).removesuffix('.0')}")
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    # Bytes that are not UTF-8 would make the whole file unreadable.
    return printable(text)[:LONGEST_LABEL].replace("\\", "\\\\").replace('"', '\\"')


def junit(reports: t.Sequence[Report]) -> str:
    """Return JUnit's XML, a suite for each host: a fail is a failure, an undeterminable verdict an error."""
    root = ElementTree.Element("testsuites", name="mlcluster")
    for report in reports:
        counts = {status: sum(result.status == status for result in report.results) for status in STATUSES}
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(report.host),
            timestamp=report.time,
            tests=str(len(report.results)),
            failures=str(counts[FAIL]),
            errors=str(counts[UNDETERMINABLE]),
            skipped=str(counts[NOT_APPLICABLE]),
        )
        for result in report.results:
            name = f"{result.id} ({result.scope.device})" if result.scope.device else result.id
            case = ElementTree.SubElement(
                suite, "testcase", classname=_xml(report.host), name=_xml(name), time=f"{result.seconds or 0:.3f}"
            )
            kind = {FAIL: "failure", UNDETERMINABLE: "error", NOT_APPLICABLE: "skipped"}.get(result.status)
            if kind:
                ElementTree.SubElement(case, kind, message=_xml(words(result)), type=result.severity)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    return NO_XML.sub(" ", text)


def nhc(reports: t.Sequence[Report]) -> str:
    """Return lines for nhc.conf of LBNL's Node Health Check, one for each host.

    NHC runs the light check itself: only the host names come from the reports, not their results.
    Source of check_cmd_status and its options: the README of mej/nhc.
    """
    call = f"check_cmd_status -t {NHC_SECONDS} -r 0 /usr/local/bin/mlcluster health --profile prolog --fail-open"
    return "".join(f"{report.host} || {call}\n" for report in reports if re.fullmatch(r"[\w.-]+", report.host))


FORMATS: dict[str, t.Callable[[t.Sequence[Report]], str]] = {
    "diag": diag,
    "prometheus": prometheus,
    "junit": junit,
    "nhc": nhc,
}
