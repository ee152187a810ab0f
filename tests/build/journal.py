# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest plugin: a failed check of a test host is followed by the report of its systemd."""

from __future__ import annotations

from collections.abc import Generator

import pytest

COMMANDS = ("systemctl --failed --no-pager", "journalctl --no-pager --priority warning --lines 40")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the failed units and the last warnings of the host to the report of a failed test."""
    report = yield
    host = getattr(item, "funcargs", {}).get("host")
    if report.when == "call" and report.failed and host is not None:
        report.sections += [(command, host.run(command).stdout) for command in COMMANDS]
    return report
