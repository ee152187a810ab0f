# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the playbook prove_on_aws."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import plan, removals


def prove_user_data(minutes: int | str, private: str, public: str) -> str:
    """Return the cloud-init configuration of an instance that ends itself after some minutes."""
    # Python's clock, because the strftime seconds of templates depend on the time zone.
    return plan.user_data(int(time.time()) + int(minutes) * 60, private, public)


def prove_removals(
    found: Mapping[str, Any], run: str, region: str | None = None, launched: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a sweep removes, and ``is_unsettled``: an instance that was launched may not be listed yet."""
    return {
        **removals.removals(found, run, region, launched),
        "is_unsettled": removals.is_unsettled(launched or {}, time.time()),
    }


class FilterModule:
    """The filters ``mlcluster.aws.prove_plan`` and the others of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "prove_inventory": plan.inventory,
            "prove_plan": plan.plan,
            "prove_removals": prove_removals,
            "prove_user_data": prove_user_data,
        }
