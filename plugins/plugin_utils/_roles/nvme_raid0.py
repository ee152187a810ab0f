# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the role nvme_raid0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sha256 of the node runtime that this collection installs."""
    return {"runtime_sha256": _runtime.run_sum(constants.DEFAULT_LOCAL_TMP)}
