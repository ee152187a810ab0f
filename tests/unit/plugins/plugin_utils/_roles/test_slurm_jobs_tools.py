# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether site.yml installs the packages that jobs use."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import slurm_jobs_tools
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import read_defaults

DISKS = [{"name": "disks", "kind": "local_io"}]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, False),
        ({"jobs": [{"name": "smoke", "kind": "node_smoke"}]}, False),
        ({"jobs": DISKS}, True),
        ({"jobs": DISKS, "build": ["fio"]}, False),
        ({"jobs": DISKS, "fio": "/opt/fio/bin/fio"}, False),
        ({"jobs": 5, "build": 7}, False),
        ({"jobs": ["disks"]}, False),
        ({"node_packages": []}, True),
    ],
)
def test_packages_are_wanted_if_used_or_requested(given, wanted):
    named = {f"slurm_jobs_{name}": value for name, value in given.items()}
    assert slurm_jobs_tools.is_wanted(named, {**read_defaults("slurm_jobs"), **named}) == wanted
    assert slurm_jobs_tools.controller_options(named) == {}
