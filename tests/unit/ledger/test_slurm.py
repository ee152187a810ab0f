# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's recorded answers on the node n1, the ping of its controller, and the end of a validation job."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.slurm import check_slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.validation import collect
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

from tests.unit.fakes.fake_slurm_node import BIN, SlurmHost
from tests.unit.ledger.walk import Excuse, Leaf, Room, bounded, fact_leaves, room_tests

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm-22.05"
PING = "Slurmctld(primary) at head is UP\n"
RECORD = (FIXTURES / "nodes.txt").read_text(encoding="utf-8").splitlines()[0]
NAME, OTHER = "name that no verdict compares", "what the node has, which other verdicts judge"
JUDGED = ("NodeName", "NodeHostName", "State")


def leaves():
    for found in re.finditer(r"(?<!\S)(\w+)=(\S+)", RECORD):
        yield Leaf(found.group(1), found.group(2), functools.partial(_replaced, *found.span(2)))
    for name, word in (("ping/role", "primary"), ("ping/host", "head"), ("ping/state", "UP")):
        start = PING.index(word)
        yield Leaf(name, word, functools.partial(_pinged, start, start + len(word)))


def _replaced(start, end, text):
    return {"node": RECORD[:start] + (text or "") + RECORD[end:], "ping": PING}


def _pinged(start, end, text):
    return {"node": RECORD, "ping": PING[:start] + (text or "") + PING[end:]}


def judge(outputs):
    host = SlurmHost()
    host.files[f"{BIN}/scontrol"] = ""
    host.commands = {f"{BIN}/scontrol ping": outputs["ping"], f"{BIN}/scontrol --details": outputs["node"] + "\n"}
    return check_slurm(Slurm(host, "/opt/slurm", None), "compute")


KEYS = sorted({leaf.path for leaf in leaves()} - {*JUDGED, "ping/state", "ping/role", "ping/host"})
LEDGER = (
    *(Excuse(key, OTHER) for key in KEYS),
    *(Excuse(name, "the other of both names is its own") for name in ("NodeName", "NodeHostName")),
    *(Excuse(f"ping/{name}", NAME) for name in ("role", "host")),
)


@pytest.mark.parametrize("number", range(3))
def test_room(number, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    good = {"node": RECORD, "ping": PING}
    room_tests(Room("Slurm's node", good, list(leaves()), bounded(judge), LEDGER))[number]()


def run_good():
    report = result.Report("n1", "2026-01-31T12:00:00Z", {}, (result.passed("smoke.tasks", 4),)).to_dict()
    job = {"job_id": 7, "state": "COMPLETED", "exit_code": 0, "nodes": "n[1-2]", "elapsed_seconds": 3}
    # Strings only: the verdict's values, without its scope.
    report["results"] = [{key: value for key, value in report["results"][0].items() if value is not None}]
    report["results"][0].pop("scope")
    return {"job": job, "report": report}


def run_judge(facts):
    run = {"name": "smoke", "job": facts["job"], "report": json.dumps(facts["report"]), "message": None}
    return {"smoke": collect([run])["status"]}


RUN_LEDGER = (
    *(Excuse(f"job/{name}", "told, and judged by nobody") for name in ("job_id", "nodes", "elapsed_seconds")),
    Excuse("report/host", "the directory is the job's; the host of a node's report is judged there"),
    Excuse("report/results/0/found", "judged by the verdict that found it"),
    Excuse("report/time", "another year", ("half",)),
)


@pytest.mark.parametrize("number", range(3))
def test_room_of_run(number):
    room = Room("validation job", run_good(), fact_leaves(run_good()), run_judge, RUN_LEDGER)
    room_tests(room)[number]()
