# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job kinds: each file NAME.py of this folder defines ``KIND``, which is the kind NAME.

Each is imported by name, because Ansible sends only imported files to a node. This command writes the imports from the
folder's files: ``.venv/bin/python -m tests.docs_check.guide_tables``.
"""

from __future__ import annotations

from ..kind import Kind
from . import (
    container,
    fsx_io,
    gds_io,
    gpu_efa,
    local_io,
    nccl,
    nccom,
    node_smoke,
    preprocess,
    training,
)

_FILES = (
    container,
    fsx_io,
    gds_io,
    gpu_efa,
    local_io,
    nccl,
    nccom,
    node_smoke,
    preprocess,
    training,
)
JOB_KINDS: dict[str, Kind] = {file.__name__.rpartition(".")[2]: file.KIND for file in _FILES}
