# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.modules import slurm_job


def run(capsys, **options) -> dict:
    with patch_module_args({**options, "prefix": "/no/such"}), pytest.raises(SystemExit) as ended:
        slurm_job.main()
    assert ended.value.code == 1
    return json.loads(capsys.readouterr().out)


def test_parameters_that_cannot_be_are_told_all_at_once(capsys):
    result = run(capsys, script="a.sbatch", state="cancelled", exit_file="/e", poll=0, tail_bytes=1 << 20, timeout=-1)
    assert [problem.split(":")[0] for problem in result["problems"]] == [
        "state is cancelled and job_id is missing",
        "script is a.sbatch",
        "exit_file is /e",
        "poll is 0",
        "tail_bytes is 1048576",
        "timeout is -1",
    ]


@pytest.mark.parametrize("options", [{}, {"script": "/a", "job_id": 1}])
def test_one_of_script_and_job(capsys, options):
    assert "script" in run(capsys, **options)["msg"]


def test_without_slurm_it_says_what_is_missing(capsys):
    result = run(capsys, script=__file__)
    assert result["msg"].startswith("looked for scontrol in /no/such/bin and did not find it: name the directory above")
    assert result["changed"] is False
