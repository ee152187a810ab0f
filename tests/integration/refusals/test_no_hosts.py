# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that would reach no node ends with an error: a misspelt group or limit is not a success over no hosts."""

from __future__ import annotations

import pytest

CLUSTER = {"head": {"h1": {}}, "compute": {"n1": {}}}
SAID = {
    "site": "no node was configured: the inventory has no host in instance_store:efa:gpu:compute:login:head",
    "verify_nodes": "no node was proved: the inventory has no host in instance_store:efa:gpu:compute:login:head",
    "check_nodes": "no node was checked: the inventory has no host in head:login:compute:instance_store:efa:gpu",
    "run_validation": "nothing was validated: the inventory has no host in head",
    "submit_training": "nothing was submitted: the inventory has no host in head",
    "build_image": "no image was built: the inventory has no host in head",
    "upgrade_nodes": "reboot or reimage, and use an inventory that has hosts in head and compute",
}


# The rest of them for make test-all alone.
FIRST = ("site", "upgrade_nodes")
EACH = [pytest.param(name, marks=() if name in FIRST else pytest.mark.slow) for name in SAID]


@pytest.mark.parametrize("playbook", EACH)
def test_inventory_of_other_groups_is_refused(said, playbook):
    status, words = said(f"playbooks/{playbook}.yml", {"gpus": {"n1": {}}}, upgrade_nodes_how="roles")
    assert status == 2 and SAID[playbook] in words, words
    assert "within --limit" not in words


@pytest.mark.parametrize("playbook", EACH)
def test_limit_that_leaves_nobody_is_refused(said, playbook):
    groups = {**CLUSTER, "others": {"o1": {}}}
    status, words = said(f"playbooks/{playbook}.yml", groups, "--limit", "o1", upgrade_nodes_how="roles")
    # Which hosts submit is known, and --limit has left them out.
    limited = "nothing was validated, for the limit leaves out the host that submits"
    expected = limited if playbook == "run_validation" else SAID[playbook]
    assert status == 2 and expected in words, words
    assert playbook == "run_validation" or "within --limit o1" in words, words


def test_target_that_nobody_is_in_is_refused_though_there_is_head_node(said):
    status, words = said("site.yml", CLUSTER, "--tags", "slurm_jobs_verify", target="queue_gup")
    assert (
        status == 2
        and "no node was configured: the inventory has no host in queue_gup; its groups are compute, head; check -i"
        in words
    ), words


@pytest.mark.parametrize("options", [(), ("--limit", "n1")], ids=["all", "limited"])
def test_head_node_of_no_group_is_enough(said, options):
    groups = {"others": {"h1": {}}, "compute": {"n1": {}}}
    status, words = said("site.yml", groups, "--tags", "never", *options, head="h1")
    assert status == 0, words


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"upgrade_nodes_how": "role"}, "nothing was upgraded: set -e upgrade_nodes_how=roles, reboot or reimage"),
        ({"upgrade_nodes_how": "roles", "upgrade_nodes_batches": "ten"}, "upgrade_nodes_batches is 'ten'"),
        pytest.param(
            {"upgrade_nodes_how": "roles", "upgrade_nodes_release": "../x"},
            "upgrade_nodes_release is '../x'",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["how", "batches", "release"],
)
def test_upgrade_of_some_nodes_is_refused_as_one_of_all(said, given, sentence):
    status, words = said("playbooks/upgrade_nodes.yml", CLUSTER, "--limit", "h1,n1", **given)
    assert status == 2 and sentence in words, words
    assert "Ask Slurm" not in words
