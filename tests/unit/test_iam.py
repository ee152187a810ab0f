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
PLAYBOOKS = {"create_network", "create_cluster", "stage_data", "destroy_network"}


def test_each_playbook_and_the_hook_have_one():
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
        # Only what EC2 and FSx make, whose names nobody knows before, may be everything.
        if statement["Resource"] == "*":
            assert {action.split(":")[0] for action in statement["Action"]} <= {"ec2", "fsx"}
