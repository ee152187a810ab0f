# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One EC2-like guest per pytest session; each test gets it reset, with the requested disks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.rig.vm import cache
from tests.rig.vm.command import RigError
from tests.rig.vm.guest import Guest

NAME = "pytest"
GuestFactory = Callable[..., Guest]
ReportHook = Generator[None, pytest.TestReport, pytest.TestReport]


@pytest.fixture(scope="session")
def session_guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    """Yield the guest, which runs as long as the session."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with contextlib.ExitStack() as held:
        # Shows progress: another session may hold the guest for an hour, and the first one has to build an image.
        with capture.global_and_fixture_disabled():
            held.enter_context(cache.locked(f"guest-{NAME}", "another pytest session's guest"))
            guest = Guest(NAME)
            guest.up(disks=0)
        yield guest
        guest.down()


@pytest.fixture
def guest(session_guest: Guest) -> GuestFactory:
    """Return ``guest(disks=4, ebs=1, disk_mb=1024)``, which resets the guest to a new instance with these disks."""

    def fresh(**layout: int) -> Guest:
        session_guest.renew(**layout)
        return session_guest

    return fresh


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> ReportHook:
    """Add the guest's console and journal to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed and "session_guest" in getattr(item, "fixturenames", ()):
        node = Guest(NAME)
        report.sections.append(("guest console", node.console_tail()))
        try:
            journal = node.run("journalctl -b -n 50 --no-pager", check=False, timeout=60).out
        except RigError as exc:
            journal = str(exc)
        report.sections.append(("guest journal", journal))
    return report
