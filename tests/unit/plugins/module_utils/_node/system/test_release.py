# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operating system in Ansible's terms."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.release import system_facts


class Machine(Host):
    def __init__(self, release, programs=()):
        self.release, self.programs = release, programs

    def read_text(self, path):
        return {"/etc/os-release": self.release, "/proc/sys/kernel/osrelease": "6.1.0-23-cloud-amd64\n"}.get(path)

    def which(self, program):
        return f"/usr/bin/{program}" if program in self.programs else None


@pytest.mark.parametrize(
    ("release", "programs", "found"),
    [
        (
            'NAME="Amazon Linux"\nVERSION="2023"\nID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n',
            ["dnf"],
            ("Amazon", "2023", "RedHat", "dnf"),
        ),
        ("ID=amzn\nVERSION_ID='2'\nID_LIKE=\"centos rhel fedora\"\n", [], ("Amazon", "2", "RedHat", None)),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', ["apt-get"], ("Ubuntu", "24", "Debian", "apt")),
        ('ID=debian\nVERSION_ID="12"\n', ["apt-get"], ("Debian", "12", "Debian", "apt")),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n', ["dnf"], ("Rocky", "9", "RedHat", "dnf")),
        ("ID=rhel\nVERSION_ID=9.4\n", ["dnf5"], ("RedHat", "9", "RedHat", "dnf")),
        ("ID=other\n", [], ("Other", None, None, None)),
        (None, [], (None, None, None, None)),
    ],
)
def test_names_are_those_of_ansible(release, programs, found):
    facts = system_facts(Machine(release, programs))
    assert facts.pop("kernel") == "6.1.0-23-cloud-amd64"
    assert tuple(facts.values()) == found
    assert list(facts) == ["distribution", "distribution_major_version", "os_family", "pkg_mgr"]
