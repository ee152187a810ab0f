# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/run_validation.yml with a real Slurm: submitted jobs, verdicts, and drained nodes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.validation_run import Options, Validation
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.request import NotSubmittedError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

from tests.rig.slurm import scripts
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
CHECKOUT = Path(__file__).parents[3]
JOBS = [
    {"name": "smoke", "kind": "node_smoke"},
    {"name": "single", "kind": "nccl", "layout": "single", "collectives": ["all_reduce"], "largest": "1K", "factor": 4},
]
FORGED = result.passed("smoke.placement", 1)
THEN = "resume those that do not, or request other or fewer nodes."


class Play:
    """The playbook on an inventory whose head node is this machine and whose compute nodes are those of the rig."""

    def __init__(self, slurm, folder, settings):
        self.slurm, self.folder = slurm, folder
        self.started = 0
        common = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "slurm_jobs_slurm_conf": f"{slurm.root}/etc/slurm.conf",
            **{f"slurm_jobs_{name}": value for name, value in settings.items()},
        }
        # The second node's name in the inventory differs from that in Slurm, as with instances.
        compute = {"n1": {}, "i-2": {"ec2_slurm_node_name": "n2"}}
        children = {"head": {"hosts": {"controller": {}}}, "compute": {"hosts": compute}}
        self.inventory = folder / "inventory.json"
        self.inventory.write_text(json.dumps({"all": {"vars": common, "children": children}}))

    def __call__(self, *options, **settings):
        return self.begin(*options, **settings)()

    def begin(self, *options, **settings):
        """Start the playbook; return a function that waits for its end. Its ``so_far()`` returns the output so far."""
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.inventory)]
        given = ["-e", json.dumps({"ansible_become": False, **settings})]
        self.started += 1
        log = self.folder / f"play-{self.started}"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*command, *given, *options, "playbooks/run_validation.yml"],
                env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".collections")},
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

        def end():
            return subprocess.CompletedProcess(command, process.wait(), log.read_text())

        end.so_far = log.read_text
        return end

    def verdict(self):
        (path,) = sorted((self.folder / "results").glob("validation-*.json"), key=lambda path: path.stat().st_mtime)[
            -1:
        ]
        return json.loads(path.read_text())


@pytest.fixture
def play(slurm, facts, runtime, programs, tmp_path):
    """Return ``play(**settings)``, which renders the scripts and returns the playbook for them."""

    def make(**settings):
        given = {
            "dir": str(tmp_path),
            "gpus_per_node": 1,
            "nccl_tests_dir": str(programs),
            "jobs": JOBS,
            **settings,
        }
        scripts.Role(facts, **given).install(runtime)
        return Play(slurm, tmp_path, given)

    return make


def test_limit_is_where_jobs_run(play):
    on = play()
    done = on("--limit", "head,i-2", slurm_jobs_run=["smoke"])
    assert done.returncode == 0, done.stdout
    verdict = on.verdict()
    assert (verdict["status"], verdict["jobs"][0]["nodes"], verdict["exit_code"]) == ("pass", "n2", 0)
    assert verdict["lines"][0].split() == ["job", "id", "nodes", "state", "seconds", "verdict"]
    # The progress is shown while the job runs, and not only at its end.
    number = verdict["jobs"][0]["job_id"]
    assert re.search(rf"^\d\d:\d\d:\d\d smoke: job {number} COMPLETED on n2", done.stdout, re.MULTILINE)
    refused = on("--limit", "i-2", slurm_jobs_run=["smoke"])
    assert refused.returncode == 2
    assert "--limit leaves out the head node" in refused.stdout


def test_failed_verdict_fails_play_and_drains_on_request(play, slurm):
    on = play(environment={"STAND_IN_WRONG_HOST": "n2"})
    try:
        done = on(slurm_jobs_run_drain=True, slurm_jobs_run_nodes="all")
        assert done.returncode == 2
        verdict = on.verdict()
        assert [job["status"] for job in verdict["jobs"]] == ["pass", "fail"]
        assert (verdict["status"], verdict["exit_code"], list(verdict["bad_nodes"])) == ("fail", 1, ["n2"])
        # The node's job may still be ending.
        wait_for("n2 to be drained", lambda: "n2" in slurm.nodes_in("drained"))
        assert "Reason=mlcluster: nccl.correct.all_reduce: n2: " in slurm.run("scontrol", "show", "node", "n2").stdout
        assert "DRAIN" not in slurm.run("scontrol", "show", "node", "n1").stdout
        healed = on(slurm_jobs_run=["smoke"], slurm_jobs_run_undrain=["n2"], slurm_jobs_run_nodes="all")
        assert healed.returncode == 0, healed.stdout
        assert "DRAIN" not in slurm.run("scontrol", "show", "node", "n2").stdout
    finally:
        slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)


def test_unwritable_results_hide_neither_verdict_nor_drain(play, slurm, tmp_path):
    on = play(environment={"STAND_IN_WRONG_HOST": "n2"})
    # A directory is in the place of the verdict file of each number that the next jobs may get.
    last = int(slurm.run("sbatch", "--parsable", "--output=/dev/null", "--wrap=true").stdout)
    for number in range(last + 1, last + 4):
        (tmp_path / f"results/validation-{number}.json").mkdir(parents=True)
    try:
        done = on(slurm_jobs_run=["single"], slurm_jobs_run_drain=True, slurm_jobs_run_nodes="all")
        text = " ".join(done.stdout.split())
        assert done.returncode == 2
        assert "validation is fail (exit code 1): single: " in text and "the verdict was not written to " in text
        assert "Reason=mlcluster: nccl.correct.all_reduce: n2: " in slurm.run("scontrol", "show", "node", "n2").stdout
    finally:
        slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)


def test_missing_tool_is_rejected_first_and_resumes_no_node(play, slurm, tmp_path):
    fsx = {"name": "fsx", "kind": "fsx_io", "minutes": 9, "nodes": 1}
    on = play(jobs=[*JOBS, fsx], ior=str(tmp_path / "tools/ior"), mdtest="mdtest")
    slurm.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=mlcluster: nccl: broken")
    try:
        done = on(slurm_jobs_run_undrain=["n2"])
        assert done.returncode == 2
        problem = f"nothing was submitted: job fsx: the program {tmp_path}/tools/ior does not exist"
        assert problem in " ".join(done.stdout.split())
        assert list((on.folder / "results").iterdir()) == []
        assert "Reason=mlcluster: nccl: broken" in slurm.run("scontrol", "show", "node", "n2").stdout
    finally:
        slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)


def test_reason_set_by_user_during_run_is_kept(play, slurm, tmp_path):
    """In place of a user, the job itself drains the node that will fail."""
    on = play(environment={"STAND_IN_WRONG_HOST": "n2"})
    script = tmp_path / "single.sbatch"
    text = script.read_text()
    at = text.index("\n", text.rindex("\n#SBATCH ") + 1) + 1
    script.write_text(f"{text[:at]}scontrol update NodeName=n2 State=DRAIN Reason='fan, ticket 5'\n{text[at:]}")
    try:
        done = on(slurm_jobs_run=["single"], slurm_jobs_run_drain=True, slurm_jobs_run_nodes="all")
        assert done.returncode == 2
        assert list(on.verdict()["bad_nodes"]) == ["n2"]
        assert "Reason=fan, ticket 5 " in slurm.run("scontrol", "show", "node", "n2").stdout
        assert "n2 was skipped, for it is drained already" in " ".join(done.stdout.split())
    finally:
        slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME", check=False)


def test_report_of_another_user_is_ignored(play, tmp_path):
    """The only report is another user's; the job writes none, as if its node had died before the script began."""
    on = play()
    script = tmp_path / "smoke.sbatch"
    text = script.read_text()
    at = text.index("\n", text.rindex("\n#SBATCH ") + 1) + 1
    (tmp_path / "forged").write_text(result.dumps(result.Report("n1", "2026-11-28T10:00:00Z", {}, (FORGED,))))
    place = f"{tmp_path}/results/smoke-$SLURM_JOB_ID"
    forge = f"mkdir {place} && cp {tmp_path}/forged {place}/report.json && chown -R 1001:1001 {place} && exit 0"
    script.write_text(f"{text[:at]}{forge}\n{text[at:]}")
    done = on(slurm_jobs_run=["smoke"])
    verdict = on.verdict()
    assert (done.returncode, verdict["status"], verdict["jobs"][0]["state"]) == (2, "undeterminable", "COMPLETED")
    assert "is COMPLETED with exit status 0 and left no report" in verdict["problems"][0]
    assert json.loads(next(tmp_path.glob("results/smoke-*/report.json")).read_text())["results"][0]["status"] == "pass"


def test_all_problems_are_reported_and_nothing_is_submitted(play, slurm):
    on = play()
    slurm.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=a person")
    try:
        done = on(slurm_jobs_run=["dance"], slurm_jobs_run_undrain=["n1"], slurm_jobs_run_nodelist=["n9"])
    finally:
        slurm.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    assert done.returncode == 2
    text = " ".join(done.stdout.split())
    assert f"nothing was submitted: {on.folder} has no job dance: use one that the role" in text
    assert "Slurm knows no node n9: use one that sinfo shows." in text
    assert "n1 is not drained by mlcluster and was not changed: the user who drained it has to resume it." in text
    assert list((on.folder / "results").iterdir()) == []


@pytest.fixture
def away(slurm):
    """Yield ``away(state)``, which sets n2's state until the test ends; in the rig, DOWN ends when slurmd registers."""
    before = slurm.record.spec.settings.get("ReturnToService", "2")
    configured = []

    def leave(state):
        if state == "DOWN":
            slurm.configure(ReturnToService="0")
            configured.append(before)
        slurm.run("scontrol", "update", "NodeName=n2", f"State={state}", "Reason=a person")

    yield leave
    slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    for value in configured:
        slurm.configure(ReturnToService=value)


def too_few(word, among):
    return f"smoke: 2 nodes were requested and only 1 of {among} takes jobs (n2 is {word}): {THEN}"


def test_nodes_without_jobs_are_reported_not_waited_for(play, away):
    on = play()
    away("DRAIN")
    done = on(slurm_jobs_run=["smoke"], slurm_jobs_run_timeout=5, slurm_jobs_run_nodes="all")
    assert done.returncode == 2
    assert f"nothing was submitted: {too_few('drained', 'partition main')}" in " ".join(done.stdout.split())
    assert list((on.folder / "results").iterdir()) == []


@pytest.mark.parametrize(
    ("state", "word", "among", "nodes"),
    [
        ("DRAIN", "drained", "partition main", {"nodes": "2"}),
        ("DOWN", "down", "partition main", {"nodes": "2"}),
        ("DOWN", "down", "those named", {"nodelist": ("n1", "n2")}),
    ],
)
def test_rejected_validation_reports_slurms_node_states(
    slurm, facts, runtime, away, tmp_path, state, word, among, nodes
):
    """Runs without a play; the test above has the play that reports these states."""
    away(state)
    scripts.Role(facts, dir=str(tmp_path), gpus_per_node=1, jobs=JOBS).install(runtime)
    options = Options(str(tmp_path), ("smoke",), **nodes)
    client = Slurm(Host(), conf=f"{slurm.root}/etc/slurm.conf")
    with pytest.raises(NotSubmittedError) as refused:
        Validation(client, options, print).prepare()
    assert str(refused.value) == f"nothing was submitted: {too_few(word, among)}"


@pytest.mark.newer
def test_head_node_validates_without_ansible(slurm, facts, runtime, tmp_path):
    """``mlcluster validate`` as a user runs it: progress, table, file and exit status."""
    scripts.Role(facts, dir=str(tmp_path), gpus_per_node=1, jobs=JOBS).install(runtime)
    begin = ["/usr/bin/python3", str(tmp_path / "mlcluster.pyz"), "validate", f"--dir={tmp_path}"]
    begin += [f"--slurm-conf={slurm.root}/etc/slurm.conf"]
    foretold = subprocess.run([*begin, "--dry-run", "--nodes=2"], capture_output=True, text=True, check=False)
    assert (foretold.returncode, foretold.stderr) == (0, "")
    assert [line.partition(": sbatch --nodes=2 ")[0] for line in foretold.stdout.splitlines()] == ["single", "smoke"]
    assert list((tmp_path / "results").iterdir()) == []
    done = subprocess.run([*begin, "smoke"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (kept,) = (tmp_path / "results").glob("validation-*.json")
    verdict = json.loads(kept.read_text())
    assert (verdict["status"], [job["name"] for job in verdict["jobs"]]) == ("pass", ["smoke"])
    number = verdict["jobs"][0]["job_id"]
    assert kept.name == f"validation-{number}.json"
    assert re.search(rf"^\d\d:\d\d:\d\d smoke: job {number} COMPLETED on n\[1-2\]", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("\n".join(verdict["lines"]) + "\n")
    wrong = subprocess.run([*begin, "--nodes=none"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 3 and "use a number from 1, or all: not none" in wrong.stderr


def test_drained_node_stops_only_jobs_that_need_it(play, away):
    on = play()
    away("DRAIN")
    done = on(slurm_jobs_run=["smoke"], slurm_jobs_run_nodes="1")
    assert (done.returncode, on.verdict()["jobs"][0]["nodes"]) == (0, "n1"), done.stdout


def test_two_runs_at_once_submit_once_and_both_judge(play, slurm, tmp_path):
    """The second run starts while the job of the first runs, as after a lost connection."""
    on = play()
    script = tmp_path / "smoke.sbatch"
    text = script.read_text()
    at = text.index("\n", text.rindex("\n#SBATCH ") + 1) + 1
    script.write_text(f"{text[:at]}until [[ -e {tmp_path}/go ]]; do sleep 0.1; done\n{text[at:]}")
    ask = ("squeue", "--noheader", "--name=smoke", "--format=%A %T")
    plays = [on.begin(slurm_jobs_run=["smoke"])]
    try:
        wait_for("the job of the first to run", lambda: "RUNNING" in slurm.run(*ask).stdout)
        number = slurm.run(*ask).stdout.split()[0]
        # The job has its nodes, so the drain does not affect the second run.
        slurm.run("scontrol", "update", "NodeName=n[1-2]", "State=DRAIN", "Reason=a person")
        plays.append(on.begin(slurm_jobs_run=["smoke"]))
        wait_for("the second to take it", lambda: f"job {number}, smoke, is the same" in plays[1].so_far())
        assert slurm.run(*ask).stdout.split() == [number, "RUNNING"]
    finally:
        (tmp_path / "go").touch()
        ended = [end() for end in plays]
        slurm.run("scontrol", "update", "NodeName=n[1-2]", "State=RESUME", check=False)
    assert [done.returncode for done in ended] == [0, 0], ended
    words = " ".join(ended[1].stdout.split())
    assert f"job {number}, smoke, is the same and has not ended, so nothing was submitted and job {number} is" in words
    assert [path.name for path in (tmp_path / "results").glob("smoke-*.exit")] == [f"smoke-{number}.exit"]
    assert (on.verdict()["status"], [job["job_id"] for job in on.verdict()["jobs"]]) == ("pass", [int(number)])
