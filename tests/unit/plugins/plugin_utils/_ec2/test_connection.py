# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import connection as _ec2_connection
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.connection import Connection, check, heads, variables


def record(number, node_type="compute", cluster="c", public=None, private="10.0.0.9"):
    return {
        "instance_id": f"i-{number}",
        "account_id": "1",
        "region": "us-east-1",
        "cluster_name": cluster,
        "node_type": node_type,
        "private_ip_address": private,
        "public_ip_address": public,
        "private_dns_name": None,
        "ipv6_address": None,
    }


def test_choice_of_head_node_is_stable():
    records = [record(2, "head"), record(1, "head"), record(0, "head", cluster="d"), record(3, "head", cluster=None)]
    assert {key[2]: head["instance_id"] for key, head in heads(records).items()} == {"c": "i-1", "d": "i-0"}
    assert heads(records[::-1]) == heads(records)


@pytest.mark.parametrize(
    ("through", "options", "expected"),
    [
        ("54.0.0.1", Connection("ssh_bastion"), "-o ProxyJump=54.0.0.1"),
        ("2600::1", Connection("ssh_bastion", bastion_user="u", bastion_port=22), "-o ProxyJump=u@[2600::1]:22"),
        ("-oProxyCommand=x", Connection("ssh_bastion"), None),
        (None, Connection("ssh_bastion"), "-o ProxyJump=10.0.0.9"),
    ],
)
def test_only_address_becomes_jump(through, options, expected):
    found = variables(record(1), record(0, "head", public=through), options)
    assert found.get("ansible_ssh_common_args") == expected
    assert found["ansible_host"] == "10.0.0.9"


def test_ansible_36440_host_in_ipv6_subnet_is_reached_by_ipv6():
    node = {**record(1, private=None), "ipv6_address": "2600::9"}
    assert variables(node, None, Connection()) == {"ansible_host": "2600::9"}


def test_host_without_any_address_is_still_explicit():
    assert variables(record(1, private=None), None, Connection()) == {"ansible_host": "i-1"}


def test_ssm_uses_profile_that_found_node():
    found = variables(record(1), None, Connection("ssm", profile="lab"))
    assert found["ansible_aws_ssm_profile"] == "lab"
    assert "ansible_aws_ssm_bucket_name" not in found


def test_command_line_options_are_checked():
    good = Connection("ssh_bastion", bastion_user="ec2-user", bastion_host="2600::1", bastion_port=22)
    assert check(good) is good
    for bad in ({"bastion_user": "a b"}, {"bastion_host": "-x"}, {"bastion_host": "a;b"}, {"bastion_port": 0}):
        with pytest.raises(_ec2_connection.ConnectionOptionError, match=next(iter(bad))):
            check(Connection("ssh_bastion", **bad))


def test_head_node_with_only_ipv6_is_bastion():
    head = {**record(0, "head", private=None), "ipv6_address": "2600::1"}
    assert variables(record(1), head, Connection("ssh_bastion"))["ansible_ssh_common_args"] == "-o ProxyJump=[2600::1]"


def test_ssm_rejects_role_and_reports_missing_bucket():
    """The connection plugin supports a profile and no role; a bucket may be set by a host variable."""
    with pytest.raises(_ec2_connection.ConnectionOptionError, match=r"ssm takes a profile and no role.*arn:r"):
        check(Connection("ssm", ssm_bucket="b", roles=("arn:r",)))
    assert "ssm_bucket names none" in str(_ec2_connection.missing_setting(check(Connection("ssm"))))
    assert _ec2_connection.missing_setting(Connection("ssm", ssm_bucket="b")) is None
    assert _ec2_connection.missing_setting(Connection("ssh")) is None
