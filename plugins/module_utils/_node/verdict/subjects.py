# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subjects that a complete report on a node covers."""

from __future__ import annotations

# Subjects of the profile full on every node, by the first part of the ids. A report without a verdict on each is
# incomplete, and proves nothing about its node.
FULL_SUBJECTS: tuple[tuple[str, ...], ...] = (
    ("node",),
    ("storage",),
    ("scratch",),
    ("gpu", "neuron"),
    ("dcgm",),
    ("efa",),
    ("gds",),
    ("mounts",),
    ("lustre",),
    ("enroot", "pyxis", "docker"),
    ("slurm",),
    ("imex",),
    ("pcluster",),
)
