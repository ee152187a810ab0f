# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements that a job script lists, checked before the job is submitted.

A script lists them in comments before its first command, one a line: ``# Needs program /fsx/tools/bin/ior``. Paths on a
disk of the nodes cannot be checked on the machine that submits; the job checks them first.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..system.host import Host
from ..system.mounts import SHARED_FILESYSTEMS, read_mounts

_LINE = re.compile(r"# Needs (program|directory|file|image) (/.+)")
# Advice for a missing path of each sort.
ADVICE = {
    "program": "install it there, or have it built (slurm_jobs_build)",
    "directory": "create it first",
    "file": "write it first, or take it out of the job",
    "image": "import it first",
}


def needs(script: str) -> list[tuple[str, str]]:
    """Return the sort and the path of everything that the head of a script lists, in order."""
    found = []
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        match = _LINE.fullmatch(line)
        if match:
            found.append((match.group(1), match.group(2)))
    return found


def problems(host: Host, script: str, text: str) -> list[str]:
    """Return a sentence for each missing or wrong path, among those that all nodes share with this machine.

    script: the path of the script, in a directory that all nodes share; text: its content.
    """
    wanted = needs(text)
    if not wanted:
        return []
    mounts = read_mounts(host)
    own = posixpath.dirname(host.realpath(script))
    return [
        problem
        for what, path in dict.fromkeys(wanted)
        if _shared(host.realpath(path), own, mounts)
        for problem in _problem(host, what, path)
    ]


def _shared(path: str, own: str, mounts: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Return whether every node sees the same file at this path."""
    if path == own or path.startswith(f"{own}/"):
        return True
    over = [one for one in mounts if path == one["target"] or path.startswith(one["target"].rstrip("/") + "/")]
    # Of mounts at the same path the last one is on top.
    nearest = max(enumerate(over), key=lambda pair: (len(pair[1]["target"]), pair[0]), default=None)
    return nearest is not None and nearest[1]["fstype"] in SHARED_FILESYSTEMS


def _problem(host: Host, what: str, path: str) -> t.Iterator[str]:
    name = {"image": "container image"}.get(what, what)
    info = host.stat(host.realpath(path))
    if info is None:
        yield f"the {name} {path} does not exist: {ADVICE[what]}"
    elif info["is_dir"] != (what == "directory"):
        yield f"the {name} {path} is {'a' if info['is_dir'] else 'not a'} directory: correct the path"
    elif what == "program" and not int(info["mode"], 8) & 0o111:
        yield f"the program {path} cannot be executed: chmod a+x it"
