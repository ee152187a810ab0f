# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all unit tests."""

from __future__ import annotations

from hypothesis import settings

from tests.unit.plugins.inventory import finder

# Before the first import of ansible_collections, whichever tests are collected first.
finder.install()

# A slow machine is no failure: hypothesis would otherwise judge each example by the clock. The examples are the same in
# every run, since no change is to be refused for what a draw finds in another part: --hypothesis-profile=search draws.
settings.register_profile("search", deadline=None)
settings.register_profile("mlcluster", deadline=None, derandomize=True, database=None)
settings.load_profile("mlcluster")
