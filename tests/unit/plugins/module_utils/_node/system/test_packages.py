# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.packages import (
    package_versions,
    parse_dpkg,
    parse_rpm,
    parse_versionlock,
)

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_gds_host import GdsHost, node


def test_states_of_debian_packages():
    packages = parse_dpkg(
        training_host.dpkg(
            [
                ("held", "1:2.0-1", "hi "),
                ("removed", "1.0", "rc "),
                ("half", "1.0", "iF "),
                ("unpacked", "1.0", "iU "),
                ("reinstall", "1.0", "iHR"),
                ("twice", "1.0", "iU "),
                ("twice", "2.0", "ii "),
                ("never", "", "un "),
            ]
        )
        + "no tabs\n\t1\tii \n"
    )
    assert sorted(packages) == ["half", "held", "reinstall", "twice", "unpacked"]
    assert packages["held"] == {"version": "2.0-1", "installed": True, "held": True, "broken": False}
    assert [packages[name]["broken"] for name in ("half", "unpacked", "reinstall", "twice")] == [True] * 4


def test_rpm_packages_and_their_locks():
    locked = parse_versionlock(
        "# a comment\nkernel-0:6.1.0-1.amzn2023.*\n!excluded-0:1-1.*\nnvidia-driver-cuda-3:580.1-1.*\n"
    )
    assert locked == {"kernel", "nvidia-driver-cuda"}
    assert parse_versionlock('version = "1.0"\n[[packages]]\nname = "efa"\n') == {"efa"}
    packages = parse_rpm("kernel\t6.1.0-1.amzn2023\nefa\t2.17.2-1.amzn2023\nbroken\n", locked)
    assert packages["kernel"] == {"version": "6.1.0-1.amzn2023", "installed": True, "held": True, "broken": False}
    assert sorted(packages) == ["efa", "kernel"]


def test_packages_of_dpkg():
    host = GdsHost()
    host.programs["dpkg-query"] = "/usr/bin/dpkg-query"
    argv = "dpkg-query --show --showformat=${db:Status-Abbrev}\t${Package}\t${Version}\n nvidia-gds nvidia-fs-dkms half"
    host.commands[argv] = "ii \tnvidia-gds\t13.0.2-1\niF \thalf\t1.0\nrc \tnvidia-fs-dkms\t2.26\n"
    assert package_versions(host, ["nvidia-gds", "nvidia-fs-dkms", "half"]) == {
        "nvidia-gds": "13.0.2-1",
        "nvidia-fs-dkms": None,
        "half": None,
    }


def test_packages_of_rpm():
    host = GdsHost()
    host.programs["rpm"] = "/usr/bin/rpm"
    host.commands["rpm --query --queryformat %{NAME}\t%{VERSION}-%{RELEASE}\n nvidia-gds absent"] = (
        "nvidia-gds\t13.0.2-1\npackage absent is not installed\n"
    )
    assert package_versions(host, ["nvidia-gds", "absent"]) == {"nvidia-gds": "13.0.2-1", "absent": None}


def test_packages_of_neither():
    assert package_versions(GdsHost(), ["nvidia-gds"]) == {"nvidia-gds": None}
    assert package_versions(GdsHost(), []) == {}


def test_no_option_of_the_package_manager_is_taken_for_a_package():
    host = node()
    host.programs["dpkg-query"] = "/usr/bin/dpkg-query"
    host.run = lambda argv, **more: pytest.fail("asked")
    assert package_versions(host, ["--admindir=/tmp", ""]) == {"--admindir=/tmp": None, "": None}
