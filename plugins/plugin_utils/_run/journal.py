# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of roles in this run of Ansible, kept until its end in one file of lines on the controller.

Facts are not enough: Ansible drops those of a failed task, and a callback cannot read them.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ansible import constants

NAME = "mlcluster-verdicts.jsonl"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One task's result for a role on a host.

    final
        The role was judged, and no later task changes the node.
    differs
        The plan had actions.
    concerned, reason
        Whether the role applies to the node, and why not.
    problems, results, failure
        Sentences; verdicts of ``mlcluster.result/1``; why the task failed.
    required
        Whether problems of the role fail the run.
    begun
        The role itself has begun; otherwise only the look was made.
    check, verified
        The run is in check mode; the tags of the run leave the verification of the role in.
    """

    host: str
    role: str
    begun: bool = True
    final: bool = False
    differs: bool = False
    concerned: bool = True
    reason: str = ""
    problems: Sequence[str] = ()
    results: Sequence[dict[str, Any]] = ()
    failure: str | None = None
    required: bool = True
    check: bool = False
    verified: bool = True


def path() -> Path:
    """Return the file of this run; Ansible deletes its directory at the end."""
    return Path(constants.DEFAULT_LOCAL_TMP) / NAME


def add(entries: Iterable[Entry], file: Path) -> None:
    """Append the entries in one write, so that concurrent tasks do not mix their lines."""
    text = "".join(json.dumps(dataclasses.asdict(entry)) + "\n" for entry in entries)
    if not text:
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "ab") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.write(text.encode())


def read(file: Path) -> list[Entry]:
    """Return the entries in the order in which they were added, empty if there is no file."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [Entry(**json.loads(line)) for line in text.splitlines()]


def finish(file: Path) -> None:
    """Delete all entries, after the verdict was reported."""
    file.unlink(missing_ok=True)
