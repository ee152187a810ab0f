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
