# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all tests."""

from __future__ import annotations

from tests.build import surroundings

# Before anything else is imported: much of it reads its variables then.
surroundings.settle()
