# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of the EFA installer support a distribution. Pure.

Source of all bounds: Amazon EC2 User Guide, "Elastic Fabric Adapter release notes" and "Supported operating systems".
Ubuntu 26.04 and RHEL 10 are supported and no release up to 1.47.0 names them, so their lower bound is the next one.
"""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.versions import at_least, version_key

# Distribution and major version to the first installer that supports it ("" where all installers that still can be had
# do), and the last one ("" while none dropped it).
INSTALLERS: dict[tuple[str, str], tuple[str, str]] = {
    ("Amazon", "2023"): ("1.25.0", ""),
    ("Debian", "11"): ("1.24.0", "1.50.0"),
    ("Debian", "12"): ("1.36.0", ""),
    ("Debian", "13"): ("1.46.0", ""),
    ("RedHat", "8"): ("", ""),
    ("RedHat", "9"): ("1.26.0", ""),
    ("RedHat", "10"): ("1.48.0", ""),
    ("Rocky", "8"): ("1.20.0", ""),
    ("Rocky", "9"): ("1.21.0", ""),
    ("Ubuntu", "20"): ("", "1.42.0"),
    ("Ubuntu", "22"): ("1.18.0", ""),
    ("Ubuntu", "24"): ("1.33.0", ""),
    ("Ubuntu", "26"): ("1.48.0", ""),
}


def efa_nccl_system_problem(distribution: str, major: str, installer_version: str) -> str:
    """Return why this version of the installer does not support a distribution; empty if it does."""
    system = f"{distribution} {major}"
    if (distribution, major) not in INSTALLERS:
        return (
            f"{system} is not one that the EFA installer supports: use Amazon Linux 2023, Debian 12 or newer, RHEL or "
            "Rocky Linux 9, or Ubuntu 22.04 or newer; or set efa_nccl_installer_enabled: false to adopt the EFA "
            "software that is there"
        )
    first, last = INSTALLERS[distribution, major]
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
    """Return whether ``version`` is ``bound`` or newer; a version that is none is not."""
    found, wanted = version_key(version), version_key(bound)
    return found is not None and wanted is not None and at_least(found, wanted)
