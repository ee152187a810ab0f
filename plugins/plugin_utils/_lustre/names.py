# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look up the mount names of FSx file systems by their identifiers, once for all hosts of a run.

Ansible uses a process for each host, so FSx's answer, or the error, is kept in a file of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, fsx
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file

# FSx API, FileSystemId: fs- and 8 hexadecimal digits or more.
FILE_SYSTEM_ID = re.compile(r"fs-[0-9a-f]{8,}")
ADVICE = (
    "let this controller ask (credentials with fsx:DescribeFileSystems), or set dns_name and mount_name beside the id"
)
BOOT = (
    "fsx_lustre_file_systems has {ids} without names, and a node that configures itself at boot does not ask FSx, or "
    "every node of the cluster would: set dns_name and mount_name beside the id, as the module fsx_lustre_info shows "
    "them"
)
NO_REGION = "fsx_lustre_file_systems has an id, and no region is known to ask in: set fsx_lustre_region"

Names = Mapping[str, Mapping[str, Any]]


def entry_problems(systems: Iterable[Any]) -> list[str]:
    """Return the errors in the identifiers of file systems, a sentence each."""
    found = []
    for entry in systems:
        identifier = _identifier(entry)
        if identifier is None:
            continue
        path = entry.get("path")
        if not FILE_SYSTEM_ID.fullmatch(str(identifier)):
            found.append(
                f"fsx_lustre_file_systems has {path} with the id {identifier!r}: use an id such as fs-0123456789abcdef0"
            )
        elif bool(entry.get("dns_name")) != bool(entry.get("mount_name")):
            found.append(f"fsx_lustre_file_systems has {path} with an id and a name: set the id alone, or both names")
    return found


def unnamed(systems: Iterable[Any]) -> list[str]:
    """Return the identifiers to look up in FSx, each once."""
    found = (_identifier(entry) for entry in systems if isinstance(entry, Mapping) and not entry.get("dns_name"))
    return list(dict.fromkeys(str(identifier) for identifier in found if identifier))


def with_names(systems: Iterable[Any], names: Names) -> tuple[list[Any], list[str]]:
    """Return the file systems with names instead of identifiers, and the conflicts with FSx's answer."""
    found, problems = [], []
    for entry in systems:
        identifier = _identifier(entry)
        if identifier is None:
            found.append(entry)
            continue
        known = names.get(identifier, {})
        merged = {**entry, **{key: known[key] for key in ("dns_name", "mount_name") if key in known}}
        found.append({key: value for key, value in merged.items() if key != "id"})
        if known and entry.get("efa") and not known["efa"]:
            problems.append(
                f"fsx_lustre_file_systems has {entry.get('path')} with efa, and {identifier} was made without it, "
                "which cannot be changed: take efa out, or make another file system"
            )
    return found, problems


def _identifier(entry: Any) -> Any:
    return entry.get("id") or None if isinstance(entry, Mapping) else None


def ask_once(
    wanted: Sequence[str],
    of_others: Callable[[], Iterable[str]],
    account: Mapping[str, str | None],
    folder: str,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return FSx's data on the identifiers, and a sentence for each that cannot be mounted; queried once in a run.

    ``of_others`` returns the identifiers of the other hosts, so that one request serves all; only the host that asks
    calls it. ``account`` is region and profile; ``folder`` is the run's own.
    """
    key = f"{account['region']} {account['profile'] or ''}"
    path = Path(folder) / "mlcluster-fsx.json"
    with _locked(folder):
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        answers: dict[str, dict[str, Any]] = kept.setdefault(key, {})
        if not set(wanted) <= set(answers):
            every = dict.fromkeys(
                [*wanted, *(identifier for identifier in of_others() if FILE_SYSTEM_ID.fullmatch(identifier))]
            )
            answers.update(_ask([identifier for identifier in every if identifier not in answers], account))
            replace_file(path, json.dumps(kept).encode(), 0o600)
    problems = [answers[identifier]["problem"] for identifier in wanted if "problem" in answers[identifier]]
    return {identifier: answers[identifier] for identifier in wanted if "problem" not in answers[identifier]}, list(
        dict.fromkeys(problems)
    )


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold a lock on a directory, so that the processes of a run take turns."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _ask(identifiers: Sequence[str], account: Mapping[str, str | None]) -> dict[str, dict[str, Any]]:
    """Return the names, or ``problem``, by identifier."""
    try:
        client = aws.client(account, "fsx")
        names, problems = fsx.mount_names(client, identifiers, str(account["region"]))
    except aws.AwsError as exc:
        return {identifier: {"problem": f"{exc}; {ADVICE}"} for identifier in identifiers}
    unknown = [identifier for identifier in identifiers if identifier not in names]
    problem_by_id = {
        identifier: next((text for text in problems if identifier in text), "; ".join(problems))
        for identifier in unknown
    }
    return {**names, **{identifier: {"problem": text} for identifier, text in problem_by_id.items()}}
