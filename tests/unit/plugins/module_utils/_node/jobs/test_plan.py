# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the role where jobs are submitted, from ``role.look`` on a fake machine."""

from __future__ import annotations

import hashlib
import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.config import parse_jobs
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.plan import NO_SLURM as REASON
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.plan import make_plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fakes.fake_jobs_host import CONF, NO_SLURM, SILENT, JobsHost
from tests.unit.unknown_facts import acted_on

RUNTIME = "runtime"
PROGRAM = "mlcluster_data/cli/arguments.py"
PROGRAMS = {PROGRAM: "import sys\n", "mlcluster_data/__init__.py": ""}
TEXTS = {"/fsx/jobs/mlcluster.pyz": RUNTIME, **PROGRAMS}
SMOKE = {"name": "smoke", "kind": "node_smoke"}
DISKS = {"name": "disks", "kind": "local_io"}
TOOLS = {
    "ior": {"version": "4.0.0", "url": "https://example.com/ior-4.0.0.tar.gz", "sha256": "a" * 64},
    "nccl-tests": {"version": "2.19.6", "url": "https://example.com/v2.19.6.tar.gz", "sha256": "b" * 64},
}
DEFAULTS = {
    "dir": "/fsx/jobs",
    "jobs": [SMOKE, DISKS],
    "artifacts": TOOLS,
    "data_sums": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in PROGRAMS.items()},
    "runtime_sha256": hashlib.sha256(RUNTIME.encode()).hexdigest(),
}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> JobsHost:
    return fresh(monkeypatch)


def fresh(monkeypatch: pytest.MonkeyPatch) -> JobsHost:
    found = JobsHost()
    monkeypatch.setattr(role, "survey", found.survey)
    return found


def plan_of(host: JobsHost, **options: t.Any) -> Plan:
    config = parse_jobs({**DEFAULTS, **options})
    return make_plan(role.look(host, config), config)


def names(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps]


def test_fresh_head_node_gets_everything_and_then_nothing(host: JobsHost) -> None:
    options = {"node_checks": "slurm", "build": ["ior"]}
    plan = plan_of(host, **options)
    assert names(plan) == ["directories", "runtime", "data", "tool", "slurm_conf", "command"]
    assert [entry.name for entry in plan.files] == [
        *("smoke.json", "smoke.sbatch", "disks.json", "disks.sbatch"),
        *("prolog", "epilog", "task_prolog", "health_check", "mlcluster_checks.conf"),
    ]
    host.carry_out(plan, texts=TEXTS)
    again = plan_of(host, **options)
    assert (again.differences(), again.refusals) == ([], ())


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "node_checks": st.sampled_from(["none", "scripts", "slurm"]),
        "build": st.lists(st.sampled_from(list(TOOLS)), unique=True),
        "jobs": st.lists(st.sampled_from([SMOKE, DISKS]), unique_by=lambda job: job["name"]),
        "owner": st.sampled_from(["root", "slurm"]),
        "group": st.just("root"),
        "results_mode": st.sampled_from(["1777", "0755", "755"]),
        "required": st.booleans(),
        "checks": st.sampled_from([{}, {"scratch": False}, {"prolog": "/opt/prolog"}, {"interval": 60}]),
    },
)
KILLED = st.lists(st.integers(0, 30), max_size=4)


@given(OPTIONS, KILLED, st.sampled_from(["healthy", "silent", "containers"]))
@settings(max_examples=60)
def test_carried_out_plan_leaves_an_empty_one(options: dict[str, t.Any], lost: list[int], cluster: str) -> None:
    """Whatever of an earlier run is gone or was changed."""
    # An account is one for both here.
    options = {**options, "group": options.get("owner", "root")}
    with pytest.MonkeyPatch.context() as monkeypatch:
        host = fresh(monkeypatch)
        if cluster == "silent":
            host.cluster = {**SILENT}
        if cluster == "containers":
            host.cluster["container_options"] = 1
        for _run in range(2):
            plan = plan_of(host, **options)
            if plan.refusals:
                assert cluster == "silent" and options.get("required", True)
                assert plan.differences() == []
                return
            host.carry_out(plan, options["group"], TEXTS)
            assert plan_of(host, **options).differences() == []
            ours = sorted(path for path in host.texts if path.startswith("/fsx/jobs/"))
            for number in lost:
                host.texts[ours[number % len(ours)]] = "changed"


def test_machine_without_slurm_is_left_unchanged(host: JobsHost) -> None:
    host.cluster = dict(NO_SLURM)
    plan = plan_of(host)
    assert (plan.concerned, plan.reason, plan.differences()) == (False, REASON, [])
    # Nor is a file system asked that may not be there.
    assert host.ran == []


def test_unknown_slurm_settings_keep_its_prolog(host: JobsHost) -> None:
    host.cluster.update(settings={}, problems=["scontrol show config ended with status 1"])
    plan = plan_of(host, node_checks="slurm")
    assert plan.refusals == ("what Slurm runs already is not known: scontrol show config ended with status 1",)
    assert plan_of(host, node_checks="scripts").refusals == ()


def test_unreadable_slurm_conf_is_left_unchanged(host: JobsHost) -> None:
    del host.texts[CONF]
    (refusal,) = plan_of(host, node_checks="slurm").refusals
    assert refusal.startswith(f"{CONF} could not be read, so it is unknown whether it includes the scripts of ")
    assert plan_of(host, node_checks="scripts").refusals == ()


# Facts for which nothing is an answer: no such setting of Slurm, file or directory. An unknown account is left to the
# task that reports it. The checks are those of the configuration.
BELOW = {("cluster", "settings"), ("files",), ("paths",), ("directories",), ("checks",)}
EXEMPT = {("uid",), ("gid",)}


def test_unknown_facts_are_no_reason_to_act(host: JobsHost) -> None:
    options = {"node_checks": "slurm", "build": ["ior"]}
    host.carry_out(plan_of(host, **options), texts=TEXTS)
    config = parse_jobs({**DEFAULTS, **options})
    assert acted_on(make_plan, role.look(host, config), config, BELOW, EXEMPT, 20) == []


@pytest.mark.parametrize("required", [True, False])
def test_silent_controller_refuses_only_where_it_is_required(host: JobsHost, required: bool) -> None:
    host.cluster = dict(SILENT)
    plan = plan_of(host, required=required, node_checks="slurm")
    if required:
        assert plan.refusals == ("looked for a running controller and found none",)
        return
    assert plan.notes[0] == "looked for a running controller and found none"
    # From the settings alone, and Slurm's configuration stays.
    assert {"smoke.sbatch", "prolog"} <= {entry.name for entry in plan.files}
    assert not {"slurm_conf", "command"} & set(names(plan))


@pytest.mark.parametrize("required", [True, False])
def test_job_that_cluster_cannot_run_is_named(host: JobsHost, required: bool) -> None:
    plan = plan_of(host, jobs=[{**SMOKE, "partition": "moon"}], required=required)
    (message,) = plan.refusals or plan.notes
    assert message.startswith("job smoke: partition moon does not exist here")
    assert bool(plan.refusals) == required == (not plan.files)


def test_root_disk_is_refused_although_role_is_not_required(host: JobsHost) -> None:
    host.mount = "/"
    plan = plan_of(host, required=False)
    (problem,) = plan.refusals
    assert problem.startswith("/fsx/jobs is on no mount: its files would land on this machine's root disk")
    assert "set slurm_jobs_require_mount: false" in problem
    assert not plan_of(host, require_mount=False).refusals


def test_file_system_that_gives_no_answer_is_not_read(host: JobsHost) -> None:
    host.is_silent = True
    (problem,) = plan_of(host).refusals
    assert problem.startswith("/fsx/jobs gives no answer")


def test_sources_without_sum_are_refused_before_anything_is_done(host: JobsHost) -> None:
    artifacts = {"ior": {**TOOLS["ior"], "sha256": ""}}
    plan = plan_of(host, build=["ior"], artifacts=artifacts)
    (problem,) = plan.refusals
    assert problem.startswith("ior 4.0.0 was not downloaded, since no sha256 of it is known: run make lock-artifacts")


def test_tool_that_is_there_needs_no_sum(host: JobsHost) -> None:
    host.carry_out(plan_of(host, build=["ior"]), texts=TEXTS)
    artifacts = {"ior": {**TOOLS["ior"], "sha256": ""}}
    assert plan_of(host, build=["ior"], artifacts=artifacts).differences() == []
    # Another MPI is another build.
    plan = plan_of(host, build=["ior"], mpi_home="/opt/mpi")
    assert names(plan) == ["tool"]
    assert plan.steps[0].arguments["sources"] == {
        "name": "ior",
        "url": TOOLS["ior"]["url"],
        "sha256": TOOLS["ior"]["sha256"],
        "file": "sources.tar.gz",
    }


@pytest.mark.parametrize(("name", "text", "is_ours"), [("ior", "theirs", False), (".mlcluster.json", "{}\n", True)])
def test_place_of_tool_without_mark_is_kept(host: JobsHost, name: str, text: str, is_ours: bool) -> None:
    host.texts[f"/fsx/jobs/tools/ior-4.0.0/{name}"] = text
    plan = plan_of(host, build=["ior"])
    # A build that the role has begun is repeated.
    assert ("tool" in names(plan)) is is_ours
    if not is_ours:
        (problem,) = plan.refusals
        assert problem.startswith("/fsx/jobs/tools/ior-4.0.0 has files and no .mlcluster.json, so it is not of")


def test_place_of_another_prolog_is_not_taken(host: JobsHost) -> None:
    host.cluster["settings"]["Prolog"] = "/site/prolog"
    plan = plan_of(host, node_checks="slurm")
    (problem,) = plan.refusals
    assert problem.startswith("Slurm runs /site/prolog already: call the scripts of slurm_jobs_checks from there, or ")
    assert problem.endswith(CONF)
    assert not plan_of(host, node_checks="scripts").refusals


def test_slurm_that_has_not_read_its_configuration_reads_it(host: JobsHost) -> None:
    host.carry_out(plan_of(host, node_checks="slurm"), texts=TEXTS)
    host.cluster["settings"] = {"SLURM_CONF": CONF}
    (step,) = plan_of(host, node_checks="slurm").steps
    assert step.arguments["argv"][-1] == "reconfigure" and step.arguments["argv"][-2].endswith("/scontrol")


def test_container_of_pyxis_is_why_there_is_no_task_prolog(host: JobsHost) -> None:
    host.cluster["container_options"] = 1
    plan = plan_of(host, node_checks="slurm")
    assert plan.notes[0].startswith("Slurm is not configured to run /etc/mlcluster/slurm/task_prolog")
    conf = next(entry for entry in plan.files if entry.name == "mlcluster_checks.conf")
    assert "TaskProlog" not in conf.text


@pytest.mark.parametrize(
    ("path", "change", "step"),
    [
        ("/fsx/jobs", {"mode": "0700"}, "directories"),
        ("/fsx/jobs/results", {"uid": 7}, "directories"),
        ("/fsx/jobs/mlcluster.pyz", {"mode": "0644"}, "runtime"),
        ("/fsx/jobs/mlcluster.pyz", {"gid": 7}, "runtime"),
        ("/fsx/jobs/mlcluster.pyz", {"is_link": True}, "runtime"),
        (f"/fsx/jobs/{PROGRAM}", {"uid": 7}, "data"),
        (f"/fsx/jobs/{PROGRAM}", {"is_link": True}, "data"),
    ],
)
def test_only_changed_part_is_done_again(host: JobsHost, path: str, change: dict[str, t.Any], step: str) -> None:
    host.carry_out(plan_of(host), texts=TEXTS)
    host.states[path] = {**host.states.get(path, {}), **change}
    plan = plan_of(host)
    assert (names(plan), plan.files) == ([step], ())


def test_account_that_is_unknown_is_left_to_task_that_reports_it(host: JobsHost) -> None:
    host.carry_out(plan_of(host), texts=TEXTS)
    assert names(plan_of(host, owner="nobody-here")) == ["directories", "runtime"]


def test_files_of_directory_owner_count_as_root(host: JobsHost) -> None:
    """As where a file system maps root to another account."""
    host.carry_out(plan_of(host), texts=TEXTS)
    for path in host.texts:
        if path.startswith("/fsx/jobs"):
            host.states[path] = {**host.states.get(path, {}), "uid": 64, "gid": 64}
    for path in ("/fsx/jobs", "/fsx/jobs/results"):
        host.states[path].update(uid=64, gid=64)
    assert plan_of(host, owner="slurm", group="slurm").differences() == []
    assert set(names(plan_of(host))) == {"directories", "runtime", "data"}
