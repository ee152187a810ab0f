# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the role on a node that runs jobs: the scripts for Slurm, and packages."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import node_role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.config import parse_checks, parse_tools
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.fake_jobs_host import JobsHost

NAMES = ["fio", "ior", "nccl"]
SPECS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "3.33-3", "2:3.33-3"])), unique_by=lambda spec: spec[0]
)


def tools(host, *specs):
    config = parse_tools({"node_packages": list(specs)})
    return node_role.plan_tools(node_role.look_tools(host, config), config)


def checks(host, **given):
    config = parse_checks({"checks": given})
    return node_role.plan_checks(node_role.look_checks(host, config), config)


def test_lacking_package_is_installed_from_fresh_lists():
    plan = tools(JobsHost(), "fio", "ior=4.0-1")
    assert plan.refresh
    assert [(entry.name, entry.version) for entry in plan.packages] == [("fio", ""), ("ior", "4.0-1")]


def test_program_that_came_some_other_way_is_kept():
    host = JobsHost()
    host.programs.add("fio")
    assert tools(host, "fio").differences() == []
    # A pinned one is that package and no other.
    assert tools(host, "fio=3.33-3").differences() == ["packages"]


@pytest.mark.parametrize(
    ("manager", "found", "wanted", "due"),
    [
        ("apt", "3.33-3", "3.33-3", False),
        ("apt", "3.33-3", "1:3.33-3", False),
        ("apt", "3.33-3", "3.33", True),
        ("apt", "3.33-3", "3.36-1", True),
        ("dnf", "3.29-1.el9", "3.29", False),
        ("dnf", "3.29-1.el9", "3.29-1.el9", False),
        ("dnf", "3.29-1.el9", "3.29-1.el9.x86_64", False),
        ("dnf", "3.29-1.el9", "3.2", True),
        ("dnf", None, "3.29", True),
    ],
)
def test_pinned_version_is_compared_as_manager_spells_it(manager, found, wanted, due):
    facts = {"manager": manager, "programs": {"fio": True}, "versions": {"fio": found}}
    plan = node_role.plan_tools(facts, parse_tools({"node_packages": [f"fio={wanted}"]}))
    assert bool(plan.packages) == due


def test_machine_without_package_manager_refuses():
    host = JobsHost()
    host.programs.remove("apt-get")
    (problem,) = tools(host, "fio").refusals
    assert problem.startswith("fio cannot be installed: there is no apt and no dnf here")
    assert tools(host).refusals == ()


@given(SPECS)
def test_installed_packages_leave_empty_plan(specs):
    host = JobsHost()
    words = ["=".join(filter(None, spec)) for spec in specs]
    plan = tools(host, *words)
    host.packages.update({entry.name: (entry.version or "1.0-1").removeprefix("2:") for entry in plan.packages})
    assert tools(host, *words).differences() == []


@pytest.mark.parametrize("given", [{}, {"scratch": False}, {"prolog": "/opt/prolog", "gate": "closed"}])
def test_scripts_are_written_once(given):
    host = JobsHost()
    plan = checks(host, **given)
    assert [entry.name for entry in plan.files] == ["prolog", "epilog", "task_prolog", "health_check"]
    host.carry_out(plan)
    assert checks(host, **given).differences() == []
    host.states["/etc/mlcluster/slurm/epilog"] = {"mode": "0644"}
    assert checks(host, **given).differences() == ["epilog (mode or owner)"]


def test_looks_have_limit_and_no_verdicts():
    host, config = JobsHost(), parse_checks({})
    assert node_role.seconds(config) > 60
    assert node_role.verify(node_role.look_checks(host, config), config) == []
