# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the role efa_nccl."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._efa.pinned import pinned_spec, unlike_pinned
from ansible_collections.mlcluster.aws.plugins.plugin_utils._efa.settings import efa_nccl_problems
from ansible_collections.mlcluster.aws.plugins.plugin_utils._efa.systems import efa_nccl_system_problem


class FilterModule:
    """Filters of the role efa_nccl."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "efa_nccl_problems": efa_nccl_problems,
            "efa_nccl_system_problem": efa_nccl_system_problem,
            "pinned_spec": pinned_spec,
            "unlike_pinned": unlike_pinned,
        }
