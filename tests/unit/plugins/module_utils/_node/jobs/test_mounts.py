# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mounts of a container."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.mounts import Path, container_mounts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

JOBS = Path("slurm_jobs_dir", "/fsx/jobs", True)
CODE = Path("directory", "/fsx/code", False)
SAVED = Path("checkpoints", "/fsx/checkpoints/llama", True)

TWO = ["/fsx:/fsx:ro", "/fsx/checkpoints:/fsx/checkpoints"]


@pytest.mark.parametrize(
    ("paths", "configured", "expected"),
    [
        ([JOBS], [], ["/fsx/jobs:/fsx/jobs"]),
        (
            [JOBS, CODE, SAVED],
            [],
            ["/fsx/checkpoints/llama:/fsx/checkpoints/llama", "/fsx/code:/fsx/code", "/fsx/jobs:/fsx/jobs"],
        ),
        # One mount shows them all.
        ([JOBS, CODE, SAVED], ["/fsx:/fsx"], ["/fsx:/fsx"]),
        ([JOBS, CODE], ["/fsx/:/fsx/"], ["/fsx/:/fsx/"]),
        ([CODE], ["/fsx:/fsx:ro"], ["/fsx:/fsx:ro"]),
        ([SAVED], TWO, TWO),
        # In the other order the first would be hidden, and the checkpoints read-only.
        ([SAVED], TWO[::-1], TWO),
        # Of two mounts at one place the last is seen.
        ([CODE], ["/old:/fsx", "/fsx:/fsx"], ["/old:/fsx", "/fsx:/fsx"]),
        ([JOBS, CODE], ["/data:/data:ro"], ["/fsx/code:/fsx/code", "/fsx/jobs:/fsx/jobs", "/data:/data:ro"]),
        # A second mount of a directory does not replace the first.
        ([CODE], ["/fsx/code:/workspace"], ["/fsx/code:/fsx/code", "/fsx/code:/workspace"]),
        # A path below another comes later.
        ([CODE], ["/data:/fsx/code/data"], ["/fsx/code:/fsx/code", "/data:/fsx/code/data"]),
        ([JOBS, Path("directory", "/fsx/jobs/src", False)], [], ["/fsx/jobs:/fsx/jobs"]),
        # Only a whole name is above another.
        ([CODE], ["/fsx/co:/fsx/co"], ["/fsx/code:/fsx/code", "/fsx/co:/fsx/co"]),
    ],
)  # fmt: skip
def test_every_path_is_mounted_once(paths, configured, expected):
    assert container_mounts(paths, configured) == expected


HIDES = "{} is {}, and with {} in container_mounts that is {} inside of the container: mount it under its own path, or "
LOCKS = "checkpoints is /fsx/checkpoints/llama, and {} in container_mounts is read-only: leave ro out"
REFUSED = {
    "/data:/fsx": (
        SAVED,
        HIDES.format("checkpoints", "/fsx/checkpoints/llama", "/data:/fsx", "/data/checkpoints/llama")
        + "choose another checkpoints",
    ),
    "/fsx/old:/fsx/code": (
        CODE,
        HIDES.format("directory", "/fsx/code", "/fsx/old:/fsx/code", "/fsx/old") + "choose another directory",
    ),
    "/fsx:/fsx:ro": (SAVED, LOCKS.format("/fsx:/fsx:ro")),
    "/fsx:/fsx:rbind+ro": (SAVED, LOCKS.format("/fsx:/fsx:rbind+ro")),
    "/x:/x": (
        Path("output", "/fsx/a,b", True),
        "output is '/fsx/a,b', and a list of mounts is split at commas, colons and blanks: use a path without them",
    ),
}


@pytest.mark.parametrize("mount", REFUSED)
def test_mount_that_shows_something_else_is_rejected(mount):
    path, sentence = REFUSED[mount]
    with pytest.raises(NodeError) as refused:
        container_mounts([path], [mount])
    assert str(refused.value) == sentence


def test_last_of_two_mounts_at_one_place_counts():
    with pytest.raises(NodeError, match="that is /old inside of the container"):
        container_mounts([Path("directory", "/fsx", False)], ["/fsx:/fsx", "/old:/fsx"])
