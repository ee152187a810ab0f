# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all unit tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.unit.plugins.inventory import finder

# Before the first import of ansible_collections, whichever tests are collected first.
finder.install()

# A slow machine is not a failure, so hypothesis does not judge examples by the clock. The examples are the same in
# every run, since no change is to be refused for what a draw finds in another part: --hypothesis-profile=search draws.
settings.register_profile("search", deadline=None)
settings.register_profile("mlcluster", deadline=None, derandomize=True, database=None)
settings.load_profile("mlcluster")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what the test has synced, in order: what is not among them a power failure may take away."""
    paths: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return paths
