# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the three parts of the role, and what is refused."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import config


def test_defaults_have_no_problem():
    assert config.jobs_problems({}) == config.checks_problems({}) == config.tools_problems({}) == []
    assert config.parse_jobs({}).jobs == config.JOBS


def test_sentence_about_option_has_name_of_its_variable():
    found = config.jobs_problems({"dir": "/my jobs", "jobs": [{"name": "a", "kind": "dance"}], "owner": "a b"})
    assert [problem.partition(":")[0] for problem in found] == [
        "slurm_jobs_dir is '/my jobs'",
        "job a",
        "slurm_jobs_owner is 'a b'",
    ]


def test_checks_are_judged_only_where_they_are_written():
    wrong = {"checks": {"gate": "ajar"}}
    assert config.jobs_problems(wrong) == []
    expected = ["slurm_jobs_checks.gate is ajar: use open or closed"]
    assert config.jobs_problems({**wrong, "node_checks": "scripts"}) == config.checks_problems(wrong) == expected


@pytest.mark.parametrize("spec", ["fio\n", "-y", "fio=", "fio 3", "FIO", "fio=3;id", ""])
def test_invalid_package_name_is_rejected(spec):
    (problem,) = config.tools_problems({"node_packages": ["fio=1:3.33-3~x", spec]})
    assert problem.startswith(f"slurm_jobs_node_packages has {spec}: use names")


def test_tool_without_recipe_is_rejected():
    assert config.jobs_problems({"build": ["ior", "gcc"]}) == [
        "slurm_jobs_build has gcc: choose of ior, fio, nccl-tests"
    ]
