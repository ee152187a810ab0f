# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distributions by their os-release files; the texts have the lines of the published images, shortened."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.distribution import (
    distribution_problems,
    parse_os_release,
    read_distribution,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

TEXTS = {
    "debian": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n',
    "ubuntu": 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
    "amzn": 'NAME="Amazon Linux"\nVERSION="2023"\nID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n',
    "rocky": 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n',
    "mint": "NAME='Linux Mint'\nID=linuxmint\nID_LIKE='ubuntu debian'\nVERSION_ID='22'\n",
}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("debian", ("debian", "12", "Debian", "Debian GNU/Linux")),
        ("ubuntu", ("ubuntu", "24", "Debian", "Ubuntu")),
        ("amzn", ("amzn", "2023", "RedHat", "Amazon Linux")),
        ("rocky", ("rocky", "9", "RedHat", "Rocky Linux")),
        ("mint", ("linuxmint", "22", "Debian", "Linux Mint")),
    ],
)
def test_family_and_major_version(name: str, found: tuple[str, ...]) -> None:
    read = parse_os_release(TEXTS[name])
    assert (read["id"], read["major"], read["family"], read["name"]) == found


def test_unreadable_file_is_no_distribution() -> None:
    class Bare(Host):
        def read_text(self, path: str) -> str | None:
            return None

    assert set(read_distribution(Bare()).values()) == {""}


def test_only_amazon_linux_2_is_refused() -> None:
    old = parse_os_release('NAME="Amazon Linux"\nID="amzn"\nID_LIKE="centos rhel fedora"\nVERSION_ID="2"\n')
    (problem,) = distribution_problems(old)
    assert problem.startswith("Amazon Linux 2 is not supported: its Python 3.7 is too old")
    assert [distribution_problems(parse_os_release(text)) for text in TEXTS.values()] == [[]] * len(TEXTS)
