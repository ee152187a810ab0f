# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import job as engine
from ansible_collections.mlcluster.aws.plugins.modules import slurm_job


def run(capsys, **options) -> dict:
    with patch_module_args({**options, "prefix": "/no/such"}), pytest.raises(SystemExit) as ended:
        slurm_job.main()
    assert ended.value.code == 1
    return json.loads(capsys.readouterr().out)


def test_invalid_parameters_are_reported_together(capsys):
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
def test_exactly_one_of_script_and_job_is_required(capsys, options):
    assert "script" in run(capsys, **options)["msg"]


def test_missing_slurm_is_reported(capsys):
    result = run(capsys, script=__file__)
    assert result["msg"].startswith(
        "looked for scontrol in /no/such/bin and did not find it: set prefix to the directory above"
    )
    assert result["changed"] is False


UNANSWERED = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@pytest.fixture
def slurm(tmp_path, monkeypatch, capsys):
    """Return slurm(sbatch, **options), which runs the module; the controller does not answer after sbatch."""
    monkeypatch.setattr(engine, "problems", lambda *_arguments: [])
    (tmp_path / "bin").mkdir()
    (tmp_path / "a.sbatch").write_text("#!/bin/sh\n")

    def ask(sbatch: str, **options) -> dict:
        bodies = {"sbatch": sbatch, "squeue": "exit 0", "scancel": "exit 0"}
        bodies["scontrol"] = f'[ "$1" = requeue ] || {{ echo "{UNANSWERED}" >&2; exit 1; }}'
        for name, body in bodies.items():
            program = tmp_path / "bin" / name
            program.write_text(f"#!/bin/sh\n{body}\n")
            program.chmod(0o755)
        arguments = {"prefix": str(tmp_path), **options}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            slurm_job.main()
        return json.loads(capsys.readouterr().out)

    ask.script = str(tmp_path / "a.sbatch")
    return ask


@pytest.mark.parametrize("unique", [False, True])
def test_job_number_is_kept_without_later_answer(slurm, unique, monkeypatch):
    warnings = []
    monkeypatch.setattr(slurm_job.AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    result = slurm("echo a plugin of the site; echo 4711", script=slurm.script, state="submitted", unique=unique)
    assert (result.get("failed"), result["changed"], result["job"]["job_id"]) == (None, True, 4711)
    assert (result["job"]["state"], result["job"]["ok"], result["job"]["source"]) == ("UNKNOWN", False, "none")
    assert len(warnings) == 1 and "the controller did not answer" in warnings[0]


def test_awaited_job_keeps_its_number(slurm):
    result = slurm("echo '4711;rig'", script=slurm.script, timeout=0)
    assert (result["failed"], result["changed"], result["job"]["job_id"]) == (True, True, 4711)


def test_requeue_is_reported_without_later_answer(slurm):
    result = slurm("exit 1", job_id=7, state="requeued")
    assert (result.get("failed"), result["changed"], result["job"]["job_id"]) == (None, True, 7)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("Batch job submission failed: Socket timed out on send/recv operation", "may have accepted the job anyway"),
        ("Batch job submission failed: Invalid account", "correct the reported setting, then submit again"),
    ],
)
def test_rejected_submission_changes_nothing(slurm, error, advice):
    result = slurm(f'echo "sbatch: error: {error}" >&2; exit 1', script=slurm.script, state="submitted")
    assert (result["failed"], result["changed"], "job" in result) == (True, False, False)
    assert error in result["msg"] and advice in result["msg"]


def test_output_without_job_number_is_reported(slurm):
    result = slurm("echo hello", script=slurm.script, state="submitted")
    assert result["msg"] == "sbatch printed no job number: hello; look for the job with squeue"
    assert "look for the job with squeue" in slurm("exit 0", script=slurm.script, state="submitted")["msg"]
