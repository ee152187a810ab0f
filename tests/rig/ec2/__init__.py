# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake EC2 endpoint on the loopback interface, with the shapes, limits and failures of the real one."""

from __future__ import annotations

from .scenario import Fault, Fleet, Region, Role, Scenario, load
from .server import Endpoint

__all__ = ["Endpoint", "Fault", "Fleet", "Region", "Role", "Scenario", "load"]
