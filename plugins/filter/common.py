# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that several roles and playbooks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types
from jinja2.runtime import Undefined


def argument_type_errors(given: Mapping[str, Any], spec: argument_types.Spec) -> list[str]:
    """Return a sentence for each variable whose type differs from the spec."""
    values = {}
    for name in spec:
        # An unreadable value is skipped: the task that uses it reports the error for its host.
        try:
            value = given.get(name)
        except AnsibleError:
            continue
        if not isinstance(value, Undefined):
            values[name] = value
    return list(argument_types.problems(values, spec))


class FilterModule:
    """The filter of this file, for Ansible's loader."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"argument_type_errors": argument_type_errors}
