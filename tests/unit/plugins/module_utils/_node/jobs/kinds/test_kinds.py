# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every file of the folder of kinds is a whole kind."""

from __future__ import annotations

import ast

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS

from tests.unit.checkout import CHECKOUT

FOLDER = CHECKOUT / "plugins/module_utils/_node/jobs/kinds"


def test_registry_is_folder():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files and set(JOB_KINDS) == files, "run: .venv/bin/python -m tests.docs_check.guide_tables"


@pytest.mark.parametrize("name", JOB_KINDS)
def test_kind_has_judge_or_reason_for_none(name):
    kind = JOB_KINDS[name]
    assert bool(kind.judge) != bool(kind.unjudged), f"give {name} a judge, or set unjudged to the reason"
    assert kind.title and kind.proves


@pytest.mark.parametrize("name", JOB_KINDS)
def test_kind_names_only_its_own_options(name):
    kind = JOB_KINDS[name]
    assert set(kind.asked) <= set(kind.options)
    assert not kind.writes or kind.writes in kind.options
    assert set(kind.paths) <= set(kind.options)
    assert {key for key, option in kind.options.items() if option.required} <= set(kind.example)


@pytest.mark.parametrize("name", [name for name in JOB_KINDS if JOB_KINDS[name].container != "never"])
def test_kind_names_options_with_paths_in_container(name):
    kind = JOB_KINDS[name]
    paths = {
        key for key, option in kind.options.items() if option.type.accepts("/fsx/x") and "path" in option.type.wanted
    }
    assert set(kind.paths) == paths
    assert not kind.writes or kind.paths[kind.writes]


@pytest.mark.parametrize("name", JOB_KINDS)
def test_example_and_defaults_are_of_their_type(name):
    kind = JOB_KINDS[name]
    for key, option in kind.options.items():
        if key in kind.example or (option.default and not option.required):
            assert option.type.accepts(kind.example.get(key, option.default)), key
    assert list(kind.problems(kind.values(kind.example), kind.example)) == []


def kinds_of_jobs(source: str) -> set[str]:
    """Return the kinds of the jobs in a test: mappings with the key kind, outside of comments and parameters."""
    return {
        value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "kind" and isinstance(value, ast.Constant)
    }


def test_each_kind_has_end_to_end_test():
    suites = sorted((CHECKOUT / "tests/integration/slurm").glob("*.py"))
    run = set().union(*(kinds_of_jobs(path.read_text(encoding="utf-8")) for path in suites))
    assert set(JOB_KINDS) - run == set(), "add a job of each of these kinds to a test in tests/integration/slurm"
    assert run - set(JOB_KINDS) == set(), "no such kind"


@pytest.mark.parametrize("source", ["# kind: nccl\n", 'request.param == "nccl"', '"kind: nccl"', 'f("kind", "nccl")'])
def test_mention_of_kind_is_no_job(source):
    assert kinds_of_jobs(source) == set()
    assert kinds_of_jobs('{"name": "n", "kind": "nccl"}') == {"nccl"}
