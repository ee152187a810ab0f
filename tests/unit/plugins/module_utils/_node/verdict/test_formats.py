# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import formats
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    Report,
    Scope,
    failed,
    not_applicable,
    passed,
    undeterminable,
)

RESULTS = (
    passed("gpu.count", 8, expected=8, unit="GPUs", seconds=0.25),
    failed("gpu.xid", 'Xid 79 "off the\nbus" \\ \x07', severity="reboot", scope=Scope(device="gpu3")),
    undeterminable("gds.mode", "timeout"),
    not_applicable("neuron.count", "no_neuron"),
)
REPORT = Report("p5-1", "2026-01-31T12:00:00Z", {"driver": "580"}, RESULTS)
SAMPLE = re.compile(r'(\w+)\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\S+)')


def test_diag_has_shape_of_pcluster_diag():
    found = json.loads(formats.diag([REPORT]))
    assert found["context"]["host"] == "p5-1"
    assert [(one["check_id"], one["status"]) for one in found["results"]] == [
        ("gpu.count", "PASSED"),
        ("gpu.xid", "FAILURE"),
        ("gds.mode", "CHECK_ERROR"),
        ("neuron.count", "SKIPPED_NOT_APPLICABLE"),
    ]
    assert found["results"][0]["errors"] is None
    assert found["results"][1]["errors"][0]["code"] == "E1"
    assert found["results"][2]["errors"] == [{"code": "E0", "message": "timeout"}]
    assert found["results"][3]["infos"] == [{"code": "I1", "message": "no_neuron"}]
    assert len(json.loads(formats.diag([REPORT, REPORT]))) == 2


def test_prometheus_parses_every_line():
    lines = formats.prometheus([REPORT]).splitlines()
    samples = [SAMPLE.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(samples)
    failed = 'mlcluster_verdict{node="p5-1",check="gpu.xid",device="gpu3",number="1",status="fail",severity="reboot"} 1'
    assert [line for line in lines if 'mlcluster_verdict{node="p5-1",check="gpu.xid"' in line] == [failed]
    assert 'mlcluster_check_value{node="p5-1",check="gpu.count",number="1",unit="GPUs"} 8' in lines
    assert 'mlcluster_check_seconds{node="p5-1",check="gpu.count",number="1"} 0.25' in lines


def test_prometheus_series_are_unique_and_families_contiguous():
    twice = Report("p5-1", REPORT.time, {}, (*RESULTS, *RESULTS))
    lines = formats.prometheus([twice, Report("p5-2", REPORT.time, {}, RESULTS)]).splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


def test_counter_keeps_all_digits():
    assert formats.family("a", "b", [({"x": "1"}, 123456789012345)]).splitlines()[2] == 'a{x="1"} 123456789012345'
    assert formats.family("a", "b", []) == ""


def test_label_is_printable_and_short():
    (line,) = formats.family("a", "b", [({"name": 'x"\\\n\udcff' + "y" * 300}, 1)]).splitlines()[2:]
    assert line.startswith('a{name="x\\"\\\\  y') and len(line) < 220
    line.encode("utf-8")


def test_junit_counts_undeterminable_as_error():
    suite = ElementTree.fromstring(formats.junit([REPORT])).find("testsuite")
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"], ["skipped"]]
    assert "Xid 79" in suite[1][0].get("message")


@pytest.mark.parametrize("text", ["\x00\x01\x1b[31m", "\ud800", "\ufffe", "]]>&<"])
def test_junit_accepts_any_text(text):
    report = Report("p5-1", REPORT.time, {}, (failed("gpu.xid", f"a{text}b"),))
    ElementTree.fromstring(formats.junit([report]).encode("utf-8"))


def test_nhc_line_runs_light_check():
    lines = formats.nhc([REPORT, Report("$(reboot)", REPORT.time, {}, RESULTS)])
    assert lines == (
        "p5-1 || check_cmd_status -t 15 -r 0 /usr/local/bin/mlcluster health --profile prolog --fail-open\n"
    )
