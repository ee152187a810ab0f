# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scripts that an earlier commit wrote call the present runtime: jobs in the queue, Slurm's scripts, boot units."""

from __future__ import annotations

import importlib
import json
import pkgutil
import platform
import shlex

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils import _node
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import job, outcome

from tests.unit.compat import written

COMMANDS = [
    words[1:] for found in written.document("jobs/commands.json").values() for words in found if words[0] == "mlcluster"
]
# Read as source by its caller and started elsewhere; it is not a module of this process.
CHILDREN = ("gds_child", "probe_child")


@pytest.mark.parametrize("words", [list(one) for one in sorted(set(map(tuple, COMMANDS)))], ids=" ".join)
def test_runtime_takes_command(words):
    assert cli.build_parser("0").parse_args(words).verb == words[0]


@pytest.mark.parametrize("kind", sorted(written.document("jobs/asked.json")))
def test_kind_of_job_is_judged(kind, tmp_path):
    asked = verify.parse_asked(written.document("jobs/asked.json")[kind])
    assert (asked["kind"], asked["tolerance_percent"]) == (kind, 10)
    results = tmp_path / "results"
    results.mkdir()
    command = ["job-verdict", "--asked", json.dumps(asked), "--nodes", "n1 n2", str(results)]
    # Nothing is in there, so nothing is proved.
    assert cli.main(command, log_dir=str(tmp_path)) in (1, 2)


def test_tasks_of_job_prove_its_placement(tmp_path, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "n1")
    for name, text in written.document("jobs/tasks.json").items():
        (tmp_path / name).write_text(text)
    asked = written.document("jobs/asked.json")["node_smoke"]
    assert cli.main(["job-verdict", "--asked", asked, "--nodes", "n1 n2", str(tmp_path)], log_dir=str(tmp_path)) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(one["id"], one["status"]) for one in report["results"]] == [
        ("smoke.tasks", "pass"),
        ("smoke.placement", "pass"),
        ("smoke.hosts", "pass"),
        ("smoke.gpus", "pass"),
    ]


def test_exit_status_of_job_is_read():
    found = outcome.from_exit_file(7, written.text("jobs/train-7.exit"))
    assert (found["job_id"], found["state"], found["exit_code"], found["signal"]) == (7, "FAILED", 137, 9)


def test_job_in_queue_is_recognised_by_its_comment():
    known = written.document("jobs/fingerprint.json")
    found = job.COMMENT + job.fingerprint(known["text"], known["options"], known["arguments"])
    assert found == known["comment"]


def constants() -> set[str]:
    """Every text that a module of the runtime has a name for."""
    found = set()
    for module in pkgutil.walk_packages(_node.__path__, f"{_node.__name__}."):
        if module.name.rpartition(".")[2] not in CHILDREN:
            found |= {value for value in vars(importlib.import_module(module.name)).values() if isinstance(value, str)}
    return found


def test_files_locks_and_schemas_have_their_names():
    known = written.document("paths.json")
    assert len(known) > 40
    assert {value: names for value, names in known.items() if value not in constants()} == {}


JOBS = written.FIXTURES.with_name("e882aec") / "jobs"


@pytest.mark.parametrize("kind", sorted(path.stem for path in JOBS.iterdir()))
def test_file_beside_script_is_read(kind, capsys, tmp_path):
    """A job in the queue reads it when it starts, by the runtime that is there then."""
    assert cli.main(["job", "--dry-run", str(JOBS / f"{kind}.json")], log_dir=str(tmp_path)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] in ("# nodes: node1 node2", "# nodes: node1") and any("srun" in line for line in printed)
    commands = [line.partition("mlcluster.pyz ")[2] for line in printed if "mlcluster.pyz " in line]
    for command in commands:
        words = shlex.split(command.partition(" >")[0].partition(" 2>")[0].removesuffix(" &"))
        assert cli.build_parser("0").parse_args(words).verb == words[0]
