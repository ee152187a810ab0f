# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the role enroot_pyxis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.config import parse_config, problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._containers.downloads import enroot_pyxis_downloads
from ansible_collections.mlcluster.aws.plugins.plugin_utils._containers.image import enroot_pyxis_image

# A text for one of these is no sentence of the parser's, but an error of Python.
_SPEC: argument_types.Spec = {
    **{name: {"type": "dict"} for name in ("conf", "plugin_options", "docker_daemon")},
    **{name: {"type": "list", "elements": "str"} for name in ("hooks", "smoke_users")},
    "credentials": {"type": "list", "elements": "dict"},
}


def enroot_pyxis_problem(settings: Mapping[str, Any]) -> str:
    """The sentences with which the node would refuse the settings; empty when they are sound."""
    return "; ".join(list(argument_types.problems(settings, _SPEC)) or problems(parse_config(settings)))


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "enroot_pyxis_downloads": enroot_pyxis_downloads,
            "enroot_pyxis_image": enroot_pyxis_image,
            "enroot_pyxis_problem": enroot_pyxis_problem,
        }
