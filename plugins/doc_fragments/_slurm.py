# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """The options by which every module finds its Slurm."""

    DOCUMENTATION = r"""
options:
  prefix:
    description:
      - The directory above Slurm's C(bin).
      - The default is C(/opt/slurm), where ParallelCluster has it, if that has Slurm's commands, else the system path.
    type: path
  conf:
    description: The C(slurm.conf) to use. The default is Slurm's own way to find it.
    type: path
"""
