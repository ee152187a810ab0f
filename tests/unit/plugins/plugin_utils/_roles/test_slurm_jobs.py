# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Controller data for the options of the role slurm_jobs."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import slurm_jobs
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.options import role_options
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import read_defaults

ROLE = Path(__file__).parents[5] / "roles" / "slurm_jobs"
BLOCK = {"type": "capacity-block", "end": "2026-12-01T11:30:00+00:00"}


def variables(**given):
    return {**read_defaults("slurm_jobs"), **{f"slurm_jobs_{name}": value for name, value in given.items()}}


def test_data_programs_have_sums():
    sources = sorted((ROLE / "files" / "mlcluster_data").rglob("*.py"))
    wanted = {str(path.relative_to(ROLE / "files")): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources}
    assert len(sources) > 30 and slurm_jobs.data_sums() == wanted


def test_role_without_its_programs_is_error(monkeypatch, tmp_path):
    monkeypatch.setattr(slurm_jobs, "FILES", tmp_path)
    slurm_jobs.data_sums.cache_clear()
    with pytest.raises(AnsibleError, match=r"no Python file is in .*: install the collection again"):
        slurm_jobs.data_sums()
    slurm_jobs.data_sums.cache_clear()


def test_sources_use_mirror_and_given_sum():
    given = variables(
        build=["ior", "fio"],
        build_versions={"fio": 9.1},
        build_mirror="https://mirror",
        build_sha256={"ior": "a" * 64},
    )
    found = slurm_jobs.artifacts(given)
    assert found["ior"] == {"version": "4.0.0", "url": "https://mirror/ior-4.0.0.tar.gz", "sha256": "a" * 64}
    assert (found["fio"]["version"], found["fio"]["url"]) == ("9.1", "https://mirror/fio-9.1.tar.gz")


def test_lock_supplies_sum_of_version(tmp_path):
    lock = tmp_path / "lock.yml"
    lock.write_text("artifacts:\n  - {name: ior, platform: any, version: 4.0.0, sha256: " + "b" * 64 + "}\n")
    given = variables(build=["ior"], lock_file=str(lock))
    assert slurm_jobs.artifacts(given)["ior"]["sha256"] == "b" * 64
    lock.write_text("artifacts: 5\n")
    (problem,) = slurm_jobs.controller_problems(given)
    assert problem.startswith("slurm_jobs_lock_file: ")
    assert slurm_jobs.artifacts(given)["ior"]["sha256"] != "b" * 64


def test_values_of_another_type_are_named():
    given = variables(build_sha256="x", run="node_smoke", run_nodes=10, run_drain="yes")
    assert role_options(DOMAINS["slurm_jobs"], given)[1] == [
        "slurm_jobs_build_sha256 is 'x', a string; use a dictionary",
        "slurm_jobs_run is 'node_smoke', a string; use a list of strings",
    ]
    # Invalid values do not fail before they are reported.
    assert slurm_jobs.artifacts(variables(build_sha256="x", build=["ior"]))["ior"]["sha256"] == ""


class Unreadable(dict):
    def get(self, name, default=None):
        raise AnsibleUndefinedVariable("'x' is undefined")


def test_reservations_of_nodes_are_reported_once():
    others = {
        "n1": {"ec2_capacity": {**BLOCK, "id": "cr-1"}},
        "n2": {"ec2_capacity": BLOCK},
        "n3": {},
        "n4": Unreadable(),
    }
    given = {**variables(), "groups": {"compute": [*others, "n5"], "all": []}, "hostvars": others}
    assert slurm_jobs.capacity(given) == [BLOCK]
    assert slurm_jobs.capacity({**given, "slurm_jobs_nodes_group": "others"}) == []


def test_options_with_controller_data_are_valid(monkeypatch):
    monkeypatch.setattr(slurm_jobs._runtime, "run_sum", lambda folder: "5" * 64)
    options, problems = role_options(DOMAINS["slurm_jobs"], variables(build=["ior"], gpus_per_node="8"))
    assert problems == []
    assert (options["runtime_sha256"], options["gpus_per_node"]) == ("5" * 64, 8)
    assert set(options["artifacts"]) == {"ior"} and options["data_sums"]
