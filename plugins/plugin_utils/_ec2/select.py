# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select instances: by EC2 filters in the request and by JMESPath in the answer."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

# EC2 rejects a request with more filter values than this, over all filters.
MAX_FILTER_VALUES = 200
STATES = ("pending", "running", "shutting-down", "terminated", "stopping", "stopped")
STATE_FILTER = "instance-state-name"

Filter = dict[str, Any]


class SelectionError(ValueError):
    """An unusable filter or expression; the message states which and why."""


def _values(name: str, given: Any) -> list[str]:
    values = given if isinstance(given, (list, tuple)) else [given]
    result = []
    for value in values:
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, (str, int)):
            raise SelectionError(
                f"filters: the value of '{name}' must be text or a list of strings, found {type(value).__name__}"
            )
        result.append("".join(str(value)))
    if not result:
        raise SelectionError(f"filters: '{name}' has an empty list of values, which would match nothing; remove it")
    return list(dict.fromkeys(result))


def filters(free: Any, clusters: Iterable[str], cluster_tag: str, states: Iterable[str]) -> list[Filter]:
    """Return EC2 filters from the options ``filters``, ``cluster_name`` and ``states``. Raises SelectionError."""
    if not isinstance(free, dict):
        raise SelectionError(f"filters: must map names of EC2 filters to values, found {type(free).__name__}")
    chosen = {str(name): _values(str(name), value) for name, value in free.items()}
    wanted = [str(name) for name in clusters]
    if wanted:
        key = f"tag:{cluster_tag}"
        if key in chosen:
            raise SelectionError(f"cluster_name and filters['{key}'] select the same tag; set only one of them")
        chosen[key] = wanted
    if STATE_FILTER not in chosen:
        chosen[STATE_FILTER] = list(states)
        if not chosen[STATE_FILTER]:
            raise SelectionError(f"states: is empty, which would match nothing; the states are {', '.join(STATES)}")
    unknown = sorted(set(chosen[STATE_FILTER]) - set(STATES))
    if unknown:
        raise SelectionError(f"{', '.join(unknown)} is not a state of an instance; the states are {', '.join(STATES)}")
    return [{"Name": name, "Values": chosen[name]} for name in sorted(chosen)]


def requests(all_filters: list[Filter]) -> list[list[Filter]]:
    """Split filters into requests that together match the same and stay within EC2's limit of values."""
    if sum(len(one["Values"]) for one in all_filters) <= MAX_FILTER_VALUES:
        return [all_filters]
    largest = max(range(len(all_filters)), key=lambda index: len(all_filters[index]["Values"]))
    one = all_filters[largest]
    middle = len(one["Values"]) // 2
    result = []
    for values in (one["Values"][:middle], one["Values"][middle:]):
        parts = list(all_filters)
        parts[largest] = {"Name": one["Name"], "Values": values}
        result.extend(requests(parts))
    return result


def root_names(node: dict[str, Any]) -> Iterator[str]:
    """Yield the names that a parsed JMESPath expression looks up in the record itself."""
    kind, children = node["type"], node.get("children", ())
    if kind == "field":
        yield node["value"]
    elif kind in ("subexpression", "index_expression", "pipe") or kind.endswith("projection"):
        # Later parts are looked up in the result of the first.
        yield from root_names(children[0])
    elif kind not in ("expref", "literal", "current", "identity"):
        for child in children:
            yield from root_names(child)


def expression(option: str, text: str | None, known: Collection[str] = ()) -> Any:
    """Compile a JMESPath expression, None without one. Raises SelectionError naming the option.

    ``known``: the keys of a record. An unknown name would be null for all records and disable the filter.
    """
    if not text:
        return None
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        compiled = jmespath.compile(str(text))
    except JMESPathError as exc:
        raise SelectionError(f"{option}: not a JMESPath expression: {' '.join(str(exc).split())}") from None
    for name in root_names(compiled.parsed):
        if known and name not in known:
            close = difflib.get_close_matches(name.removeprefix("ec2_"), known, 1)
            hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(sorted(known))}"
            raise SelectionError(f"{option}: instances have no '{name}'; {hint}")
    return compiled


def _true(value: Any) -> bool:
    # False in JMESPath: null, false, and an empty string, list or object; 0 is true.
    return not (value is None or value is False or value in ("", [], {}))


def keep(records: list[dict[str, Any]], include: Any, exclude: Any) -> list[dict[str, Any]]:
    """Return the records for which ``include`` is true and ``exclude`` is false. Raises SelectionError."""
    if include is None and exclude is None:
        return records
    from jmespath.exceptions import JMESPathError

    kept = []
    option = "include"
    for record in records:
        try:
            option = "include"
            if include is not None and not _true(include.search(record)):
                continue
            option = "exclude"
            if exclude is None or not _true(exclude.search(record)):
                kept.append(record)
        except JMESPathError as exc:
            raise SelectionError(
                f"{option}: cannot be evaluated for {record['instance_id']}: {' '.join(str(exc).split())}"
            ) from exc
    return kept
