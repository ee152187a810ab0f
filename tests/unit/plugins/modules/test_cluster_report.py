# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action cluster_report, as a task has it: options in, files and a result out."""

from __future__ import annotations

import base64
import json
import types

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.mlcluster.aws.plugins.action import cluster_report
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import validation as _slurm_jobs_report
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.verify import judge_job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Report, dumps
from ansible_collections.mlcluster.aws.plugins.modules import cluster_report as documented

from tests.unit.fakes import fake_cluster as scene
from tests.unit.fakes.fake_nccl_output import output

OPTIONS = yaml.safe_load(documented.DOCUMENTATION)["options"]


@pytest.fixture
def report(tmp_path):
    """report(check=False, **options) gives the result; the files lie in the folder "report"."""

    def run(check=False, **options):
        given = {"nodes": [scene.node("a")], "directory": str(tmp_path / "report"), "time": scene.TIME, **options}
        task = types.SimpleNamespace(args=given, check_mode=check, async_val=0, action="mlcluster.aws.cluster_report")
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        return cluster_report.ActionModule(task, connection, None, None, None, None).run(task_vars={})

    return run


def encoded(document):
    text = document if isinstance(document, str) else json.dumps(document)
    return base64.b64encode(text.encode()).decode()


def test_only_requested_files_are_written(report, tmp_path):
    result = report(formats=["html", "junit"])
    folder = tmp_path / "report"
    assert result["files"] == {"html": str(folder / "report.html"), "junit": str(folder / "junit.xml")}
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "report.html": 0o600,
        "junit.xml": 0o600,
    }
    assert (result["changed"], result["status"], result["exit_code"]) == (False, "pass", 0)


def test_check_mode_judges_and_writes_nothing(report, tmp_path):
    result = report(check=True, nodes=[scene.broken("b")])
    assert (result["status"], result["exit_code"], result["lines"][0]) == ("fail", 1, "1 broken of 1 node")
    assert not (tmp_path / "report").exists()


def test_next_report_is_compared_with_existing_one(report, tmp_path):
    assert report()["changes"] is None
    assert report(nodes=[scene.broken("a")])["changes"]["verdicts"][0]["after"] == "fail"
    # One of another version, or damaged, is no reason to make none.
    for text in ('{"schema": "mlcluster.cluster/0"}', "{", "[]"):
        (tmp_path / "report" / "report.json").write_text(text, encoding="utf-8")
        assert report()["changes"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"validation": "/nowhere/run.json"}, "validation /nowhere/run.json cannot be read"),
        ({"timings": "/proc/self/mem"}, "timings /proc/self/mem cannot be read"),
        ({"formats": ["pdf"]}, "pdf"),
        ({"nodes": [{"health": {}}]}, "an entry of nodes has the name None"),
        ({"time": "now"}, "time is 'now'"),
        ({"directory": "/proc/none"}, "the report cannot be written to /proc/none"),
        ({"validation": "x", "validation_content": "eA=="}, "mutually exclusive"),
    ],
)
def test_invalid_input_is_one_sentence(report, options, words):
    with pytest.raises(AnsibleActionFail) as caught:
        report(**options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "no base64!",
        encoded("{"),
        encoded([]),
        encoded({"schema": "mlcluster.validation/9", "jobs": []}),
        encoded({"schema": "mlcluster.validation/1", "jobs": [7]}),
        encoded("[" * 100000),
    ],
)
def test_unreadable_validation_does_not_prevent_report(report, content, tmp_path):
    result = report(validation_content=content, validation_source="head:/fsx/validation-7.json")
    (warning,) = result["warnings"]
    assert warning.startswith("the report is made without head:/fsx/validation-7.json, which cannot be read: ")
    assert result["status"] == "pass"
    document = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert (document["jobs"], document["jobs_source"]) == ([], "")


def test_job_output_reaches_cell_of_page(report, tmp_path):
    """The whole way: what nccl-tests print, the verdict on it, run_validation's file, the fetched text, the page."""
    results = tmp_path / "results"
    results.mkdir()
    pairs = [("n1", "n2"), ("n2", "n3")]
    for index, pair in enumerate(pairs):
        unit = "+".join(pair)
        lines = output(hosts=pair, gpus=2, busbw=lambda size, index=index: (100.0 + index) * size / (size + (1 << 20)))
        (results / f"{unit}.all_reduce.out").write_text("\n".join(lines) + "\n")
        with (results / "runs.tsv").open("a") as file:
            file.write(f"{unit}\tall_reduce\t{','.join(pair)}\t0\t{index}\n")
    asked = {"kind": "nccl", "name": "nccl_pairs", "tasks_per_node": 2, "collectives": ["all_reduce"],
             "layout": "pairs", "tolerance_percent": 10, "instance_type": None}  # fmt: skip
    judged = judge_job(Job(asked, ("n1", "n2", "n3"), str(results)), Host())
    text = dumps(Report("n1", scene.TIME, {}, tuple(judged)))
    job = {"job_id": 7, "state": "COMPLETED", "exit_code": 2, "nodes": "n[1-3]", "elapsed_seconds": 88}
    kept = _slurm_jobs_report.collect([{"name": "nccl_pairs", "job": job, "report": text, "message": None}])
    result = report(
        nodes=[scene.node(name) for name in ("n1", "n2", "n3")],
        validation_content=encoded(kept),
        validation_source="head:/fsx/mlcluster/jobs/results/validation-7.json",
    )
    assert result["warnings"] == []
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Pairs of nodes: all_reduce</h2>" in page and "<h2>NCCL bandwidth: all_reduce</h2>" in page
    assert "n1 with n2: 99.9 GB/s" in page
    assert "n2 with n3: 101 GB/s" in page
    assert "head:/fsx/mlcluster/jobs/results/validation-7.json" in page


def test_every_option_is_documented(report):
    with pytest.raises(AnsibleActionFail, match="stranger"):
        report(stranger=1)
    assert report(**{name: option["default"] for name, option in OPTIONS.items() if "default" in option})
    assert set(OPTIONS["formats"]["choices"]) == set(cluster_report.FILES)
