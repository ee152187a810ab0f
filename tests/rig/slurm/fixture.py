# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for pytest, which a conftest.py imports."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .cluster import Cluster
from .spec import Spec

needs_slurm = pytest.mark.skipif(os.geteuid() != 0, reason="the Slurm rig needs root")


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """Yield a cluster of two nodes with eight GPUs each, without accounting."""
    cluster = Cluster(f"pytest-{os.getpid()}")
    yield cluster.up(Spec(), owned=True)
    cluster.down()


@pytest.fixture(scope="session")
def slurm_accounting() -> Iterator[Cluster]:
    """Yield the same with accounting."""
    cluster = Cluster(f"pytest-acct-{os.getpid()}")
    yield cluster.up(Spec(accounting=True), owned=True)
    cluster.down()
