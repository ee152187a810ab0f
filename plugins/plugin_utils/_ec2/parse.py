# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the instances of DescribeInstances by botocore's own model, in a third of botocore's time.

botocore searches for each of the 61 members that an instance can have. This parses only the elements of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

Read = Callable[[ElementTree.Element], Any]

_NAMESPACE = re.compile(rb' xmlns="[^"]*"')


def _text(node: ElementTree.Element) -> str:
    return node.text or ""


_SCALARS: dict[str, Read] = {
    "boolean": lambda node: node.text == "true",
    **dict.fromkeys(("integer", "long"), lambda node: int(_text(node))),
    **dict.fromkeys(("float", "double"), lambda node: float(_text(node))),
}


def reader(shape: Any) -> Read:
    """Return a parser for elements of ``shape`` with the result of botocore's, but times as strings."""
    if shape.type_name == "structure":
        return _structure(shape)
    if shape.type_name == "list":
        read = reader(shape.member)
        return lambda node: [read(item) for item in node]
    return _SCALARS.get(shape.type_name, _text)


def _structure(shape: Any) -> Read:
    shapes = {member.serialization.get("name", name): (name, member) for name, member in shape.members.items()}
    # Made only for existing elements: the whole model of an instance has hundreds.
    known: dict[str, tuple[str, Read]] = {}

    def read(node: ElementTree.Element) -> dict[str, Any]:
        found = {}
        for child in node:
            tag = child.tag
            if tag not in known:
                if tag not in shapes:
                    continue
                name, member = shapes[tag]
                known[tag] = name, reader(member)
            name, read_member = known[tag]
            found[name] = read_member(child)
        return found

    return read


class Instances:
    """Parse the reservations of an answer for botocore, which then parses only the rest."""

    def __init__(self) -> None:
        self._read: Read | None = None

    def before_parse(
        self,
        response_dict: dict[str, Any],
        customized_response_dict: dict[str, Any],
        operation_model: Any,
        **_more: Any,
    ) -> None:
        """Handle the botocore event ``before-parse``; leaves errors, and answers that are not XML, to botocore."""
        body = response_dict.get("body")
        if response_dict.get("status_code") != 200 or not isinstance(body, bytes):
            return
        try:
            # The same parser as botocore's.
            root = ElementTree.fromstring(_NAMESPACE.sub(b"", body, count=1))  # noqa: S314
        except ElementTree.ParseError:
            return
        reservations = root.find("reservationSet")
        if reservations is None:
            return
        if self._read is None:
            self._read = reader(operation_model.output_shape.members["Reservations"])
        customized_response_dict["Reservations"] = self._read(reservations)
        root.remove(reservations)
        response_dict["body"] = ElementTree.tostring(root)
