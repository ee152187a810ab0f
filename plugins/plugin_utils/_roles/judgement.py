# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the lines to print for a look, and whether it fails the role. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Judgement:
    """``lines`` are printed; ``failure`` is the message that ends the role, None if it continues.

    ``problems`` are the unmet requests, whether they fail the role or not.
    """

    lines: tuple[str, ...] = ()
    failure: str | None = None
    problems: tuple[str, ...] = ()


def judge(
    answer: Mapping[str, Any],
    required: bool,
    is_final: bool,
    is_check: bool = False,
    earlier_problems: Sequence[str] = (),
) -> Judgement:
    """Judge the answer of ``look_all`` for one role.

    ``is_final``: no later task changes the node. ``earlier_problems``: errors of earlier tasks; they count only if the
    present state has problems too.
    """
    plan = answer["plan"]
    if answer["failed"]:
        return Judgement(failure=answer["failed"], problems=(answer["failed"],))
    notes = tuple(plan["notes"])
    if not plan["concerned"]:
        found, fails = [*earlier_problems, *answer["problems"]], required and not is_check
        lines = (*notes, f"{plan['reason']}: nothing is done", *(() if fails else answer["problems"]))
        return _ended(lines, found, [], fails)
    if plan["refusals"]:
        # The present state is judged as well: a refusal to change it is not a verdict on it.
        lines = (*notes, f"nothing is changed: {'; '.join(plan['refusals'])}", *answer["lines"])
        return _ended(lines, [*earlier_problems, *plan["refusals"], *answer["problems"]], answer["details"], required)
    if not plan["empty"] and is_check:
        return Judgement((*notes, f"would change {', '.join(plan['differences'])}"))
    if not plan["empty"] and not is_final:
        return Judgement(notes)
    found = list(answer["problems"])
    if not plan["empty"]:
        found.append(f"the run left differences: {', '.join(plan['differences'])}")
    if found:
        found = [*earlier_problems, *found]
    lines = (*notes, *answer["info"], *answer["lines"])
    # The lines include the verdicts.
    more = tuple(text for text in found if text not in answer["lines"])
    return _ended((*lines, *more), found, answer["details"], required and not is_check)


def _ended(lines: Sequence[str], found: Sequence[str], details: Sequence[str], fails: bool) -> Judgement:
    if found and fails:
        return Judgement(tuple(lines), "\n".join(["; ".join(found), *details]), tuple(found))
    return Judgement((*lines, *(details if found else ())), problems=tuple(found))
