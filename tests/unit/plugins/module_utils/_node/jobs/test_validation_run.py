# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A validation from the head node; Slurm itself stands behind tests/integration/slurm/test_run_validation.py."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import validation_run
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.validation_run import (
    Options,
    Validation,
    find_jobs,
    node_problems,
    sbatch_options,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import SlurmError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.follow import Entry
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.request import NotSubmittedError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

from tests.rig.slurm.scripts import Role
from tests.unit.plugins.module_utils._node.slurm.test_shortages import node

JOBS = [
    {"name": "smoke", "kind": "node_smoke"},
    {"name": "nccl", "kind": "nccl"},
    {
        "name": "llama",
        "kind": "training",
        "command": ["true"],
        "checkpoints": "/fsx/checkpoints",
        "minutes": 50,
        "grace_seconds": 60,
        "signal_seconds": 90,
    },  # fmt: skip,
]
NODES = [node("n1", "IDLE", "main"), node("n2", "IDLE", "main")]


@pytest.fixture
def place(tmp_path):
    """A directory with the jobs as the role renders them."""
    for path, text in Role(jobs=JOBS, dir=str(tmp_path)).files().items():
        (tmp_path / path.rpartition("/")[2]).write_text(text)
    (tmp_path / "results").mkdir()
    (tmp_path / "notes.json").write_text("{}")
    return tmp_path


class Cluster:
    """A Slurm that takes every job; ``states`` are the records of its nodes."""

    host = Host()

    def __init__(self, monkeypatch):
        self.calls = []
        self.taken = {}
        self.refused = set()
        self.states = {name: {"flags": [], "reason": None} for name in ("n1", "n2")}
        partition = {"name": "main", "state": "UP", "default": True, "node_count": 2, "max_nodes": None,
                     "max_seconds": None, "accounts": None}  # fmt: skip
        self.facts = {"healthy": True, "problems": [], "nodes": NODES, "partitions": [partition], "accounting": False,
                      "settings": {}, "licenses": {}, "container_options": 0}  # fmt: skip
        monkeypatch.setattr(validation_run, "survey", lambda slurm: self.facts)
        monkeypatch.setattr(validation_run.slurm_job, "find", lambda slurm, request: self.taken.get(self.name(request)))
        monkeypatch.setattr(validation_run.slurm_job, "submit_once", self.submit)
        monkeypatch.setattr(validation_run, "follow", self.follow)
        monkeypatch.setattr(validation_run.drain, "state_of", lambda slurm, name, seconds: self.states[name])
        monkeypatch.setattr(validation_run.drain, "update", self.update)
        self.ends = {}

    @staticmethod
    def name(request):
        return request.options["job-name"]

    def submit(self, slurm, request, progress):
        if self.name(request) in self.refused:
            raise SlurmError("sbatch does not take it", "closed", "wait")
        self.calls.append(("submit", self.name(request), request.options.get("nodes")))
        return len(self.calls) + 10, True

    def follow(self, slurm, entries, progress, timeout, cancel_on_timeout):
        self.calls.append(("follow", timeout, cancel_on_timeout))
        for entry in entries:
            entry.over, entry.job = (
                True,
                {
                    "job_id": entry.job_id,
                    "nodes": "n[1-2]",
                    "elapsed_seconds": 1,
                    **self.ends.get(entry.name, {"state": "COMPLETED", "exit_code": 0}),
                },
            )

    def update(self, slurm, name, seconds, *what):
        if what[0] == "State=DRAIN" and self.states[name].get("broken"):
            raise NodeError("scontrol is silent")
        self.calls.append((name, *what))


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(monkeypatch)


@pytest.fixture
def validate(place, cluster):
    """validate(**options) returns a prepared validation, with its output in ``lines``."""

    def prepare(*names, **options):
        lines = []
        found = Validation(cluster, Options(str(place), names, **options), lines.append)
        found.lines = lines
        found.prepare()
        return found

    return prepare


def report(place, name, number, *results, time=None):
    folder = place / "results" / f"{name}-{number}"
    folder.mkdir()
    (folder / "report.json").write_text(result.dumps(result.Report("n1", time or Host().now(), {}, results)))


def test_jobs_without_verdict_are_left_out(place):
    specs, problems = find_jobs(Host(), str(place))
    assert ([spec.name for spec in specs], problems) == (["nccl", "smoke"], [])
    specs, problems = find_jobs(Host(), str(place), ["smoke", "llama", "dance", "../smoke", "notes"])
    assert [spec.name for spec in specs] == ["smoke"]
    assert [problem.partition(":")[0] for problem in problems] == [
        "llama is a training, which validates nothing, and the timeout would cancel it",
        *(f"{place} has no job {name}" for name in ("dance", "../smoke", "notes")),
    ]


def test_directory_without_jobs_is_rejected(tmp_path):
    assert "has no job with a verdict" in find_jobs(Host(), str(tmp_path))[1][0]


def test_unreadable_job_is_rejected(place):
    (place / "smoke.json").write_text((place / "smoke.json").read_text().replace('"tasks": ', '"tasks": -'))
    (problem,) = find_jobs(Host(), str(place), ["smoke"])[1]
    assert "smoke.json is not a job: tasks is -8, use an integer from 1" in problem


@pytest.mark.parametrize("text", ["", '{"schema": "mlcluster.job/1", ', '{"schema": "mlcluster.job/2"}', None])
def test_damaged_job_is_not_left_out_of_all(place, text):
    (place / "nccl.json").unlink() if text is None else (place / "nccl.json").write_text(text)
    (place / "mine.sbatch").write_text("#!/bin/sh\n")
    specs, (problem,) = find_jobs(Host(), str(place))
    assert [spec.name for spec in specs] == ["smoke"]
    assert "nccl.json does not fit nccl.sbatch, and that job would have no verdict" in problem


def test_nodes_that_slurm_does_not_know_or_that_are_not_ours():
    facts = {"nodes": [{"name": "n1", "reason": "mlcluster: nccl: x"}, {"name": "n2", "reason": "mlcluster health: y"}]}
    found = node_problems(Options("/d", nodelist=("n1", "n9"), undrain=("n1", "n2", "n9")), facts)
    assert [problem.partition(":")[0] for problem in found] == [
        "Slurm knows no node n9",
        "n2 is not drained by mlcluster and was not changed",
        "n9 is not drained by mlcluster and was not changed",
    ]


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({}, {}),
        ({"nodes": "3"}, {"nodes": "3"}),
        ({"nodes": "all"}, {"nodes": "2"}),
        ({"nodes": "all", "partition": "big"}, {"partition": "big", "nodes": "80"}),
        ({"nodelist": ("n1", "n2"), "nodes": "all"}, {"nodes": "2", "nodelist": "n1,n2"}),
    ],
)
def test_options_of_sbatch(options, given):
    facts = {"partitions": [{"name": "main", "default": True, "node_count": 2},
                            {"name": "big", "default": False, "node_count": 80}]}  # fmt: skip
    assert sbatch_options(Options("/d", **options), {}, facts) == given
    stated = sbatch_options(Options("/d", nodes="all"), {"partition": "big"}, facts)
    assert stated == {"nodes": "80"}


def test_everything_wrong_is_reported_before_anything_is_done(validate, cluster):
    cluster.facts["nodes"] = [NODES[0], node("n2", "IDLE+DRAIN", "main")]
    with pytest.raises(NotSubmittedError) as refused:
        validate("smoke", "nccl")
    why = "2 nodes were requested and only 1 of partition main takes jobs (n2 is drained)"
    assert str(refused.value).startswith(f"nothing was submitted: smoke, nccl: {why}: resume those")
    with pytest.raises(NotSubmittedError, match=r"n9.*dance|dance.*n9"):
        validate("dance", nodelist=("n9",))
    assert cluster.calls == []


def test_job_that_is_there_needs_no_nodes(validate, cluster):
    cluster.facts["nodes"] = [NODES[0], node("n2", "IDLE+DRAIN", "main")]
    cluster.taken = {"smoke": 4}
    assert [run.taken for run in validate("smoke").runs] == [4]


def test_silent_cluster_gets_no_submission(validate, cluster):
    cluster.facts.update(healthy=False, problems=["no controller is up"])
    with pytest.raises(NodeError, match="no controller is up: run this on a node that submits jobs"):
        validate()


def test_jobs_run_are_judged_and_kept(validate, cluster, place):
    ran = validate("smoke", "nccl", cluster="train", nodes="2", timeout=60)
    ran.submit()
    assert cluster.calls == [("submit", "smoke", "2"), ("submit", "nccl", "2")]
    ran.follow()
    assert cluster.calls[-1] == ("follow", 60, True)
    report(place, "smoke", 11, result.passed("smoke.tasks", 16))
    report(place, "nccl", 12, result.passed("nccl.correct", 1))
    verdict = ran.judge()
    assert (verdict["status"], verdict["cluster"], verdict["exit_code"]) == ("pass", "train", 0)
    assert ran.keep(verdict) == []
    assert json.loads((place / "results/validation-11.json").read_text()) == verdict
    assert ran.changed


@pytest.mark.parametrize(("is_ours", "status"), [(True, "undeterminable"), (False, "pass")])
def test_report_of_earlier_job_of_number_is_ignored(validate, cluster, place, monkeypatch, is_ours, status):
    monkeypatch.setattr(validation_run.slurm_job, "submit_once", lambda slurm, request, progress: (11, is_ours))
    ran = validate("smoke")
    ran.submit()
    ran.follow()
    report(place, "smoke", 11, result.passed("smoke.tasks", 16), time="2001-01-31T12:00:00Z")
    verdict = ran.judge()
    # When a job began that was there already is not known.
    assert (verdict["status"], ran.changed) == (status, is_ours)
    words = "left a report of 2001-01-31T12:00:00Z, from before it was submitted (2"
    assert not is_ours or words in verdict["problems"][0]


def test_job_that_slurm_rejects_is_part_of_verdict(validate, cluster, place):
    cluster.refused = {"smoke"}
    ran = validate("smoke")
    ran.submit()
    ran.follow()
    verdict = ran.judge()
    assert (verdict["status"], verdict["jobs"][0]["state"]) == ("undeterminable", "NOT SUBMITTED")
    assert "sbatch does not take it: closed" in verdict["problems"][0]
    assert ran.file == f"{place}/results/validation-none.json" and not ran.changed


def test_results_of_another_user_are_ignored(validate, cluster, place, monkeypatch):
    ran = validate("smoke")
    ran.submit()
    ran.follow()
    report(place, "smoke", 11, result.passed("smoke.tasks", 16))
    monkeypatch.setattr(cluster.host, "own_uid", lambda: 4711, raising=False)
    assert "left no report" in ran.judge()["problems"][0]


def test_link_to_results_is_ignored(validate, cluster, place):
    ran = validate("smoke")
    ran.submit()
    ran.follow()
    report(place, "other", 1, result.passed("smoke.tasks", 16))
    (place / "results/smoke-11").symlink_to(place / "results/other-1")
    assert "left no report" in ran.judge()["problems"][0]


def test_drain_by_person_is_kept(validate, cluster):
    ran = validate("smoke", drain=True)
    cluster.states = {"n1": {"flags": ["DRAIN"], "reason": "fan, ticket 5"}, "n2": {"flags": [], "reason": "back"},
                      "n3": {"flags": ["DRAIN"], "reason": "mlcluster: gpu.count: 7"},
                      "n4": {"flags": [], "reason": None, "broken": True}}  # fmt: skip
    failed = ran.drain({"bad_nodes": dict.fromkeys(cluster.states, "mlcluster: nccl.nodes: slow")})
    what = ("State=DRAIN", "Reason=mlcluster: nccl.nodes: slow")
    assert cluster.calls == [("n2", *what), ("n3", *what)]
    assert failed == ["n4 could not be drained by scontrol (scontrol is silent)"]
    assert ran.lines[0].startswith("n1 was skipped, for it is drained already and the reason is not of mlcluster")


def test_nodes_are_resumed_before_first_job(validate, cluster):
    cluster.facts["nodes"] = [{**NODES[0], "reason": "mlcluster: nccl: x"}, NODES[1]]
    validate("smoke", undrain=("n1",)).submit()
    assert cluster.calls[0] == ("n1", "State=RESUME")


def test_verdict_that_cannot_be_kept_is_reported(validate, place):
    ran = validate("smoke")
    ran.runs[0].entry = Entry("smoke", 7, None)
    (place / "results/validation-7.json").mkdir()
    (lost,) = ran.keep({})
    assert lost.startswith(f"the verdict was not written to {place}/results/validation-7.json: ")
    assert not ran.changed


def test_verdict_of_earlier_job_of_number_is_kept(validate, place):
    ran = validate("smoke")
    ran.runs[0].entry = Entry("smoke", 7, None)
    for text in ("paid", "for", "all"):
        assert ran.keep({"text": text}) == []
    found = {path.name: json.loads(path.read_text())["text"] for path in (place / "results").glob("validation*")}
    assert found == {
        "validation-7.json.earlier-1": "paid",
        "validation-7.json.earlier-2": "for",
        "validation-7.json": "all",
    }


def test_verdict_without_job_is_not_kept(validate, place):
    ran = validate("smoke")
    assert (ran.keep({}), ran.keep({})) == ([], [])
    assert [path.name for path in (place / "results").glob("validation*")] == ["validation-none.json"]


def test_dry_run_submits_nothing(validate, cluster, monkeypatch):
    cluster.taken = {"nccl": 4}
    monkeypatch.setattr(validation_run.slurm_job, "test_only", lambda slurm, request: "starts now on n1")
    ran = validate("smoke", "nccl", nodes="1")
    ran.preview()
    assert cluster.calls == []
    assert ran.lines[0].startswith("smoke: sbatch --nodes=1 ") and ran.lines[0].endswith(
        "smoke.sbatch: starts now on n1"
    )
    assert ran.lines[1] == "nccl: job 4 exists already, and would be followed"
