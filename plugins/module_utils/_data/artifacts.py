# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles download, where from, and how it is known to be right.

A checksum is here only with the public source it was read in. Where it is empty a role refuses to
download until ``make lock-artifacts``, run on a connected machine, has written artifacts.lock.yml: it
checks the signature where the publisher gives one.

Each entry: ``name``, ``platform`` (``any``, ``deb-amd64``, ...), ``version``, ``url`` (``{version}`` stands
for the version), ``sha256`` and ``sha256_source`` (both empty, or both set), ``signature`` (None, or ``url``,
``key_url`` and the ``fingerprint`` of the signing key), ``source`` (where version and URL were read).
"""

from __future__ import annotations

from typing import Any

_EFA = "https://efa-installer.amazonaws.com/aws-efa-installer"
_EFA_SIGNATURE = {
    "url": f"{_EFA}-{{version}}.tar.gz.sig",
    "key_url": f"{_EFA}.key",
    "fingerprint": "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC",
}
_ENROOT = "https://github.com/NVIDIA/enroot/releases/download/v{version}"
_ENROOT_SOURCE = "NVIDIA/enroot doc/installation.md and pkg/deb/changelog"


def _enroot(platform: str, file: str) -> dict[str, Any]:
    return {
        "name": "enroot-caps" if "+caps" in file else "enroot",
        "platform": platform,
        "version": "4.1.2",
        "url": f"{_ENROOT}/{file.replace('+', '%2B')}",
        "sha256": "",
        "sha256_source": "",
        "signature": None,
        "source": _ENROOT_SOURCE,
    }


ARTIFACTS: tuple[dict[str, Any], ...] = (
    {
        "name": "aws-efa-installer",
        "platform": "any",
        "version": "1.51.0",
        "url": f"{_EFA}-{{version}}.tar.gz",
        "sha256": "",
        "sha256_source": "",
        "signature": _EFA_SIGNATURE,
        "source": "EFA changelog; URL, key and fingerprint: Amazon EC2 User Guide, Get started with EFA",
    },
    {
        # The newest one whose checksum was found published.
        "name": "aws-efa-installer",
        "platform": "any",
        "version": "1.47.0",
        "url": f"{_EFA}-{{version}}.tar.gz",
        "sha256": "2df4201e046833c7dc8160907bee7f52b76ff80ed147376a2d0ed8a0dd66b2db",
        "sha256_source": "Amazon EC2 User Guide, Verify the EFA installer using a checksum",
        "signature": _EFA_SIGNATURE,
        "source": "Amazon EC2 User Guide, Verify the EFA installer using a checksum",
    },
    _enroot("deb-amd64", "enroot_{version}-1_amd64.deb"),
    _enroot("deb-amd64", "enroot+caps_{version}-1_amd64.deb"),
    _enroot("deb-arm64", "enroot_{version}-1_arm64.deb"),
    _enroot("deb-arm64", "enroot+caps_{version}-1_arm64.deb"),
    _enroot("rpm-x86_64", "enroot-{version}-1.el8.x86_64.rpm"),
    _enroot("rpm-x86_64", "enroot+caps-{version}-1.el8.x86_64.rpm"),
    _enroot("rpm-aarch64", "enroot-{version}-1.el8.aarch64.rpm"),
    _enroot("rpm-aarch64", "enroot+caps-{version}-1.el8.aarch64.rpm"),
    {
        "name": "pyxis",
        "platform": "any",
        "version": "0.24.0",
        "url": "https://github.com/NVIDIA/pyxis/archive/refs/tags/v{version}.tar.gz",
        "sha256": "",
        "sha256_source": "",
        "signature": None,
        "source": "NVIDIA/pyxis debian/changelog",
    },
    {
        "name": "nccl-tests",
        "platform": "any",
        "version": "2.19.6",
        "url": "https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v{version}.tar.gz",
        "sha256": "",
        "sha256_source": "",
        "signature": None,
        "source": "NVIDIA/nccl-tests tags",
    },
)
