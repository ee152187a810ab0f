# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which versions of the EFA installer support a distribution. Pure.

Source of all bounds: Amazon EC2 User Guide, "Elastic Fabric Adapter release notes" and "Supported operating systems".
Ubuntu 26.04 and RHEL 10 are listed as supported, but no release note up to 1.47.0 names them, so their lower bound is
the next release, 1.48.0.
"""

from __future__ import annotations

import typing as t

from ..system.versions import at_least, version_key

# Distribution (ID of os-release) and major version to the first installer that supports it ("": every installer that is
# still available), and the last one ("": no installer has dropped it).
INSTALLERS: dict[tuple[str, str], tuple[str, str]] = {
    ("amzn", "2023"): ("1.25.0", ""),
    ("debian", "11"): ("1.24.0", "1.50.0"),
    ("debian", "12"): ("1.36.0", ""),
    ("debian", "13"): ("1.46.0", ""),
    ("rhel", "8"): ("", ""),
    ("rhel", "9"): ("1.26.0", ""),
    ("rhel", "10"): ("1.48.0", ""),
    ("rocky", "8"): ("1.20.0", ""),
    ("rocky", "9"): ("1.21.0", ""),
    ("ubuntu", "20"): ("", "1.42.0"),
    ("ubuntu", "22"): ("1.18.0", ""),
    ("ubuntu", "24"): ("1.33.0", ""),
    ("ubuntu", "26"): ("1.48.0", ""),
}
_NAMES = {"amzn": "Amazon Linux", "debian": "Debian", "rhel": "RHEL", "rocky": "Rocky Linux", "ubuntu": "Ubuntu"}


def system_problem(distribution: t.Mapping[str, str], installer_version: str) -> str:
    """Return why this version of the installer does not support a distribution; empty if it does."""
    key = (distribution["id"], distribution["major"])
    name = (
        _NAMES.get(key[0]) or distribution["name"] or key[0] or "the distribution, which /etc/os-release does not name,"
    )
    system = f"{name} {key[1]}".strip()
    if key not in INSTALLERS:
        return (
            f"{system} is not one that the EFA installer supports: use Amazon Linux 2023, Debian 12 or newer, RHEL or "
            "Rocky Linux 9, or Ubuntu 22.04 or newer; or set efa_nccl_installer_enabled: false to adopt the "
            "installed EFA software"
        )
    first, last = INSTALLERS[key]
    if last and not _reaches(last, installer_version):
        return (
            f"{system} is too old for EFA installer {installer_version}: the last one for it is {last}; set "
            f"efa_nccl_installer_version: {last} or use a newer image"
        )
    if first and not _reaches(installer_version, first):
        return (
            f"EFA installer {installer_version} is too old for {system}: the first one for it is {first}; set "
            f"efa_nccl_installer_version: {first} or newer"
        )
    return ""


def _reaches(version: str, bound: str) -> bool:
    """Return whether ``version`` is ``bound`` or newer; an invalid version is not."""
    found, wanted = version_key(version), version_key(bound)
    return found is not None and wanted is not None and at_least(found, wanted)
