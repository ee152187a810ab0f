# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.packages import (
    installed_packages,
    package_versions,
    parse_dpkg,
    parse_rpm,
    parse_versionlock,
)

from tests.unit.fakes import fake_training_host as training_host
from tests.unit.fakes.fake_gds_host import GdsHost


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


@pytest.mark.parametrize("order", [("hi ", "ii "), ("ii ", "hi ")])
def test_package_is_held_in_all_architectures(order):
    listed = training_host.dpkg([("libnccl2", "2.0", status) for status in order])
    assert parse_dpkg(listed)["libnccl2"]["held"] is False
    assert parse_dpkg(training_host.dpkg([("libnccl2", "2.0", "hi "), ("libnccl2", "2.0", "rc ")]))["libnccl2"]["held"]


def test_rpm_packages_and_their_locks():
    locked = parse_versionlock(
        "# a comment\nkernel-0:6.1.0-1.amzn2023.*\n!excluded-0:1-1.*\nnvidia-driver-cuda-3:580.1-1.*\n"
    )
    assert locked == {"kernel", "nvidia-driver-cuda"}
    assert parse_versionlock('version = "1.0"\n[[packages]]\nname = "efa"\n') == {"efa"}
    packages = parse_rpm("kernel\t6.1.0-1.amzn2023\nefa\t2.17.2-1.amzn2023\nbroken\n", locked)
    assert packages["kernel"] == {"version": "6.1.0-1.amzn2023", "installed": True, "held": True, "broken": False}
    assert sorted(packages) == ["efa", "kernel"]


DPKG = "dpkg-query -W -f ${Package}\\t${Version}\\t${db:Status-Abbrev}\\n"
RPM = "rpm -qa --qf %{NAME}\\t%{VERSION}-%{RELEASE}\\n"


def managed(program, command, answer):
    host = GdsHost()
    host.programs[program] = f"/usr/bin/{program}"
    host.commands[command] = answer
    return host


def test_versions_of_dpkg_are_those_of_whole_packages():
    listed = "nvidia-gds\t13.0.2-1\tii \nhalf\t1.0\tiF \nnvidia-fs-dkms\t2.26\trc \nheld\t2:1.5\thi \n"
    host = managed("dpkg-query", DPKG, listed)
    assert package_versions(host, ["nvidia-gds", "nvidia-fs-dkms", "half", "held", "--admindir=/tmp"]) == {
        "nvidia-gds": "13.0.2-1",
        "nvidia-fs-dkms": None,
        "half": None,
        "held": "1.5",
        "--admindir=/tmp": None,
    }


def test_versions_of_rpm():
    host = managed("rpm", RPM, "nvidia-gds\t13.0.2-1\n")
    assert package_versions(host, ["nvidia-gds", "absent"]) == {"nvidia-gds": "13.0.2-1", "absent": None}


def test_machine_without_package_manager_has_no_packages():
    assert package_versions(GdsHost(), ["nvidia-gds"]) == {"nvidia-gds": None}
    assert installed_packages(GdsHost()) == (None, None)


@pytest.mark.parametrize(("program", "command"), [("dpkg-query", DPKG), ("rpm", RPM)])
def test_package_manager_without_answer_is_error(program, command):
    host = managed(program, command, 2)
    with pytest.raises(NodeError, match="got no answer"):
        package_versions(host, ["nvidia-gds"])
    assert installed_packages(host) == (None, None)


def test_empty_database_is_no_answer():
    host = managed("dpkg-query", DPKG, "")
    assert installed_packages(host) == (None, None)
    # Amazon Linux can have dpkg too.
    host.programs["rpm"] = "/usr/bin/rpm"
    host.commands[RPM] = "efa\t2.17.2-1\n"
    assert installed_packages(host)[1] == "rpm"
    host.commands[RPM] = ""
    assert installed_packages(host) == (None, None)


@pytest.mark.parametrize(
    ("settings", "held"),
    [
        ("[main]\nenabled = 1\n", True),
        ("[main]\nenabled=True\n", True),
        ("[main]\nenabled = 0\n", False),
        ("[main]\n# enabled = 1\n", False),
        (None, False),
    ],
)
def test_lock_counts_only_with_plugin_of_dnf(settings, held):
    host = managed("rpm", RPM, "kernel\t6.1.0-1\nefa\t2.17.2-1\n")
    host.files["/etc/dnf/plugins/versionlock.list"] = "kernel-0:6.1.0-1.*\n"
    host.files["/etc/dnf/versionlock.toml"] = '[[packages]]\nname = "efa"\n'
    if settings is not None:
        host.files["/etc/dnf/plugins/versionlock.conf"] = settings
    found = installed_packages(host)[0]
    assert (found["kernel"]["held"], found["efa"]["held"]) == (held, True)
