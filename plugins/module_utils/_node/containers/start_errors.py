# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reason why no container started, from the error output of srun. Pure."""

from __future__ import annotations

import re

# Pyxis 0.24.0 prints the log of Enroot, also that of unpacking, between lines of its own and of Slurm.
_LINE = re.compile(r"\berror: pyxis: *(.*)")
_NOISE = re.compile(
    r"printing enroot log file:|child \d+ |couldn't create enroot start configuration script|"
    r"container was not started successfully by another task|container start failed with error code|"
    r"\[INFO\]|Parallel unsquashfs: |\d+ inodes |created \d+ |\Z"
)
_MAX_CHARACTERS = 600


def start_problem(stderr: str) -> str:
    """Return the reason that Pyxis and Enroot give, on one line; an empty string if they give none."""
    lines = [" ".join(found.split()) for found in _LINE.findall(stderr)]
    return "; ".join(dict.fromkeys(line for line in lines if not _NOISE.match(line)))[:_MAX_CHARACTERS]
