# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The testinfra host: the rig's guest, over the ssh connection that the rig keeps."""

from __future__ import annotations

import pytest
import testinfra
from testinfra.host import Host

from tests.rig.vm.guest import Guest


@pytest.fixture(scope="module")
def host() -> Host:
    """Return the guest of this scenario."""
    guest = Guest("molecule")
    return testinfra.get_host(f"ssh://{guest.name}", ssh_config=str(guest.folder / "ssh_config"))
