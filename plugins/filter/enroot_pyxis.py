# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the training image that the role enroot_pyxis builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.downloads import downloads
from ansible_collections.mlcluster.aws.plugins.plugin_utils._containers.image import enroot_pyxis_image


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "enroot_pyxis_downloads": downloads,
            "enroot_pyxis_image": enroot_pyxis_image,
        }
