# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges storage settings on the controller with the parser that the node uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError


def storage_problem(settings: Mapping[str, Any]) -> str:
    """The sentence with which the node would refuse the settings; empty when they are sound."""
    try:
        parse_config(settings)
    except NodeError as exc:
        return str(exc)
    return ""


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"storage_problem": storage_problem}
