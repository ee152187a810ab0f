# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of roles that decide on the node: same options and defaults as the role."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS

from tests.docs_check import role_docs

ROLES = {role.name: role for role in role_docs.role_folders(role_docs.CHECKOUT)}
# Options of a role that only the controller uses.
CONTROLLER = {
    "efa_nccl": {"remove_confirmed", "lock_file", "tests_builder"},
    "nvidia_gds": {"remove_confirmed"},
    "nvme_raid0": {"remove_confirmed"},
    "enroot_pyxis": {
        "docker_enabled",
        "image_base",
        "image_build_arguments",
        "image_directory",
        "image_efa_version",
        "image_keep",
        "image_name",
        "image_push",
        "image_requirements",
        "image_require_mount",
        "image_timeout",
        "remove_confirmed",
        "required",
    },
    "fsx_lustre": {
        "data_action",
        "data_parallel",
        "data_paths",
        "data_timeout",
        "profile",
        "region",
        "remove_confirmed",
        "required",
    },
    "slurm_jobs": {
        "build_mirror",
        "build_sha256",
        "lock_file",
        "nodes_group",
        "remove_confirmed",
        "run",
        "run_accept_undeterminable",
        "run_cluster",
        "run_drain",
        "run_nodelist",
        "run_nodes",
        "run_timeout",
        "run_undrain",
    },
}
# Options that the controller adds.
ADDED = {
    "efa_nccl": {"artifact", "tests_artifact", "builds_tests"},
    "nvidia_gds": {"example_text"},
    "nvme_raid0": {"runtime_sha256", "probe"},
    "fsx_lustre": {"probe", "runtime_sha256"},
    "enroot_pyxis": {"artifacts", "docker", "probe", "runtime_sha256"},
    "slurm_jobs": {"artifacts", "capacity", "data_sums", "runtime_sha256"},
}
KEYS = sorted(DOMAINS)
NAMES = sorted({domain.role for domain in DOMAINS.values()})


@pytest.mark.parametrize("name", NAMES)
def test_options_are_those_of_role(name):
    options = {key[len(name) + 1 :]: option for key, option in role_docs.read_options(ROLES[name]).items()}
    # Each part of a role has its own.
    spec = {key: option for domain in DOMAINS.values() if domain.role == name for key, option in domain.spec.items()}
    assert set(spec) - ADDED[name] == set(options) - CONTROLLER[name]
    for key in set(spec) - ADDED[name]:
        mine, role_has = spec[key], options[key]
        assert mine["type"] == role_has.get("type", "str"), key
        assert mine.get("elements") == role_has.get("elements"), key
        assert mine.get("choices") == role_has.get("choices"), key
        assert ("default" in mine) == ("default" in role_has), key
        assert mine.get("default") == role_has.get("default"), key


def test_domains_have_the_order_of_site():
    """The look of site.yml leaves out the roles after one that changes the node: they look again."""
    plays = yaml.safe_load((role_docs.CHECKOUT / "playbooks/site.yml").read_text(encoding="utf-8"))
    included = [
        task["ansible.builtin.include_role"]["name"].rpartition(".")[2]
        for play in plays
        for task in play.get("tasks") or ()
        if "ansible.builtin.include_role" in task
    ]
    order = list(dict.fromkeys(included))
    assert list(dict.fromkeys(domain.role for domain in DOMAINS.values() if domain.role in order)) == order
    assert set(order) == set(NAMES)


@pytest.mark.parametrize("name", KEYS)
def test_read_only_and_transient_names_are_options(name):
    domain = DOMAINS[name]
    assert {*domain.read_only, *domain.transient} <= set(domain.spec)
    # It has a default, so the file of the role does not have it.
    assert all("default" in domain.spec[key] for key in domain.transient)


@pytest.mark.parametrize("name", KEYS)
def test_defaults_have_no_problem_and_limit(name):
    domain = DOMAINS[name]
    assert domain.problems({}) == []
    assert domain.seconds(domain.parse({})) > 0


@pytest.mark.parametrize("name", NAMES)
def test_role_is_two_tasks_with_names_only(name):
    tasks = yaml.safe_load((ROLES[name] / "tasks" / "main.yml").read_text(encoding="utf-8"))
    assert [next(key for key in task if key.startswith(("mlcluster", "ansible"))) for task in tasks] == [
        "mlcluster.aws.node_plan",
        "ansible.builtin.include_tasks",
    ]
    assert tasks[1]["when"] == f"not __{name}_answer.plan.empty"
    variables = list((ROLES[name] / "vars").glob("*.yml"))
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in variables) <= 60
    every = [path.read_text(encoding="utf-8") for path in (ROLES[name] / "tasks").glob("*.yml")]
    # A block has a name and does nothing by itself.
    assert sum(text.count("- name: ") - len(re.findall(r"^ +block:$", text, re.MULTILINE)) for text in every) <= 40
