# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def place():
    """A directory that all users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="mlcluster-scratch-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def base(place):
    """The path of jobs' directories, on a volume of root."""
    (place / "volume").mkdir(mode=0o755)
    return str(place / "volume/jobs")
