# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the role fsx_lustre."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre.settings import fsx_lustre_plan


class FilterModule:
    """Filters of the role fsx_lustre."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "fsx_lustre_plan": fsx_lustre_plan,
        }
