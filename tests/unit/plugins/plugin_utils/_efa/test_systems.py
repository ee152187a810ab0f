# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distributions and the EFA installers that support them."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._efa.systems import INSTALLERS, efa_nccl_system_problem


@pytest.mark.parametrize(
    ("system", "version", "first"),
    [
        (("Debian", "13"), "1.30.0", "1.46.0"),
        (("Debian", "13"), "1.45.1", "1.46.0"),
        (("Debian", "12"), "1.35.0", "1.36.0"),
        (("Ubuntu", "26"), "1.40.0", "1.48.0"),
        (("Amazon", "2023"), "1.24.1", "1.25.0"),
    ],
)
def test_installer_older_than_the_system_is_refused(system, version, first):
    problem = efa_nccl_system_problem(*system, version)
    assert problem.startswith(
        f"EFA installer {version} is too old for {system[0]} {system[1]}: the first one for it is {first};"
    )
    assert efa_nccl_system_problem(*system, first) == ""


@pytest.mark.parametrize(
    ("system", "last", "version"), [(("Debian", "11"), "1.50.0", "1.51.0"), (("Ubuntu", "20"), "1.42.0", "1.43.0")]
)
def test_system_older_than_the_installer_is_refused(system, last, version):
    assert f"the last one for it is {last}" in efa_nccl_system_problem(*system, version)
    assert efa_nccl_system_problem(*system, last) == ""


@pytest.mark.parametrize("system", [("Fedora", "43"), ("Debian", "10"), ("Ubuntu", ""), ("", "13")])
def test_unknown_system_is_refused(system):
    assert "is not one that the EFA installer supports" in efa_nccl_system_problem(*system, "1.51.0")


def test_version_that_is_none_is_refused():
    assert efa_nccl_system_problem("Debian", "13", "latest")


def test_present_installer_is_refused_only_where_support_was_dropped():
    dropped = {system for system, (_first, last) in INSTALLERS.items() if last}
    assert {system for system in INSTALLERS if efa_nccl_system_problem(*system, "1.51.0")} == dropped
