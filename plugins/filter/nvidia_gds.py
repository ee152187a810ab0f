# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the role nvidia_gds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._gds.packages import asked_names, packages
from ansible_collections.mlcluster.aws.plugins.plugin_utils._gds.settings import gds_problems


class FilterModule:
    """Filters of the role nvidia_gds."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "gds_packages": packages,
            "gds_package_names": asked_names,
            "gds_problems": gds_problems,
        }
