# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the role nvidia_gds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import role_directory

EXAMPLE = role_directory("nvidia_gds") / "files" / "torch_gds_example.py"


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text of the example, if requested."""
    if not boolean(variables["nvidia_gds_example_enabled"], strict=False):
        return {}
    return {"example_text": EXAMPLE.read_text(encoding="utf-8")}
