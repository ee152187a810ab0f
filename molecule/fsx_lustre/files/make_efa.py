# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write an archive that stands in for AWS's set-up of EFA clients, and a file with its sha256 in the same folder."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

SETUP = """#!/bin/bash
set -eu
[ "$*" = --optimized-for-gds ]
unit=configure-efa-fsx-lustre-client.service
printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/$unit
systemctl enable --quiet $unit
"""


def main(path: Path) -> None:
    """Write the archive to path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("configure-efa-fsx-lustre-client/setup.sh", SETUP)
    Path(f"{path}.sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
