# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin of pytest that records which severities the collection's own code gave each check while tests ran.

Results that tests themselves make, or read back, are left out. ``make_checks.py`` starts it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FILE = "MLCLUSTER_TEST_SEVERITIES"
_seen: dict[str, set[str]] = {}


def maker(frame):
    """Return the file of the function that made a result, empty for one that was read back."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "from_dict":
            return ""
        if not code.co_filename.endswith(("verdict/result.py", "verdict/evidence.py", "dataclasses.py", "<string>")):
            return code.co_filename
        frame = frame.f_back
    return ""


def pytest_configure(config):
    """Record from now on."""
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

    made = result.Result.__post_init__

    def recorded(self):
        made(self)
        if self.status == result.FAIL and "/plugins/" in maker(sys._getframe(1)).replace("/tests/unit/plugins/", "/"):
            _seen.setdefault(self.id, set()).add(self.severity)

    result.Result.__post_init__ = recorded


def pytest_sessionfinish(session, exitstatus):
    """Write what was seen."""
    text = json.dumps({name: sorted(found) for name, found in sorted(_seen.items())}, indent=1)
    Path(os.environ[FILE]).write_text(text, encoding="utf-8")
