# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import tools
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host


class Programs(Host):
    def __init__(self, *programs, stdout="", rc=0):
        self.programs, self.stdout, self.rc = programs, stdout, rc

    def exists(self, path):
        return path in self.programs

    def which(self, program):
        return f"/usr/bin/{program}" if f"/usr/bin/{program}" in self.programs else None

    def run(self, argv, **kwargs):
        return CommandResult(self.rc, self.stdout, "")


def test_fi_info_of_installer_comes_first():
    own = "/opt/amazon/efa/bin/fi_info"
    assert tools.fi_info_program(Programs(own, "/usr/bin/fi_info")) == own
    assert tools.fi_info_program(Programs("/usr/bin/fi_info")) == "/usr/bin/fi_info"
    assert tools.fi_info_program(Programs()) is None


def test_libfabric_version_is_none_without_its_line():
    text = "fi_info: 1.22.0amzn5.0\nlibfabric: 1.22.0amzn5.0\nlibfabric api: 1.22\n"
    assert tools.libfabric_version(Programs(stdout=text), "fi_info") == "1.22.0amzn5.0"
    assert tools.libfabric_version(Programs(stdout="", rc=127), "fi_info") is None
