# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all integration tests."""

from __future__ import annotations

from tests.unit.plugins.inventory import finder

# This has to run before the first import of ansible_collections.
finder.install()
