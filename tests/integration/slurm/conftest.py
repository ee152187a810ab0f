# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clusters of these tests: one a session of each kind."""

from __future__ import annotations

from tests.rig.slurm.fixture import slurm, slurm_accounting

__all__ = ["slurm", "slurm_accounting"]
