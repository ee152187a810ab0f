# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the checks, and what Slurm has of them."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks

SCRIPTS = "/etc/mlcluster/slurm"
FOLDER = "/opt/slurm/etc/scripts/prolog.d"
ALL = ["Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"]


@pytest.mark.parametrize(
    ("settings", "containers", "given", "due", "taken", "in_use"),
    [
        ({"Prolog": None}, 0, {}, ALL, [], []),
        ({"Prolog": f"{SCRIPTS}/prolog", "Epilog": f"{SCRIPTS}/epilog"}, 0, {}, ALL, [], ["Epilog", "Prolog"]),
        (
            {"Prolog": "/site/prolog", "TaskProlog": f"{SCRIPTS}/task_prolog"},
            0,
            {},
            ALL,
            ["/site/prolog"],
            ["TaskProlog"],
        ),
        # No step would start in a container, whose own the site's may be made for.
        ({"TaskProlog": "/site/task_prolog"}, 1, {}, ["Prolog", "Epilog", "HealthCheckProgram"], [], []),
        (
            {"Prolog": f"/site/a,{FOLDER}/*"},
            0,
            {"prolog": f"{FOLDER}/50_mlcluster"},
            ["Epilog", "TaskProlog", "HealthCheckProgram"],
            [],
            [],
        ),
    ],
)
def test_settings_due_and_programs_that_slurm_runs_already(settings, containers, given, due, taken, in_use):
    found = checks.slurm_state(checks.wanted(given), settings, containers)
    assert (list(found.due), list(found.taken), list(found.in_use)) == (due, taken, in_use)


def test_settings_that_cannot_be_meant_are_named_all_at_once():
    wrong = {"gates": "open", "gate": "ajar", "prolog": "prolog", "scratch_base": "/a b", "interval": "often"}
    assert [problem.partition(": it may have")[0] for problem in checks.problems(wrong)] == [
        "slurm_jobs_checks has gates, which is unknown",
        "slurm_jobs_checks.gate is ajar: use open or closed",
        "slurm_jobs_checks.interval is often: use 1 to 65535 seconds",
        "slurm_jobs_checks.scratch_base is not an absolute path of plain characters",
        "slurm_jobs_checks.prolog is not an absolute path of plain characters",
    ]
    assert checks.problems({}) == []


def test_defaults_of_checks():
    found = checks.wanted({})
    numbers = {"keep_hours": 0, "least_free_percent": 10, "quota_gib": 0, "epilog_seconds": 20, "interval": 300}
    assert {key: found[key] for key in numbers} == numbers
    assert [found[key] for key in ("drain", "undrain", "scratch", "labels")] == [True] * 4
    assert (found["gate"], found["over_quota"], found["imex"]) == ("open", "report", "required")
    assert (found["slurm_prefix"], found["slurm_conf"], found["scratch_base"]) == ("", "", "/scratch/jobs")
    found = checks.wanted({}, None, "/opt/slurm", "/opt/slurm/etc/slurm.conf")
    assert (found["slurm_prefix"], found["slurm_conf"]) == ("/opt/slurm", "/opt/slurm/etc/slurm.conf")


@pytest.mark.parametrize(("interval", "right"), [(0, False), (1, True), ("65535", True), (65536, False), (None, False)])
def test_interval_is_one_that_slurm_takes(interval, right):
    message = f"slurm_jobs_checks.interval is {interval}: use 1 to 65535 seconds"
    assert checks.problems({"interval": interval}) == ([] if right else [message])


@pytest.mark.parametrize("key", ["health_options", "imex_options"])
def test_options_are_lists_of_words(key):
    assert checks.problems({key: ["--seconds", "120"]}) == []
    assert checks.problems({key: "--seconds 120"}) == [
        f"slurm_jobs_checks.{key} is not a list: use one list entry for each word"
    ]


def test_value_of_closed_list_is_checked():
    assert checks.problems({"over_quota": "kill", "gate": "closed"}) == [
        "slurm_jobs_checks.over_quota is kill: use report or cancel"
    ]


@pytest.mark.parametrize("value", ["/usr/bin/mlcluster\n", "mlcluster", ["/x"], 7, "/a;b"])
def test_path_that_no_script_could_name_is_rejected(value):
    assert checks.problems({"command": value}) == [
        "slurm_jobs_checks.command is not an absolute path of plain characters"
    ]


@pytest.mark.parametrize(
    ("given", "volume", "place"),
    [
        ({}, None, "/scratch/jobs"),
        ({}, "/nvme", "/nvme/jobs"),
        ({"scratch_base": ""}, "/nvme", "/nvme/jobs"),
        ({"scratch_base": "/x"}, "/nvme", "/x"),
        ({"scratch": False}, "/nvme", ""),
    ],
)
def test_jobs_have_their_directories_on_volume(given, volume, place):
    assert checks.scratch(given, volume) == place


def test_own_file_lies_beside_slurm_conf_that_slurm_has_read():
    assert checks.own_conf_path({}) == "/etc/slurm/mlcluster_checks.conf"
    assert checks.own_conf_path({"SLURM_CONF": "/opt/slurm/etc/slurm.conf"}) == "/opt/slurm/etc/mlcluster_checks.conf"
