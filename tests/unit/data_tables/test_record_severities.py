# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugin that records severities, in a run of tests of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.data_tables import record_severities
from tests.unit.checkout import CHECKOUT


def test_severities_of_code_are_written(tmp_path):
    """The test of the marker makes a failure by the code, and others by hand."""
    file = tmp_path / "severities.json"
    tested = "tests/unit/plugins/module_utils/_node/health/test_marker.py"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", record_severities.__name__, tested],
        env={**os.environ, record_severities.FILE: str(file)},
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
    )
    assert set(json.loads(file.read_text(encoding="utf-8"))) == {"node.drain_marker"}
