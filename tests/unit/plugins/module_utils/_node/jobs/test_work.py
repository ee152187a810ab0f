# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The properties of every running job: its number, its results, a part for each node."""

from __future__ import annotations

from tests.unit.fakes.fake_job_work import FakeWork, spec_of


def test_results_are_beside_other_jobs():
    work = FakeWork(spec_of("node_smoke"))
    assert work.results == "/fsx/jobs/results/x-7" and work.file("a.out") == "/fsx/jobs/results/x-7/a.out"


def test_number_of_array_is_no_number_of_job():
    work = FakeWork(spec_of("node_smoke"))
    assert work.job == 7
    work.number = "7_3"
    assert work.job == 0


def test_part_of_node_is_step_of_runtime():
    work = FakeWork(spec_of("local_io"))
    work.statuses = {"job-node": 4}
    assert work.on_each_node("0", "/local/x") == 4
    assert work.batches[0] == [
        (
            "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --mpi=none python3 /fsx/jobs/mlcluster.pyz job-node "
            "/fsx/jobs/x.json 0 /local/x"
        )
    ]
