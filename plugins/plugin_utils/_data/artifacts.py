# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloads of roles: their URLs, checksums and signatures.

A checksum is here only with the public source it was read from. Without one a role does not download until
``make lock-artifacts``, run on a connected machine, has written artifacts.lock.yml, which also checks the
signature if there is one.

Each entry: ``name``, ``platform`` (``any``, ``deb-amd64``, ...), ``version``, ``url`` (``{version}`` stands
for the version), ``sha256`` and ``sha256_source`` (both empty, or both set), ``signature`` (None, or ``url``,
``key_url`` and the ``fingerprint`` of the signing key), ``source`` (where version and URL were read).
"""

from __future__ import annotations

from typing import Any

_EFA = "https://efa-installer.amazonaws.com/aws-efa-installer"
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
        "signature": {
            "url": f"{_EFA}-{{version}}.tar.gz.sig",
            "key_url": f"{_EFA}.key",
            "fingerprint": "4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC",
        },
        "source": "EFA changelog; URL, key and fingerprint: Amazon EC2 User Guide, Get started with EFA",
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
    {
        # Of a release, not of a tag: this one has its configure.
        "name": "ior",
        "platform": "any",
        "version": "4.0.0",
        "url": "https://github.com/hpc/ior/releases/download/{version}/ior-{version}.tar.gz",
        "sha256": "",
        "sha256_source": "",
        "signature": None,
        "source": "hpc/ior doc/USER_GUIDE and releases; mdtest is in it",
    },
    {
        "name": "fio",
        "platform": "any",
        "version": "3.35",
        "url": "https://github.com/axboe/fio/archive/refs/tags/fio-{version}.tar.gz",
        "sha256": "",
        "sha256_source": "",
        "signature": None,
        "source": "axboe/fio tags",
    },
)

# Checksums of other versions that a role may be set to.
PUBLISHED: dict[str, dict[str, Any]] = {
    "aws-efa-installer": {
        "source": "Amazon EC2 User Guide, Verify the EFA installer using a checksum",
        "sha256": {
            "1.47.0": "2df4201e046833c7dc8160907bee7f52b76ff80ed147376a2d0ed8a0dd66b2db",
            "1.46.0": "8302bd7849afb95c903a875d7dcb6f85b3d7629e9a8b67d020031cfc6f4d0ee1",
            "1.45.1": "9aeb20c645135b6039cc08986d8f14e63280f7839e882a74df5e83627ffeaa17",
            "1.45.0": "25ba26a0877fe3317390dc126aad2f23e27fc461cf0b940004f032cb342fa539",
            "1.44.0": "f129a5b44a49d593d247e55a59eb9bcb57121566e1c2e42b832a4e794fa83d8a",
            "1.43.3": "6c470ebce254c7165347b5048895ac2996c88567271642297f4c597738300652",
            "1.43.2": "de15c5bdbc83b952afbde876110830c604ad0796680e5157c05f7c1979a41069",
            "1.42.0": "4114fe612905ee05083ae5cb391a00a012510f3abfecc642d86c9a5ae4be9008",
            "1.41.0": "3506354cdfbe31ff552fe75f5d0d9bb7efd29cf79bd99457347d29c751c38f9f",
            "1.40.0": "30491b0fe7c3470d4439594538855c981b05fa69862d74f8c05eb9b97912368a",
            "1.39.0": "2cbc028c03064633bb990782b47c36156637769e2f48704417a9c700a7a32101",
            "1.38.1": "83923374afd388b1cfcf4b3a21a2b1ba7cf46a01a587f7b519b8386cb95e4f81",
        },
    },
}
