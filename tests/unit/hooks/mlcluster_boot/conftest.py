# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from hooks.mlcluster_boot import options, status


@pytest.fixture
def report(tmp_path):
    (tmp_path / "var/lib/mlcluster").mkdir(parents=True)
    now = status.uptime()
    words = ["--root", str(tmp_path), "--started-at", str(now), "--deadline", "100"]
    return status.Report(options.parse_options(words))
