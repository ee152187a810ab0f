# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of the EFA installer."""

from __future__ import annotations

from ..system.ask import reliable
from ..system.host import Host
from .parse import parse_libfabric_version

EFA_PREFIX = "/opt/amazon/efa"


def fi_info_program(host: Host) -> str | None:
    """Return fi_info of the EFA installer, or any other on the system path."""
    own = f"{EFA_PREFIX}/bin/fi_info"
    return own if host.exists(own) else host.which("fi_info")


def libfabric_version(host: Host, program: str) -> str | None:
    """Return the version of the libfabric that this fi_info uses; None if it does not report it."""
    return parse_libfabric_version(reliable(host, [program, "--version"]))
