# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON whose objects may repeat a key: Python keeps the last value, and a verdict would read one of several."""

from __future__ import annotations

import json
import typing as t


class Contradiction:
    """Stands for the values of a key that an object has several times with different values; equal to nothing."""

    def __repr__(self) -> str:
        return "several values of one key"


def loads(text: str) -> t.Any:
    """Return the document; a ``Contradiction`` stands for each key with several values. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: t.Sequence[tuple[str, t.Any]]) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for key, value in pairs:
        same = key not in found or (found[key] == value and type(found[key]) is type(value))
        found[key] = value if same else Contradiction()
    return found
