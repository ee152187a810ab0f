# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of submit_training without a plan ends before anything is submitted."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("given", "problem"), [({}, "is missing"), ({"plan": "plan.yml"}, "is not a mapping")])
def test_missing_plan_is_rejected(run_playbook, given, problem):
    status, output = run_playbook("playbooks/submit_training.yml", {"head": {"h1": {}}}, check=False, **given)
    assert status == 2 and f"nothing was submitted: the variable plan {problem}; write the plan" in output, output
