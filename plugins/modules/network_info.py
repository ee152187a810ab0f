#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: network_info
short_description: Look at the network of a cluster
version_added: 0.1.0
description:
  - Finds the VPC with the tag C(mlcluster:network), and returns the VPC and its content.
  - Changes nothing.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._cluster
attributes:
  check_mode:
    description: Reads only, in check mode too.
    support: full
options:
  name:
    description: Value of the tag.
    type: str
    required: true
  key_name:
    description: A key pair to look for; empty for none.
    type: str
    default: ""
  all_foreign:
    description:
      - Whether to look for all resources that prevent the deletion of the network, such as network interfaces,
        peerings, VPN and other gateways, and access lists.
    type: bool
    default: false
seealso:
  - module: amazon.aws.ec2_vpc_net_info
"""

EXAMPLES = r"""
- name: Look at the network
  mlcluster.aws.network_info:
    region: ap-southeast-3
    name: training
  register: network
"""

RETURN = r"""
network:
  description:
    - C(vpc) with C(id), C(cidr) and C(dns), none unless there is exactly one; C(vpcs), the number with the tag.
    - C(subnets), C(routes) and C(groups) by part; C(nat) and C(endpoint), only with the tag; C(igw) and C(key) of any
      creator, and C(igw_ours) and C(key_ours), whether they have the tag; C(zones) of the region.
    - C(addresses), Elastic IP addresses with the tag, each with C(ip) and whether it is C(used). C(nat.addresses) are
      those of the NAT gateway, with or without the tag.
    - C(loose), internet gateways with the tag and without a VPC. C(deleting), NAT gateways with the tag that are being
      deleted.
    - C(foreign), resources of others in the network, all of them with O(all_foreign=true).
  returned: success
  type: dict
  sample: {"vpc": null, "vpcs": 0, "key": null, "key_ours": false, "zones": ["ap-southeast-3a"], "foreign": [],
    "addresses": [], "loose": [], "deleting": []}
outputs:
  description: Values of the network for a cluster; none while the network is incomplete.
  returned: success
  type: dict
  sample: {"head_subnet": "subnet-0", "compute_subnet": "subnet-1", "cidr": "10.0.0.0/16", "groups": ["sg-0", "sg-1"]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, network


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **aws.OPTIONS,
            "name": {"type": "str", "required": True},
            "key_name": {"type": "str", "default": "", "no_log": False},
            "all_foreign": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        ec2 = aws.client(module.params, "ec2")
        with aws.doing(f"looking at the network {module.params['name']} in {module.params['region']}"):
            found = network.look(ec2, module.params["name"], module.params["key_name"], module.params["all_foreign"])
    except aws.AwsError as exc:
        module.fail_json(msg=str(exc))
    complete = (
        found["vpc"] and {"public", "private"} <= found["subnets"].keys() and {"nodes", "fsx"} <= found["groups"].keys()
    )
    module.exit_json(changed=False, network=found, outputs=network.outputs(found) if complete else None)


if __name__ == "__main__":
    main()
