# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job script says that it needs, and whether it is there before the job is submitted.

A script names it in comments before its first command, one a line: ``# Needs program /fsx/tools/bin/ior``. Of a path on
a disk of the nodes the machine that submits knows nothing; that one the job looks for itself, as the first thing.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..system.host import Host
from ..system.mounts import SHARED_FILESYSTEMS, read_mounts

_LINE = re.compile(r"# Needs (program|directory|file|image) (/.+)")
# What to do about each sort where it is absent.
ADVICE = {
    "program": "install it there, or have it built (slurm_jobs_build)",
    "directory": "make it first",
    "file": "write it first, or take it out of the job",
    "image": "import it first",
}


def needs(script: str) -> list[tuple[str, str]]:
    """The sort and the path of everything that the head of a script names, in order."""
    found = []
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        match = _LINE.fullmatch(line)
        if match:
            found.append((match.group(1), match.group(2)))
    return found


def problems(host: Host, script: str, text: str) -> list[str]:
    """A sentence for each that is absent or not what it should be, of those that all nodes share with this machine.

    script is the path of the script, in a directory that all nodes share; text is its content.
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
    """Whether what is seen at the path here is what every node sees there."""
    if path == own or path.startswith(f"{own}/"):
        return True
    over = [one for one in mounts if path == one["target"] or path.startswith(one["target"].rstrip("/") + "/")]
    # The last of equally long ones lies on top of the others.
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
