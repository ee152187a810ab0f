# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The policies in docs/iam; tests/integration/cluster holds them against the calls that are made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "iam"
# destroy_cluster makes no calls besides those of the program pcluster.
PLAYBOOKS = {"create_network", "create_cluster", "stage_data", "destroy_network", "prove_on_aws"}


def test_each_playbook_and_hook_have_one():
    assert {path.stem for path in FOLDER.glob("*.json")} >= {*PLAYBOOKS, "hook"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_actions_are_named_one_by_one(path):
    policy = json.loads(path.read_text(encoding="utf-8"))
    assert policy["Version"] == "2012-10-17"
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        assert statement["Action"] == sorted(set(statement["Action"]))
        assert [
            action for action in statement["Action"] if not re.fullmatch(r"[a-z0-9]+:[A-Z][A-Za-z0-9]+", action)
        ] == []
        # AWS takes no resource for what only describes.
        if statement["Resource"] == "*":
            actions = set(statement["Action"]) - {"pricing:GetProducts"}
            assert {action.split(":")[0] for action in actions} <= {"ec2", "fsx"}
            assert all(action.split(":")[1].startswith("Describe") for action in actions)


# Resources of EC2 and FSx get names that are unknown beforehand, so tags mark their owner; these two have no tags.
UNTAGGED = {"arn:aws:ec2:*:*:security-group-rule/*", "arn:aws:fsx:*:*:association/*/*"}
# An instance's image, subnet and VPC may have any owner, and its network interface is deleted with it.
UNTAGGED |= {f"arn:aws:ec2:*:*:{kind}/*" for kind in ("image", "network-interface", "subnet", "vpc")}


@pytest.mark.parametrize("name", ["create_network", "create_cluster", "destroy_network", "prove_on_aws"])
def test_changing_actions_are_bound_to_tag(name):
    policy = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    for statement in policy["Statement"]:
        resources = [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]
        changes = [action for action in statement["Action"] if re.match(r"(ec2|fsx):(?!Describe)", action)]
        if changes and not set(resources) <= UNTAGGED:
            (keys,) = statement["Condition"].values()
            assert any(
                re.fullmatch(r"aws:(Request|Resource)Tag/mlcluster:(network|cluster|made-by)", key) for key in keys
            )
