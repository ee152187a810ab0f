# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kind import Kind
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.options import COUNT, WORDS, Option

SETTINGS = {"srun": "/opt/slurm/bin/srun", "nccom_test": "nccom-test", "other": "/usr/bin/other"}


def kind(**fields):
    options = {"count": Option(COUNT, 3), "command": Option(WORDS, [], required=True)}
    return Kind("Does it run?", "it ran", run=lambda work: 0, options=options, **fields)


@pytest.mark.parametrize(
    ("job", "values"),
    [
        ({}, {"count": 3, "command": []}),
        ({"count": 5, "command": ["true"]}, {"count": 5, "command": ["true"]}),
        # An unknown option has no value; null is a value, which the type rejects.
        ({"name": "x", "count": None}, {"count": None, "command": []}),
    ],
)
def test_values_are_those_of_job_over_defaults(job, values):
    assert kind().values(job) == values


def test_programs_of_kind_are_its_tools_by_default():
    assert kind(tools=("srun", "nccom_test")).needed_programs({}, SETTINGS, "") == ["/opt/slurm/bin/srun", "nccom-test"]
    assert kind().needed_programs({}, SETTINGS, "") == []


def test_kind_that_knows_its_programs_is_asked():
    def programs(values, settings, image):
        return () if image else (values["command"][0], settings["other"])

    asked = kind(tools=("srun",), programs=programs)
    assert asked.needed_programs({"command": ["python3"]}, SETTINGS, "") == ["python3", "/usr/bin/other"]
    assert asked.needed_programs({"command": ["python3"]}, SETTINGS, "/fsx/i.sqsh") == []


def test_kind_without_rules_of_its_own_has_no_problem():
    assert list(kind().problems({"count": 1}, {})) == [] and kind().fill({"count": 1}, SETTINGS) == {}
