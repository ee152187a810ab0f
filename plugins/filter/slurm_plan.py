# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a plan of several models on one Slurm cluster, and return what to submit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.plan import judge


def slurm_plan(plan: Any) -> dict[str, Any]:
    """Return the plan's problems, notes, submissions, blocks and totals."""
    return judge(plan)


class FilterModule:
    """The filter ``mlcluster.aws.slurm_plan``."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"slurm_plan": slurm_plan}
