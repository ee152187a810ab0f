# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of a role from its variables, and their problems."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.options import (
    checksum,
    role_options,
    system_problems,
)
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import read_defaults

GDS = DOMAINS["nvidia_gds"]


def options(**given):
    return role_options(GDS, {**read_defaults("nvidia_gds"), **{f"nvidia_gds_{k}": v for k, v in given.items()}})


def test_options_are_variables_without_name_of_role():
    found, problems = options(mode="nvfs", library="/opt/libcufile.so.0")
    assert (found["mode"], found["library"], found["probe_timeout"], problems) == (
        "nvfs",
        "/opt/libcufile.so.0",
        30,
        [],
    )
    assert "library" not in options()[0]
    assert "remove_confirmed" not in found


def test_command_line_strings_are_converted():
    found, problems = options(required="false", probe_timeout="60", cuda_version="13.0")
    assert (found["required"], found["probe_timeout"], problems) == (False, 60, [])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"packages": "abc"}, "nvidia_gds_packages is 'abc', a string; use a list of strings"),
        ({"cufile_settings": "a=b"}, "nvidia_gds_cufile_settings is 'a=b', a string; use a dictionary"),
        ({"safe_mode": "perhaps"}, "nvidia_gds_safe_mode is 'perhaps', a string; use true or false"),
        ({"cuda_version": 13.1}, "nvidia_gds_cuda_version is 13.1, a number; use a string in quotes, such as '13.1'"),
        ({"mode": "gds"}, "value of nvidia_gds_mode must be one of: compat, nvfs, p2pdma, got: gds"),
        ({"cuda_version": "13"}, "nvidia_gds_cuda_version is '13': use a release of CUDA"),
    ],
)
def test_impossible_option_is_named_by_variable(given, words):
    (problem,) = options(**given)[1]
    assert problem.startswith(words)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"distribution": "Amazon", "distribution_major_version": "2"}, "Amazon Linux 2 is not supported: its Python"),
        ({"python": {"version": {"major": 3, "minor": 8}}}, "node1 has Python 3.8 and this role needs 3.9 or newer"),
    ],
)
def test_unsupported_system_is_rejected(facts, words):
    (problem,) = system_problems("node1", facts)
    assert problem.startswith(words)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"python": None},
        {"python": {"version": {"major": 3, "minor": 9}}},
        {"distribution": "Amazon", "distribution_major_version": "2023"},
        {"distribution": "Debian", "distribution_major_version": "2"},
    ],
)
def test_unknown_facts_are_no_problem(facts):
    assert system_problems("node1", facts) == []


def test_sum_depends_on_role_option_run_and_mode():
    base = checksum("a", {"x": 1, "y": 2}, "run", False)
    assert base == checksum("a", {"y": 2, "x": 1}, "run", False)
    others = [("b", {"x": 1, "y": 2}, "run", False), ("a", {"x": 2, "y": 2}, "run", False)]
    others += [("a", {"x": 1, "y": 2}, "other", False), ("a", {"x": 1, "y": 2}, "run", True)]
    assert base not in {checksum(*other) for other in others}
