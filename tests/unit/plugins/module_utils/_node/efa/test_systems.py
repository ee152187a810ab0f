# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distributions and the EFA installers that support them."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.systems import INSTALLERS, system_problem

NAMES = {"debian": "Debian", "ubuntu": "Ubuntu", "amzn": "Amazon Linux"}


def problem_of(system, version):
    return system_problem({"id": system[0], "major": system[1], "name": ""}, version)


@pytest.mark.parametrize(
    ("system", "version", "first"),
    [
        (("debian", "13"), "1.30.0", "1.46.0"),
        (("debian", "13"), "1.45.1", "1.46.0"),
        (("debian", "12"), "1.35.0", "1.36.0"),
        (("ubuntu", "26"), "1.40.0", "1.48.0"),
        (("amzn", "2023"), "1.24.1", "1.25.0"),
    ],
)
def test_installer_older_than_system_is_refused(system, version, first):
    problem = problem_of(system, version)
    assert problem.startswith(
        f"EFA installer {version} is too old for {NAMES[system[0]]} {system[1]}: the first one for it is {first};"
    )
    assert problem_of(system, first) == ""


@pytest.mark.parametrize(
    ("system", "last", "version"), [(("debian", "11"), "1.50.0", "1.51.0"), (("ubuntu", "20"), "1.42.0", "1.43.0")]
)
def test_system_older_than_installer_is_refused(system, last, version):
    assert f"the last one for it is {last}" in problem_of(system, version)
    assert problem_of(system, last) == ""


@pytest.mark.parametrize("system", [("fedora", "43"), ("debian", "10"), ("ubuntu", ""), ("", "13")])
def test_unknown_system_is_refused(system):
    assert "is not one that the EFA installer supports" in problem_of(system, "1.51.0")


def test_invalid_version_is_rejected():
    assert problem_of(("debian", "13"), "latest")


def test_present_installer_is_refused_after_end_of_support():
    dropped = {system for system, (_first, last) in INSTALLERS.items() if last}
    assert {system for system in INSTALLERS if problem_of(system, "1.51.0")} == dropped
