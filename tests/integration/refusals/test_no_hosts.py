# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that would reach no node ends with an error: a misspelt group or limit is not a success over no hosts."""

from __future__ import annotations

import pytest

CLUSTER = {"head": {"h1": {}}, "compute": {"n1": {}}}
MESSAGES = {
    "site": "no node was configured: the inventory has no host in instance_store:efa:gpu:compute:login:head",
    "verify_nodes": "no node was proved: the inventory has no host in instance_store:efa:gpu:compute:login:head",
    "check_nodes": "no node was checked: the inventory has no host in head:login:compute:instance_store:efa:gpu",
    "run_validation": "nothing was validated: the inventory has no host in head",
    "submit_training": "nothing was submitted: the inventory has no host in head",
    "build_image": "no image was built: the inventory has no host in head",
    "upgrade_nodes": "reboot or reimage, and use an inventory that has hosts in head and compute",
}


# The others run in `make test-all` only.
FIRST = ("site", "upgrade_nodes")
EACH = [pytest.param(name, marks=() if name in FIRST else pytest.mark.slow) for name in MESSAGES]


@pytest.mark.parametrize("playbook", EACH)
def test_inventory_of_other_groups_is_refused(run_playbook, playbook):
    status, output = run_playbook(f"playbooks/{playbook}.yml", {"gpus": {"n1": {}}}, upgrade_nodes_method="roles")
    assert status == 2 and MESSAGES[playbook] in output, output
    assert "within --limit" not in output


@pytest.mark.parametrize("playbook", EACH)
def test_limit_without_hosts_of_play_is_refused(run_playbook, playbook):
    groups = {**CLUSTER, "others": {"o1": {}}}
    status, output = run_playbook(f"playbooks/{playbook}.yml", groups, "--limit", "o1", upgrade_nodes_method="roles")
    # The host that submits is known, and --limit excludes it.
    limited = "nothing was validated: --limit leaves out the head node, which submits the jobs"
    expected = limited if playbook == "run_validation" else MESSAGES[playbook]
    assert status == 2 and expected in output, output
    assert playbook == "run_validation" or "within --limit o1" in output, output


def test_target_without_hosts_is_refused_despite_head_node(run_playbook):
    status, output = run_playbook("site.yml", CLUSTER, "--tags", "slurm_jobs_verify", target="queue_gup")
    assert (
        status == 2
        and "no node was configured: the inventory has no host in queue_gup; its groups are compute, head; check -i, "
        "the credentials and the filters with ansible-inventory --graph, or name the hosts with -e target=PATTERN"
        in output
    ), output


@pytest.mark.parametrize("options", [(), ("--limit", "n1")], ids=["all", "limited"])
def test_head_node_outside_group_is_accepted(run_playbook, options):
    groups = {"others": {"h1": {}}, "compute": {"n1": {}}}
    # No host has instance-store disks, so only the checks before the run do anything.
    status, output = run_playbook("site.yml", groups, "--tags", "nvme_raid0", *options, head="h1")
    assert status == 0, output


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"upgrade_nodes_method": "role"},
            "nothing was upgraded: upgrade_nodes_method is 'role'; set -e upgrade_nodes_method=roles",
        ),
        ({"upgrade_nodes_method": "roles", "upgrade_nodes_batches": "ten"}, "upgrade_nodes_batches is 'ten'"),
        pytest.param(
            {"upgrade_nodes_method": "roles", "upgrade_nodes_release": "../x"},
            "upgrade_nodes_release is '../x'",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["how", "batches", "release"],
)
def test_limited_upgrade_with_bad_options_is_refused(run_playbook, given, sentence):
    status, output = run_playbook("playbooks/upgrade_nodes.yml", CLUSTER, "--limit", "h1,n1", **given)
    assert status == 2 and sentence in output, output
    assert "Ask Slurm" not in output
