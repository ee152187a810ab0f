# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of a finished node with one unknown value after the other: no plan may act on a value that was not read."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import Plan

Way = tuple[str, ...]


def leaves(value: t.Any, way: Way = ()) -> t.Iterator[Way]:
    """Yield the keys that lead to each value of nested dictionaries."""
    if isinstance(value, dict) and value:
        for key in value:
            yield from leaves(value[key], (*way, key))
    else:
        yield way


def acted_on(
    make_plan: t.Callable[[t.Any, t.Any], Plan],
    facts: dict[str, t.Any],
    config: t.Any,
    below: set[Way],
    exempt: set[Way],
    least: int,
) -> list[tuple[Way, list[str]]]:
    """Return each value that leads to actions once it is unknown: None, or an empty list or dictionary.

    Not tried: values ``below`` these keys, and those in ``exempt``. Fails the test with fewer than ``least`` values.
    """
    assert make_plan(facts, config).differences() == []
    ways = [way for way in leaves(facts) if way not in exempt and not any(way[: len(one)] == one for one in below)]
    assert len(ways) >= least, len(ways)
    found = []
    for way in ways:
        changed = copy.deepcopy(facts)
        inner = changed
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = type(inner[way[-1]])() if isinstance(inner[way[-1]], (list, dict)) else None
        if differences := make_plan(changed, config).differences():
            found.append((way, differences))
    return found
