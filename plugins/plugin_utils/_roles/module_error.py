# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract the error of a module that ended without an answer, for each ansible-core version. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Messages of ansible-core for a module without an answer: before 2.19, and since then.
NO_MESSAGE = ("MODULE FAILURE", "Module result deserialization failed")


def module_error(answer: Mapping[str, Any]) -> str:
    """Return the error on one line: the message, the exception that ended the module, or what it wrote."""
    message = str(answer.get("msg") or "")
    if message and not message.startswith(NO_MESSAGE):
        return " ".join(message.split())
    exception = answer.get("exception")
    # Since 2.19 an object with the message of the exception, and no separate message.
    captured = getattr(getattr(exception, "event", None), "msg", None)
    # ansible-core's own sentence names no cause: only without any other.
    if str(captured).startswith(NO_MESSAGE):
        captured = None
    written = (captured, _end(answer.get("module_stderr")), _end(exception), answer.get("module_stdout"), message)
    texts = (" ".join(str(text).split()) for text in written if text)
    return next(filter(None, texts), "the module ended without error output")


def _end(text: Any) -> str:
    """Return what follows a traceback: the exception, whose message may have several lines. Other text is whole."""
    lines = text.splitlines() if isinstance(text, str) else []
    if not any(line.startswith("Traceback ") for line in lines):
        return "\n".join(lines)
    last = max((number for number, line in enumerate(lines, 1) if line.startswith("  ")), default=0)
    return "\n".join(lines[last:])
