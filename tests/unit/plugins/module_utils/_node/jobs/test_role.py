# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of the role, and its report to users and other tasks."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.config import JobsConfig, parse_jobs
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes.fake_jobs_host import NO_SLURM, SILENT, JobsHost

RECORD = "/var/lib/mlcluster/local_storage.json"
JOBS = {"jobs": [{"name": "smoke", "kind": "node_smoke"}], "dir": "/fsx/jobs"}


@pytest.fixture
def host(monkeypatch):
    found = JobsHost()
    monkeypatch.setattr(role, "survey", found.survey)
    return found


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (None, None),
        ({"state": "none", "path": None}, None),
        ({"path": "/nvme"}, "/nvme"),
        ([], None),
        ({"path": 3}, None),
    ],
)
def test_volume_is_what_record_of_disks_names(host, record, path):
    if record is not None:
        host.texts[RECORD] = json.dumps(record)
    assert role.volume_path(host) == path
    facts = role.look(host, parse_jobs(JOBS))
    assert facts["checks"]["scratch_base"] == f"{path or '/scratch'}/jobs"
    (job,) = facts["model"]["jobs"]
    assert json.loads(job["spec"]["text"])["scratch"] == f"{path or '/scratch'}/jobs"


def test_jobs_to_check_with_slurm_are_reported(host):
    config = parse_jobs(JOBS)
    reported = role.report(role.look(host, config), config)
    jobs = [{"name": "smoke", "path": "/fsx/jobs/smoke.sbatch"}]
    assert reported.facts == {"mlcluster_slurm_jobs": {"jobs": jobs, "judged": ["smoke"]}}
    assert reported.info == ("1 jobs in /fsx/jobs, for Slurm 24.05.1",)


@pytest.mark.parametrize("cluster", [NO_SLURM, SILENT])
def test_no_jobs_are_reported_without_controller(host, cluster):
    host.cluster = dict(cluster)
    config = parse_jobs({**JOBS, "required": False})
    reported = role.report(role.look(host, config), config)
    assert (reported.facts, reported.info) == ({"mlcluster_slurm_jobs": {"jobs": [], "judged": ["smoke"]}}, ())


def test_only_what_validates_is_submitted_as_validation(host):
    train = {"name": "t", "kind": "training", "minutes": 60, "command": ["x"], "checkpoints": "/fsx/c"}
    config = parse_jobs({**JOBS, "jobs": [train, *JOBS["jobs"]]})
    assert role.report(role.look(host, config), config).facts["mlcluster_slurm_jobs"]["judged"] == ["smoke"]


def test_directory_that_need_not_be_shared_has_to_answer(host):
    assert role.place_problem(host, parse_jobs({**JOBS, "require_mount": False})) == ""
    host.is_silent = True
    with pytest.raises(NodeError, match="run again"):
        role.place_problem(host, parse_jobs({**JOBS, "require_mount": False}))


def test_look_has_limit_and_no_verdicts(host):
    assert role.seconds(JobsConfig()) > 60
    assert role.verify(role.look(host, parse_jobs(JOBS)), parse_jobs(JOBS)) == []
