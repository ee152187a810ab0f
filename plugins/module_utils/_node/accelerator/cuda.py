# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Path and version of the CUDA toolkit."""

from __future__ import annotations

from ..system.host import Host

CUDA_HOME = "/usr/local/cuda"


def cuda_version(host: Host, home: str) -> str | None:
    """Return the version of the CUDA toolkit there, from its version.json; None if it has none."""
    found = host.read_json(f"{home}/version.json")
    for key in ("cuda", "version"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None
