# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.variables import VariablesError, choose, prefix

USUAL = ("instance_id", "instance_type", "tags", "launch_time")
KNOWN = (*USUAL, "security_groups")


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (None, {name: f"ec2_{name}" for name in USUAL}),
        ([], {name: f"ec2_{name}" for name in USUAL}),
        ({}, {name: f"ec2_{name}" for name in USUAL}),
        (["tags"], {"instance_id": "ec2_instance_id", "tags": "ec2_tags"}),
        (["security_groups"], {"instance_id": "ec2_instance_id", "security_groups": "ec2_security_groups"}),
        (
            {"security_groups": True, "launch_time": False, "tags": "labels"},
            {
                "instance_id": "ec2_instance_id",
                "instance_type": "ec2_instance_type",
                "security_groups": "ec2_security_groups",
                "tags": "labels",
            },
        ),
        # Two inventories compare it to see whether a name is of the same instance.
        ({**dict.fromkeys(USUAL, False), "tags": True}, {"instance_id": "ec2_instance_id", "tags": "ec2_tags"}),
        ({**dict.fromkeys(USUAL, False), "instance_id": "me"}, {"instance_id": "me"}),
    ],
)
def test_variables_are_chosen_added_dropped_and_renamed(given, chosen):
    assert choose(given, "ec2_", USUAL, KNOWN) == chosen
    assert next(iter(choose(given, "ec2_", USUAL, KNOWN))) == "instance_id"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["instance_typ"], r"instances have no 'instance_typ'; did you mean instance_type\?"),
        (["ec2_tags"], r"instances have no 'ec2_tags'; did you mean tags\?"),
        ({"nothing_like_it": True}, "known are instance_id, instance_type"),
        ("tags", "use a list of variables, or a dictionary"),
        (True, "use a list of variables, or a dictionary"),
        ({"tags": None}, "tags is None; use true, false, or the name of a variable"),
        ({"tags": 3}, "tags is 3; use true"),
        ({"tags": "a-b"}, "tags is 'a-b'; use true"),
        ({"tags": "{{ x }}"}, "use true, false, or the name"),
        ({"tags": "x", "launch_time": "x"}, "are both to be 'x'"),
        ({"tags": "ec2_instance_type"}, "are both to be 'ec2_instance_type'"),
        ({"tags": "hostvars"}, "which Ansible keeps for itself"),
        ({"tags": "ansible_host"}, "which Ansible keeps for itself"),
    ],
)
def test_invalid_choice_is_rejected(given, message):
    with pytest.raises(VariablesError, match=message):
        choose(given, "ec2_", USUAL, KNOWN)


def test_empty_prefix_requires_renaming_reserved_variable():
    with pytest.raises(VariablesError, match=r"as in variables: \{tags: ec2_tags\}"):
        choose(None, "", USUAL, KNOWN)
    assert choose({"tags": "ec2_tags"}, "", USUAL, KNOWN)["instance_type"] == "instance_type"


@pytest.mark.parametrize("given", ["", "ec2_", "a_b_"])
def test_valid_prefixes_are_accepted(given):
    assert prefix(given) == given


@pytest.mark.parametrize("given", ["ec2", "EC2_", "1_", "_ec2"])
def test_invalid_prefix_is_rejected(given):
    with pytest.raises(VariablesError, match="must be small letters"):
        prefix(given)
