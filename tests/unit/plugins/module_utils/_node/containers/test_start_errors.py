# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why no container started: outputs of srun 22.05.8 with Pyxis 0.24.0 and Enroot 4.1.2, recorded on two nodes."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.start_errors import start_problem

MISSING = """slurmstepd-n1: error: pyxis: child 1670 failed with error code: 1
slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /no/such.sqsh
slurmstepd-n1: error: pyxis: printing enroot log file:
slurmstepd-n1: error: pyxis:     [ERROR] No such file or directory: /no/such.sqsh
slurmstepd-n1: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-n1: error: Failed to invoke spank plugin stack
slurmstepd-n1: error: pyxis: child 1698 failed with error code: 1
srun: error: n1: task 0: Exited with exit code 1
"""
MOUNT = """slurmstepd-n2: error: pyxis: --container-mounts: source path does not exist: /no/such
slurmstepd-n2: error: pyxis: couldn't create enroot start configuration script
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [INFO] Extracting squashfs filesystem...
slurmstepd-n2: error: pyxis:     Parallel unsquashfs: Using 2 processors
slurmstepd-n2: error: pyxis:     4974 inodes (4746 blocks) to write
slurmstepd-n2: error: pyxis:     
slurmstepd-n2: error: pyxis:     created 4089 files
slurmstepd-n2: error: pyxis:     created 0 sockets
slurmstepd-n2: error: pyxis: container was not started successfully by another task
slurmstepd-n2: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-n2: error: Failed to invoke spank plugin stack
srun: error: n2: task 0: Exited with exit code 1
"""  # noqa: W291
CUT = """slurmstepd-n1: error: pyxis: child 5286 failed with error code: 1
slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /images/cut.sqsh
slurmstepd-n1: error: pyxis: printing enroot log file:
slurmstepd-n1: error: pyxis:     [INFO] Extracting squashfs filesystem...
slurmstepd-n1: error: pyxis:     Read on filesystem failed because EOF
slurmstepd-n1: error: pyxis:     read_id_table: failed to read id index table
slurmstepd-n1: error: pyxis:     FATAL ERROR: File system corruption detected
slurmstepd-n1: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-n1: error: Failed to invoke spank plugin stack
slurmstepd-n1: error: pyxis: child 5326 failed with error code: 1
srun: error: n1: task 0: Exited with exit code 1
"""
REGISTRY = """pyxis: importing docker image: alpine:3
slurmstepd-n2: error: pyxis: child 2157 failed with error code: 6
slurmstepd-n2: error: pyxis: failed to import docker image: alpine:3
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [INFO] Querying registry for permission grant
slurmstepd-n2: error: pyxis:     curl: (6) Could not resolve host: registry-1.docker.io
slurmstepd-n2: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
"""
WORKDIR = """slurmstepd-n2: error: pyxis: couldn't chdir to /no/such: No such file or directory
slurmstepd-n2: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-n2: error: Failed to invoke spank plugin stack
srun: error: n2: task 0: Exited with exit code 1
"""
PMIX = """slurmstepd-n1: error: pyxis: container start failed with error code: 1
slurmstepd-n1: error: pyxis: printing enroot log file:
slurmstepd-n1: error: pyxis:     enroot-mount: failed to mount: /spool/%n/pmix.35.1 at /x: No such file or directory
slurmstepd-n1: error: pyxis: container was not started successfully by another task
slurmstepd-n2: error: pyxis:     enroot-mount: failed to mount: /spool/%n/pmix.35.1 at /x: No such file or directory
"""
NO_IMAGE = "failed to create container filesystem for image"
TORN = (
    "Read on filesystem failed because EOF; read_id_table: failed to read id index table; "
    "FATAL ERROR: File system corruption detected"
)


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (MISSING, f"{NO_IMAGE}: /no/such.sqsh; [ERROR] No such file or directory: /no/such.sqsh"),
        (MOUNT, "--container-mounts: source path does not exist: /no/such"),
        (
            CUT,
            f"{NO_IMAGE}: /images/cut.sqsh; {TORN}",
        ),
        (
            REGISTRY,
            "failed to import docker image: alpine:3; curl: (6) Could not resolve host: registry-1.docker.io",
        ),
        (WORKDIR, "couldn't chdir to /no/such: No such file or directory"),
        (PMIX, "enroot-mount: failed to mount: /spool/%n/pmix.35.1 at /x: No such file or directory"),
        ("srun: error: Unable to allocate resources", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_reason_without_progress_lines(stderr, reason):
    assert start_problem(stderr) == reason
